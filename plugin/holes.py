"""What the node shows of its free slots: all, or only the largest hole, those of one card.

The scheduler sees one number for the node. Where no card has as many free slots as a pod asks for,
though the node has, it would send that pod here again and again, to be refused each time.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

FIRST_SECONDS: Final = 600.0
"""How long a refused size is remembered at first; each time that it comes again, twice as long."""
LAST_SECONDS: Final = 8 * FIRST_SECONDS
EPISODE_SECONDS: Final = 60.0
"""Refusals of a size within this time are one: the scheduler has not seen our answer yet."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    since: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Refusals:
    """The sizes, in slots, that were refused of late because they did not fit on one card."""

    by_size: Mapping[int, _Refusal] = field(default_factory=dict)


def remember(refusals: Refusals, size: int, now: float) -> Refusals:
    """Return the refusals with one more, at a time in seconds of any steady clock."""
    last = refusals.by_size.get(size)
    if last is None or now > last.since + 2 * last.seconds:
        last = _Refusal(now, FIRST_SECONDS)
    elif now > last.since + EPISODE_SECONDS:
        last = _Refusal(now, min(2 * last.seconds, LAST_SECONDS))
    return replace(refusals, by_size={**refusals.by_size, size: last})


def sizes(refusals: Refusals, now: float) -> frozenset[int]:
    """Return the sizes that are still remembered."""
    return frozenset(
        size for size, last in refusals.by_size.items() if now <= last.since + last.seconds
    )


def limited(free: Collection[int], asked: Iterable[int]) -> bool:
    """Whether a size fits into all free slots, given by card, but into those of no card."""
    return any(max(free, default=0) < size <= sum(free) for size in asked)
