"""The map of the tests on clusters names every module there, once."""

import re
from fnmatch import fnmatch

from tests.documents import ROOT

FOLDER = ROOT / "tests" / "cluster"


def test_every_module_has_its_place() -> None:
    tables = [
        line.split("|")[1]
        for line in (FOLDER / "README.md").read_text().splitlines()
        if "|" in line
    ]
    named = [name for cell in tables for name in re.findall(r"`([\w*]+)/?`", cell)]
    there = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "conftest"}
    there |= {
        path.parent.name for path in FOLDER.glob("*/*.*") if path.parent.name != "__pycache__"
    }
    for module in there:
        assert sum(fnmatch(module, name) for name in named) == 1, module
    assert all(any(fnmatch(module, name) for module in there) for name in named)
