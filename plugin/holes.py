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
IN_VAIN_SECONDS: Final = 3600.0
"""How long it counts that an init container's card had no room for its pod's next container."""


class Sizes:
    """The sizes, in slots, that were asked for of late; times are of a steady clock, in seconds."""

    def __init__(self) -> None:
        self._asked: dict[int, float] = {}
        self._in_vain: dict[int, tuple[int, float]] = {}

    def asked(self, size: int, now: float) -> None:
        """Note that a container asks for so many, whether that is granted or refused."""
        self._asked[size] = now

    def remembered(self, now: float) -> frozenset[int]:
        """Return those that still count."""
        return frozenset(s for s, when in self._asked.items() if now - when <= REMEMBERED_SECONDS)

    def in_vain(self, part: int, size: int, now: float) -> None:
        """Note that `size` slots, a `part` of them an init container's, do not fit on its card."""
        self._in_vain[part] = size, now

    def then(self, size: int, now: float) -> int:
        """Return how many a pod may have to have on the card where it gets so many first."""
        grown, when = self._in_vain.get(size, (0, 0.0))
        return grown if now - when <= IN_VAIN_SECONDS else 0


def largest(free: Mapping[str, int]) -> Mapping[str, int]:
    """Show the free slots, given by card, of the card that has most of them."""
    return {card: free[card] for card in sorted(free, key=lambda card: (-free[card], card))[:1]}


def fitting(free: Mapping[str, int], asked: Collection[int]) -> Mapping[str, int]:
    """Show all, unless one of the sizes fits into all free slots but into those of no card.

    Then the smallest such size must not seem to fit, nor seem so when a container ends that has the
    largest size that does fit: that many fewer are shown. But never fewer than a card has, so that
    sizes that are new to the node are sent to it. The card that has most shows enough for that
    largest size; then come the smallest gaps, for what is small shall fill these.
    """
    hole, total = max(free.values(), default=0), sum(free.values())
    misfits = [size for size in asked if hole < size <= min(total, slots.PER_CARD)]
    if not misfits:
        return free
    fit = max((size for size in asked if 0 < size <= hole), default=hole)
    room = max(hole, min(misfits) - 1 - fit)
    [most] = largest(free)
    shown = {most: fit}
    for card in sorted(free, key=lambda card: (card == most, free[card], card)):
        more = min(free[card] - shown.get(card, 0), room - sum(shown.values()))
        shown[card] = shown.get(card, 0) + more
    return shown
