import itertools
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from plugin.checkpoint import Checkpoint
from plugin.config import Config
from plugin.gpu import MIB, Gpu, Probe
from plugin.node import Node
from plugin.pods import Holding, Pods
from plugin.series import Series
from vgpu.slots import PER_CARD

A = Gpu("GPU-a", 0, 0, "Tesla T4", 16384 * MIB, 1024 * MIB)
B = Gpu("GPU-b", 1, 1, "A10", 24576 * MIB)
SLOTS = "milligpu_plugin_slots"
HELD = "milligpu_plugin_container_slots"
SHARE = "milligpu_plugin_container_memory_bytes"
STATES = ("held", "free", "unhealthy", "withheld")

Samples = dict[tuple[str, ...], float]


@pytest.fixture
def node() -> Node:
    node = Node(Config(settle_seconds=0))
    node.start(Checkpoint())
    node.see(Probe((A, B)))
    return node


def holding(pod: str, *ids: str, container: str = "c", namespace: str = "ns") -> Holding:
    return Holding(namespace, pod, container, ids)


def hold(node: Node, *holdings: Holding) -> None:
    """Let the kubelet list these, and nothing else."""
    held = frozenset(each for one in holdings for each in one.ids)
    pods = frozenset((each.namespace, each.pod) for each in holdings) | {("ns", "other")}
    node.polled(Pods(tuple(sorted(holdings)), pods), Checkpoint(held))


def some(card: str, first: int, last: int) -> tuple[str, ...]:
    return tuple(f"{card}::{number}" for number in range(first, last))


def samples(node: Node, name: str, *labels: str) -> Samples:
    """Return the samples of a metric by some of their labels."""
    return {
        tuple(sample.labels[label] for label in labels): sample.value
        for metric in Series(node, "n1").collect()
        for sample in metric.samples
        if sample.name == name
    }


def text(node: Node) -> bytes:
    registry = CollectorRegistry()
    registry.register(Series(node, "n1"))
    return generate_latest(registry)


def states(node: Node) -> dict[str, dict[str, float]]:
    """Return the states of slots that are not 0, by card."""
    found = samples(node, SLOTS, "gpu", "state")
    cards = dict.fromkeys(gpu for gpu, _ in found)
    return {
        card: {state: found[card, state] for state in STATES if found[card, state]}
        for card in cards
    }


# Cards.


def test_a_card_is_told_once_without_a_pods_name(node: Node) -> None:
    """Or sums over pods would count it again for each (a reading is not a share)."""
    hold(node, holding("p", *some("GPU-a", 0, 30)), holding("q", *some("GPU-a", 30, 40)))
    for name in ("milligpu_plugin_gpu_memory_bytes", "milligpu_plugin_gpu_healthy"):
        [family] = (each for each in Series(node, "n1").collect() if each.name == name)
        assert [sample.labels for sample in family.samples] == [
            {"node": "n1", "gpu": "GPU-a", "model": "Tesla T4"},
            {"node": "n1", "gpu": "GPU-b", "model": "A10"},
        ]


def test_memory_is_each_cards_own(node: Node) -> None:
    assert samples(node, "milligpu_plugin_gpu_memory_bytes", "gpu") == {
        ("GPU-a",): 15360 * MIB,
        ("GPU-b",): 24576 * MIB,
    }


def test_health(node: Node) -> None:
    node.ill({"GPU-b": "it needs a reset"})
    healthy = samples(node, "milligpu_plugin_gpu_healthy", "gpu")
    assert healthy == {("GPU-a",): 1, ("GPU-b",): 0}


def test_states_of_slots(node: Node) -> None:
    assert states(node) == {"GPU-a": {"free": 100}, "GPU-b": {"free": 100}}
    hold(node, holding("p", *some("GPU-a", 0, 30)), holding("q", "GPU-b::whole"))
    assert states(node) == {"GPU-a": {"held": 30, "free": 70}, "GPU-b": {"held": 100}}
    node.ill({"GPU-a": "it needs a reset"})
    assert states(node)["GPU-a"] == {"held": 30, "unhealthy": 70}


