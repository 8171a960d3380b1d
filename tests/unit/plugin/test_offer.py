from dataclasses import replace

import pytest

from plugin.gpu import Gpu, unfit
from plugin.offer import Card, Offer, update
from vgpu.slots import Slot

A = Gpu("GPU-a", 0, 0, "Tesla T4", 2**34)
B = Gpu("GPU-b", 1, 1, "Tesla T4", 2**34)


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


def test_cards_come_in_the_drivers_order() -> None:
    assert update((), (B, A), "gone") == (Card(A), Card(B))


def test_an_unfit_card_is_left_out() -> None:
    assert update((), (A, replace(B, mig=True)), "gone") == (Card(A),)


def test_a_known_card_that_is_not_seen_stays_unhealthy() -> None:
    assert update((Card(A), Card(B)), (B,), "gone") == (Card(A, "gone"), Card(B))


def test_a_known_card_that_becomes_unfit_stays_unhealthy() -> None:
    [card, _] = update((Card(A), Card(B)), (replace(A, mig=True), B), "gone")
    assert card.gpu.uuid == A.uuid
    assert "MIG" in card.fault


def test_a_card_that_comes_back_is_healthy_and_as_it_is_now() -> None:
    now = replace(A, index=2, memory_total=2**35)
    assert update((Card(A, "gone"), Card(B)), (now, B), "gone") == (Card(B), Card(now))


def test_the_slots_of_an_offer() -> None:
    offer = Offer((Card(A), Card(B, "gone")))
    assert offer.gpus == {"GPU-a": A, "GPU-b": B}
    assert len(offer.slots) == 200
    assert offer.slots["GPU-b::99"] == Slot("GPU-b", 99)
    assert list(offer.healthy) == [
        f"{card}::{n}" for card in ("GPU-a", "GPU-b") for n in range(100)
    ]
    assert {name[:5] for name, healthy in offer.healthy.items() if healthy} == {"GPU-a"}
    assert list(offer.healthy.values()).count(True) == 100
