"""kube-scheduler: one number of free slots by node, a score, a queue."""

from collections import deque

from bench.placement.scenario import Pod


class Scheduler:
    """What the scheduler knows and how it picks a node.

    With `exact` it knows the largest free part of a card as well, as it does with DRA.
    """

    def __init__(self, nodes: int, slots: int, hole: int, scoring: str) -> None:
        self.allocatable = [slots] * nodes
        """As the kubelets last wrote it."""
        self.used = [0] * nodes
        """What is bound there."""
        self.room = [slots] * nodes
        """The difference."""
        self.fits = [hole] * nodes if hole else self.room
        """What a pod has to fit into."""
        self.scored = _scored(nodes)
        self.samples = self.scored < nodes
        """Whether a pod's next try sees other nodes."""
        self.start = 0
        self.scoring = scoring
        self.slots = slots
        self.queue: dict[int, deque[Pod]] = {}
        self.number = 0

    def best(self, size: int) -> list[int]:
        """Return the nodes with the best score for a pod of this size, none if it fits nowhere."""
        feasible = self._feasible(size)
        if not feasible or self.scoring == "none":
            return feasible
        if self.scoring == "most":
            return self._most(feasible, size)
        return self._least(feasible, size)

    def _feasible(self, size: int) -> list[int]:
        """Return as many nodes as are enough, from where the search for the last pod ended."""
        fits, nodes, found, seen = self.fits, len(self.fits), list[int](), 0
        while seen < nodes and len(found) < self.scored:
            low = (self.start + seen) % nodes
            high = min(low + self.scored, nodes, low + nodes - seen)
            found += [node for node in range(low, high) if fits[node] >= size]
            seen += high - low
        if self.samples and len(found) >= self.scored:
            del found[self.scored :]
            self.start = (found[-1] + 1) % nodes
        return found

    # NodeResourcesFit scores in whole percents.

    def _least(self, feasible: list[int], size: int) -> list[int]:
        """The default: of CPU and memory, whose requests go with the share."""
        used, slots = self.used, self.slots
        score = (slots - size - min(map(used.__getitem__, feasible))) * 100 // slots
        most = slots - size - -(-score * slots // 100)
        return [node for node in feasible if used[node] <= most]

    def _most(self, feasible: list[int], size: int) -> list[int]:
        """MostAllocated, set for slots: by what the node says it has."""
        used, allocatable = self.used, self.allocatable
        scores = [(used[node] + size) * 100 // allocatable[node] for node in feasible]
        top = max(scores)
        return [node for node, score in zip(feasible, scores, strict=True) if score == top]

    def bind(self, node: int, size: int) -> None:
        """Count a pod to a node; one that is gone with a negative size."""
        self.used[node] += size
        self.room[node] -= size

    def status(self, node: int, allocatable: int) -> None:
        """Take what a kubelet wrote."""
        self.room[node] += allocatable - self.allocatable[node]
        self.allocatable[node] = allocatable

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
