from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin.allocation import (
    RefusedError,
    choose,
    choose_wholes,
    one_card,
    unshared,
)
from plugin.config import Placement
from vgpu.slots import PER_CARD, Slot, Whole, of_card

A, B, C = "GPU-a", "GPU-b", "GPU-c"

slots = st.builds(Slot, st.sampled_from([A, B, C]), st.integers(0, PER_CARD - 1))


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[Slot], list[Slot], int]:
    """What a kubelet may ask: free slots, some of them required, a size that is possible."""
    free = draw(st.lists(slots, unique=True, max_size=60))
    required = draw(st.lists(st.sampled_from(free), unique=True, max_size=5)) if free else []
    return free, required, draw(st.integers(len(required), len(free)))


def some(card: str, *numbers: int) -> list[Slot]:
    return [Slot(card, number) for number in numbers]


@given(questions(), st.sampled_from(["packed", "spread"]), st.randoms())
def test_laws(
    question: tuple[list[Slot], list[Slot], int], placement: Placement, random: Random
) -> None:
    free, required, size = question
    answer = choose(free, required, size, placement)
    assert len(set(answer)) == len(answer) == size
    assert set(required) <= set(answer) <= set(free)
    room = {card: sum(slot.card == card for slot in free) for card in (A, B, C)}
    fitting = [card for card in room if room[card] >= size and {s.card for s in required} <= {card}]
    if fitting and size:
        assert {slot.card for slot in answer} <= set(fitting)
        best = min if placement == "packed" else max
        assert room[one_card(answer, {})] == best(room[card] for card in fitting)
    random.shuffle(free)
    random.shuffle(required)
    assert choose(free, required, size, placement) == answer


@pytest.mark.parametrize(
    ("size", "card"),
    [(2, A), (3, A), (4, B), (5, B)],
    ids=["fits both", "fills one", "fits one", "fills the other"],
)
def test_the_fullest_card_that_fits(size: int, card: str) -> None:
    answer = choose([*some(B, 0, 1, 2, 3, 4), *some(A, 7, 8, 9)], [], size)
    assert one_card(answer, {}) == card


def test_spread_takes_the_emptiest_card() -> None:
    free = [*some(B, 0, 1, 2, 3, 4), *some(A, 7, 8, 9), *some(C, 0, 1, 2, 3, 4)]
    assert choose(free, [], 2, "spread") == tuple(some(B, 0, 1))
    assert choose(free, some(A, 9), 2, "spread") == tuple(some(A, 9, 7)), "but for what must be"
    assert choose(free, [], 2) == tuple(some(A, 7, 8))


def test_equal_cards_are_taken_in_order_and_slots_from_the_lowest() -> None:
    free = [*reversed(of_card(B)), *reversed(of_card(A))]
    assert choose(free, [], 3) == tuple(some(A, 0, 1, 2))


def test_numbers_are_ordered_as_numbers() -> None:
    assert choose(some(A, 10, 9, 100 - 1), [], 2) == tuple(some(A, 9, 10))


def test_required_slots_decide_the_card() -> None:
    free = [*some(A, 0, 1, 2), *some(B, 0, 1, 2, 3, 4)]
    assert choose(free, some(B, 4), 3) == tuple(some(B, 4, 0, 1))


def test_required_slots_count_though_they_are_not_listed_as_free() -> None:
    assert choose(some(A, 1), some(A, 0), 2) == tuple(some(A, 0, 1))


def test_where_nothing_fits_the_answer_is_whole_and_on_the_fewest_cards() -> None:
    free = [*some(A, 0), *some(B, 0, 1), *some(C, 0, 1, 2)]
    assert choose(free, [], 4) == (*some(C, 0, 1, 2), *some(B, 0))
    assert choose(free, some(A, 0), 5) == (*some(A, 0), *some(C, 0, 1, 2), *some(B, 0))


def test_nothing_asked_nothing_given() -> None:
    assert choose([], [], 0) == ()


@pytest.mark.parametrize(("required", "size"), [(0, 3), (2, 1), (0, -1)])
def test_an_impossible_size_is_refused(required: int, size: int) -> None:
    with pytest.raises(RefusedError, match=f"{size} slots of 2 available, {required} of them"):
        choose(some(A, 0, 1), some(A, 0, 1)[:required], size)


def test_slots_of_two_cards_are_refused_with_the_numbers() -> None:
    with pytest.raises(RefusedError, match=r"3 slots of 2 cards \(GPU-a: 2, GPU-b: 1\)"):
        one_card({*some(B, 0), *some(A, 0, 1)}, {})


def test_no_slots_are_of_no_card() -> None:
    with pytest.raises(RefusedError, match="0 slots of 0 cards"):
        one_card(set(), {})


# Whole cards.

wholes = st.sampled_from([A, B, C]).map(Whole)


@given(st.lists(wholes, unique=True), st.integers(-1, 4), st.data())
def test_whole_cards_are_chosen_in_order(free: list[Whole], size: int, data: st.DataObject) -> None:
    required = data.draw(st.lists(st.sampled_from(free), unique=True)) if free else []
    if not len(required) <= size <= len(free):
        with pytest.raises(RefusedError, match=f"^{size} cards of {len(free)} available"):
            choose_wholes(free, required, size)
        return
    answer = choose_wholes(free, required, size)
    assert len(set(answer)) == len(answer) == size
    assert set(required) <= set(answer) <= set(free)
    rest = [each for each in answer if each not in required]
    assert rest == sorted(set(free).difference(required))[: len(rest)]
    assert choose_wholes(free[::-1], required[::-1], size) == answer


def test_slots_of_a_card_that_somebody_has_whole_are_refused() -> None:
    held = {A: {f"{A}::whole"}, B: {f"{B}::7"}}
    sentence = "2 slots of GPU-a, which another container has whole"
    with pytest.raises(RefusedError, match=sentence):
        one_card(some(A, 0, 1), held)
    assert one_card(some(B, 0, 1), held) == B
    assert one_card(some(C, 0, 1), held) == C


def test_held_slots_come_again_for_a_pods_next_container() -> None:
    assert one_card(some(A, 0, 1), {A: {f"{A}::0", f"{A}::1"}}) == A


def test_a_whole_card_of_which_somebody_has_a_slot_is_refused() -> None:
    held = {A: {f"{A}::whole"}, B: {f"{B}::7", f"{B}::8"}}
    with pytest.raises(RefusedError, match="GPU-b as a whole, but 2 of its slots are in use"):
        unshared({Whole(A), Whole(B)}, held)
    assert unshared({Whole(C), Whole(A)}, held) == (A, C), "an init container's comes again"
    assert unshared((), {}) == ()
