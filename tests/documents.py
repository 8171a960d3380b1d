"""What documents say in their tables, for the tests that hold them to it."""

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


def code(cell: str) -> list[str]:
    """What of a cell is set as code."""
    return re.findall(r"`([^`]*)`", cell)
