"""What is judged of samples: the checks can fail."""

from dataclasses import replace

import pytest

from tests.cluster.served import Sample, arrivals, bundle_faults, reigns

OLD, NEW = {"old": 10.0}, {"new": 30.0}
GOOD = Sample(1, "new", "leaf", True, [NEW], {"service": "leaf", "a": "leaf", "b": "leaf"}, {})


def test_two_replicas_that_serve_the_stored_pair_are_whole() -> None:
    assert GOOD.whole


@pytest.mark.parametrize(
    "bad",
    [
        replace(GOOD, bundles=[]),
        replace(GOOD, bundles=[NEW, OLD]),
        replace(GOOD, ca=""),
        replace(GOOD, related=False),
        replace(GOOD, leaf="other"),
        replace(GOOD, served={"service": "leaf", "a": "leaf"}),
        replace(GOOD, served={"service": "leaf", "a": "leaf", "b": "other"}),
    ],
)
def test_all_else_is_not(bad: Sample) -> None:
    assert not bad.whole


def test_a_pairs_way_is_followed() -> None:
    later = replace(GOOD, at=3, leaf="next", served={"service": "next", "a": "next", "b": "leaf"})
    assert reigns([replace(GOOD, at=0, leaf=""), GOOD, later]) == {"leaf": 1, "next": 3}
    assert arrivals([GOOD, later]) == {"leaf": {"a": 1, "b": 1}, "next": {"a": 3}}


@pytest.mark.parametrize(
    ("at", "bundles", "faults"),
    [
        (9, [OLD | NEW], []),
        (9, [NEW], ["old was missing 1.0 s before its end"]),
        (9, [OLD | NEW, NEW], ["old was missing 1.0 s before its end"]),
        (12, [OLD | NEW], []),
        (12, [NEW], []),
        (14, [NEW], []),
        (14, [OLD | NEW], ["old was there 4.0 s after its end"]),
        (14, [NEW, OLD | NEW], ["old was there 4.0 s after its end"]),
    ],
)
def test_a_ca_is_there_until_its_end(
    at: float, bundles: list[dict[str, float]], faults: list[str]
) -> None:
    begin = replace(GOOD, bundles=[OLD | NEW])
    assert bundle_faults([begin, replace(GOOD, at=at, bundles=bundles)], late=3) == faults


def test_without_a_configuration_every_ca_is_missing() -> None:
    faults = bundle_faults([GOOD, replace(GOOD, at=2, bundles=[])], late=3)
    assert faults == ["new was missing 28.0 s before its end"]
