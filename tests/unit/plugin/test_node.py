import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from plugin import cdi, health, holes
from plugin.checkpoint import Checkpoint
from plugin.config import Config, UnusableError
from plugin.edits import Handing
from plugin.gpu import Event, Gpu, InventoryError, Probe
from plugin.node import Node
from plugin.offer import Card, Offer
from plugin.pods import Holding, Pods
from vgpu import names
from vgpu.slots import PER_CARD

A = Gpu("GPU-a", 0, 0, "Tesla T4", 2**34)
B = Gpu("GPU-b", 1, 1, "Tesla T4", 2**34)
REAL = Gpu("GPU-1f2e3d4c-0000-4000-8000-0123456789ab", 2, 2, "A10", 2**34)
NO_DRIVER = Probe(notes=("no driver",))
BROKEN = InventoryError("version mismatch")
THEIRS = names.NVIDIA_GPU
EMPTY = Checkpoint()


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def started(clock: Clock, checkpoint: Checkpoint | None = EMPTY, **settings: Any) -> Node:
    """Return a node at its start, without a settling time."""
    node = Node(Config(**{"settle_seconds": 0.0, **settings}), clock)
    node.start(checkpoint)
    return node


@pytest.fixture
def node(clock: Clock) -> Node:
    return started(clock)


def events(node: Node, found: Probe | InventoryError) -> list[str]:
    """Return what is logged when this is found."""
    with capture_logs() as entries:
        node.see(found)
    return [entry["event"] % entry.get("positional_args", ()) for entry in entries]


def some(gpu: Gpu, first: int, last: int) -> tuple[str, ...]:
    return tuple(f"{gpu.uuid}::{number}" for number in range(first, last))


def listed(*ids: str, foreign: dict[str, frozenset[str]] | None = None) -> Pods:
    """Return a list of pods in which one has these ids."""
    held = (Holding("ns", "p", "c", ids),) if ids else ()
    return Pods(held, frozenset({("ns", "p"), ("ns", "other")}), foreign or {})


def shown(node: Node) -> dict[str, int]:
    """Return how many slots of each card are healthy, and 1 more for a whole one, if any are."""
    counts = {
        uuid: sum(node.offer.vgpu[name] for name in some(gpu, 0, PER_CARD))
        + node.offer.pgpu[f"{uuid}::whole"]
        for uuid, gpu in node.offer.gpus.items()
    }
    return {uuid: count for uuid, count in counts.items() if count}


# The driver's word.


def test_before_the_first_look(node: Node) -> None:
    assert node.state == "starting"
    assert node.notes == ("the cards have not been read yet",)
    assert node.offer.cards == ()


def test_the_first_line_says_what_is_advertised(node: Node) -> None:
    assert events(node, Probe((A, B)))[0] == "advertising 200 x milligpu.io/vgpu for 2 GPUs"


def test_one_gpu_is_singular(node: Node) -> None:
    assert events(node, Probe((A,)))[0] == "advertising 100 x milligpu.io/vgpu for 1 GPU"


def test_nothing_new_is_not_logged_and_wakes_nobody(node: Node) -> None:
    node.see(Probe((A, B), ("note",)))
    pulse = node._pulse
    assert events(node, Probe((A, B), ("note",))) == []
    assert node._pulse is pulse


def test_what_changes_wakes_those_who_wait(node: Node) -> None:
    async def scene() -> None:
        waiting = asyncio.create_task(node.pulse())
        await asyncio.sleep(0)
        node.see(Probe((A,)))
        await asyncio.wait_for(waiting, 5)

    asyncio.run(scene())


def test_memory_that_the_driver_takes_changes_no_list_but_what_containers_get(node: Node) -> None:
    node.see(Probe((A,)))
    pulse = node._pulse
    node.see(Probe((replace(A, memory_reserved=2**20),)))
    assert node.offer.gpus["GPU-a"].memory_reserved == 2**20
    assert node._pulse is pulse


def test_no_card_is_idle_and_no_driver_too(node: Node) -> None:
    assert events(node, NO_DRIVER) == ["idle"]
    assert node.notes == ("no driver",)
    assert node.offer.cards == ()


def test_a_driver_that_fails_is_broken(node: Node) -> None:
    assert events(node, BROKEN) == ["broken"]
    assert node.notes == ("version mismatch",)


def test_cards_that_come_later(node: Node) -> None:
    node.see(NO_DRIVER)
    assert events(node, Probe((A,))) == ["advertising 100 x milligpu.io/vgpu for 1 GPU", "serving"]


