import pytest
from hypothesis import given
from hypothesis import strategies as st

from certs.bundle import MOST, merge
from tests.unit.certs.made import DAY, NOW, authority, of_version_8

OURS = authority(0).certificate
OLD = authority(1, NOW - 800 * DAY).certificate
EXPIRED = authority(1, NOW - 901 * DAY).certificate
FOREIGN = authority(2, NOW + 30 * DAY).certificate
BROKEN = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
LATER = of_version_8(authority(1)).certificate
RUBBISH = [
    *(b"", b"\n", b"# a comment\n", b"\xff\x00"),
    *(BROKEN, LATER, b"-----BEGIN CERTIFICATE-----\n"),
]


def test_into_nothing() -> None:
    assert merge(b"", OURS, NOW) == OURS


def test_what_others_need_stays_before_ours() -> None:
    assert merge(OLD + FOREIGN, OURS, NOW) == OLD + FOREIGN + OURS


def test_what_has_ended_goes() -> None:
    assert merge(EXPIRED + OLD + EXPIRED, OURS, NOW) == OLD + OURS
    assert merge(OLD, OURS, NOW + 100 * DAY) == OURS


def test_each_stands_once_and_ours_last() -> None:
    assert merge(OURS + OLD + OURS + FOREIGN + OLD, OURS, NOW) == OLD + FOREIGN + OURS


def test_of_very_many_the_latest_stay() -> None:
    many = [authority(1, NOW - 800 * DAY + number * DAY).certificate for number in range(MOST + 2)]
    merged = merge(OURS + b"".join(many), OURS, NOW)
    assert merged == b"".join([*many[2:], OURS])
    assert merge(merged, OURS, NOW) == merged


@pytest.mark.parametrize("rubbish", RUBBISH)
def test_what_is_no_certificate_goes(rubbish: bytes) -> None:
    assert merge(rubbish, OURS, NOW) == OURS
    assert merge(OLD + rubbish, OURS, NOW) == OLD + OURS


@given(st.lists(st.sampled_from([OURS, OLD, EXPIRED, FOREIGN, *RUBBISH])))
def test_laws(pieces: list[bytes]) -> None:
    merged = merge(b"".join(pieces), OURS, NOW)
    assert merge(merged, OURS, NOW) == merged
    assert OURS in merged
    assert EXPIRED not in merged
