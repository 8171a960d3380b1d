"""Asks in a container's resources, beside the table of design section 3 (tests/matrix/table.py)."""

from typing import Any

import pytest

from tests.unit.webhook.objects import (
    COUNT,
    KINDS,
    TEMPLATES,
    at_place,
    canonical,
    container,
    create,
    created,
    denied,
    gpus,
    held,
    holding,
    named,
    pod,
    sent,
)
from webhook.config import Config
from webhook.pod import Json


def asked(place: str, kind: str, limits: Json, **fields: Any) -> Json:
    return holding(kind, at_place(place, container(limits=limits, **fields)))


@pytest.mark.parametrize("kind", TEMPLATES)
def test_in_a_template_only_the_resource_keys_change(kind: str) -> None:
    """Design section 4: the least that lets the API server's validation pass."""
    limits = {"memory": "8Gi", "example.com/other": "1", "gpu": "300m"}
    main = container(limits=limits, requests={"memory": "4Gi"}, env=[{"name": "A", "value": "1"}])
    obj = holding(kind, pod(main, container("helper"), annotations={"a/b": "c~d"}))
    outcome = create(obj)
    wanted = {
        "limits": {"memory": "8Gi", "example.com/other": "1", COUNT: "30"},
        "requests": {"memory": "4Gi", COUNT: "30"},
    }
    assert named(outcome.object)["resources"] == wanted
    named(outcome.object)["resources"] = main["resources"]
    assert outcome.object == obj


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_object_stays_untouched(kind: str) -> None:
    outcome = create(sent(holding(kind, pod(container(), init=[container("warm")]))))
    assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], [])


# JSON numbers, text, and the spellings in which a quantity can arrive.


@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
@pytest.mark.parametrize("value", [0.3, "0.3", ".3", "300m", "+0.3", "3e-1", "300e-3", "0.300"])
def test_spellings_of_one_share(value: Any, kind: str) -> None:
    """B51, B102: numbers and text are read, and the patch always writes text."""
    assert gpus(named(created(asked("container", kind, {"gpu": value})))) == {COUNT: "30"}


@pytest.mark.parametrize("value", [30, "30", "30.0", "3e1", "30000m", "0.03k"])
def test_spellings_of_one_count(value: Any) -> None:
    made = created(asked("container", "Pod", {COUNT: value}))
    resources = named(made)["resources"]
    assert resources["limits"][COUNT] == value
    assert named(made)["env"] == [{"name": "PER_PROCESS_GPU_MEMORY_FRACTION", "value": "0.3"}]


# What is denied.


@pytest.mark.parametrize("key", ["gpu", "milligpu.io/gpu", "nvidia.com/gpu", COUNT, "cpu"])
@pytest.mark.parametrize("kind", KINDS)
def test_null_is_0_as_for_the_api_server(key: str, kind: str) -> None:
    """Whoever leaves a value of a chart empty writes it; it counts on a command line only."""
    null, zero = (
        created(holding(kind, pod(container(limits={"memory": "1Gi", key: value}))))
        for value in (None, "0")
    )
    for obj in (null, zero):
        limits = named(obj)["resources"]["limits"]
        assert limits.pop(key, None) in (None, "0")
    assert null == zero


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", ["0.9999", "0.3001", "1e-9", "1.0000001", "1n", 0.29999])
@pytest.mark.parametrize("key", ["gpu", "nvidia.com/gpu", COUNT])
def test_what_is_finer_than_thousandths_is_what_an_api_server_makes_of_it(
    kind: str, value: Any, key: str
) -> None:
    """It rounds up: 0.9999 is a whole card."""
    obj = holding(kind, pod(container(limits={key: value})))
    written, arriving = create(obj), create(sent(obj))
    assert written.allowed is arriving.allowed
    limits = (named(each.object)["resources"]["limits"] for each in (written, arriving))
    one, other = ({k: canonical(v) for k, v in each.items()} for each in limits)
    assert one == other


@pytest.mark.parametrize(("value", "text"), [(True, "'true'"), ({"a": None}, "'{\"a\": null}'")])
def test_a_value_is_shown_as_it_is_written(value: Any, text: str) -> None:
    assert f"[gpu]: {text}: " in denied(pod(container(limits={"gpu": value})))


@pytest.mark.parametrize("value", ["1500m", "-1", "some", "30%", "1e30"])
def test_no_message_sends_people_to_what_is_denied_as_well(value: str) -> None:
    said = {
        whole: denied(asked("container", "Pod", {"gpu": value}), Config(whole_cards=whole))
        for whole in (False, True)
    }
    assert said[False].endswith("; allowed: a share above 0 and below 1 such as 300m or 0.3")
    assert said[True] == f"{said[False]}, or whole cards such as 1 or 2"


@pytest.mark.parametrize("whole_cards", [True, False])
@pytest.mark.parametrize("value", ["300M", "300", "101", "100500m", "1e30"])
def test_a_number_of_cards_that_nobody_has_was_to_be_a_share(value: str, whole_cards: bool) -> None:
    obj = asked("container", "Pod", {"gpu": value})
    message = denied(obj, Config(whole_cards=whole_cards))
    assert f"{value} is more than 100 cards; allowed: a share" in message


def test_a_percentage_is_not_for_limits() -> None:
    message = denied(asked("container", "Pod", {"gpu": "30%"}))
    assert "'30%': a percentage is for the annotation only; allowed: a share" in message


def test_every_fault_is_in_one_message() -> None:
    obj = pod(
        container("a", {"gpu": "1500m"}),
        container("b", {"gpu": "300m"}),
        container("c", {"gpu": "x", COUNT: "150"}),
        init=[container("d", requests={"gpu": "300m"})],
        annotations={"milligpu.io/framework": "caffe", "milligpu.io/cpu-throttle": "no"},
    )
    message = denied(obj)
    places = [part.split(": ")[0] for part in message.split("; ") if part.startswith(("s", "m"))]
    assert [place for place in places if "[" in place] == [
        "metadata.annotations[milligpu.io/framework]",
        "metadata.annotations[milligpu.io/cpu-throttle]",
        "spec.initContainers[0].resources.requests[gpu]",
        "spec.containers[0].resources.limits[gpu]",
        "spec.containers[2].resources.limits[gpu]",
        "spec.containers[2].resources.limits[milligpu.io/vgpu]",
    ]


def test_a_message_about_a_long_value_stays_short() -> None:
    message = denied(pod(container(limits={"gpu": "9" * 100_000})))
    assert "9" * 30 in message
    assert len(message) < 400


def test_a_pod_of_several_containers_gets_each_ones_share() -> None:
    """B16, B76: two containers of one pod with different shares, init and app lists apart."""
    made = created(
        sent(
            pod(
                container("proxy"),
                container("main", {"gpu": "300m"}),
                container("side", {"gpu": "200m"}),
                init=[container("warm", {"gpu": "500m"}), container("fetch")],
            )
        )
    )
    assert {body["name"]: gpus(body) for body in held(made)["spec"]["containers"]} == {
        "proxy": {},
        "main": {COUNT: "30"},
        "side": {COUNT: "20"},
    }
    assert [gpus(body) for body in made["spec"]["initContainers"]] == [{COUNT: "50"}, {}]


@pytest.mark.parametrize("name", [False, 0, 1.5, ["main"], {}])
def test_a_containers_name_that_is_no_text_is_said(name: Any) -> None:
    """YAML reads an unquoted `n` as no."""
    body = {**container(limits={"gpu": "300m"}), "name": name}
    assert "spec.containers[0].name: must be a string; quote it" in denied(pod(body))