def test_one_lost_card(node: Node) -> None:
    node.see(Probe((A, B)))
    assert events(node, Probe((A,), ("card 1 does not answer",))) == [
        "advertising 100 x milligpu.io/vgpu for 1 GPU",
        "unhealthy",
        "serving",
    ]
    assert node.offer.cards == (Card(A), Card(B, "card 1 does not answer"))
    assert shown(node) == {"GPU-a": 101}


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


# The card's health.


def test_a_fault_takes_one_card_and_no_other_and_ends(node: Node, clock: Clock) -> None:
    node.see(Probe((A, B)))
    node.ill({"GPU-b": "it needs a reset"})
    assert [card.fault for card in node.offer.cards] == ["", "it needs a reset"]
    assert shown(node) == {"GPU-a": 101}
    for _ in range(health.LOOKS):
        clock.now += 10
        node.ill({})
    assert shown(node) == {"GPU-a": 101, "GPU-b": 101}


def test_an_event_takes_the_card_it_names_if_it_is_a_fault(node: Node) -> None:
    node.see(Probe((A, B)))
    assert node.struck(Event("GPU-a", 31)) == "application"
    assert shown(node) == {"GPU-a": 101, "GPU-b": 101}
    assert node.struck(Event("GPU-a", 79)) == "fault"
    assert shown(node) == {"GPU-b": 101}
    assert "XID 79" in node.offer.cards[0].fault


def test_an_event_that_the_settings_ignore_takes_nothing(clock: Clock) -> None:
    node = started(clock, ignored_xids=frozenset({79}))
    node.see(Probe((A,)))
    assert node.struck(Event("GPU-a", 79)) == "information"
    assert shown(node) == {"GPU-a": 101}


def test_an_ill_card_is_not_offered_at_the_start(node: Node) -> None:
    node.ill({"GPU-b": "it needs a reset"})
    node.see(Probe((A, B)))
    assert node.offer.cards == (Card(A),)
    assert node.notes == ("GPU-b is left out: it needs a reset",)


# Which cards are shared.


@pytest.mark.parametrize(
    ("settings", "offered"),
    [
        ({}, ["GPU-a", "GPU-b", REAL.uuid]),
        ({"cards": ("Tesla T4",)}, ["GPU-a", "GPU-b"]),
        ({"cards": ("1", REAL.uuid)}, ["GPU-b", REAL.uuid]),
        ({"cards_except": ("Tesla T4",)}, [REAL.uuid]),
        ({"cards": ("Tesla T4",), "cards_except": ("0",)}, ["GPU-b"]),
        ({"cards": ("GPU-x",)}, []),
    ],
)
def test_the_settings_name_cards(
    clock: Clock, settings: dict[str, Any], offered: list[str]
) -> None:
    node = started(clock, **settings)
    node.see(Probe((A, B, REAL)))
    assert list(node.offer.gpus) == offered
    left_out = sorted({A.uuid, B.uuid, REAL.uuid}.difference(offered))
    assert sorted(node.notes) == [f"{uuid} is left out: the settings say so" for uuid in left_out]
    assert node.state == ("serving" if offered else "idle")


def test_cards_that_are_new_to_the_node_wait_for_other_plugins(clock: Clock) -> None:
    node = started(clock, settle_seconds=10.0)
    node.see(Probe((A,)))
    assert (node.state, node.offer.cards) == ("starting", ())
    assert node.notes == (
        "GPU-a is left out: the node is new to us, and another plugin may want to list it",
    )
    clock.now += 9
    node.see(Probe((A,)))
    assert node.offer.cards == ()
    clock.now += 1
    node.see(Probe((A,)))
    assert shown(node) == {"GPU-a": 101}
    assert not node.notes


@pytest.mark.parametrize(
    "checkpoint",
    [
        Checkpoint(registered={names.COUNT: frozenset(some(A, 0, 100))}),
        # As it is written when another plugin registers first after a restart: all are unhealthy.
        Checkpoint(registered={names.COUNT: frozenset()}),
    ],
    ids=["registered", "unhealthy"],
)
def test_cards_that_were_ours_before_do_not_wait(clock: Clock, checkpoint: Checkpoint) -> None:
    """A kubelet that restarted readmits pods at once; the list must not be late for them."""
    node = started(clock, checkpoint, settle_seconds=10.0)
    node.see(Probe((A, B)))
    assert [card.gpu.uuid for card in node.offer.cards] == ["GPU-a", "GPU-b"]
    assert node.state == "serving"


