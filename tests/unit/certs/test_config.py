from datetime import timedelta

import pytest

from certs.config import Config
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
