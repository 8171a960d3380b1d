"""What a user may write in a container's resources, and what becomes of it (design section 3)."""

import itertools
from typing import Any

import pytest

from tests.unit.webhook.objects import (
    COUNT,
    FORMS,
    KINDS,
    PLACES,
    TEMPLATES,
    WHOLE,
    at_place,
    container,
    create,
    created,
    denied,
    gpus,
    held,
    holding,
    named,
    pod,
    prefix,
    sent,
)
from webhook.config import Config
from webhook.pod import Json

WITH_WHOLE = Config(whole_cards=True)
EVERYWHERE = list(itertools.product(KINDS, PLACES, FORMS))

OUTCOMES: dict[str, tuple[Json, dict[str, str]]] = {
    "gpu": ({"gpu": "300m"}, {COUNT: "30"}),
    "milligpu.io/gpu": ({"milligpu.io/gpu": 0.3}, {COUNT: "30"}),
    "nvidia.com/gpu": ({"nvidia.com/gpu": "300m"}, {COUNT: "30"}),
    "the same ask three times": (
        {"gpu": "300m", "milligpu.io/gpu": "0.3", "nvidia.com/gpu": "0.3"},
        {COUNT: "30"},
    ),
    "an ask beside its own count": ({"gpu": "300m", COUNT: "30"}, {COUNT: "30"}),
    "the smallest share": ({"gpu": "1m"}, {COUNT: "1"}),
    "rounded up": ({"gpu": "333m"}, {COUNT: "34"}),
    "rounded up to a whole card's slots": ({"gpu": "999m"}, {COUNT: "100"}),
    "a whole card": ({"gpu": 1}, {WHOLE: "1"}),
    "two whole cards": ({"milligpu.io/gpu": "2"}, {WHOLE: "2"}),
    "a card in thousandths": ({"gpu": "2000m"}, {WHOLE: "2"}),
    "zero": ({"gpu": 0}, {}),
    "a qualified zero": ({"milligpu.io/gpu": "0"}, {}),
}


def asked(place: str, kind: str, limits: Json, **fields: Any) -> Json:
    return holding(kind, at_place(place, container(limits=limits, **fields)))


@pytest.mark.parametrize("row", OUTCOMES)
def test_an_ask_becomes_a_grant_everywhere(row: str) -> None:
    """B02, B16: all nine kinds; init containers and sidecars count like any other."""
    limits, wanted = OUTCOMES[row]
    for kind, place, form in EVERYWHERE:
        obj = FORMS[form](asked(place, kind, limits))
        made = created(obj, WITH_WHOLE)
        assert gpus(named(made)) == wanted, (kind, place, form)
        assert named(made).get("restartPolicy") == named(obj).get("restartPolicy")


@pytest.mark.parametrize("grant", [{COUNT: "1"}, {COUNT: "100"}, {WHOLE: "3"}, {COUNT: "0"}])
def test_a_declared_grant_stays_as_it_was_written(grant: Json) -> None:
    """Design section 2: a user may write the count directly."""
    for kind, place in itertools.product(KINDS, PLACES):
        obj = sent(asked(place, kind, grant))
        made = created(obj, WITH_WHOLE)
        if kind == "Pod":
            assert gpus(named(made)) == grant
        else:
            assert made == obj


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


@pytest.mark.parametrize("value", [1, "8", "0", 0, "1000m"])
def test_whole_numbers_of_nvidia_stay_untouched(value: Any) -> None:
    for kind, place, form in EVERYWHERE:
        outcome = create(FORMS[form](asked(place, kind, {"nvidia.com/gpu": value})))
        assert outcome.allowed
        assert (outcome.patch, outcome.warnings) == ([], [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_object_stays_untouched(kind: str) -> None:
    outcome = create(sent(holding(kind, pod(container(), init=[container("warm")]))))
    assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], [])


def test_zero_leaves_another_gpu_alone() -> None:
    made = created(pod(container(limits={"gpu": "0", "nvidia.com/gpu": "1"})))
    assert named(made)["resources"]["limits"] == {"nvidia.com/gpu": "1"}


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


# What is denied: the message begins with the field, shows the value and says what is allowed.