def test_a_card_of_which_a_pod_holds_slots_does_not_wait(clock: Clock) -> None:
    node = started(clock, Checkpoint(held=frozenset(some(A, 7, 8))), settle_seconds=10.0)
    node.see(Probe((A, B)))
    assert [card.gpu.uuid for card in node.offer.cards] == ["GPU-a"]


@pytest.mark.parametrize(
    "device", ["{}", "{}::0", "{}::3", "{}::whole", "{}-replica-1"], ids=lambda it: str(it)
)
def test_a_card_that_another_plugin_lists_is_left_to_it(clock: Clock, device: str) -> None:
    theirs = {THEIRS: frozenset({device.format(REAL.uuid)})}
    node = started(clock)
    node.polled(listed(foreign=theirs), None)
    node.see(Probe((A, REAL)))
    assert [card.gpu.uuid for card in node.offer.cards] == ["GPU-a"]
    assert node.notes == (f"{REAL.uuid} is left out: another plugin lists it as nvidia.com/gpu",)
    node.polled(listed(), Checkpoint())
    assert REAL.uuid not in node.offer.gpus, "what they have listed once stays theirs"


@pytest.mark.parametrize("comes_again", [True, False])
def test_a_card_that_another_plugin_listed_before_is_kept_for_it_while_it_may_come(
    clock: Clock, *, comes_again: bool
) -> None:
    theirs = {THEIRS: frozenset({REAL.uuid})}
    ours = {names.COUNT: frozenset({f"{REAL.uuid}::0"})}
    node = started(clock, Checkpoint(registered={**theirs, **ours}), settle_seconds=10.0)
    node.see(Probe((REAL,)))
    assert not node.offer.cards
    clock.now += 10
    node.polled(listed(foreign=theirs if comes_again else {}), Checkpoint())
    assert bool(node.offer.cards) is not comes_again


def test_a_claim_that_comes_late_takes_the_free_slots_and_leaves_those_that_are_held(
    node: Node,
) -> None:
    node.see(Probe((A, REAL)))
    mine = some(REAL, 0, 30)
    node.polled(listed(*mine, foreign={THEIRS: frozenset({REAL.uuid})}), Checkpoint())
    assert {name for name, healthy in node.offer.vgpu.items() if healthy and REAL.uuid in name} == {
        *mine
    }
    assert not node.offer.pgpu[f"{REAL.uuid}::whole"]
    assert shown(node) == {"GPU-a": 101, REAL.uuid: 30}
    node.polled(listed(), Checkpoint())
    assert shown(node) == {"GPU-a": 101}
    assert [card.withdrawn for card in node.offer.cards if card.gpu == REAL] == [
        "another plugin lists it as nvidia.com/gpu"
    ]


def test_a_setting_shares_cards_that_others_list(clock: Clock) -> None:
    theirs = {THEIRS: frozenset({REAL.uuid})}
    node = started(clock, Checkpoint(registered=theirs), beside_others=True)
    node.see(Probe((REAL,)))
    node.polled(listed(foreign=theirs), Checkpoint())
    assert shown(node) == {REAL.uuid: 101}


def test_our_own_resources_are_no_claim(clock: Clock) -> None:
    ours = {name: frozenset({"GPU-a::0", "GPU-a::whole"}) for name in names.GRANT_KEYS}
    node = started(clock, Checkpoint(registered=ours))
    node.polled(listed(foreign=ours), Checkpoint(registered=ours))
    node.see(Probe((A,)))
    assert shown(node) == {"GPU-a": 101}


# Who holds what.


def test_whole_cards_are_withheld_until_it_is_known_who_holds_what(clock: Clock) -> None:
    node = started(clock, None)
    node.see(Probe((A,)))
    assert shown(node) == {"GPU-a": 100}
    node.polled(None, None)
    assert shown(node) == {"GPU-a": 100}
    node.polled(listed(), None)
    assert shown(node) == {"GPU-a": 101}


def test_an_allocation_hides_the_card_from_the_other_resource(node: Node) -> None:
    async def scene() -> None:
        node.see(Probe((A, B)))
        waiting = asyncio.create_task(node.pulse())
        await asyncio.sleep(0)
        node.allocated(["GPU-a::whole"])
        node.allocated(["GPU-b::0"])
        await asyncio.wait_for(waiting, 5)

    asyncio.run(scene())
    assert node.offer.pgpu == {"GPU-a::whole": True, "GPU-b::whole": False}
    assert [name for name, healthy in node.offer.vgpu.items() if healthy] == [*some(B, 0, 100)]


