from dataclasses import dataclass, field, replace
from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin import health
from plugin.gpu import Event
from plugin.health import (
    APPLICATION,
    INFORMATION,
    LONGEST,
    LOOKS,
    MEANINGS,
    MEMORY,
    QUIET,
    Health,
    kind,
)

A, B = "GPU-a", "GPU-b"
DEAD = 79
PAUSE = 10.0
"""Seconds between two looks."""


@dataclass
class Watch:
    """A plugin's loop on a clock of its own."""

    health: Health = field(default_factory=Health)
    now: float = 1000.0

    def event(self, uuid: str, xid: int = DEAD) -> Self:
        self.health = health.struck(self.health, Event(uuid, xid), self.now)
        return self

    def look(self, *times: int, **faults: str) -> Self:
        """Look so many times; keywords a and b are what the driver says of the cards."""
        for _ in range(times[0] if times else 1):
            self.now += PAUSE
            told = {f"GPU-{name}": fault for name, fault in faults.items()}
            self.health = health.polled(self.health, told, self.now)
        return self

    def fault(self, uuid: str = A) -> str:
        return health.fault(self.health, uuid, self.now)

    def recovers(self, uuid: str = A) -> float:
        """Look until the card is well; return the seconds that took."""
        start = self.now
        while self.fault(uuid):
            self.look()
            assert self.now < start + 2 * LONGEST
        return self.now - start


# Events.


def test_an_unknown_card_is_well() -> None:
    assert Watch().fault() == ""


@pytest.mark.parametrize("xid", sorted(APPLICATION | INFORMATION))
def test_a_programs_error_is_not_held_against_the_card(xid: int) -> None:
    before = Health()
    assert health.struck(before, Event(A, xid), 1.0) is before


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109])
def test_what_nvidias_plugin_ignores_is_ignored_here(xid: int) -> None:
    assert kind(xid) == "application"


@pytest.mark.parametrize("xid", [*MEANINGS, 12345])
def test_all_others_strike_their_card_and_no_other(xid: int) -> None:
    watch = Watch().event(A, xid)
    assert watch.fault(A).startswith(f"XID {xid}")
    assert watch.fault(B) == ""


def test_the_sentence_says_what_and_until_when() -> None:
    assert Watch().event(A, 79).fault() == (
        "XID 79, the GPU has fallen off the bus; well again after 60 s without a fault"
    )
    assert Watch().event(A, 4711).fault() == "XID 4711; well again after 60 s without a fault"


def test_settings_add_to_what_is_ignored() -> None:
    watch = Watch(Health(ignored=frozenset({79}))).event(A, 79)
    assert watch.fault() == ""
    assert kind(79, frozenset({79})) == "information"
    assert watch.event(A, 48).fault()


def test_an_event_of_no_card_changes_nothing() -> None:
    before = Health()
    assert health.struck(before, Event("", DEAD), 1.0) is before


def test_an_event_is_over_after_a_quiet_time_of_good_looks() -> None:
    watch = Watch().event(A)
    assert watch.recovers() == QUIET


@pytest.mark.parametrize("before", [Watch(), Watch().look(a="it is lost").look(9)])
def test_time_alone_heals_nothing(before: Watch) -> None:
    watch = replace(before).event(A)
    watch.now += 10 * QUIET
    assert watch.fault()
    assert watch.look(LOOKS - 1).fault()
    assert not watch.look().fault()


def test_another_event_begins_the_quiet_time_anew_but_does_not_double_it() -> None:
    watch = Watch().event(A).look(3).event(A, 48).event(A, 95)
    assert "XID 95" in watch.fault()
    assert watch.recovers() == QUIET


def test_a_bad_look_begins_the_quiet_time_anew() -> None:
    watch = Watch().event(A).look(3).look(a="it is lost")
    assert watch.recovers() == QUIET


@pytest.mark.parametrize("start", [0.0, 100 * MEMORY])
def test_each_time_it_comes_back_the_quiet_time_doubles_up_to_a_limit(start: float) -> None:
    watch = Watch(now=start)
    waits = [watch.event(A).recovers() for _ in range(9)]
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert watch.event(B).recovers(B) == QUIET  # of another card nothing is known


def test_a_long_time_makes_it_forgotten() -> None:
    watch = Watch()
    watch.event(A).recovers()
    watch.event(A).recovers()
    watch.now += MEMORY
    assert watch.event(A).recovers() == QUIET


def test_an_event_after_the_last_one_is_over_doubles_even_before_the_next_look() -> None:
    watch = Watch().event(A)
    watch.recovers()
    assert f"after {2 * QUIET:.0f} s" in watch.event(A).fault()


# Looks.


def test_what_the_driver_says_is_the_reason_at_once() -> None:
    watch = Watch().look(a="it needs a reset")
    assert watch.fault() == "it needs a reset"
    assert watch.fault(B) == ""
    assert watch.look(a="it is lost").fault() == "it is lost"


def test_some_looks_without_a_fault_end_it() -> None:
    watch = Watch().look(5, a="it needs a reset")
    assert watch.recovers() == LOOKS * PAUSE


def test_looks_that_are_good_now_and_then_do_not() -> None:
    watch = Watch()
    for _ in range(10):
        assert watch.look(a="it is lost").look(LOOKS - 1).fault() == "it is lost"


def test_a_look_finds_longer_what_an_event_began() -> None:
    """Where a reset is needed the driver says so, so such an event does not pass by waiting."""
    watch = Watch().event(A, 95).look(100, a="it needs a reset")
    assert watch.fault().startswith("it needs a reset; XID 95")
    watch.look(LOOKS)
    assert watch.fault().startswith("XID 95")
    assert watch.recovers() == QUIET - LOOKS * PAUSE


def test_a_look_after_an_event_is_over_does_not_bring_it_back() -> None:
    watch = Watch().event(A)
    watch.recovers()
    assert watch.look(a="it is lost").fault() == "it is lost"


def test_looks_at_well_cards_leave_the_value_equal() -> None:
    """Whoever compares two healths sees no change where there is none."""
    watch = Watch().look(a="it is lost").look(LOOKS)
    before = watch.health
    assert watch.look(3).health == before
    assert Watch().look().health == Health()


# Laws.

MOMENTS = st.lists(
    st.one_of(
        st.tuples(st.just("event"), st.sampled_from([31, 48, 79, 200])),
        st.tuples(st.just("look"), st.sampled_from(["", "it is lost"])),
        st.tuples(st.just("pass"), st.floats(0, 2 * MEMORY)),
    ),
    max_size=30,
)


@given(MOMENTS)
def test_whatever_happened_to_it_a_card_recovers_and_harms_no_other(
    moments: list[tuple[str, int | str | float]],
) -> None:
    watch = Watch()
    for what, value in moments:
        if what == "event":
            assert isinstance(value, int)
            watch.event(A, value)
        elif what == "look":
            watch.look(a=str(value))
        else:
            watch.now += float(value)
        assert watch.fault(B) == ""
    assert watch.recovers() <= LONGEST + PAUSE
    assert watch.health.records.get(A, health.Record()).quiet <= LONGEST


@given(st.floats(0, 1e9), st.sampled_from(sorted(MEANINGS)))
def test_the_clock_may_start_anywhere(start: float, xid: int) -> None:
    watch = Watch(now=start).event(A, xid)
    assert "after 60 s" in watch.fault()
    assert watch.recovers() <= QUIET + PAUSE  # large numbers are rounded


def test_each_number_is_of_one_kind() -> None:
    assert not APPLICATION & INFORMATION
    assert not (APPLICATION | INFORMATION) & MEANINGS.keys()
