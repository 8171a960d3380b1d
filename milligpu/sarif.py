"""Findings as a SARIF 2.1.0 log (OASIS), which code hosts and editors show beside the lines."""

import os
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from milligpu.lint import Remark
from webhook.findings import Code
from webhook.pod import Json


def log(remarks: Iterable[Remark]) -> Json:
    """Return the log of one run."""
    rules = [
        {
            "id": code.label,
            "shortDescription": {"text": code.meaning},
            "defaultConfiguration": {"level": code.level},
        }
        for code in Code
    ]
    driver = {"name": "milligpu", "version": version("milligpu"), "rules": rules}
    run = {"tool": {"driver": driver}, "results": [_result(each) for each in remarks]}
    return {"version": "2.1.0", "runs": [run]}


def _result(each: Remark) -> Json:
    finding, code = each.finding, each.finding.code
    place = {"artifactLocation": {"uri": uri(each.file)}, "region": {"startLine": each.line}}
    field = [{"fullyQualifiedName": finding.path}] if finding.path else []
    return {
        "ruleId": code.label,
        "ruleIndex": list(Code).index(code),
        "level": code.level,
        "message": {"text": str(finding)},
        "locations": [{"physicalLocation": place, "logicalLocations": field}],
    }


def uri(file: Path) -> str:
    """Return a file's URI: relative to the working folder, if it lies below it."""
    path, here = Path(os.path.abspath(file)), Path.cwd()  # noqa: PTH100 - a link stays one
    return quote(str(path.relative_to(here))) if path.is_relative_to(here) else path.as_uri()
