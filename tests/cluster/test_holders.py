"""The check of who holds what finds each kind of fault, and none where there is none."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.cluster.holders import Container, Seen, faults
from vgpu import names

A, B = "SIM-a", "SIM-b"
ONE, BIG = ("ns", "one", "main"), ("ns", "big", "main")


def ids(card: str, first: int, count: int) -> frozenset[str]:
    return frozenset(f"{card}::{number}" for number in range(first, first + count))


def container(pod: str, limits: dict[str, int], card: str) -> Container:
    env = {names.ENV_GPU_UUID: card, names.ENV_VISIBLE_DEVICES: card}
    if count := limits.get(names.COUNT):
        env[names.ENV_SLOTS] = str(count)
    return Container(("ns", pod, "main"), f"uid-{pod}", limits, env)


HELD = {ONE: ids(A, 0, 30), ("ns", "two", "main"): ids(A, 30, 20), BIG: frozenset({f"{B}::whole"})}
GOOD = Seen(
    containers=(
        container("one", {names.COUNT: 30}, A),
        container("two", {names.COUNT: 20}, A),
        container("big", {names.WHOLE: 1}, B),
    ),
    listed=HELD,
    written={f"uid-{place[1]}": held for place, held in HELD.items()},
    states={
        A: {"held": 50, "free": 40, "unhealthy": 0, "withheld": 10},
        B: {"held": 100, "free": 0, "unhealthy": 0, "withheld": 0},
    },
    told={(ONE, A): 30, (("ns", "two", "main"), A): 20, (BIG, B): 100},
    allocatable={names.COUNT: 90, names.WHOLE: 1},
)
IDLE = Seen(
    (),
    {},
    {},
    {A: {"held": 0, "free": 100, "unhealthy": 0, "withheld": 0}},
    {},
    {names.COUNT: 100, names.WHOLE: 1},
)


@pytest.mark.parametrize("seen", [GOOD, IDLE], ids=["held", "idle"])
def test_what_agrees_is_no_fault(seen: Seen) -> None:
    assert faults(seen) == []


def listing(**changed: frozenset[str]) -> Seen:
    """All agree that these pods hold something else."""
    places = {place: changed.get(place[1], held) for place, held in HELD.items()}
    return replace(GOOD, listed=places, written={f"uid-{p[1]}": h for p, h in places.items()})


def telling(name: str, value: str) -> Seen:
    first = GOOD.containers[0]
    changed = replace(first, env={**first.env, name: value})
    return replace(GOOD, containers=(changed, *GOOD.containers[1:]))


DOCTORED: dict[str, tuple[Callable[[], Seen], str]] = {
    "a slot held twice": (lambda: listing(two=ids(A, 29, 20)), "SIM-a::29 is held by"),
    "a slot held twice in the checkpoint alone": (
        lambda: replace(GOOD, written={**GOOD.written, "uid-two": ids(A, 29, 21)}),
        "SIM-a::29 is held by ['uid-one', 'uid-two']",
    ),
    "a whole card shared": (
        lambda: listing(two=ids(B, 0, 20)),
        "SIM-b is held whole, and 20 of its slots are held",
    ),
    "slots of two cards": (lambda: listing(one=ids(A, 0, 29) | ids(B, 0, 1)), "of 2 cards"),
    "fewer than the limit": (lambda: listing(one=ids(A, 0, 29)), "one/main: its limits are"),
    "nothing at all": (
        lambda: replace(GOOD, listed={k: v for k, v in HELD.items() if k != ONE}),
        "one/main: its limits are",
    ),
    "not in the checkpoint": (
        lambda: replace(GOOD, written={**GOOD.written, "uid-one": ids(A, 0, 10)}),
        "the checkpoint lacks 20 ids of its 30",
    ),
    "another card by its environment": (
        lambda: telling(names.ENV_GPU_UUID, B),
        "MILLIGPU_GPU_UUID is 'SIM-b'",
    ),
    "another card by its runtime": (
        lambda: telling(names.ENV_VISIBLE_DEVICES, f"{A},{B}"),
        "NVIDIA_VISIBLE_DEVICES is 'SIM-a,SIM-b'",
    ),
    "another count by its environment": (
        lambda: telling(names.ENV_SLOTS, "31"),
        "MILLIGPU_SLOTS is '31', not '30'",
    ),
    "listed, and gone": (
        lambda: replace(GOOD, containers=GOOD.containers[1:]),
        "ns/one/main is listed with devices and does not run",
    ),
    "written, and gone": (
        lambda: replace(GOOD, written={**GOOD.written, "uid-old": ids(A, 50, 1)}),
        "pod uid-old is in the checkpoint with devices and does not run",
    ),
    "a count by the plugin": (
        lambda: replace(GOOD, states={**GOOD.states, A: {**GOOD.states[A], "held": 51}}),
        "SIM-a: 50 slots are held, the plugin tells of 51",
    ),
    "a slot that is nowhere": (
        lambda: replace(GOOD, states={**GOOD.states, A: {**GOOD.states[A], "withheld": 9}}),
        "SIM-a: its slots are",
    ),
    "an unhealthy card": (
        lambda: replace(IDLE, states={A: {"held": 0, "free": 0, "unhealthy": 100, "withheld": 0}}),
        "SIM-a: its slots are",
    ),
    "a card without metrics": (
        lambda: replace(GOOD, states={A: GOOD.states[A]}),
        "SIM-b is held, and has no metrics",
    ),
    "a holder by the plugin alone": (
        lambda: replace(GOOD, told={**GOOD.told, (("ns", "old", "main"), A): 5}),
        "ns/old/main: 0 slots of SIM-a, the plugin tells of 5",
    ),
    "a holder that the plugin lacks": (
        lambda: replace(GOOD, told={k: v for k, v in GOOD.told.items() if k[0] != BIG}),
        "ns/big/main: 100 slots of SIM-b, the plugin tells of 0",
    ),
    "slots on offer": (
        lambda: replace(GOOD, allocatable={names.COUNT: 190, names.WHOLE: 1}),
        "the node offers",
    ),
    "whole cards on offer": (
        lambda: replace(IDLE, allocatable={names.COUNT: 100, names.WHOLE: 0}),
        "the node offers",
    ),
}


@pytest.mark.parametrize("case", DOCTORED)
def test_what_cannot_be_is_told(case: str) -> None:
    make, said = DOCTORED[case]
    assert any(said in fault for fault in faults(make())), faults(make())
