"""What users write, and what the real API server stores of it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from milligpu.processes import Webhook
from tests.cluster import shapes
from tests.cluster.api import ApiError, Json
from tests.cluster.controlplane import ControlPlane
from tests.cluster.shapes import KINDS, holding, limited
from vgpu import names

pytestmark = pytest.mark.apiserver

FORMS: dict[str, Json] = {
    "limits": {"limits": {names.ASK: "300m"}},
    "qualified": {"limits": {names.ASK_QUALIFIED: "0.3"}},
    "nvidia": {"limits": {names.NVIDIA_GPU: "300m"}},
    "both sides": {"limits": {names.ASK: "300m"}, "requests": {names.ASK: "0.3"}},
    "count": {"limits": {names.COUNT: "30"}},
}


def env(container: Json) -> dict[str, Any]:
    return {entry["name"]: entry.get("value") for entry in container.get("env", [])}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_takes_every_form_in_limits(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, kind: str, form: str
) -> None:
    wanted = holding(kind, shapes.pod("model", {"name": "main", "resources": FORMS[form]}))
    held = shapes.held(apiserver.api.create(wanted, namespace))
    (container,) = held["spec"]["containers"]
    resources = container["resources"]
    asks = {*names.ASK_KEYS, names.NVIDIA_GPU}
    assert resources["limits"][names.COUNT] == "30"
    assert not asks & {*resources["limits"], *resources.get("requests", {})}
    if kind == "Pod":
        assert resources["requests"][names.COUNT] == "30"
        assert resources["limits"]["cpu"] == "2400m"
        assert resources["requests"]["cpu"] == "240m"
        assert env(container)[names.ENV_FRACTION] == "0.3"
    elif form != "count":
        assert resources["requests"] == {names.COUNT: "30"}
        assert "env" not in container
        assert "cpu" not in resources["limits"]


@pytest.mark.parametrize("text", ["300m", "0.3", "30%", "main=300m"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_takes_the_annotation_and_only_pods_change(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, kind: str, text: str
) -> None:
    pod = shapes.pod("model", {"name": "main"}, annotations={names.ANNOTATION_ASK: text})
    held = shapes.held(apiserver.api.create(holding(kind, pod), namespace))
    (container,) = held["spec"]["containers"]
    assert held["metadata"]["annotations"][names.ANNOTATION_ASK] == text
    if kind == "Pod":
        assert container["resources"]["limits"][names.COUNT] == "30"
        record = json.loads(held["metadata"]["annotations"][names.ANNOTATION_SHARE])
        assert record == {"main": {"slots": 30, "share": "0.3"}}
    else:
        assert not container.get("resources")


def test_a_pod_gets_everything(apiserver: ControlPlane, webhook: Webhook, namespace: str) -> None:
    pod = shapes.pod("model", limited("main", gpu="333m"), {"name": "helper"})
    pod["spec"]["initContainers"] = [
        {"image": "none", **limited("warm", gpu="400m")},
        {"image": "none", "restartPolicy": "Always", **limited("side", gpu="50m")},
        {"image": "none", "name": "plain"},
    ]
    made = apiserver.api.create(pod, namespace)
    found = {each["name"]: each for each in shapes_containers(made)}
    counts = {
        name: each["resources"].get("limits", {}).get(names.COUNT) for name, each in found.items()
    }
    assert counts == {"warm": "40", "side": "5", "plain": None, "main": "34", "helper": None}
    assert env(found["main"]) == {names.ENV_FRACTION: "0.34"}
    assert env(found["helper"]) == env(found["plain"]) == {names.ENV_VISIBLE_DEVICES: names.VOID}
    tolerations = made["spec"]["tolerations"]
    assert {"key": names.NVIDIA_GPU, "operator": "Exists", "effect": "NoSchedule"} in tolerations


def shapes_containers(pod: Json) -> Iterator[Json]:
    yield from pod["spec"].get("initContainers", [])
    yield from pod["spec"]["containers"]


def test_tensorflow_serving_gets_its_flag(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    serving = {**limited("main", gpu="300m"), "image": "tensorflow/serving", "args": ["--x=1"]}
    made = apiserver.api.create(shapes.pod("serving", serving), namespace)
    assert made["spec"]["containers"][0]["args"] == [
        "--x=1",
        "--per_process_gpu_memory_fraction=$(MILLIGPU_MEMORY_FRACTION)",
    ]


DENIED: dict[str, tuple[Json, dict[str, str], str]] = {
    "above one card": (
        {"limits": {"gpu": "1500m"}},
        {},
        "containers[0].resources.limits[gpu]: 1500m: above one card only whole numbers",
    ),
    "below zero": ({"limits": {"gpu": "-1"}}, {}, "limits[gpu]: -1 is below 0"),
    "whole cards are off": (
        {"limits": {"gpu": "1"}},
        {},
        "limits[gpu]: 1: whole cards are not served here",
    ),
    "too many slots": (
        {"limits": {names.COUNT: "150"}},
        {},
        "limits[milligpu.io/vgpu]: 150 is not allowed; allowed: a whole number from 1 to 100",
    ),
    "two asks": (
        {"limits": {"gpu": "300m", names.ASK_QUALIFIED: "500m"}},
        {},
        "containers[0]: two different asks",
    ),
    "an ask beside a whole card": (
        {"limits": {"gpu": "300m", names.NVIDIA_GPU: "1"}},
        {},
        "limits[gpu]: 300m beside nvidia.com/gpu: 1",
    ),
    "an ask beside another count": (
        {"limits": {"gpu": "300m", names.COUNT: "20"}},
        {},
        "limits[gpu]: 300m beside milligpu.io/vgpu: 20",
    ),
    "a count beside a whole card": (
        {"limits": {names.COUNT: "30", names.NVIDIA_GPU: "1"}},
        {},
        "resources.limits: milligpu.io/vgpu: 30 beside nvidia.com/gpu: 1",
    ),
    "limit and annotation differ": (
        {"limits": {"gpu": "300m"}},
        {names.ANNOTATION_ASK: "500m"},
        "containers[0]: two different asks",
    ),
    "request without limit": (
        {"requests": {"gpu": "300m"}},
        {},
        "requests[gpu]: 300m is a request without a limit",
    ),
    "request and limit differ": (
        {"limits": {"gpu": "500m"}, "requests": {"gpu": "300m"}},
        {},
        "requests[gpu]: 300m differs from the limit 500m",
    ),
    "unparsable": (
        {},
        {names.ANNOTATION_ASK: "lots"},
        "metadata.annotations[milligpu.io/gpu]: 'lots': not a Kubernetes quantity",
    ),
    "too long": (
        {},
        {names.ANNOTATION_ASK: "0.3000000000000000000000000000001"},
        "longer than 32 characters",
    ),
    "a huge exponent": ({}, {names.ANNOTATION_ASK: "1e2147483648"}, "an exponent beyond 99"),
    "no such container": (
        {},
        {names.ANNOTATION_ASK: "trainer=500m"},
        "names no container 'trainer'; there are main",
    ),
    "unknown framework": (
        {"limits": {"gpu": "300m"}},
        {names.ANNOTATION_FRAMEWORK: "tensorflow"},
        "'tensorflow' is unknown; there are tensorflow-serving, none",
    ),
}


# A template with nothing but a count is not sent to us: its pods are, and they are denied.
COUNTS = ("too many slots", "a count beside a whole card")
TEMPLATES = [case for case in DENIED if case not in COUNTS]


@pytest.mark.parametrize(
    ("case", "kind"),
    [(case, "Pod") for case in DENIED]
    + [(case, kind) for case in TEMPLATES for kind in ("Deployment", "CronJob", "PodTemplate")],
)
def test_what_cannot_be_meant_is_denied_with_its_place(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, case: str, kind: str
) -> None:
    resources, annotations, message = DENIED[case]
    pod = shapes.pod("wrong", {"name": "main", "resources": resources}, annotations=annotations)
    with pytest.raises(ApiError, match="denied the request") as denial:
        apiserver.api.create(holding(kind, pod), namespace)
    assert denial.value.code == 422
    assert message in denial.value.body["message"]


def test_every_fault_is_in_one_message(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    pod = shapes.pod("wrong", limited("a", gpu="1500m"), limited("b", gpu="-1"))
    with pytest.raises(ApiError) as denial:
        apiserver.api.create(pod, namespace)
    message = denial.value.body["message"]
    assert "containers[0].resources.limits[gpu]: 1500m" in message
    assert "containers[1].resources.limits[gpu]: -1" in message


def test_zero_is_no_share(apiserver: ControlPlane, webhook: Webhook, namespace: str) -> None:
    made = apiserver.api.create(shapes.pod("none", limited("main", gpu="0")), namespace)
    (container,) = made["spec"]["containers"]
    assert container["resources"] in ({}, {"limits": {}, "requests": {}})
    assert "env" not in container


def test_what_is_not_ours_is_never_sent_to_us(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    before = len(webhook.program.lines())
    whole = apiserver.api.create(
        shapes.pod("whole", {"name": "m", "resources": {"limits": {names.NVIDIA_GPU: "1"}}}),
        namespace,
    )
    assert whole["spec"]["containers"][0]["resources"]["limits"] == {names.NVIDIA_GPU: "1"}
    assert "env" not in whole["spec"]["containers"][0]
    for kind in KINDS:
        plain = holding(kind, shapes.pod("plain", {"name": "main"}))
        apiserver.api.patch(
            apiserver.api.create(plain, namespace), {"metadata": {"labels": {"a": "b"}}}, namespace
        )
    assert webhook.program.lines()[before:] == []


@pytest.mark.parametrize("kind", KINDS)
def test_people_are_warned_on_what_they_apply(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, kind: str
) -> None:
    obj = holding(kind, shapes.pod("model", limited("main", gpu="333m")))
    said = apiserver.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(obj)).stderr
    assert "Warning: milligpu: container main: 333m is rounded up to 34 slots" in said
    assert "gets a CPU limit of 2720m" in said


def test_an_annotation_on_the_workload_itself_is_pointed_out(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    obj = holding("Deployment", shapes.pod("model", {"name": "main"}))
    obj["metadata"]["annotations"] = {names.ANNOTATION_ASK: "300m"}
    said = apiserver.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(obj)).stderr
    assert "it belongs on spec.template.metadata" in said
