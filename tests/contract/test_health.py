"""The page on health says of each XID what is decided of it, and names the looks' sentences."""

import re
from itertools import chain
from pathlib import Path

from plugin import health, nvml
from plugin.gpu import Event
from plugin.health import APPLICATION, INFORMATION, LONGEST, LOOKS, MEANINGS, MEMORY, QUIET
from plugin.simulated import SimulatedInventory
from plugin.watch import HANGS_SECONDS
from tests.documents import ROOT, blocks, code, rows

PAGE = (ROOT / "docs/reference/health.md").read_text()


def numbers(cell: str) -> list[int]:
    """Every number of a cell such as "`8`, `39` to `41`"."""
    found = re.findall(r"`(\d+)`(?: to `(\d+)`)?", cell)
    return list(chain(*(range(int(low), int(high or low) + 1) for low, high in found)))


def listed(heading: str) -> list[int]:
    return [number for row in rows(PAGE, heading) for number in numbers(row[0])]


def test_programs_errors_are_listed_once_each() -> None:
    assert sorted(listed("Programs' errors")) == sorted(APPLICATION)


def test_information_is_listed_once_each() -> None:
    assert sorted(listed("Information")) == sorted(INFORMATION)


def test_faults_are_listed_with_their_meaning() -> None:
    pairs = [(number, row[1]) for row in rows(PAGE, "Faults") for number in numbers(row[0])]
    assert sorted(pairs) == sorted(MEANINGS.items())


def test_what_nvidias_plugin_ignores_is_what_is_said() -> None:
    section = PAGE.partition("## Beside NVIDIA's plugin")[2]
    assert {health.kind(xid) for xid in numbers(section)} == {"application"}


def test_the_sentences_of_looks_are_those_of_the_code() -> None:
    said = {text for row in rows(PAGE, "Looks") for text in code(row[1])}
    source = (ROOT / "plugin/nvml.py").read_text()
    assert all(text in source for text in said)
    assert set(nvml._ACTIONS.values()) < said


def test_the_times_are_those_of_the_code() -> None:
    stated = [float(code(row[1])[0]) for row in rows(PAGE, "Recovery")]
    assert stated == [LOOKS, QUIET, LONGEST, MEMORY]
    assert f"has not answered for {HANGS_SECONDS:.0f} seconds" in PAGE


def test_the_simulated_cards_shown_are_understood(tmp_path: Path) -> None:
    [example] = blocks(PAGE, "json")
    (file := tmp_path / "cards.json").write_text(example)
    simulated = SimulatedInventory(str(file))
    assert len(simulated.probe().gpus) == 2
    assert simulated.faults() == {"SIM-a": "it needs a reset"}
    file.write_text(example.replace("79]", "79, 48]"))
    assert simulated.wait(0) == (Event("SIM-b", 48),)
