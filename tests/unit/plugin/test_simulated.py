import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from plugin import inventory
from plugin.config import Config
from plugin.gpu import MIB, Gpu, InventoryError, Probe
from plugin.nvml import NvmlInventory
from plugin.simulated import PREFIX, SHIPPED, SimulatedInventory

GOOD = {"uuid": "SIM-a", "model": "Tesla T4", "memory_total_mib": 16384}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "inventory.json"


def faults(file: Path, content: Any) -> list[str]:
    """Return the lines of the message that refuses this content."""
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InventoryError) as refusal:
        SimulatedInventory(str(file)).probe()
    message = str(refusal.value)
    assert message.startswith(f"inventory file {file}:")
    return [line.strip() for line in message.removeprefix(f"inventory file {file}:").splitlines()]


@pytest.mark.parametrize(("name", "cards"), [("one-t4", 1), ("two-t4", 2)])
def test_shipped(name: str, cards: int) -> None:
    gpus = SimulatedInventory(name).probe().gpus
    assert [(gpu.index, gpu.minor, gpu.model) for gpu in gpus] == [
        (n, n, "Tesla T4") for n in range(cards)
    ]
    assert {gpu.usable_mib for gpu in gpus} == {15360}
    assert all(gpu.uuid.startswith(PREFIX) and len(gpu.uuid) == 40 for gpu in gpus)


def test_every_shipped_file_is_good() -> None:
    for path in SHIPPED.iterdir():
        assert SimulatedInventory(path.stem).probe().gpus


def test_all_fields(file: Path) -> None:
    file.write_text(
        json.dumps(
            {
                "gpus": [
                    GOOD
                    | {"memory_reserved_mib": 24, "minor": 7, "mig": True}
                    | {"fault": "it is lost", "xids": [79]}
                ]
            }
        )
    )
    assert SimulatedInventory(str(file)).probe() == Probe(
        (Gpu("SIM-a", 0, 7, "Tesla T4", 16384 * MIB, 24 * MIB, mig=True),)
    )


def test_no_cards_are_an_inventory_too(file: Path) -> None:
    file.write_text('{"gpus": []}')
    assert SimulatedInventory(str(file)).probe() == Probe()


def test_an_unknown_name_is_refused_with_the_list() -> None:
    with pytest.raises(InventoryError, match=r"three-t4.*shipped: one-t4, two-t4"):
        SimulatedInventory("three-t4").probe()


def test_a_missing_file_is_refused_by_its_path(file: Path) -> None:
    with pytest.raises(InventoryError, match=f"no inventory file {file}"):
        SimulatedInventory(str(file)).probe()


@pytest.mark.parametrize(
    "content",
    ["", "{", "\x00", "[" * 10**5, "9" * 5000, "[]", "null", '{"gpu": []}', '{"gpus": {}}'],
)
def test_not_an_inventory(file: Path, content: str) -> None:
    assert faults(file, content)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="Is a directory"):
        SimulatedInventory(f"{tmp_path}/").probe()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"uuid": "GPU-a"}, ".uuid: must be a text that begins with SIM-, not 'GPU-a'"),
        ({"uuid": 7}, ".uuid: must be a text that begins with SIM-, not 7"),
        ({"model": " "}, ".model: must be a text, not ' '"),
        ({"memory_total_mib": "16 GB"}, ".memory_total_mib: must be a whole number of MiB, not "),
        ({"memory_total_mib": 1.5}, ".memory_total_mib: must be a whole number of MiB, not 1.5"),
        ({"memory_total_mib": True}, ".memory_total_mib: must be a whole number of MiB, not True"),
        ({"memory_reserved_mib": -1}, ".memory_reserved_mib: must be a whole number of MiB"),
        ({"minor": 2**31}, ".minor: must be a whole number, not 2147483648"),
        ({"mig": "no"}, ".mig: must be true or false, not 'no'"),
        ({"fault": True}, ".fault: must be a text, not True"),
        ({"xids": 79}, ".xids: must be a list of numbers, not 79"),
        ({"xids": [79, "x"]}, ".xids: must be a list of numbers, not [79, 'x']"),
        ({"colour": "red"}, ".colour: no such field; there are uuid, model,"),
        ({"memory_reserved_mib": 16300}, ": cannot be shared: it has 84 MiB of usable memory"),
        ({"uuid": "SIM-" + "a" * 60}, ": cannot be shared: its id makes no slot ids"),
        ({"uuid": "SIM-a::1"}, ": cannot be shared: its id makes no slot ids"),
    ],
)
def test_a_bad_field_is_named(file: Path, change: dict[str, Any], fault: str) -> None:
    [line] = [line for line in faults(file, {"gpus": [GOOD | change]}) if line]
    assert line.startswith(f"gpus[0]{fault}")


@pytest.mark.parametrize("name", GOOD)
def test_a_missing_field_is_named(file: Path, name: str) -> None:
    entry = {key: value for key, value in GOOD.items() if key != name}
    assert f"gpus[0].{name}: is missing" in faults(file, {"gpus": [entry]})


