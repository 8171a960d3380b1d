"""What documents say in their tables and blocks, for the tests that hold them to it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]

Row = tuple[str, ...]


def rows(text: str, heading: str = "") -> list[Row]:
    """The rows of the tables below a heading, without those that name the columns."""
    if heading:
        text = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = re.findall(r"^\|(.*)\|$", text, re.MULTILINE)
    table = [tuple(cell.strip() for cell in line.split("|")) for line in lines]
    rules = {number for number, row in enumerate(table) if set("".join(row)) <= set("-:")}
    return [row for number, row in enumerate(table) if not {number, number + 1} & rules]


def blocks(text: str, language: str) -> list[str]:
    """The blocks of code in a language; those of a list's items with their indentation."""
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [str(each) for each in found]


def code(cell: str) -> list[str]:
    """What of a cell is set as code."""
    return re.findall(r"`([^`]*)`", cell)