def test_slots_that_are_not_shown_are_withheld(node: Node) -> None:
    hold(node, holding("p", *some("GPU-a", 0, 60)), holding("q", *some("GPU-b", 0, 70)))
    assert states(node) == {
        "GPU-a": {"held": 60, "free": 40},
        "GPU-b": {"held": 70, "withheld": 30},
    }


@given(
    st.lists(st.sampled_from([*some("GPU-a", 0, 100), *some("GPU-b", 0, 100)]), unique=True),
    st.sets(st.sampled_from(["GPU-a::whole", "GPU-b::whole"])),
    st.sets(st.sampled_from(["GPU-a", "GPU-b"])),
    st.sampled_from([(A, B), (A,), ()]),
)
def test_the_states_of_a_card_are_all_its_slots(
    slots: list[str],
    wholes: set[str],
    ill: set[str],
    seen: tuple[Gpu, ...],
) -> None:
    """Even of one that is held in both ways, which should never be."""
    node = Node(Config(settle_seconds=0))
    node.start(Checkpoint(frozenset({*slots, *wholes})))
    node.see(Probe((A, B)))
    node.ill(dict.fromkeys(ill, "it needs a reset"))
    node.see(Probe(seen))
    found = samples(node, SLOTS, "gpu", "state")
    assert len(found) == 2 * len(STATES)
    for card in ("GPU-a", "GPU-b"):
        assert sum(found[card, state] for state in STATES) == PER_CARD
        assert min(found[card, state] for state in STATES) >= 0


# Containers.


def test_each_container_has_a_series_for_its_card(node: Node) -> None:
    hold(
        node,
        holding("p1", *some("GPU-a", 0, 3)),
        holding("p1", "GPU-a::50", container="d"),
        holding("p2", "GPU-a::3"),
        holding("p2", "GPU-a::4", namespace="other"),
        holding("p3", *some("GPU-b", 0, 10)),
    )
    labels = ("namespace", "pod", "container", "gpu", "model", "node")
    assert samples(node, HELD, *labels) == {
        ("ns", "p1", "c", "GPU-a", "Tesla T4", "n1"): 3,
        ("ns", "p1", "d", "GPU-a", "Tesla T4", "n1"): 1,
        ("ns", "p2", "c", "GPU-a", "Tesla T4", "n1"): 1,
        ("other", "p2", "c", "GPU-a", "Tesla T4", "n1"): 1,
        ("ns", "p3", "c", "GPU-b", "A10", "n1"): 10,
    }


def test_a_share_of_another_card_is_another_amount(node: Node) -> None:
    hold(node, holding("p", *some("GPU-a", 0, 30)), holding("q", *some("GPU-b", 0, 30)))
    assert samples(node, SHARE, "pod", "gpu") == {
        ("p", "GPU-a"): 4608 * MIB,
        ("q", "GPU-b"): 7372 * MIB,
    }


def test_whole_cards_count_as_all_of_their_slots(node: Node) -> None:
    hold(node, holding("p", "GPU-a::whole", "GPU-b::whole"))
    assert samples(node, HELD, "pod", "gpu") == {("p", "GPU-a"): 100, ("p", "GPU-b"): 100}
    assert samples(node, SHARE, "gpu") == {
        ("GPU-a",): 15360 * MIB,
        ("GPU-b",): 24576 * MIB,
    }


def test_a_scrape_does_not_depend_on_the_order_of_the_list(node: Node) -> None:
    every = (
        holding("p1", "GPU-a::0", "GPU-a::1"),
        holding("p2", "GPU-a::2"),
        holding("p3", "GPU-b::0"),
    )
    texts = set()
    for order in itertools.permutations(every):
        hold(node, *order)
        texts.add(text(node))
    assert len(texts) == 1


def test_what_has_ended_has_no_series(node: Node) -> None:
    before = text(node)
    hold(node, holding("p", *some("GPU-a", 0, 30)))
    assert b'pod="p"' in text(node)
    hold(node)
    assert text(node) == before


def test_a_name_that_nobody_gave_is_the_hosts(node: Node) -> None:
    [memory] = (
        it for it in Series(node, "").collect() if it.name == "milligpu_plugin_gpu_memory_bytes"
    )
    assert {sample.labels["node"] for sample in memory.samples} == {socket.gethostname()}