def test_all_faults_in_one_message(file: Path) -> None:
    entries = [GOOD | {"minor": -1, "mig": 0}, "card", {}, GOOD | {"uuid": "SIM-b"}, GOOD]
    lines = [line for line in faults(file, {"gpus": entries}) if line]
    assert [line.split(":")[0] for line in lines] == [
        "gpus[0].minor",
        "gpus[0].mig",
        "gpus[1]",
        "gpus[2].uuid",
        "gpus[2].model",
        "gpus[2].memory_total_mib",
        "gpus",
    ]
    assert lines[-1] == "gpus: 2 entries have the uuid SIM-a"


# Cards that fail.


class Cards:
    """A file of two cards, and an inventory that has looked at it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.say()
        self.inventory = SimulatedInventory(str(file))
        self.inventory.probe()

    def say(self, a: dict[str, Any] | None = None, b: dict[str, Any] | None = None) -> None:
        """Put the cards SIM-a and SIM-b into the file, with these fields besides."""
        cards = [GOOD | (a or {}), GOOD | {"uuid": "SIM-b"} | (b or {})]
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps({"gpus": cards}))
        fresh.replace(self._file)

    def events(self, seconds: float = 0) -> list[tuple[str, int]]:
        return [(event.uuid, event.xid) for event in self.inventory.wait(seconds)]


@pytest.fixture
def cards(file: Path) -> Cards:
    return Cards(file)


def test_a_fault_is_of_one_card_and_ends(cards: Cards) -> None:
    assert cards.inventory.faults() == {}
    cards.say(b={"fault": "it needs a reset"})
    assert len(cards.inventory.probe().gpus) == 2
    assert cards.inventory.faults() == {"SIM-b": "it needs a reset"}
    cards.say(b={"fault": ""})
    cards.inventory.probe()
    assert cards.inventory.faults() == {}


def test_each_appended_number_happens_once(cards: Cards) -> None:
    assert cards.events() == []
    cards.say(a={"xids": [31]})
    assert cards.events() == [("SIM-a", 31)]
    cards.say(a={"xids": [31, 79, 79]}, b={"xids": [48]})
    assert cards.events() == [("SIM-a", 79), ("SIM-a", 79), ("SIM-b", 48)]
    assert cards.events() == []
    cards.say(a={"xids": []})
    assert cards.events() == []
    cards.say(a={"xids": [79]})
    assert cards.events() == [("SIM-a", 79)]


def test_what_was_there_before_the_first_look_does_not_happen(file: Path) -> None:
    file.write_text(json.dumps({"gpus": [GOOD | {"xids": [79]}]}))
    simulated = SimulatedInventory(str(file))
    assert simulated.wait(0) == ()
    simulated.probe()
    assert simulated.wait(0) == ()


def test_waiting_ends_with_what_comes_or_with_the_time(cards: Cards) -> None:
    start = time.monotonic()
    assert cards.events(0.3) == []
    assert time.monotonic() - start >= 0.3
    threading.Timer(0.3, lambda: cards.say(a={"xids": [79]})).start()
    assert cards.events(30) == [("SIM-a", 79)]
    assert time.monotonic() - start < 30


def test_a_file_that_is_bad_or_gone_brings_no_events(cards: Cards, file: Path) -> None:
    file.write_text("{")
    assert cards.events() == []
    file.unlink()
    assert cards.events() == []
    cards.say(a={"xids": [79]})
    assert cards.events() == [("SIM-a", 79)]
    cards.inventory.close()


REAL = Probe((Gpu("GPU-a", 0, 0, "NVIDIA H200", 2**37),))


def test_refused_beside_real_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NvmlInventory, "probe", lambda _: REAL)
    config = Config(inventory="simulated")
    with pytest.raises(InventoryError, match="beside real cards; the driver finds NVIDIA H200"):
        inventory.open_inventory(config)


def test_allowed_beside_real_cards_by_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NvmlInventory, "probe", lambda _: REAL)
    config = Config(inventory="simulated", simulate_beside_gpus=True)
    assert len(inventory.open_inventory(config).probe().gpus) == 2


def test_a_driver_without_cards_or_with_a_fault_is_no_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_: NvmlInventory) -> Probe:
        raise InventoryError("the driver does not answer")

    for probe in (lambda _: Probe(), broken):
        monkeypatch.setattr(NvmlInventory, "probe", probe)
        assert inventory.open_inventory(Config(inventory="simulated")).probe().gpus


def test_a_bad_file_is_refused_at_the_start(file: Path) -> None:
    with pytest.raises(InventoryError, match="no inventory file"):
        inventory.open_inventory(Config(inventory="simulated", inventory_file=str(file)))


def test_real_cards_are_the_default() -> None:
    assert isinstance(inventory.open_inventory(Config()), NvmlInventory)
