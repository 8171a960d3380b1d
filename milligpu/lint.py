"""What the webhook would say of manifests, and what only a linter sees, with file and line."""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

from milligpu import manifests
from milligpu.remarks import creation, findings
from milligpu.show import Screen
from vgpu.settings import read
from webhook.config import Config
from webhook.findings import Code, Finding
from webhook.pod import Json

_STYLES = {"error": "red", "warning": "yellow", "note": "cyan"}


Remark: TypeAlias = tuple[Path, int, Finding]
"""A file, a line and what there is to say of it."""


def main(files: Sequence[Path], form: str) -> int:
    """Print the findings in files as `text`, `json` or `sarif`.

    Returns 0, 1 where one is more than a note, 2 where a file cannot be read. Raises SettingsError.
    """
    config, remarks, unread = read(Config, os.environ), list[Remark](), 0
    for path in files:
        try:
            remarks += _remarks(path, config)
        except manifests.ManifestError as fault:
            print(f"milligpu lint: {fault}", file=sys.stderr)
            unread += 1
    if form == "text":
        _print(remarks, unread)
    else:
        log = _sarif(remarks) if form == "sarif" else [_fields(*each) for each in remarks]
        print(json.dumps(log, indent=2))
    return 2 if unread else int(any(found.code.level != "note" for *_, found in remarks))


def _remarks(path: Path, config: Config) -> list[Remark]:
    file = manifests.read(path)
    for where in file.others:
        print(f"milligpu lint: {where}: is no Kubernetes object", file=sys.stderr)
    found = list[Remark]()
    for each in file.manifests:
        said = findings(creation(each.document), config)
        found += ((path, each.line(finding.path), finding) for finding in said)
    return sorted(found, key=lambda remark: remark[1])


def _print(remarks: Sequence[Remark], unread: int) -> None:
    screen = Screen.of(sys.stdout, os.environ)
    for file, line, finding in remarks:
        level = screen.paint(finding.code.level, _STYLES[finding.code.level])
        text = " ".join(f"{finding} [{finding.code.label}]".split())
        print(screen.plain(f"{file}:{line}: {level}: {text}"))
    sys.stdout.flush()  # the sum comes last, also where both go to one file
    counts = Counter[str](found.code.level for *_, found in remarks)
    said = [f"{counts[each]} {each}{'s' * (counts[each] > 1)}" for each in _STYLES if counts[each]]
    said += [f"{unread} file{'s' * (unread > 1)} could not be read"] * bool(unread)
    print(", ".join(said) or "no findings", file=sys.stderr)


def _fields(file: Path, line: int, finding: Finding) -> dict[str, str | int]:
    code = finding.code
    where: dict[str, str | int] = {"file": str(file), "line": line}
    what = {"level": code.level, "code": code.label, "text": finding.text}
    return {**where, **what, "field": finding.path, "container": finding.container}


def _sarif(remarks: Iterable[Remark]) -> Json:
    """Return a SARIF 2.1.0 log (OASIS), which code hosts and editors show beside the lines."""
    from importlib.metadata import version

    rules = [_rule(code) for code in Code]
    driver = {"name": "milligpu", "version": version("milligpu"), "rules": rules}
    run = {"tool": {"driver": driver}, "results": [_result(*each) for each in remarks]}
    return {"version": "2.1.0", "runs": [run]}


def _rule(code: Code) -> Json:
    rule = {"id": code.label, "shortDescription": {"text": code.meaning}}
    return {**rule, "defaultConfiguration": {"level": code.level}}


def _result(file: Path, line: int, finding: Finding) -> Json:
    path, here = Path(os.path.abspath(file)), Path.cwd()  # noqa: PTH100 - a link stays one
    uri = quote(str(path.relative_to(here))) if path.is_relative_to(here) else path.as_uri()
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}
    field = [{"fullyQualifiedName": finding.path}] if finding.path else []
    places = [{"physicalLocation": place, "logicalLocations": field}]
    code = finding.code
    rule = {"ruleId": code.label, "ruleIndex": [*Code].index(code), "level": code.level}
    return {**rule, "message": {"text": str(finding)}, "locations": places}
