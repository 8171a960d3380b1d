import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certs.config import TRUST_DELAY, Config
from vgpu.settings import SettingsError, read


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("90s", timedelta(seconds=90)),
        ("10m", timedelta(minutes=10)),
        ("12h", timedelta(hours=12)),
        ("7d", timedelta(days=7)),
    ],
)
def test_a_time_has_a_unit(text: str, time: timedelta) -> None:
    assert read(Config, {"MILLIGPU_INTERVAL": text}).interval == time


@pytest.mark.parametrize("text", ["", "0s", "-1d", "5", "1.5h", "1y", "1d12h", "1000000d", " 1d"])
def test_what_is_no_time_is_named(text: str) -> None:
    with pytest.raises(SettingsError, match=r"MILLIGPU_LEAF_LIFE='.*': must be a time such as 90s"):
        read(Config, {"MILLIGPU_LEAF_LIFE": text})


def test_a_certificate_must_not_outlive_its_ca() -> None:
    third = read(Config, {"MILLIGPU_CA_LIFE": "30d", "MILLIGPU_LEAF_LIFE": "10d"})
    assert third.leaf_life == timedelta(days=10)
    with pytest.raises(SettingsError, match="MILLIGPU_LEAF_LIFE: must be at most a third"):
        read(Config, {"MILLIGPU_CA_LIFE": "30d", "MILLIGPU_LEAF_LIFE": "11d"})


def test_the_longest_times_can_be_reckoned_with() -> None:
    assert read(Config, {"MILLIGPU_CA_LIFE": "999999d"}).ca_life.days == 999999


def test_a_life_that_is_too_short_is_refused_with_the_arithmetic() -> None:
    with pytest.raises(SettingsError) as caught:
        read(Config, {"MILLIGPU_LEAF_LIFE": "5m"})
    assert str(caught.value) == (
        "bad settings:\n  MILLIGPU_LEAF_LIFE: 5m is too short, it must be at least 465s: a renewal"
        " has a third of it and may take 155s, twice MILLIGPU_INTERVAL (15s), 5s for a new CA, and"
        " MILLIGPU_SECRET_DELAY (2m)"
    )


TIMES = st.integers(1, 50_000).map("{}s".format) | st.integers(1, 700).map("{}m".format)
"""Up to some hours: nobody waits longer for a Secret."""


@given(TIMES, TIMES, TIMES)
def test_the_least_life_that_is_named_would_do(interval: str, delay: str, leaf: str) -> None:
    settings = {
        "MILLIGPU_INTERVAL": interval,
        "MILLIGPU_SECRET_DELAY": delay,
        "MILLIGPU_CA_LIFE": "999999d",
    }
    try:
        config = read(Config, settings | {"MILLIGPU_LEAF_LIFE": leaf})
    except SettingsError as fault:
        found = re.search(r"LEAF_LIFE: (\w+) is too short, it must be at least (\w+):", str(fault))
        assert found
        least = read(Config, settings | {"MILLIGPU_LEAF_LIFE": found[2]}).leaf_life
        one_less = f"{int(least.total_seconds()) - 1}s"
        with pytest.raises(SettingsError, match=f"at least {found[2]}:"):
            read(Config, settings | {"MILLIGPU_LEAF_LIFE": one_less})
    else:
        assert config.leaf_life / 3 >= 2 * config.interval + TRUST_DELAY + config.secret_delay
