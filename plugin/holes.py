"""How many of its free slots the node shows: the scheduler sees one number for all its cards.

Where no card has as many free slots as a pod asks for, though the node has, the scheduler would
send that pod here again and again, to be refused each time. docs/explanation/placement.md has the
figures that this rule was chosen by.
"""

from collections.abc import Collection, Mapping
from typing import Final

from vgpu import slots

REMEMBERED_SECONDS: Final = 86400.0
"""How long a size counts after somebody asked for it; those of running containers always do."""


def sizes(asked: Mapping[int, float], now: float) -> frozenset[int]:
    """Return the sizes, each with the time when it was last asked for, that are remembered."""
    return frozenset(size for size, when in asked.items() if now - when <= REMEMBERED_SECONDS)


def largest(free: Mapping[str, int]) -> Mapping[str, int]:
    """Show the free slots, given by card, of the card that has most of them."""
    return {card: free[card] for card in sorted(free, key=lambda card: (-free[card], card))[:1]}


def fitting(free: Mapping[str, int], asked: Collection[int]) -> Mapping[str, int]:
    """Show all, unless one of the sizes fits into all free slots but into those of no card.

    Then the smallest such size must not seem to fit, nor seem so when a container ends that has the
    largest size that does fit: that many fewer are shown. But what fits on a card is never hidden,
    so those of the card that has most come first; the others from the smallest gaps on, for what is
    small shall fill these.
    """
    hole, total = max(free.values(), default=0), sum(free.values())
    misfits = [size for size in asked if hole < size <= min(total, slots.PER_CARD)]
    if not misfits:
        return free
    fit = max((size for size in asked if size <= hole), default=hole)
    room = max(hole, min(misfits) - 1 - fit)
    shown: dict[str, int] = {}
    [most] = largest(free)
    for card in (most, *sorted(free, key=lambda card: (free[card], card))):
        shown.setdefault(card, min(free[card], room - sum(shown.values())))
    return shown
