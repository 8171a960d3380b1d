from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin.gpu import Gpu, named, unfit
from plugin.holes import largest
from plugin.offer import Card, Offer, update
from vgpu.slots import PER_CARD, Slot, Whole

A = Gpu("GPU-a", 0, 0, "Tesla T4", 2**34)
B = Gpu("GPU-b", 1, 1, "Tesla T4", 2**34)
C = Gpu("GPU-c", 2, 2, "Tesla T4", 2**34)
GPUS = (A, B, C)

Held = dict[str, set[str]]
sentences = st.sampled_from(["", "", "it is so"])
hands = st.one_of(
    st.just(set[str]()),
    st.just({"whole"}),
    st.sets(st.integers(0, PER_CARD - 1).map(str), max_size=PER_CARD),
    st.just({str(number) for number in range(PER_CARD)}),
)
cards = st.tuples(*(st.builds(Card, st.just(gpu), sentences, sentences) for gpu in GPUS))
held = st.tuples(hands, hands, hands).map(
    lambda each: {
        gpu.uuid: {f"{gpu.uuid}::{end}" for end in ends}
        for gpu, ends in zip(GPUS, each, strict=True)
        if ends
    }
)


def well(_: Gpu) -> str:
    return ""


def shown(offer: Offer, gpu: Gpu, held: Held) -> set[str]:
    """Return the free slots of a card that somebody could get."""
    mine = held.get(gpu.uuid, set())
    ids = (f"{gpu.uuid}::{number}" for number in range(PER_CARD))
    return {name for name in ids if offer.vgpu[name] and name not in mine}


# What can be shared.


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"mig": True}, "it is in MIG mode"),
        ({"memory_total": 0}, "it has 0 MiB of usable memory"),
        ({"memory_reserved": 2**34 - 99 * 2**20}, "it has 99 MiB of usable memory"),
        ({"memory_reserved": 2**34 - 100 * 2**20}, ""),
        ({"uuid": "GPU-" + "a" * 53}, "its id makes no slot ids"),
        ({"uuid": "GPU_a"}, "its id makes no slot ids"),
    ],
)
def test_what_cannot_be_shared(change: dict[str, object], reason: str) -> None:
    answer = unfit(replace(A, **change))  # type: ignore[arg-type]
    assert answer.startswith(reason)
    assert bool(answer) == bool(reason)


@pytest.mark.parametrize(
    ("names", "outcome"),
    [
        ((), False),
        (("GPU-b",), True),
        (("1",), True),
        (("Tesla T4",), True),
        (("x", "1"), True),
        (("tesla t4",), True),
        (("gpu-B",), True),
        (("GPU-", "Tesla", "01"), False),
    ],
)
def test_a_card_is_named_by_uuid_index_or_model(names: tuple[str, ...], outcome: bool) -> None:
    assert named(B, names) is outcome


# Cards that come and go.


def test_cards_come_in_the_drivers_order() -> None:
    assert update((), (B, A), "gone", well, well) == (Card(A), Card(B))


@pytest.mark.parametrize("field", ["fault", "withdrawn"])
def test_a_new_card_that_nobody_can_have_is_left_out(field: str) -> None:
    against = {field: lambda gpu: "no" if gpu == B else ""}
    assert update((), (A, B), "gone", **{"fault": well, "withdrawn": well, **against}) == (Card(A),)


@pytest.mark.parametrize("field", ["fault", "withdrawn"])
def test_a_known_card_that_nobody_can_have_any_more_stays_and_says_why(field: str) -> None:
    against = {field: lambda gpu: "no" if gpu == B else ""}
    both = update(
        (Card(A), Card(B)), (A, B), "gone", **{"fault": well, "withdrawn": well, **against}
    )
    assert both == (Card(A), Card(B, **{field: "no"}))


def test_a_known_card_that_is_not_seen_stays_unhealthy() -> None:
    assert update((Card(A), Card(B)), (B,), "gone", well, well) == (Card(A, "gone"), Card(B))


def test_a_card_that_comes_back_is_healthy_and_as_it_is_now() -> None:
    now = replace(A, index=2, memory_total=2**35)
    known = (Card(A, "gone", "theirs"), Card(B))
    assert update(known, (now, B), "gone", well, well) == (Card(B), Card(now))


# What is shown of them.


def test_the_devices_of_an_offer() -> None:
    offer = Offer((Card(A), Card(B, "gone")))
    assert offer.gpus == {"GPU-a": A, "GPU-b": B}
    assert len(offer.slots) == 200
    assert offer.slots["GPU-b::99"] == Slot("GPU-b", 99)
    assert list(offer.vgpu) == [f"{card}::{n}" for card in ("GPU-a", "GPU-b") for n in range(100)]
    assert {name[:5] for name, healthy in offer.vgpu.items() if healthy} == {"GPU-a"}
    assert list(offer.vgpu.values()).count(True) == 100
    assert offer.wholes == {f"{uuid}::whole": Whole(uuid) for uuid in ("GPU-a", "GPU-b")}
    assert offer.pgpu == {"GPU-a::whole": True, "GPU-b::whole": False}


def test_an_offer_of_nothing() -> None:
    offer = Offer(show=largest)
    assert (offer.vgpu, offer.pgpu, offer.free) == ({}, {}, {})


@given(cards, held, st.data(), st.booleans())
def test_laws(known: tuple[Card, ...], held: Held, data: st.DataObject, wholes: bool) -> None:
    room: dict[str, int] = {}

    def some(free: Mapping[str, int]) -> Mapping[str, int]:
        room.update({uuid: data.draw(st.integers(0, count)) for uuid, count in free.items()})
        return room

    offer = Offer(known, held, some, wholes=wholes)
    assert set(offer.vgpu) == set(offer.slots)
    assert len(offer.vgpu) == PER_CARD * len(known)
    assert set(offer.pgpu) == set(offer.wholes) == {f"{card.gpu.uuid}::whole" for card in known}
    healthy = {**offer.vgpu, **offer.pgpu}
    for card in known:
        mine, free = held.get(card.gpu.uuid, set()), shown(offer, card.gpu, held)
        whole = f"{card.gpu.uuid}::whole"
        assert all(healthy[name] is not bool(card.fault) for name in mine), "held: well, or ill"
        if card.fault or card.withdrawn or whole in mine:
            assert not free
            assert offer.free[card.gpu.uuid] == 0
        else:
            assert offer.free[card.gpu.uuid] == PER_CARD - len(mine)
            assert len(free) == room[card.gpu.uuid]
        if mine - {whole} or not (wholes or mine):
            assert not offer.pgpu[whole], "in slots, or who knows"
        elif not (card.fault or mine):
            assert offer.pgpu[whole] is not bool(card.withdrawn), "a hole hides no whole card"


@given(cards, held)
def test_only_the_largest_hole_is_one_cards_and_no_other_is_larger(
    known: tuple[Card, ...], held: Held
) -> None:
    offer = Offer(known, held, largest)
    showing = {gpu.uuid: len(shown(offer, gpu, held)) for gpu in GPUS if shown(offer, gpu, held)}
    most = max(offer.free.values())
    assert list(showing.values()) == ([most] if most else [])
    every = Offer(known, held)
    assert most == max(len(shown(every, gpu, held)) for gpu in GPUS)
    assert offer.pgpu == every.pgpu