@pytest.mark.parametrize("ids", [some(B, 3, 5), ("GPU-b::whole",)], ids=["slots", "whole"])
def test_what_is_held_of_a_card_that_the_driver_does_not_list_stays_known(
    clock: Clock, ids: tuple[str, ...]
) -> None:
    node = started(clock, Checkpoint(held=frozenset(ids)))
    node.see(Probe((A,)))
    assert [(card.gpu.uuid, card.fault) for card in node.offer.cards] == [
        ("GPU-b", "the driver no longer lists it"),
        ("GPU-a", ""),
    ]
    assert set(ids) <= node.offer.vgpu.keys() | node.offer.pgpu.keys()
    assert shown(node) == {"GPU-a": 101}
    node.see(Probe((A, B)))
    assert shown(node)["GPU-b"] == (100 if len(ids) == 2 else 1), "and comes back as it is"


def test_held_slots_of_a_card_alone_are_broken_not_idle(clock: Clock) -> None:
    node = started(clock, Checkpoint(held=frozenset(some(B, 3, 5))))
    node.see(NO_DRIVER)
    assert node.state == "broken"
    assert [card.fault for card in node.offer.cards] == ["no driver"]


def test_a_list_is_sent_again_where_the_ledger_asks_for_it(clock: Clock) -> None:
    node = started(clock, Checkpoint(held=frozenset(some(A, 3, 5))))
    node.see(Probe((A,)))
    beat, pulse, offer = node.beat, node._pulse, node.offer
    node.polled(listed(), Checkpoint(held=frozenset(some(A, 3, 5))))
    assert node.beat == beat + 1
    assert node.offer.vgpu == offer.vgpu
    assert pulse.is_set(), "those who wait do not know of it"


# What is shown of the free slots.


def half_full(clock: Clock, **settings: Any) -> Node:
    """Return a node with 40 free slots of one card and 30 of the other."""
    node = started(clock, Checkpoint(held=frozenset(some(A, 0, 60) + some(B, 0, 70))), **settings)
    node.see(Probe((A, B)))
    return node


EVERY = {"GPU-a": 100, "GPU-b": 100}
HOLE = {"GPU-a": 100, "GPU-b": 70}


def asked(node: Node, size: int) -> Node:
    """Return the node after somebody has asked for so many slots, whatever the answer."""

    async def call() -> None:
        node.asked(size)
        await asyncio.sleep(0)

    asyncio.run(call())
    return node


def test_what_fits_on_no_card_does_not_seem_to_fit_for_a_day(clock: Clock) -> None:
    node = half_full(clock)
    assert shown(node) == EVERY
    assert shown(asked(node, 60)) == HOLE
    clock.now += holes.REMEMBERED_SECONDS
    node.see(Probe((A, B)))
    assert shown(node) == HOLE
    clock.now += 1
    node.see(Probe((A, B)))
    assert shown(node) == EVERY


def test_the_sizes_of_running_containers_count_always(clock: Clock) -> None:
    node = half_full(clock)
    node.polled(listed(*some(A, 0, 60)), Checkpoint(held=frozenset(some(B, 0, 70))))
    clock.now += 10 * holes.REMEMBERED_SECONDS
    node.see(Probe((A, B)))
    assert shown(node) == HOLE


def test_a_whole_card_is_not_one_slot(clock: Clock) -> None:
    c = replace(A, uuid="GPU-c", index=2)
    held = (*some(A, 0, 60), *some(B, 0, 70), "GPU-c::whole")
    node = started(clock, Checkpoint(held=frozenset(held)))
    node.see(Probe((A, B, c)))
    node.polled(listed("GPU-c::whole"), Checkpoint(held=frozenset(held)))
    assert shown(asked(node, 60)) == HOLE | {"GPU-c": 1}


