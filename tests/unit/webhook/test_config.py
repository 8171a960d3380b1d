import json
from fractions import Fraction

import pytest

from vgpu.settings import SettingsError, read
from webhook.config import Config

TAINT = {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}


def test_the_defaults_are_the_designs() -> None:
    config = read(Config, {})
    assert config.cpus_per_gpu == 8
    assert config.tolerations == (
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    )
    assert config.runtime_class == ""


@pytest.mark.parametrize(
    ("text", "value"), [("8", 8), ("0.5", Fraction(1, 2)), ("500m", Fraction(1, 2)), ("1024", 1024)]
)
def test_cpus_of_a_card(text: str, value: Fraction) -> None:
    assert read(Config, {"MILLIGPU_CPUS_PER_GPU": text}).cpus_per_gpu == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("2", 2), ("0.5", Fraction(1, 2)), ("100m", Fraction(1, 10)), ("1024", 1024)],
)
def test_the_most_cpus_of_a_limit(text: str, value: Fraction) -> None:
    assert read(Config, {"MILLIGPU_CPU_LIMIT_MAX": text}).cpu_limit_max == value


@pytest.mark.parametrize("name", ["CPU_LIMIT_MAX", "CPUS_PER_GPU"])
def test_bad_cpus_are_told_what_is_allowed(name: str) -> None:
    with pytest.raises(SettingsError, match="must be a number of CPUs from 100m to 1024"):
        read(Config, {f"MILLIGPU_{name}": "99m"})


def test_tolerations_are_json() -> None:
    config = read(Config, {"MILLIGPU_TOLERATIONS": json.dumps([TAINT])})
    assert config.tolerations == (TAINT,)
    assert read(Config, {"MILLIGPU_TOLERATIONS": "[]"}).tolerations == ()


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "gpu"},
        {"key": "gpu", "value": "yes"},
        {"key": "gpu", "operator": "Exists", "effect": "NoExecute"},
        {"key": "gpu", "effect": "PreferNoSchedule"},
    ],
    ids=str,
)
def test_every_toleration_that_a_pod_may_have(toleration: dict[str, str]) -> None:
    environ = {"MILLIGPU_TOLERATIONS": json.dumps([toleration])}
    assert read(Config, environ).tolerations == (toleration,)


def test_other_settings() -> None:
    environ = {"MILLIGPU_WHOLE_CARDS": "false", "MILLIGPU_RUNTIME_CLASS": "nvidia"}
    config = read(Config, environ)
    assert (config.whole_cards, config.runtime_class) == (False, "nvidia")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("CPUS_PER_GPU", text) for text in ("", "0", "-1", "many", "1025", "1e9", "nan")),
        *(("CPU_LIMIT_MAX", text) for text in ("", "0", "99m", "-2", "none", "1025", "1e9", "inf")),
        *(("TOLERATIONS", text) for text in ("", "x", "{}", "[1]", "[{}]", '[{"key": 1}]', "null")),
        ("TOLERATIONS", '[{"keys": "x"}]'),
        ("TOLERATIONS", '[{"key": "x", "tolerationSeconds": 1}]'),
        *(("WHOLE_CARDS", text) for text in ("yes", "1", "True", "")),
        *(("PORT", text) for text in ("0", "65536", "https")),
        *(("THREADS", text) for text in ("0", "-1", "1000")),
        *(("RUNTIME_CLASS", text) for text in ("Nvidia", "a class", "nvidia/", "x" * 254)),
        *(("LOG_LEVEL", text) for text in ("verbose", "INFO", "")),
        *(("DRAIN_SECONDS", text) for text in ("-1", "forever", "61")),
    ],
)
def test_a_bad_setting_is_named_with_its_value(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=f"MILLIGPU_{name}=") as fault:
        read(Config, {f"MILLIGPU_{name}": text})
    assert repr(text)[:20] in str(fault.value)


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "x", "operator": "Maybe"},
        {"key": "x", "effect": "NoSchedules"},
        {"operator": "Equal", "value": "v"},
        {"key": "x", "operator": "Exists", "value": "v"},
        {"key": "a key", "operator": "Exists"},
        {"key": "x/y/z", "operator": "Exists"},
        {"key": "x" * 64, "operator": "Exists"},
        {"key": "x", "value": "a value"},
    ],
    ids=str,
)
def test_a_toleration_that_the_api_server_would_refuse_is_refused_at_start(
    toleration: dict[str, str],
) -> None:
    """Else every pod with a share is refused, by a rule that its author cannot find."""
    with pytest.raises(SettingsError, match="MILLIGPU_TOLERATIONS="):
        read(Config, {"MILLIGPU_TOLERATIONS": json.dumps([toleration])})


def test_all_bad_settings_are_in_one_message() -> None:
    environ = {
        "MILLIGPU_PORT": "x",
        "MILLIGPU_CPUS_PER_GPU": "x",
        "MILLIGPU_TOLERATIONS": "x",
        "MILLIGPU_CPU_PER_GPU": "8",
    }
    with pytest.raises(SettingsError) as fault:
        read(Config, environ)
    assert all(f"\n  {name}" in str(fault.value) for name in environ)
