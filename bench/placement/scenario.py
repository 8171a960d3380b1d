"""What is simulated, and what came of it."""

import math
from dataclasses import dataclass, field

from bench.placement.policies import CARD, Parts, Policy

MIXED = tuple(range(10, 101, 10))


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster, its pods and its policy."""

    policy: Policy
    mix: tuple[int, ...] = MIXED
    """Slots of a container, all as frequent."""
    load: float = 0.85
    """Slots that the pods ask for, by all slots, if every pod ran as soon as it is made."""
    nodes: int = 20
    cards: int = 4
    scoring: str = "least"
    """What a node's score goes by: least (allocated), most, or none."""
    life: float = 1800.0
    """Mean seconds that a pod runs; exponential."""
    replicas: int = 1
    """Pods that are created at the same moment with the same size."""
    containers: int = 1
    """Of a pod, each with a share of the same size."""
    backoff: bool = False
    """Whether a failed pod is replaced after 10 s, then 20 s and so on, as a Job does it."""
    pods: int = 3000
    """Pods that are looked at, once the cluster is as full as it gets."""

    @property
    def modelled(self) -> bool:
        """Whether there is a model of it: not of exact counts for pods of several containers."""
        return not (self.policy.exact and self.containers > 1)

    @property
    def slots(self) -> int:
        """Of the cluster."""
        return self.nodes * self.cards * CARD

    @property
    def interval(self) -> float:
        """Mean seconds from one pod to the next."""
        mean = self.containers * sum(self.mix) / len(self.mix)
        return self.life * mean / (self.load * self.slots)


@dataclass(slots=True, eq=False)
class Pod:
    """A pod together with all that a controller made in its place after a refusal."""

    size: int
    """Slots of a container."""
    asks: int
    """Slots of all its containers."""
    born: float
    life: float
    refusals: int = 0
    parts: Parts = field(default_factory=list)
    started: float = math.inf
    number: int = 0
    """Its place in the scheduler's queue."""
    since: float = 0.0
    """When it was refused last."""


@dataclass(frozen=True, slots=True)
class Result:
    """Figures of one run."""

    refused: float
    """Pods refused at least once, or given parts of several cards, per thousand."""
    failed: float
    """Failed pods, per thousand pods."""
    stranded: float
    """Slots that are free and asked for by waiting pods, percent of all, on average over time."""
    wait: float
    """Mean seconds until a pod runs."""
    wait_p99: float
    used: float
    """Slots in use, percent of all, on average over time."""


def summary(pods: list[Pod], containers: int, end: float, stranded: float, used: float) -> Result:
    """Return the figures; a pod that still waits at the end has waited until then."""
    waits = sorted(min(pod.started, end) - pod.born for pod in pods)
    thousandth = 1000 / len(pods)
    return Result(
        refused=thousandth * sum(pod.refusals > 0 or len(pod.parts) > containers for pod in pods),
        failed=thousandth * sum(pod.refusals for pod in pods),
        stranded=stranded,
        wait=sum(waits) / len(waits),
        wait_p99=waits[len(waits) * 99 // 100],
        used=used,
    )
