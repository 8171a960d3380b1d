"""What the webhook would say of manifests, and what only a linter sees, with file and line."""

import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from milligpu import manifests
from milligpu.remarks import creation, findings
from milligpu.show import Screen
from vgpu.settings import read
from webhook.config import Config
from webhook.findings import Finding

_STYLES = {"error": "red", "warning": "yellow", "note": "cyan"}


@dataclass(frozen=True, slots=True)
class Remark:
    """A finding and where it is."""

    file: Path
    line: int
    finding: Finding


def main(files: Sequence[Path], form: str) -> int:
    """Print the findings in files as `text`, `json` or `sarif`.

    Returns 0, 1 where one is more than a note, 2 where a file cannot be read. Raises SettingsError.
    """
    config, remarks, status = read(Config, os.environ), list[Remark](), 0
    for path in files:
        try:
            remarks += _remarks(path, config)
        except manifests.ManifestError as fault:
            print(f"milligpu lint: {fault}", file=sys.stderr)
            status = 2
    if form == "text":
        _print(remarks)
    else:
        from milligpu import sarif

        log = sarif.log(remarks) if form == "sarif" else list(map(_fields, remarks))
        print(json.dumps(log, indent=2))
    return status or int(any(each.finding.code.level != "note" for each in remarks))


def _remarks(path: Path, config: Config) -> list[Remark]:
    file = manifests.read(path)
    for where in file.others:
        print(f"milligpu lint: {where}: is no Kubernetes object", file=sys.stderr)
    found = [
        Remark(path, manifest.line(finding.path), finding)
        for manifest in file.manifests
        for finding in findings(creation(manifest.document), config, deep=True)
    ]
    return sorted(found, key=lambda each: each.line)


def _print(remarks: Sequence[Remark]) -> None:
    screen = Screen.of(sys.stdout, os.environ)
    for each in remarks:
        code = each.finding.code
        level = screen.paint(code.level, _STYLES[code.level])
        text = " ".join(f"{each.finding} [{code.label}]".split())
        print(screen.plain(f"{each.file}:{each.line}: {level}: {text}"))
    sys.stdout.flush()  # the sum comes last, also where both go to one file
    counts = Counter[str](each.finding.code.level for each in remarks)
    said = [f"{counts[each]} {each}{'s' * (counts[each] > 1)}" for each in _STYLES if counts[each]]
    print(", ".join(said) or "no findings", file=sys.stderr)


def _fields(each: Remark) -> dict[str, str | int]:
    finding, code = each.finding, each.finding.code
    where: dict[str, str | int] = {"file": str(each.file), "line": each.line}
    what = {"level": code.level, "code": code.label, "text": finding.text}
    return where | what | {"field": finding.path, "container": finding.container}