def test_a_burst_of_calls_is_followed_up_once(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, offers = half_full(clock), list[Offer]()
    show = node._show
    monkeypatch.setattr(node, "_show", lambda cards: offers.append(show(cards)))

    async def calls() -> None:
        for size in (60, 50, 40):
            node.asked(size)
            node.allocated(())
        await asyncio.sleep(0)

    for count in (1, 2):
        asyncio.run(calls())
        assert len(offers) == count


def test_what_would_fit_on_a_card_is_no_reason_to_hide_slots(clock: Clock) -> None:
    node = half_full(clock)
    assert shown(asked(node, 40)) == EVERY
    assert shown(asked(node, 71)) == EVERY, "more than the node has: the scheduler sees it itself"


def test_once_a_card_has_room_for_what_was_asked_all_is_shown_again(clock: Clock) -> None:
    node = asked(half_full(clock), 60)
    node.ledger.available(some(A, 0, 20))
    node.polled(listed(*some(A, 20, 60), *some(B, 0, 70)), None)
    assert shown(node) == EVERY


def test_always_the_largest_hole(clock: Clock) -> None:
    node = half_full(clock, advertise="largest-hole")
    assert shown(node) == HOLE


def test_never_the_largest_hole(clock: Clock) -> None:
    assert shown(asked(half_full(clock, advertise="all"), 60)) == EVERY


# How cards are handed out.


def test_a_card_without_its_device_file_is_left_out_until_that_comes(
    clock: Clock, tmp_path: Path
) -> None:
    config = Config(device_list_strategy="device-nodes", dev_dir=tmp_path)
    node = started(clock, device_list_strategy="device-nodes", dev_dir=tmp_path)
    node.see(Probe((A,)), Handing(config))
    assert node.offer.cards == ()
    assert node.notes == (
        f"GPU-a is left out: {tmp_path}/nvidia0 is not there, which device-nodes needs",
    )
    node.see(Probe((A,)), Handing(config, frozenset({"nvidia0"})))
    assert shown(node) == {"GPU-a": 101}


def test_a_spec_is_written_when_cards_are_offered(clock: Clock, tmp_path: Path) -> None:
    config = Config(device_list_strategy="cdi", cdi_dir=tmp_path)
    node = started(clock, device_list_strategy="cdi", cdi_dir=tmp_path)
    node.see(Probe(()), Handing(config, frozenset({"nvidia0"})))
    assert list(tmp_path.iterdir()) == []
    node.see(Probe((A,)), Handing(config, frozenset({"nvidia0"})))
    [spec] = tmp_path.iterdir()
    assert "GPU-a" in spec.read_text()
    spec.unlink()
    node.polled(None, None)
    assert "GPU-a" in spec.read_text(), "it comes back soon when somebody clears the folder"


# Attacks.


def test_nothing_is_offered_before_the_start(clock: Clock) -> None:
    """Another plugin may still serve this node: the time to settle begins when it has ended."""
    node = Node(Config(settle_seconds=10.0), clock)
    node.see(Probe((A,)))
    assert (node.offer.cards, node.state) == ((), "starting")
    clock.now += 100
    node.start(Checkpoint())
    assert not node.offer.cards
    clock.now += 10
    node.see(Probe((A,)))
    assert node.offer.cards == (Card(A),)


def test_a_card_that_was_never_seen_is_let_go_when_nobody_holds_any_of_it(clock: Clock) -> None:
    node = started(clock, Checkpoint(held=frozenset(some(B, 0, 10))))
    node.see(Probe((A,)))
    assert node.offer.gpus.keys() == {"GPU-a", "GPU-b"}
    node.ledger.available(some(B, 0, 10))
    node.see(Probe((A,)))
    assert node.offer.cards == (Card(A),)


def test_without_a_list_of_pods_the_checkpoint_tells_what_others_list(clock: Clock) -> None:
    node = started(clock)
    node.see(Probe((A, REAL)))
    node.polled(None, Checkpoint(registered={THEIRS: frozenset({REAL.uuid})}))
    assert [card.gpu.uuid for card in node.offer.cards if card.withdrawn] == [REAL.uuid]
    node.polled(listed(), Checkpoint(registered={THEIRS: frozenset({REAL.uuid})}))
    assert not any(card.withdrawn for card in node.offer.cards), "a list knows better"


def test_a_spec_that_cannot_be_written_later_is_told_and_ends_nothing(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = UnusableError("cannot write the CDI spec")
    fails: list[bool] = [True]

    def write(*_: object) -> None:
        if fails[0]:
            raise full

    monkeypatch.setattr(cdi, "write", write)
    with pytest.raises(UnusableError):
        started(clock).see(Probe((A,)))
    fails[0] = False
    node = started(clock)
    node.see(Probe((A,)))
    fails[0] = True
    node.see(Probe((A, B)))
    assert (node.state, node.notes) == ("serving", ("cannot write the CDI spec",))
    fails[0] = False
    node.see(Probe((A, B)))
    assert node.notes == ()
