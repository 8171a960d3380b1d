import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin import holes
from plugin.holes import Refusals, limited, remember, sizes

MINUTE = 60.0


def remembered(*times: float, size: int = 60) -> Refusals:
    """Return what refusals of a size at these times leave behind."""
    refusals = Refusals()
    for now in times:
        refusals = remember(refusals, size, now)
    return refusals


def ends(refusals: Refusals, since: float, size: int = 60) -> float:
    """Return for how many minutes after a time, in minutes, a size is remembered."""
    asked = (
        minutes for minutes in range(1000) if size not in sizes(refusals, since + minutes * MINUTE)
    )
    return next(asked) - 1


def test_nothing_is_remembered_at_first() -> None:
    assert sizes(Refusals(), 0) == frozenset()


def test_a_refusal_is_remembered_for_ten_minutes() -> None:
    refusals = remembered(100.0)
    assert sizes(refusals, 100.0) == sizes(refusals, 700.0) == {60}
    assert sizes(refusals, 700.5) == frozenset()


def test_one_episode_is_one_refusal() -> None:
    """Many are refused before the scheduler sees what we show."""
    assert ends(remembered(*(0.5 * n for n in range(100))), 0) == 10


def test_a_refusal_that_comes_again_is_remembered_twice_as_long() -> None:
    lengths, times = [], [0.0]
    for _ in range(6):
        refusals = remembered(*times)
        lengths.append(ends(refusals, times[-1]))
        times.append(times[-1] + (lengths[-1] + 1) * MINUTE)
    assert lengths == [10, 20, 40, 80, 80, 80]


def test_after_a_quiet_time_it_begins_anew() -> None:
    first = remembered(0.0, 11 * MINUTE)
    assert ends(first, 11 * MINUTE) == 20
    late = 11 * MINUTE + 2 * 20 * MINUTE
    assert ends(remember(first, 60, late), late) == 40
    assert ends(remember(first, 60, late + 1), late + 1) == 10


def test_sizes_are_remembered_each_for_itself() -> None:
    refusals = remember(remember(remembered(0.0), 30, 5 * MINUTE), 60, 11 * MINUTE)
    assert sizes(refusals, 14 * MINUTE) == {30, 60}
    assert sizes(refusals, 16 * MINUTE) == {60}


@given(st.lists(st.tuples(st.floats(0, 3600), st.integers(1, 100)), max_size=20))
def test_whatever_was_refused_is_remembered_for_a_while_and_not_for_ever(
    pauses: list[tuple[float, int]],
) -> None:
    refusals, now = Refusals(), 0.0
    for pause, size in pauses:
        now += pause
        before = refusals
        refusals = remember(refusals, size, now)
        assert size in sizes(refusals, now)
        assert size in sizes(refusals, now + holes.FIRST_SECONDS - holes.EPISODE_SECONDS)
        assert sizes(before, now) <= sizes(refusals, now)
    assert sizes(refusals, now + holes.LAST_SECONDS + 1) == frozenset()


@pytest.mark.parametrize(
    ("free", "asked", "outcome"),
    [
        ([], [60], False),
        ([40, 40], [], False),
        ([40, 40], [60], True),
        ([40, 40], [80], True),
        ([40, 40], [81], False),
        ([40, 40], [40], False),
        ([60, 20], [60], False),
        ([59, 1], [60], True),
        ([59, 0], [60], False),
        ([40, 40], [10, 60], True),
    ],
)
def test_when_only_the_largest_hole_is_shown(
    free: list[int], asked: list[int], outcome: bool
) -> None:
    assert limited(free, asked) is outcome
