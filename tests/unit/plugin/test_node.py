import asyncio
import threading
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from plugin.gpu import Gpu, InventoryError, Probe
from plugin.metrics import Metrics
from plugin.node import Node, in_thread
from plugin.offer import Card

A = Gpu("GPU-a", 0, 0, "Tesla T4", 2**34)
B = Gpu("GPU-b", 1, 1, "Tesla T4", 2**34)
NO_DRIVER = Probe(notes=("no driver",))
BROKEN = InventoryError("version mismatch")


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def node(metrics: Metrics) -> Node:
    return Node(metrics)


def events(node: Node, found: Probe | InventoryError) -> list[str]:
    """Return what is logged when this is found."""
    with capture_logs() as entries:
        node.see(found)
    return [entry["event"] % entry.get("positional_args", ()) for entry in entries]


def states(metrics: Metrics) -> list[str]:
    names = ("starting", "idle", "broken", "serving")
    label = "milligpu_plugin_state"
    return [n for n in names if metrics.registry.get_sample_value(label, {label: n})]


def slots(metrics: Metrics, gpu: Gpu, health: str) -> float | None:
    labels = {"gpu": gpu.uuid, "model": gpu.model, "health": health}
    return metrics.registry.get_sample_value("milligpu_plugin_slots", labels)


def test_before_the_first_look(node: Node, metrics: Metrics) -> None:
    assert (node.state, states(metrics)) == ("starting", ["starting"])


def test_the_first_line_says_what_is_advertised(node: Node) -> None:
    assert events(node, Probe((A, B)))[0] == "advertising 200 x milligpu.io/vgpu for 2 GPUs"


def test_one_gpu_is_singular(node: Node) -> None:
    assert events(node, Probe((A,)))[0] == "advertising 100 x milligpu.io/vgpu for 1 GPU"


def test_nothing_new_is_not_logged_and_wakes_nobody(node: Node) -> None:
    node.see(Probe((A, B), ("note",)))
    offer = node.offer
    assert events(node, Probe((A, B), ("note",))) == []
    assert node.offer is offer


def test_memory_that_the_driver_takes_changes_no_list_but_what_containers_get(node: Node) -> None:
    node.see(Probe((A,)))
    assert events(node, Probe((replace(A, memory_reserved=2**20),))) == []
    assert node.offer.gpus["GPU-a"].memory_reserved == 2**20


def test_no_card_is_idle_and_no_driver_too(node: Node, metrics: Metrics) -> None:
    assert events(node, NO_DRIVER) == ["idle"]
    assert node.notes == ("no driver",)
    assert states(metrics) == ["idle"]
    assert node.offer.cards == ()


def test_a_driver_that_fails_is_broken(node: Node, metrics: Metrics) -> None:
    assert events(node, BROKEN) == ["broken"]
    assert node.notes == ("version mismatch",)
    assert states(metrics) == ["broken"]


def test_cards_that_come_later(node: Node, metrics: Metrics) -> None:
    node.see(NO_DRIVER)
    assert events(node, Probe((A,))) == ["advertising 100 x milligpu.io/vgpu for 1 GPU", "serving"]
    assert states(metrics) == ["serving"]
    assert (slots(metrics, A, "healthy"), slots(metrics, A, "unhealthy")) == (100, 0)


def test_one_lost_card(node: Node, metrics: Metrics) -> None:
    node.see(Probe((A, B)))
    assert events(node, Probe((A,), ("card 1 does not answer",))) == [
        "advertising 100 x milligpu.io/vgpu for 1 GPU",
        "unhealthy",
        "serving",
    ]
    assert node.offer.cards == (Card(A), Card(B, "card 1 does not answer"))
    assert (slots(metrics, B, "healthy"), slots(metrics, B, "unhealthy")) == (0, 100)


def test_a_lost_driver_takes_all_cards_and_brings_them_back(node: Node) -> None:
    node.see(Probe((A, B)))
    node.see(BROKEN)
    assert node.state == "broken"
    assert [card.fault for card in node.offer.cards] == ["version mismatch"] * 2
    node.see(Probe((A, B)))
    assert node.offer.cards == (Card(A), Card(B))
    assert (node.state, node.notes) == ("serving", ())


def test_a_driver_that_is_unloaded_is_broken_once_there_were_cards(node: Node) -> None:
    node.see(Probe((A,)))
    node.see(NO_DRIVER)
    assert node.state == "broken"
    assert node.offer.cards == (Card(A, "no driver"),)


def test_a_card_that_just_vanishes_has_a_reason(node: Node) -> None:
    node.see(Probe((A, B)))
    node.see(Probe((B,)))
    assert node.offer.cards[0].fault == "the driver no longer lists it"


def test_a_card_in_mig_mode_is_left_out_with_a_sentence(node: Node) -> None:
    node.see(Probe((A, replace(B, mig=True))))
    assert node.offer.cards == (Card(A),)
    [note] = node.notes
    assert note.startswith("GPU-b is left out: it is in MIG mode")


class Flaky:
    """An inventory that fails, answers, fails."""

    def __init__(self) -> None:
        self.outcomes: list[Probe | InventoryError] = [BROKEN, Probe((A,)), BROKEN]

    def probe(self) -> Probe:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, InventoryError):
            raise outcome
        return outcome


def test_watching_outlives_failures(node: Node) -> None:
    inventory, seen = Flaky(), []

    async def scene() -> None:
        watching = asyncio.create_task(node.watch(inventory, 0.01))
        await node.has_cards()
        seen.append(node.state)
        await node.pulse()
        seen.append(node.state)
        watching.cancel()

    asyncio.run(asyncio.wait_for(scene(), 5))
    assert seen == ["serving", "broken"]


def test_a_bug_in_an_inventory_is_not_swallowed(node: Node) -> None:
    inventory = Flaky()
    inventory.outcomes = []
    with pytest.raises(IndexError):
        asyncio.run(asyncio.wait_for(node.watch(inventory, 0.01), 5))


def test_a_driver_that_hangs_does_not_keep_the_program_from_ending() -> None:
    release = threading.Event()

    async def scene() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_thread(release.wait), 0.05)

    asyncio.run(scene())  # with asyncio.to_thread it would wait here for the thread
    release.set()