_SHARE = "a share above 0 and below 1 such as 300m or 0.3"
_ONCE = "write it in limits, once"
Denial = tuple[Json | None, Json | None, str, str, str]
DENIED: dict[str, Denial] = {
    "above one card": ({"gpu": "1500m"}, None, "limits[gpu]", "1500m", "only whole numbers"),
    "nvidia's above one card": (
        {"nvidia.com/gpu": "2500m"},
        None,
        "limits[nvidia.com/gpu]",
        "2500m",
        "only whole numbers",
    ),
    "below zero": ({"gpu": "-1"}, None, "limits[gpu]", "-1", _SHARE),
    "a share below zero": ({"gpu": "-300m"}, None, "limits[gpu]", "-300m", _SHARE),
    "no number": ({"gpu": "lots"}, None, "limits[gpu]", "lots", _SHARE),
    "percent": ({"gpu": "30%"}, None, "limits[gpu]", "30%", _SHARE),
    "nothing": ({"gpu": ""}, None, "limits[gpu]", "''", _SHARE),
    "null": ({"milligpu.io/gpu": None}, None, "limits[milligpu.io/gpu]", "None", _SHARE),
    "a bool": ({"gpu": True}, None, "limits[gpu]", "True", _SHARE),
    "a list": ({"gpu": ["300m"]}, None, "limits[gpu]", "['300m']", _SHARE),
    "too long": ({"gpu": "9" * 40}, None, "limits[gpu]", "9" * 40, "longer than 32 characters"),
    "a huge exponent": ({"gpu": "1e-3000000"}, None, "limits[gpu]", "1e-3000000", _SHARE),
    "more slots than a card has": (
        {COUNT: "150"},
        None,
        f"limits[{COUNT}]",
        "150",
        "1 to 100, the slots of one card",
    ),
    "part of a slot": ({COUNT: "300m"}, None, f"limits[{COUNT}]", "300m", "whole number"),
    "a count below zero": ({COUNT: "-1"}, None, f"limits[{COUNT}]", "-1", "1 to 100"),
    "part of a whole card": ({WHOLE: "1500m"}, None, f"limits[{WHOLE}]", "1500m", "1, 2"),
    "two different asks": (
        {"gpu": "300m", "milligpu.io/gpu": "500m"},
        None,
        "",
        "300m and resources.limits[milligpu.io/gpu]: 500m",
        "keep one",
    ),
    "an ask beside a whole card": (
        {"gpu": "300m", "nvidia.com/gpu": "1"},
        None,
        "limits[gpu]",
        "300m beside nvidia.com/gpu: 1",
        "keep one",
    ),
    "an ask beside another count": (
        {"gpu": "300m", COUNT: "20"},
        None,
        "limits[gpu]",
        "300m beside milligpu.io/vgpu: 20",
        "keep one",
    ),
    "zero beside a count": ({"gpu": "0", COUNT: "20"}, None, "limits[gpu]", "0 beside", "keep one"),
    "a count beside a MIG slice": (
        {COUNT: "30", "nvidia.com/mig-1g.5gb": "1"},
        None,
        "limits",
        "milligpu.io/vgpu: 30 beside nvidia.com/mig-1g.5gb: 1",
        "keep one",
    ),
    "a count beside whole cards": (
        {COUNT: "30", WHOLE: "1"},
        None,
        "limits",
        "beside milligpu.io/pgpu: 1",
        "keep one",
    ),
    "a request without a limit": (None, {"gpu": "300m"}, "requests[gpu]", "300m", _ONCE),
    "a count in requests": (None, {COUNT: "30"}, f"requests[{COUNT}]", "30", _ONCE),
    "request and limit differ": (
        {"gpu": "500m"},
        {"gpu": "300m"},
        "requests[gpu]",
        "300m differs from the limit 500m",
        _ONCE,
    ),
    "another key in requests": (
        {"gpu": "300m"},
        {"milligpu.io/gpu": "300m"},
        "requests[milligpu.io/gpu]",
        "300m",
        _ONCE,
    ),
}
AT = {
    "container": "containers[0]",
    "init container": "initContainers[0]",
    "sidecar": "initContainers[0]",
}


@pytest.mark.parametrize("row", DENIED)
def test_what_cannot_be_meant_is_denied_with_its_place(row: str) -> None:
    """B03, B56: requests only, different requests, an odd amount."""
    limits, requests, field, value, allowed = DENIED[row]
    for kind, place, form in EVERYWHERE:
        body = container(limits=limits, requests=requests)
        message = denied(FORMS[form](holding(kind, at_place(place, body))), WITH_WHOLE)
        at = prefix(kind, "spec", AT[place])
        assert message.startswith(f"{at}.resources.{field}: " if field else f"{at}: ")
        assert value in message
        assert allowed in message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limits", [{"gpu": "1"}, {"milligpu.io/gpu": 2}, {"gpu": "3000m"}])
def test_whole_cards_can_be_switched_off(limits: Json, kind: str) -> None:
    """Design section 3, last line."""
    (key,) = limits
    message = denied(asked("container", kind, limits), Config(whole_cards=False))
    place = prefix(kind, "spec", "containers[0]", "resources", f"limits[{key}]")
    assert message.startswith(f"{place}: {limits[key]}: whole cards are not served here")


def test_no_message_sends_people_to_what_is_denied_as_well() -> None:
    """Where whole cards are off, `allowed` does not simply say that 2 is."""
    message = denied(asked("container", "Pod", {"gpu": "1500m"}), Config(whole_cards=False))
    assert "or, where they are served, whole cards such as 1 or 2" in message


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


# Warnings of rounding.


@pytest.mark.parametrize("kind", KINDS)
def test_rounding_is_said_where_a_person_reads_it(kind: str) -> None:
    outcome = create(asked("container", kind, {"gpu": "333m"}))
    assert "milligpu: container main: 333m is rounded up to 34 slots (0.34 of a card)" in (
        outcome.warnings
    )


@pytest.mark.parametrize("limits", [{"gpu": "300m"}, {"gpu": "0"}, {COUNT: "33"}, {"gpu": "1"}])
def test_nothing_is_said_where_nothing_is_rounded(limits: Json) -> None:
    outcome = create(pod(container(limits=limits)), WITH_WHOLE)
    assert not any("rounded" in text for text in outcome.warnings)


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
