"""kube-scheduler: one number of free slots by node, a score, a queue."""

import random
from collections import deque
from itertools import chain, islice

from bench.placement.scenario import Pod


class Scheduler:
    """What the scheduler knows and how it picks a node.

    With `exact` it knows the largest free part of a card as well, as it does with DRA.
    """

    def __init__(self, nodes: int, slots: int, hole: int, scoring: str, rng: random.Random) -> None:
        self.allocatable = [slots] * nodes
        """As the kubelets last wrote it."""
        self.room = [slots] * nodes
        """That, less what is bound."""
        self.fits = [hole] * nodes if hole else self.room
        """What a pod has to fit into."""
        self.scored = _scored(nodes)
        self.samples = self.scored < nodes
        """Whether a pod's next try sees other nodes."""
        self.start = 0
        self.least = scoring == "least"
        self.rng = rng
        self.queue: dict[int, deque[Pod]] = {}
        self.number = 0

    def best(self, size: int) -> list[int]:
        """Return the nodes with the best score for a pod of this size, none if it fits nowhere."""
        fits, nodes = self.fits, len(self.fits)
        if not self.samples:
            feasible = [node for node, room in enumerate(fits) if room >= size]
        else:
            order = chain(range(self.start, nodes), range(self.start))
            feasible = list(islice((n for n in order if fits[n] >= size), self.scored))
            if len(feasible) == self.scored:
                self.start = (feasible[-1] + 1) % nodes
        scores = self._scores(feasible, size)
        top = max(scores, default=0)
        return [node for node, score in zip(feasible, scores, strict=True) if score == top]

    def _scores(self, feasible: list[int], size: int) -> list[int]:
        """NodeResourcesFit: whole percents of what the node has, 100 the best."""
        room, allocatable = self.room, self.allocatable
        if self.least:
            return [(room[n] - size) * 100 // allocatable[n] for n in feasible]
        return [(allocatable[n] - room[n] + size) * 100 // allocatable[n] for n in feasible]

    def push(self, pod: Pod) -> None:
        """Let a pod wait until something changes that could let it in."""
        self.number += 1
        pod.number = self.number
        self.queue.setdefault(pod.asks, deque()).append(pod)

    def pop(self, node: int) -> Pod | None:
        """Return the pod that has waited longest of those that fit on the node."""
        room = self.fits[node]
        heads = [pods[0] for size, pods in self.queue.items() if size <= room and pods]
        if not heads:
            return None
        pod = min(heads, key=lambda pod: pod.number)
        return self.queue[pod.asks].popleft()


def _scored(nodes: int) -> int:
    """How many feasible nodes are enough (percentageOfNodesToScore at its default)."""
    if nodes < 100:
        return nodes
    return min(nodes, max(100, nodes * max(50 - nodes // 125, 5) // 100))
