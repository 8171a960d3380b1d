"""The CPU limit that throttles a share (design section 4; B22, B66, B99)."""

from fractions import Fraction
from typing import Any

import pytest

from tests.unit.webhook.objects import (
    COUNT,
    PLACES,
    TEMPLATES,
    WHOLE,
    at_place,
    container,
    create,
    created,
    holding,
    named,
    pod,
    sent,
)
from webhook.config import Config
from webhook.pod import Json

THROTTLE = "milligpu.io/cpu-throttle"


def cpus(body: Json) -> tuple[Any, Any]:
    resources = body["resources"]
    return resources["limits"].get("cpu"), resources.get("requests", {}).get("cpu")


RULES: dict[str, tuple[Json, Json | None, tuple[Any, Any]]] = {
    "share x 8, and a tenth is requested": ({"gpu": "300m"}, None, ("2400m", "240m")),
    "of what it gets, not of what it asked": ({"gpu": "333m"}, None, ("2720m", "272m")),
    "a whole number of CPUs": ({"gpu": "500m"}, None, ("4", "400m")),
    "never under 100m": ({"gpu": "10m"}, None, ("100m", "10m")),
    "never under the request": ({"gpu": "100m"}, {"cpu": "4"}, ("4", "4")),
    "a request below it stays": ({"gpu": "100m"}, {"cpu": "500m"}, ("800m", "500m")),
    "0.5 is 500m": ({"gpu": "50m"}, {"cpu": "0.5"}, ("500m", "500m")),
    "a request of nothing is a request": ({"gpu": "300m"}, {"cpu": "0"}, ("2400m", "0")),
    "a user's limit stays": ({"gpu": "100m", "cpu": "8"}, None, ("8", "8")),
    "a small one too": ({"gpu": "900m", "cpu": "1m"}, None, ("1m", "1m")),
    "limit and request stay": ({"gpu": "100m", "cpu": "2"}, {"cpu": "500m"}, ("2", "500m")),
    "of a count by hand": ({COUNT: "30"}, None, ("2400m", "240m")),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rule", RULES)
def test_a_share_gets_a_cpu_limit(rule: str, place: str) -> None:
    limits, requests, wanted = RULES[rule]
    obj = sent(at_place(place, container(limits=limits, requests=requests)))
    assert cpus(named(created(obj))) == wanted


@pytest.mark.parametrize(
    ("request_", "limit"),
    [
        *((small, "100m") for small in ("1500u", "0.0001", "1e-1", "100000u", "99m")),
        *(("100001u", "101m"), ("0.1001", "101m"), ("3e2", "300"), ("1k", "1000")),
    ],
)
def test_the_limit_is_never_under_the_request(request_: str, limit: str) -> None:
    """B22: whatever the spelling."""
    made = created(pod(container(limits={"gpu": "10m"}, requests={"cpu": request_})))
    assert cpus(named(made)) == (limit, request_)


@pytest.mark.parametrize(
    ("cpus_per_gpu", "wanted"),
    [
        (Fraction(8), "2400m"),
        (Fraction(1, 2), "150m"),
        (Fraction(10, 3), "1"),
        (Fraction(96), "28800m"),
    ],
)
def test_the_setting_is_what_a_whole_card_stands_for(cpus_per_gpu: Fraction, wanted: str) -> None:
    config = Config(cpus_per_gpu=cpus_per_gpu)
    made = created(sent(pod(container(limits={"gpu": "300m"}))), config)
    assert cpus(named(made))[0] == wanted


CAPPED: dict[str, tuple[Json, Json | None, tuple[Any, Any]]] = {
    "a larger limit is cut, and so is its tenth": ({"gpu": "300m"}, None, ("1500m", "150m")),
    "a smaller one stays": ({"gpu": "100m"}, None, ("800m", "80m")),
    "the request stays, the limit is cut": ({"gpu": "300m"}, {"cpu": "1"}, ("1500m", "1")),
    "never under the request": ({"gpu": "300m"}, {"cpu": "2"}, ("2", "2")),
    "a user's limit stays": ({"gpu": "300m", "cpu": "4"}, None, ("4", "4")),
    "of a count by hand": ({COUNT: "30"}, None, ("1500m", "150m")),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rule", CAPPED)
def test_a_setting_caps_what_is_added(rule: str, place: str) -> None:
    """B66: and touches nothing that the user wrote."""
    limits, requests, wanted = CAPPED[rule]
    obj = sent(at_place(place, container(limits=limits, requests=requests)))
    outcome = create(obj, Config(cpu_limit_max=Fraction(3, 2)))
    assert cpus(named(outcome.object)) == wanted
    said = [text for text in outcome.warnings if "CPU limit" in text]
    assert all(f"a CPU limit of {wanted[0]} with" in text for text in said)
    assert len(said) == ("cpu" not in limits)


def test_the_least_cap_still_lets_a_container_start() -> None:
    config = Config(cpu_limit_max=Fraction(1, 10))
    for ask in ("10m", "990m"):
        made = created(sent(pod(container(limits={"gpu": ask}))), config)
        assert cpus(named(made)) == ("100m", "10m")


def test_without_a_setting_nothing_is_capped() -> None:
    config = Config(cpus_per_gpu=Fraction(1024))
    made = created(sent(pod(container(limits={"gpu": "990m"}))), config)
    assert cpus(named(made))[0] == "1013760m"


def test_a_pod_with_resources_of_its_own_gets_no_limit() -> None:
    """A container's limit above the pod's would be refused."""
    obj = pod(container(limits={"gpu": "300m"}), resources={"limits": {"memory": "1Gi"}})
    outcome = create(sent(obj))
    assert cpus(named(outcome.object)) == (None, None)
    assert outcome.object["spec"]["resources"] == obj["spec"]["resources"]
    assert outcome.warnings == []


@pytest.mark.parametrize("empty", [{}, None])
def test_empty_resources_of_a_pod_are_none(empty: Json | None) -> None:
    made = created(sent(pod(container(limits={"gpu": "300m"}), resources=empty)))
    assert cpus(named(made)) == ("2400m", "240m")


@pytest.mark.parametrize("kind", ["Pod", *TEMPLATES])
def test_the_throttle_can_be_switched_off(kind: str) -> None:
    obj = pod(container(limits={"gpu": "300m"}), annotations={THROTTLE: "off"})
    outcome = create(sent(holding(kind, obj)))
    assert cpus(named(outcome.object)) == (None, None)
    assert not any("CPU" in text for text in outcome.warnings)


def test_whole_cards_and_plain_containers_get_no_limit() -> None:
    obj = pod(
        container("whole", {WHOLE: "1"}), container("share", {"gpu": "100m"}), container("plain")
    )
    made = created(sent(obj))
    assert cpus(named(made, "whole")) == (None, None)
    assert named(made, "plain")["resources"] == {}


def test_only_what_lacks_is_added() -> None:
    """B99: the count and the environment are right already, the CPU limit is not there."""
    obj = sent(
        pod(
            container(
                limits={COUNT: "30"},
                env=[{"name": "PER_PROCESS_GPU_MEMORY_FRACTION", "value": "0.3"}],
            )
        )
    )
    outcome = create(obj)
    assert cpus(named(outcome.object)) == ("2400m", "240m")
    assert named(outcome.object)["env"] == named(obj)["env"]


@pytest.mark.parametrize("kind", ["Pod", *TEMPLATES])
def test_the_limit_is_announced_where_a_person_reads_it(kind: str) -> None:
    outcome = create(sent(holding(kind, pod(container(limits={"gpu": "300m"})))))
    (warning,) = outcome.warnings
    assert warning.startswith("milligpu: container main: gets a CPU limit of 2400m with its share")
    assert "milligpu.io/cpu-throttle: 'off'" in warning
    if kind != "Pod":
        assert cpus(named(outcome.object)) == (None, None)


@pytest.mark.parametrize(
    ("requests", "requested"), [(None, "240m"), ({"cpu": "0.5"}, "500m"), ({"cpu": "0"}, "0")]
)
def test_the_announcement_says_all_that_a_limit_range_may_refuse(
    requests: Json | None, requested: str
) -> None:
    """B66: a person who reads `provided ratio is 10` must find the numbers that make it."""
    obj = pod(container(limits={"gpu": "300m"}, requests=requests))
    (warning,) = create(sent(obj)).warnings
    assert f"a CPU limit of 2400m with its share, {requested} of it requested" in warning
    assert "unless a LimitRange sets one" in warning
    assert "set limits.cpu to choose it" in warning


def test_the_announcement_is_never_cut() -> None:
    """The ways out stand at its end; the API server passes on 256 characters."""
    longest = pod(container("m" * 63, {"gpu": "990m"}))
    (warning,) = create(sent(longest), Config(cpus_per_gpu=Fraction(1000001, 10000))).warnings
    assert "99001m" in warning
    assert warning.endswith("annotate milligpu.io/cpu-throttle: 'off'")


def test_a_cpu_request_that_cannot_be_read_is_the_api_servers_to_refuse() -> None:
    made = created(pod(container(limits={"gpu": "300m"}, requests={"cpu": "lots"})))
    assert cpus(named(made)) == (None, "lots")
