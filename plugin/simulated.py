"""Made-up cards, read from a JSON file: for the demo, the tests, and clusters without GPUs."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from plugin.gpu import MIB, Event, Gpu, InventoryError, Probe, unfit

PREFIX = "SIM-"
"""Ids begin with this, so that nobody takes them for real cards."""
SHIPPED = Path(__file__).parent / "inventories"
_STEP = 0.5
"""Seconds between two looks into the file for new events."""


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


# Field: what is allowed, in code and in words. The first three must be there.
_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "uuid": (lambda it: str(it).startswith(PREFIX), f"a text that begins with {PREFIX}"),
    "model": (lambda it: isinstance(it, str) and it.strip() != "", "a text"),
    "memory_total_mib": (_is_number, "a whole number of MiB"),
    "memory_reserved_mib": (_is_number, "a whole number of MiB"),
    "minor": (_is_number, "a whole number"),
    "mig": (lambda it: isinstance(it, bool), "true or false"),
    "fault": (lambda it: isinstance(it, str), "a text"),
    "xids": (lambda it: isinstance(it, list) and all(map(_is_number, it)), "a list of numbers"),
}
_NEEDED = ("uuid", "model", "memory_total_mib")


class SimulatedInventory:
    """Reads its file at every look, so that cards can be made to come, go, fail and recover."""

    def __init__(self, name: str) -> None:
        self._path = Path(name) if "/" in name else SHIPPED / f"{name}.json"
        self._cards: list[dict[str, Any]] = []
        """The file's, when it was last read."""
        self._told: dict[str, int] = {}
        """How many XIDs of a card have happened, by uuid."""

    def probe(self) -> Probe:
        """Return the file's cards. Raises InventoryError that lists every fault of the file."""
        self._cards = self._read()
        for card in self._cards:
            self._told.setdefault(card["uuid"], len(card.get("xids", ())))
        return Probe(tuple(_gpu(index, entry) for index, entry in enumerate(self._cards)))

    def faults(self) -> dict[str, str]:
        """Return the `fault` of the cards that have one."""
        return {card["uuid"]: card["fault"] for card in self._cards if card.get("fault")}

    def wait(self, seconds: float) -> tuple[Event, ...]:
        """Wait until numbers are appended to the `xids` of a known card, at most so long."""
        end = time.monotonic() + seconds
        while not (events := self._news()) and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _STEP))
        return events

    def close(self) -> None:
        """Nothing is open."""

    def _news(self) -> tuple[Event, ...]:
        try:
            cards = self._read()
        except InventoryError:  # the next look says so
            return ()
        events: list[Event] = []
        for card in cards:
            uuid, xids = card["uuid"], card.get("xids", [])
            told = self._told.get(uuid, len(xids))
            events += (Event(uuid, xid) for xid in xids[told:])
            self._told[uuid] = len(xids)
        return tuple(events)

    def _read(self) -> list[dict[str, Any]]:
        try:
            content = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            shipped = ", ".join(sorted(path.stem for path in SHIPPED.glob("*.json")))
            hint = f"(shipped: {shipped}; others by their path)"
            raise InventoryError(f"no inventory file {self._path} {hint}") from None
        except (OSError, ValueError, RecursionError) as fault:
            raise InventoryError(f"inventory file {self._path}: {fault}") from fault
        if faults := list(_faults(content)):
            raise InventoryError(f"inventory file {self._path}:\n  " + "\n  ".join(faults))
        return list(content["gpus"])


def _gpu(index: int, entry: dict[str, Any]) -> Gpu:
    return Gpu(
        uuid=entry["uuid"],
        index=index,
        minor=entry.get("minor", index),
        model=entry["model"],
        memory_total=entry["memory_total_mib"] * MIB,
        memory_reserved=entry.get("memory_reserved_mib", 0) * MIB,
        mig=entry.get("mig", False),
    )


def _faults(content: Any) -> Iterator[str]:
    entries = content.get("gpus") if isinstance(content, dict) and len(content) == 1 else None
    if not isinstance(entries, list):
        yield 'must be {"gpus": [...]} and no more'
        return
    for index, entry in enumerate(entries):
        yield from (f"gpus[{index}]{fault}" for fault in _entry_faults(index, entry))
    counted = Counter(str(e.get("uuid")) for e in entries if isinstance(e, dict) and "uuid" in e)
    repeated = ((uuid, count) for uuid, count in counted.items() if count > 1)
    yield from (f"gpus: {count} entries have the uuid {uuid}" for uuid, count in repeated)


def _entry_faults(index: int, entry: Any) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield f": must be an object, not {entry!r}"
        return
    faults = [f".{name}: is missing" for name in _NEEDED if name not in entry]
    for name, value in entry.items():
        if name not in _FIELDS:
            faults.append(f".{name}: no such field; there are {', '.join(_FIELDS)}")
        elif not _FIELDS[name][0](value):
            faults.append(f".{name}: must be {_FIELDS[name][1]}, not {value!r}")
    yield from faults
    if not faults and (reason := unfit(_gpu(index, {**entry, "mig": False}))):
        yield f": cannot be shared: {reason}"
