"""How a node's plugin picks cards and which free slots it shows, on counts by card.

What is shown is decided by the plugin's own code. Its choice of a card works on slots by name,
too slow for 10,000 nodes: the tests prove that `packed` and `spread` decide like it. The rest is
what others do, and what was tried.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from plugin import holes

Free = list[int]
"""Free slots, by card."""
Parts = list[tuple[int, int]]
"""What a container got: (card, slots) of each card; none if it was refused."""
Choose = Callable[[Free, int, random.Random], Parts]

CARD = 100
"""Slots of a card."""
NAMES = "abcdefgh"
"""Of the cards of a node."""
FIRST_SECONDS, LAST_SECONDS, EPISODE_SECONDS = 600.0, 4800.0, 60.0
"""How long a refusal counts at first and at most, and how long it is the same one."""


# Which card.


def packed(free: Free, size: int, _: random.Random) -> Parts:
    """Ours: all of one card, the fullest that fits."""
    fitting = [room for room in free if room >= size]
    return [(free.index(min(fitting)), size)] if fitting else []


def spread(free: Free, size: int, _: random.Random) -> Parts:
    """Ours, with the setting: all of one card, the emptiest."""
    room = max(free)
    return [(free.index(room), size)] if room >= size else []


def first(free: Free, size: int, _: random.Random) -> Parts:
    """The scheduler's own for claims (DRA): the first device that has as much."""
    return next(([(card, size)] for card, room in enumerate(free) if room >= size), [])


def at_random(free: Free, size: int, rng: random.Random) -> Parts:
    """The kubelet's, when the plugin has no preference: any ids."""
    return _counted(rng.sample(range(len(free)), size, counts=free))


def distributed(free: Free, size: int, rng: random.Random) -> Parts:
    """NVIDIA's default: each slot from the card that has most free."""
    return _greedy(free, size, rng, 1)


def nvidia_packed(free: Free, size: int, rng: random.Random) -> Parts:
    """NVIDIA's `packed`: each slot from the fullest card, whether that fits all or not."""
    return _greedy(free, size, rng, -1)


def _greedy(free: Free, size: int, rng: random.Random, sign: int) -> Parts:
    left, picked = list(free), []
    cards = list(range(len(free)))
    rng.shuffle(cards)  # which of two alike comes first is not defined there
    for _ in range(size):
        # By what is free, then by what this container has of the card.
        card = max((c for c in cards if left[c]), key=lambda c: (sign * left[c], left[c] - free[c]))
        left[card] -= 1
        picked.append(card)
    return _counted(picked)


def _counted(cards: list[int]) -> Parts:
    return [(card, cards.count(card)) for card in sorted(set(cards))]


# Which free slots are shown.


@dataclass(slots=True)
class Memory:
    """What a plugin was asked for."""

    sizes: holes.Sizes = field(default_factory=holes.Sizes)
    """Granted or refused."""
    running: dict[int, int] = field(default_factory=dict)
    """By size, how many containers have that."""
    refused: dict[int, tuple[float, float]] = field(default_factory=dict)
    """By size, when, and for how many seconds that counts."""

    def ask(self, size: int, now: float, granted: bool) -> None:
        """Remember a call."""
        self.sizes.asked(size, now)
        if granted:
            return
        since, seconds = self.refused.get(size, (-LAST_SECONDS, 0.0))
        if now > since + 2 * seconds:
            self.refused[size] = now, FIRST_SECONDS
        elif now > since + EPISODE_SECONDS:
            self.refused[size] = now, min(2 * seconds, LAST_SECONDS)


Show = Callable[[Free, Memory, float], Free]


def everything(free: Free, _: Memory, __: float) -> Free:
    """All free slots, always."""
    return list(free)


def largest_hole(free: Free, _: Memory, __: float) -> Free:
    """Only those of the card that has most, always."""
    return _counts(holes.largest(_by_name(free)), free)


def after_refusal(free: Free, memory: Memory, now: float) -> Free:
    """Only the largest hole, while a size refused lately fits on the node but on no card."""
    sizes = (size for size, (since, lasts) in memory.refused.items() if now <= since + lasts)
    misfit = any(max(free) < size <= sum(free) for size in sizes)
    return largest_hole(free, memory, now) if misfit else list(free)


def fitting(free: Free, memory: Memory, now: float) -> Free:
    """What a pod of a known size could get; ours."""
    running = {size for size, containers in memory.running.items() if containers}
    sizes = running | memory.sizes.remembered(now)
    largest, total = max(free), sum(free)
    if not any(largest < size <= total for size in sizes):
        return list(free)  # as the plugin's code says too, at greater length
    return _counts(holes.fitting(_by_name(free), sizes), free)


def _by_name(free: Free) -> dict[str, int]:
    return dict(zip(NAMES, free, strict=False))


def _counts(shown: Mapping[str, int], free: Free) -> Free:
    return [shown.get(name, 0) for name in NAMES[: len(free)]]


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to give out the cards of a node."""

    name: str
    choose: Choose
    show: Show = everything
    splits: bool = False
    """Whether ids of several cards are given to one container, and not refused."""
    exact: bool = False
    """Whether the scheduler itself counts by card."""

    @property
    def steady(self) -> bool:
        """Whether all is shown always: nothing is ever learnt from a refusal."""
        return self.show is everything


RANDOM = Policy("kubelet's random ids", at_random, splits=True)
DISTRIBUTED = Policy("NVIDIA's distributed", distributed, splits=True)
NVIDIA_PACKED = Policy("NVIDIA's packed", nvidia_packed, splits=True)
ALL = Policy("packed, all", packed)
AFTER = Policy("packed, after a refusal", packed, after_refusal)
LARGEST = Policy("packed, largest-hole", packed, largest_hole)
FITTING = Policy("packed, fitting", packed, fitting)
SPREAD = Policy("spread, fitting", spread, fitting)
DRA = Policy("exact (DRA)", first, exact=True)
