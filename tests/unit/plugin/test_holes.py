import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin.holes import IN_VAIN_SECONDS, REMEMBERED_SECONDS, Sizes, fitting, largest

frees = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 100))
asked = st.sets(st.integers(0, 120), max_size=6)


def test_a_size_is_remembered_for_a_day() -> None:
    sizes = Sizes()
    sizes.asked(30, 0.0)
    sizes.asked(60, 100.0)
    assert sizes.remembered(100.0) == sizes.remembered(REMEMBERED_SECONDS) == {30, 60}
    assert sizes.remembered(REMEMBERED_SECONDS + 1) == {60}
    assert sizes.remembered(REMEMBERED_SECONDS + 101) == frozenset()


def test_what_was_wanted_in_vain_is_remembered_for_an_hour() -> None:
    sizes = Sizes()
    assert sizes.then(20, 0.0) == 0
    sizes.in_vain(20, 50, 100.0)
    assert sizes.then(20, 100.0 + IN_VAIN_SECONDS) == 50
    assert sizes.then(20, 101.0 + IN_VAIN_SECONDS) == sizes.then(50, 100.0) == 0


@pytest.mark.parametrize(
    ("free", "asked", "shown"),
    [
        ({}, {60}, {}),
        ({"a": 40, "b": 40}, set(), {"a": 40, "b": 40}),
        ({"a": 40, "b": 40}, {40}, {"a": 40, "b": 40}),
        ({"a": 40, "b": 40}, {81}, {"a": 40, "b": 40}),
        ({"a": 60, "b": 20}, {60}, {"a": 60, "b": 20}),
        ({"a": 40, "b": 40}, {60}, {"a": 40}),
        ({"a": 30, "b": 40}, {60, 70}, {"b": 40}),
        ({"a": 40, "b": 40}, {60, 10}, {"a": 10, "b": 39}),
        ({"a": 5, "b": 30, "c": 40}, {75, 20}, {"a": 5, "b": 29, "c": 20}),
        ({"a": 40, "b": 40}, {60, 50}, {"a": 40}),
        ({"a": 60, "b": 50}, {40, 50, 65}, {"a": 50, "b": 10}),
        ({"a": 100, "b": 100}, {60, 101, 150}, {"a": 100, "b": 100}),
    ],
    ids=[
        "no card",
        "nothing was asked for",
        "fits on a card",
        "more than there is",
        "fits on one of them",
        "only the largest hole",
        "of the card with most",
        "small ones may fill the gaps",
        "the smallest gaps first",
        "the smallest of what does not fit",
        "a size that nobody has asked for yet may come",
        "more than a card has fits nowhere, whatever is shown",
    ],
)
def test_what_is_shown(free: dict[str, int], asked: set[int], shown: dict[str, int]) -> None:
    assert {card: room for card, room in fitting(free, asked).items() if room or not asked} == shown


@given(frees, asked)
def test_laws(free: dict[str, int], asked: set[int]) -> None:
    shown = fitting(free, asked)
    assert all(0 <= room <= free[card] for card, room in shown.items())
    hole, total, seems = max(free.values(), default=0), sum(free.values()), sum(shown.values())
    misfits = [size for size in asked if hole < size <= min(total, 100)]
    fits = [size for size in asked if 0 < size <= hole]
    if not misfits:
        assert shown == free
        return
    assert seems < min(misfits), "what would be refused does not seem to fit"
    assert max(shown.values()) >= max(fits, default=hole), "what is known to fit on a card does"
    assert seems >= hole, "what fits on a card and is new to the node is sent to it"
    after = seems + max(fits, default=hole)
    assert after < min(misfits) or seems == hole, "nor when one of these ends"
    assert fitting(dict(reversed(free.items())), asked) == shown


@given(frees)
def test_the_largest_hole_is_one_cards_and_no_other_is_larger(free: dict[str, int]) -> None:
    shown = largest(free)
    assert len(shown) == min(len(free), 1)
    assert list(shown.values()) == [max(free.values(), default=0)] * len(shown)
    assert largest(dict(reversed(free.items()))) == shown
