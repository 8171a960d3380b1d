"""The table of cases is complete, and what it names is there."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.cases.table import CASES, Case

ROOT = Path(__file__).parents[2]
DEMANDED = """
    B01 PE, B02 UE, B03 U, B04 U, B06 CE, B07 CE, B09 P, B11 UP, B12 P, B14 CE, B16 U, B17 U,
    B19 P, B21 P, B22 U, B24 UE, B26 U, B27 CU, B29 DC, B31 P, B32 U, B34 U, B36 PD, B37 U,
    B39 U, B41 U, B42 CD, B44 UE, B46 P, B47 P, B49 U, B51 DU, B52 DU, B54 U, B56 UP, B57 U,
    B59 PD, B61 CE, B62 U, B64 U, B66 UE, B67 C, B69 DP, B71 C, B72 UE, B74 PD, B76 U, B77 U,
    B79 U, B81 DE, B82 C, B84 DP, B86 U, B87 U, B89 C, B91 C, B92 P, B94 P, B96 U, B97 C, B99 U,
    B101 P, B102 U
"""
"""Every case, and the levels at which it is to be held."""
PLACES = {
    "U": ("unit/", "matrix/", "golden/", "fuzz/", "integration/test_gunicorn"),
    "P": ("unit/plugin/", "unit/vgpu/", "integration/test_plugin", "integration/test_nvml"),
    "C": ("contract/",),
    "E": ("cluster/",),
}
"""Where the tests of a level are."""
CLUSTER = {"apiserver", "node"}
"""Marks of the tests that have a real API server."""


def demanded() -> list[tuple[str, set[str]]]:
    pairs = (item.split() for item in DEMANDED.split(","))
    return [(name, set(levels)) for name, levels in pairs]


def holders() -> Iterator[tuple[Case, str, str]]:
    for case in CASES:
        for level, found in case.levels.items():
            yield from ((case, level, each) for each in found)


def held() -> list[tuple[str, str]]:
    """Return level and node id of every test in the table, each once."""
    found = ((level, each) for _, level, each in holders())
    return list(dict.fromkeys((level, each) for level, each in found if "::" in each))


def pages() -> list[str]:
    return list(dict.fromkeys(each for _, _, each in holders() if "::" not in each))


@cache
def marks(file: str) -> dict[str, set[str]]:
    """Return the marks of the tests of a file, by function, without importing it."""
    tree = ast.parse((ROOT / "tests" / file).read_text())
    whole = {
        name
        for node in tree.body
        if isinstance(node, ast.Assign) and "pytestmark" in map(ast.unparse, node.targets)
        for name in _marks(node.value)
    }
    return {
        node.name: whole | {name for each in node.decorator_list for name in _marks(each)}
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _marks(node: ast.expr) -> set[str]:
    return set(re.findall(r"pytest\.mark\.(\w+)", ast.unparse(node)))


def test_every_case_is_there_once_and_in_order() -> None:
    assert [case.id for case in CASES] == [name for name, _ in demanded()]
    assert len(CASES) == len({case.wrong for case in CASES}) == 63


@pytest.mark.parametrize(("name", "levels"), demanded(), ids=[name for name, _ in demanded()])
def test_every_level_that_is_demanded_has_an_entry(name: str, levels: set[str]) -> None:
    (case,) = (each for each in CASES if each.id == name)
    assert levels <= case.levels.keys() <= {*PLACES, "D"}
    assert all(case.levels.values())


@pytest.mark.parametrize(("level", "test"), held())
def test_what_holds_a_case_is_a_test_of_its_level(level: str, test: str) -> None:
    file, _, function = test.partition("::")
    assert file.startswith(PLACES[level])
    assert function.startswith("test_")
    assert function in marks(file), f"{file} has no {function}"
    assert (level == "E") == bool(marks(file)[function] & CLUSTER)


@pytest.mark.parametrize("page", pages())
def test_a_page_has_the_heading(page: str) -> None:
    file, _, heading = page.partition("#")
    assert file == "README.md" or file.startswith("docs/")
    assert re.search(rf"^#+ {re.escape(heading)}$", (ROOT / file).read_text(), re.MULTILINE)
    assert {level for _, level, each in holders() if each == page} == {"D"}
