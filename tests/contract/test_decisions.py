"""The records of decisions are complete, and the figures that they tell are those of the pages."""

import re

from plugin.config import Config
from tests.documents import ROOT, code, rows
from vgpu.slots import PER_CARD

PAGE = (ROOT / "docs/decisions/index.md").read_text()
RECORDS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
PARTS = ["Before us.", "Decision.", "What follows.", "What would change it."]


def test_records_are_numbered_and_have_their_parts() -> None:
    numbers = [int(record.partition(".")[0]) for record in RECORDS]
    assert numbers == list(range(1, len(RECORDS) + 1))
    for record in RECORDS:
        assert re.findall(r"^\*\*(.*?)\*\*", record, re.MULTILINE) == PARTS


def test_what_was_decided_is_what_is() -> None:
    assert f"A card is {PER_CARD} slots" in PAGE
    assert f"`{Config().advertise}`: the plugin remembers" in PAGE
    assert f"`{Config().device_list_strategy}` is the default" in PAGE


def test_the_simulators_and_the_nodes_figures_are_those_of_the_page_on_placement() -> None:
    page = (ROOT / "docs/explanation/placement.md").read_text()
    table = page.split("<!-- loads: refused -->")[1].split("<!-- end -->")[0]
    column = [cell.strip() for cell in table.split("\n")[1].split("|")].index("least, 70%") - 1
    refused = {row[0]: row[column].split()[0] for row in rows(table)}
    assert f"{refused['packed, fitting']} of a thousand pods are refused at least once" in PAGE
    assert f"with all slots shown it is {refused['packed, all']}." in PAGE
    seen = {code(row[0])[0]: row[1:] for row in rows(page, "On a real node")}
    failed = re.findall(r"\d+", seen["fitting"][0])[0]
    assert f"left {failed} Failed pods and then waited, in place of {seen['all'][1]}" in PAGE


def test_the_figures_of_speed_are_those_of_the_page_on_speed() -> None:
    page = (ROOT / "docs/explanation/speed.md").read_text()
    table = {row[0]: row[1:] for row in rows(page) if len(row) == 3}
    one = [re.findall(r"median ([\d.]+ ms)", cell)[0] for cell in table["one connection"]]
    eight = [re.findall(r"([\d,]+) a second", cell)[0] for cell in table["eight connections"]]
    memory = [cell.split()[0] for cell in table["memory, resident"]]
    assert f"{one[0]} at the median against {one[1]}" in PAGE
    assert f"{eight[0]} reviews a second against {eight[1]}" in PAGE
    assert f"resident {memory[0]} MiB against {memory[1]}" in PAGE
