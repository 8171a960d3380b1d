"""A node: what its kubelet has free, and what its plugin shows of it."""

import random
from copy import deepcopy

from bench.placement.policies import CARD, Memory, Parts, Policy


class Node:
    """The kubelet and the plugin of a node."""

    def __init__(self, cards: int, policy: Policy) -> None:
        self.policy = policy
        self.free = [CARD] * cards
        """By card; the kubelet knows it, the plugin does at every call and poll."""
        self.shown = [CARD] * cards
        """Those that are healthy: in the plugin's last list, or freed since then."""
        self.memory = Memory()

    @property
    def allocatable(self) -> int:
        """What the kubelet writes into the node's status next."""
        return CARD * len(self.free) - sum(self.free) + sum(self.shown)

    def admit(self, size: int, containers: int, now: float, rng: random.Random) -> Parts:
        """Return what a pod gets, container by container; nothing, if one of them is refused."""
        parts: Parts = []
        for _ in range(containers):
            got = self._allocate(size, now, rng)
            if not got:
                self.release(size, parts)
                return []
            parts += got
        return parts

    def _allocate(self, size: int, now: float, rng: random.Random) -> Parts:
        if sum(self.shown) < size:
            return []  # by the kubelet: the plugin hears nothing of it
        parts = self.policy.choose(self.shown, size, rng)
        self.memory.ask(size, now, granted=bool(parts))
        for card, count in parts:
            self.free[card] -= count
            self.shown[card] -= count
        running = self.memory.running
        running[size] = running.get(size, 0) + len(parts)
        return parts

    def release(self, size: int, parts: Parts) -> None:
        """A pod is gone: its slots are as healthy as they were when it held them."""
        for card, count in parts:
            self.free[card] += count
            self.shown[card] += count
            self.memory.running[size] -= 1

    def refresh(self, now: float) -> bool:
        """Let the plugin send its list; say whether that changes anything."""
        before, self.shown = self.shown, self.policy.show(self.free, self.memory, now)
        return self.shown != before

    def refuses_again(self, size: int, containers: int, now: float) -> bool:
        """Whether such a pod, refused just now, is refused again and leaves all as it is."""
        twin = Node(0, self.policy)
        twin.free, twin.shown = list(self.free), list(self.shown)
        if not self.policy.steady:
            twin.memory = deepcopy(self.memory)
        if twin.admit(size, containers, now, random.Random(0)):  # noqa: S311
            return False
        twin.refresh(now)
        return twin.shown == self.shown
