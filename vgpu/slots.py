"""Slots: the hundredths of a card, and the ids by which the kubelet knows them."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from vgpu import quantity

PER_CARD = 100
"""Slots of one card. A constant: a stored count must never change its meaning."""
MAX_ID_LENGTH = 63
"""Longest device id, in characters (comment on `Device.ID` in the device plugin API)."""

_ID = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)::(0|[1-9][0-9]?|whole)")


def count(share: Fraction) -> int:
    """Return the slots of a share from 0 to 1, rounded up: nobody gets less than asked."""
    return -(-share.numerator * PER_CARD // share.denominator)


@lru_cache(maxsize=PER_CARD)
def share(slots: int) -> Fraction:
    """Return the part of a card that so many slots are."""
    return Fraction(slots, PER_CARD)


@lru_cache(maxsize=PER_CARD)
def decimal(slots: int) -> str:
    """Return the same as text, such as `0.3`."""
    return quantity.decimal(share(slots), 2)


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """One hundredth of a card; as text `GPU-<uuid>::<n>`."""

    card: str
    """The card's id, such as `GPU-1f2e...`, or `SIM-...` of a simulated one."""
    number: int
    """0 to 99."""

    def __str__(self) -> str:
        return f"{self.card}::{self.number}"


@dataclass(frozen=True, slots=True, order=True)
class Whole:
    """A whole card; as text `GPU-<uuid>::whole`."""

    card: str

    def __str__(self) -> str:
        return f"{self.card}::whole"


def parse(device_id: str) -> Slot | Whole:
    """Read a device id. Raises ValueError that names it when it is none of ours."""
    match = _ID.fullmatch(device_id)
    if match is None or len(f"{match[1]}::whole") > MAX_ID_LENGTH:
        raise ValueError(f"not a slot id: {device_id[:80]!r}")
    card, number = match.groups()
    return Whole(card) if number == "whole" else Slot(card, int(number))


def valid(ids: Iterable[str]) -> Iterator[str]:
    """Yield the device ids that can be ours: another plugin may have served our resources once."""
    for each in ids:
        with contextlib.suppress(ValueError):
            parse(each)
            yield each


def of_card(card: str) -> tuple[Slot, ...]:
    """Return all slots of a card, in order. Raises ValueError when its ids would be too long."""
    if len(f"{card}::whole") > MAX_ID_LENGTH:
        raise ValueError(f"card id too long for slot ids of {MAX_ID_LENGTH} characters: {card!r}")
    return tuple(Slot(card, number) for number in range(PER_CARD))
