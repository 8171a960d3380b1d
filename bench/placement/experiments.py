"""What is compared, on which clusters; runs on all CPUs."""

import os
import statistics
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from bench.placement.cluster import Cluster
from bench.placement.policies import (
    AFTER,
    ALL,
    DISTRIBUTED,
    DRA,
    FITTING,
    LARGEST,
    NVIDIA_PACKED,
    RANDOM,
    SPREAD,
    Policy,
)
from bench.placement.scenario import MIXED, Result, Scenario

OURS = (ALL, AFTER, LARGEST, FITTING, DRA)
EVERYBODY = (RANDOM, DISTRIBUTED, NVIDIA_PACKED, ALL, AFTER, LARGEST, FITTING, SPREAD, DRA)
LOADS = (0.5, 0.7, 0.85, 0.95)
MIXES = {
    "small: 3, 5, 10, 20 %": (3, 5, 10, 20),
    "one size: 30 %": (30,),
    "to a half: 10 to 50 %": MIXED[:5],
    "mixed: 10 to 100 %": MIXED,
    "large: 40 to 100 %": (40, 50, 60, 70, 80, 100),
    "5 to 20 %, one in 20 has 80 %": (5,) * 9 + (10,) * 9 + (20, 80),
}
RARE = MIXES["5 to 20 %, one in 20 has 80 %"]
CARDS = 80
"""Of a cluster, where it does not say otherwise."""
VARIANTS = {
    "none of these": {},
    "every node has the same score": {"scoring": "none"},
    "pods of 5 minutes": {"life": 300.0},
    "pods of 8 hours": {"life": 28800.0},
    "five replicas at once": {"replicas": 5},
    "a Job's back-off": {"backoff": True},
    "two containers of 10 to 50 % each": {"containers": 2, "mix": MIXED[:5]},
}


@dataclass(frozen=True, slots=True)
class Table:
    """Scenarios by row and column, and what is shown of them."""

    name: str
    """Of its place in the page."""
    corner: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[Scenario, ...]]


def tables() -> list[Table]:
    """Return all that the page shows."""
    return [_loads(), _mixes(), _sizes(), _variants()]


def _loads() -> Table:
    scored = [(scoring, load) for scoring in ("least", "most") for load in LOADS]
    base = Scenario(ALL)
    return Table(
        "loads",
        "policy",
        tuple(f"{scoring}, {load:.0%}" for scoring, load in scored),
        {
            policy.name: tuple(
                replace(base, policy=policy, scoring=scoring, load=load) for scoring, load in scored
            )
            for policy in EVERYBODY
        },
    )


def _mixes() -> Table:
    rows = {
        f"{name}; {cards}": Scenario(ALL, mix=mix, cards=cards, nodes=CARDS // cards)
        for name, mix in MIXES.items()
        for cards in (1, 4, 8)
    }
    return _by_policy("mixes", "shares; cards of a node", rows)


def _sizes() -> Table:
    # Of a large cluster more pods are looked at, since all nodes have to have seen some. At 85 %
    # 10,000 nodes would take as long as all the rest together.
    rows = {
        f"{nodes:,}; {load:.0%}": Scenario(ALL, nodes=nodes, load=load, pods=max(3000, nodes))
        for load, largest in ((0.7, 10_000), (0.85, 1000))
        for nodes in (1, 10, 100, 1000, 10_000)
        if nodes <= largest
    }
    return _by_policy("sizes", "nodes of 4 cards; load", rows)


def _variants() -> Table:
    base = Scenario(ALL, load=0.7)
    rows = {name: replace(base, **change) for name, change in VARIANTS.items()}  # type: ignore[arg-type]
    return _by_policy("variants", "what differs", rows)


def _by_policy(name: str, corner: str, rows: dict[str, Scenario]) -> Table:
    return Table(
        name,
        corner,
        tuple(policy.name for policy in OURS),
        {row: tuple(replace(one, policy=policy) for policy in OURS) for row, one in rows.items()},
    )


def pictured() -> dict[str, dict[Policy, tuple[Scenario, ...]]]:
    """Return the picture's panels: by policy the scenarios of all loads."""
    panels = {
        "10 to 100 %, default scoring": Scenario(ALL),
        "10 to 100 %, MostAllocated": Scenario(ALL, scoring="most"),
        "5 to 20 %, one in 20 has 80 %": Scenario(ALL, mix=RARE),
    }
    return {
        title: {
            policy: tuple(replace(one, policy=policy, load=load) for load in LOADS)
            for policy in OURS
        }
        for title, one in panels.items()
    }


class Results:
    """The runs of scenarios with several seeds each, on all CPUs."""

    def __init__(self, seeds: int) -> None:
        self.seeds = seeds
        self.by_scenario: dict[Scenario, list[Result]] = {}

    def run(self, scenarios: set[Scenario]) -> None:
        """Run what has not been run yet; the long ones first."""
        todo = sorted(scenarios - self.by_scenario.keys(), key=_effort, reverse=True)
        runs = [(scenario, seed) for scenario in todo for seed in range(self.seeds)]
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            done = pool.map(_run, runs)
            for (scenario, _), result in zip(_progress(runs), done, strict=True):
                self.by_scenario.setdefault(scenario, []).append(result)

    def mean(self, scenario: Scenario, what: Callable[[Result], float]) -> float:
        """Return the mean over the seeds."""
        return statistics.mean(map(what, self.by_scenario[scenario]))

    def spread(self, scenario: Scenario, what: Callable[[Result], float]) -> float:
        """Return the standard deviation over the seeds."""
        return statistics.stdev(map(what, self.by_scenario[scenario]))


def _effort(scenario: Scenario) -> float:
    return scenario.pods + 2 * scenario.life / scenario.interval


def _run(what: tuple[Scenario, int]) -> Result:
    scenario, seed = what
    return Cluster(scenario, seed).run()


def _progress(runs: list[tuple[Scenario, int]]) -> Iterator[tuple[Scenario, int]]:
    for number, run in enumerate(runs):
        if number % max(1, len(runs) // 20) == 0:
            print(f"{number} of {len(runs)} runs", file=sys.stderr, flush=True)
        yield run
