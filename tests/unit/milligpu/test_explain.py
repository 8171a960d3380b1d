from typing import Any

import pytest
from hypothesis import given

from milligpu.running import cards, state
from milligpu.steps import REFUSED, Step, explained
from tests import strategies
from tests.unit.webhook.objects import (
    ASKS,
    KINDS,
    OUR_FLAG,
    PLACES,
    TEMPLATES,
    at_place,
    container,
    containers,
    create,
    created,
    gpus,
    held,
    holding,
    pod,
    prefix,
)
from vgpu.settings import read
from webhook.config import Config
from webhook.findings import Denied
from webhook.pod import Container, Json

SHARING = pod(container(limits={"gpu": "333m"}))


def told(document: Json, **settings: str) -> dict[str, list[Step]]:
    """The steps by heading; places are shown as `@path`."""
    config = read(Config, settings)
    found = list(explained(document, config, lambda field: f" @{field}" if field else ""))
    sections = {heading: steps for heading, steps in found if steps}
    assert len(sections) == sum(1 for _, steps in found if steps)
    return sections


def main(document: Json, **settings: str) -> dict[str, str]:
    """The steps of the container `main`, by their words."""
    return dict(told(document, **settings)["container main"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_share_is_told_from_the_ask_to_the_card(kind: str) -> None:
    document = holding(kind, SHARING)
    at = prefix(kind, "spec.containers[0].resources.limits")
    assert told(document)["container main"] == [
        ("ask", f"333m in resources.limits[gpu] @{at}[gpu]"),
        ("means", "0.333 of a card: 34 of the 100 slots of one card, 34 %"),
        (
            "stored",
            "milligpu.io/vgpu: 34 in limits and requests in place of gpu;"
            " the scheduler counts these",
        ),
        ("memory", "PER_PROCESS_GPU_MEMORY_FRACTION=0.34, for frameworks that read it"),
        ("cpu", "limit 2720m, request 272m: 0.34 x 8 CPUs for a card"),
        (
            "plugin",
            "sets NVIDIA_VISIBLE_DEVICES and MILLIGPU_GPU_UUID (a card of the node),"
            " MILLIGPU_SLOTS=34, MILLIGPU_SHARE=0.34, MILLIGPU_MEMORY_MIB and"
            " MILLIGPU_MEMORY_FRACTION (its part of the memory)",
        ),
        ("note", f"333m is rounded up to 34 slots (0.34 of a card) @{at}[gpu]"),
        (
            "note",
            "gets a CPU limit of 2720m with its share, 272m of it requested, unless a LimitRange"
            " sets one; set limits.cpu to choose it, or annotate milligpu.io/cpu-throttle: 'off'"
            f" @{at}",
        ),
    ]
    heading = "pod" if kind == "Pod" else f"pods of {prefix(kind)}"
    words = [word for word, _ in told(document)[heading]]
    assert words == ["tolerates", "not held"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("key", ASKS)
def test_every_ask_in_every_place_is_told(key: str, place: str) -> None:
    steps = told(at_place(place, container(limits={key: "300m"})))[f"{place} main"]
    assert steps[0][0] == "ask"
    assert f"resources.limits[{key}]" in steps[0][1]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_an_annotation_leaves_the_template_as_it_is(kind: str) -> None:
    document = holding(kind, pod(container(), annotations={"milligpu.io/gpu": "30%"}))
    steps = main(document)
    at = prefix(kind, "metadata.annotations[milligpu.io/gpu]")
    assert steps["ask"] == f"30% in annotations[milligpu.io/gpu] @{at}"
    assert steps["means"].startswith("0.3 of a card: 30 of ")
    assert steps["stored"].startswith("as it is written; its pods get milligpu.io/vgpu: 30")


def test_a_count_was_asked_by_nobody() -> None:
    steps = main(pod(container(limits={"milligpu.io/vgpu": 30})))
    assert "ask" not in steps
    assert steps["means"] == "30 of the 100 slots of one card, 30 %"
    assert steps["stored"] == (
        "milligpu.io/vgpu: 30 in limits and requests; the scheduler counts these"
    )


def test_an_ask_for_nothing_and_for_whole_cards() -> None:
    assert main(pod(container(limits={"gpu": 0})))["means"] == "no share: the ask is taken out"
    for limits, means in (
        ({"gpu": 1}, "1 whole card"),
        ({"gpu": 2}, "2 whole cards"),
        ({"milligpu.io/pgpu": 2}, "2 whole cards"),
    ):
        document = pod(container(limits=limits), container("other"))
        steps = main(document)
        assert steps["means"] == means
        assert steps["stored"].startswith(f"milligpu.io/pgpu: {means[0]} in limits and requests")
        assert steps["plugin"] == (
            "sets NVIDIA_VISIBLE_DEVICES and MILLIGPU_GPU_UUID"
            " (cards of the node that no other pod has)"
        )
        assert not {"memory", "cpu"} & set(steps)
        sections = told(document)
        assert dict(sections["container other"]).keys() == {"void"}
        assert dict(sections["pod"]).keys() == {"tolerates"}, "it is held: it is the whole card"


def test_numbers_are_those_of_the_settings_and_of_the_objects() -> None:
    assert main(SHARING, MILLIGPU_CPUS_PER_GPU="10")["cpu"] == (
        "limit 3400m, request 340m: 0.34 x 10 CPUs for a card"
    )
    own = container(limits={"gpu": "300m", "cpu": 4}, requests={"cpu": 2})
    assert main(pod(own))["cpu"] == "limit 4, request 2"
    assert main(SHARING, MILLIGPU_CPU_LIMIT_MAX="1")["cpu"] == (
        "limit 1, request 100m: 0.34 x 8 CPUs for a card = 2720m,"
        " but at least 100m and its request, at most 1"
    )
    off = pod(container(limits={"gpu": "300m"}), annotations={"milligpu.io/cpu-throttle": "off"})
    assert main(off)["cpu"].startswith("none: milligpu.io/cpu-throttle: off, or the pod has ")
    bounded = pod(container(limits={"gpu": "300m"}), resources={"limits": {"cpu": 2}})
    assert main(bounded)["cpu"] == main(off)["cpu"]


def test_what_else_a_pod_gets() -> None:
    document = pod(
        container(limits={"gpu": "300m"}) | {"image": "tensorflow/serving:latest-gpu"},
        container("loader"),
        container("other", limits={"nvidia.com/gpu": 1}),
    )
    tolerations = '[{"key": "gpu", "operator": "Exists"}]'
    settings = {"MILLIGPU_TOLERATIONS": tolerations, "MILLIGPU_RUNTIME_CLASS": "nvidia"}
    sections = told(document, **settings)
    assert dict(sections["container main"])["args"].startswith(OUR_FLAG)
    assert sections["container loader"] == [
        ("void", "NVIDIA_VISIBLE_DEVICES=void: it sees no card")
    ]
    assert sections["container other"] == [
        ("gpu", "nvidia.com/gpu: 1 is another plugin's and stays")
    ]
    assert sections["pod"][:2] == [("tolerates", "gpu Exists"), ("runtime", "class nvidia")]


def test_what_is_refused_is_told_with_its_reasons_only() -> None:
    bad = container(limits={"gpu": "1500m"}, env=[{"name": "CUDA_VISIBLE_DEVICES"}])
    sections = told(pod(bad, container("good", limits={"gpu": "333m"})))
    assert sections.keys() == {REFUSED}
    words = [word for word, _ in sections[REFUSED]]
    assert words == ["error"]
    at = "spec.containers[0].resources.limits[gpu]"
    assert sections[REFUSED][0][1].startswith(f"{at}: 1500m is not allowed")
    assert sections[REFUSED][0][1].endswith(f" @{at}")


def test_what_asks_for_nothing_has_nothing_to_tell() -> None:
    assert told(pod(container())) == {}
    assert told({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}) == {}


def test_what_no_container_is_said_of_is_told_besides() -> None:
    custom = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"a": [SHARING]}}
    sections = told(custom)
    [(word, text)] = sections["besides"]
    assert word == "note"
    assert text.endswith(" @spec.a[0].spec.containers[0].resources.limits[gpu]")
    stored = dict(sections["container main"])["stored"]
    assert stored.startswith("as it is written; its pods get milligpu.io/vgpu: 34")


def test_every_template_of_a_known_custom_resource_is_told() -> None:
    path = {"group": "kubeflow.org", "version": "v1", "resource": "pytorchjobs"}
    paths = f'[{{"path": "spec.replicas[*]", {str(path)[1:-1]}}}]'.replace("'", '"')
    custom = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
    named = [pod(container(name, limits={"gpu": "300m"})) for name in ("one", "two")]
    sections = told({**custom, "spec": {"replicas": named}}, MILLIGPU_TEMPLATE_PATHS=paths)
    assert [*sections] == [
        *("container one of spec.replicas[0]", "pods of spec.replicas[0]"),
        *("container two of spec.replicas[1]", "pods of spec.replicas[1]"),
    ]


def test_templates_with_the_same_container_are_kept_apart() -> None:
    custom = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {}}
    named = {"master": pod(container(limits={"gpu": "333m"})), "master2": SHARING}
    plain = list(explained({**custom, "spec": named}, Config(), lambda _: ""))
    notes = [[text for word, text in steps if word == "note"] for _, steps in plain[::2]]
    rounded = "333m is rounded up to 34 slots (0.34 of a card)"
    assert [texts.count(rounded) for texts in notes[:2]] == [1, 1]


# A pod that is in the cluster.


def running(document: Json, **status: Any) -> Json:
    """A pod as it is stored, with a status."""
    made = created(document)
    metadata = {**made["metadata"], "uid": "1", "namespace": "team-a"}
    return {**made, "metadata": metadata, "status": {"phase": "Running", **status}}


def device(card: str, number: object, health: str = "Healthy") -> Json:
    return {"resourceID": f"{card}::{number}", "health": health}


def allocated(*devices: Json, name: str = "main", resource: str = "milligpu.io/vgpu") -> Json:
    held = [{"name": resource, "resources": list(devices)}]
    return {"name": name, "allocatedResourcesStatus": held}


def test_a_stored_pod_is_told_as_it_is() -> None:
    stored = running(pod(container(), annotations={"milligpu.io/gpu": "333m"}))
    stored["spec"]["nodeName"] = "node1"
    sections = told(stored, MILLIGPU_CPUS_PER_GPU="1", MILLIGPU_TOLERATIONS="[]")
    steps = dict(sections["container main"])
    assert steps["ask"].startswith("333m in annotations[milligpu.io/gpu]")
    assert steps["means"].startswith("0.333 of a card: 34 of ")
    assert steps["cpu"] == "limit 2720m, request 272m"
    assert steps["card"].startswith("not known to the API server")
    assert sections["pod"][0] == ("state", "Running on node node1")
    assert "note" not in steps


def test_cards_and_slots_are_told_in_runs() -> None:
    ids = [device("GPU-b", number) for number in (10, 2, 0, 1, 40)]
    ids += [device("GPU-a", 7, "Unhealthy"), device("GPU-c", "whole")]
    other = allocated(device("GPU-d", 3), name="other")
    stored = running(SHARING, containerStatuses=[allocated(*ids), other])
    found = [text for word, text in told(stored)["container main"] if word == "card"]
    assert found == [
        "GPU-a, Unhealthy: slots 7",
        "GPU-b, Healthy: slots 0-2, 10, 40",
        "GPU-c, Healthy: all of it",
    ]


@pytest.mark.parametrize("place", PLACES)
def test_a_containers_status_is_found_by_its_kind(place: str) -> None:
    stored = running(at_place(place, container(limits={"gpu": "300m"})))
    section = "containerStatuses" if place == "container" else "initContainerStatuses"
    stored["status"][section] = [allocated(device("SIM-1", 5))]
    assert dict(told(stored)[f"{place} main"])["card"] == "SIM-1, Healthy: slots 5"


def test_devices_of_others_are_not_ours() -> None:
    stored = running(SHARING)
    other = allocated({"resourceID": "eth0", "health": "Healthy"}, resource="example.com/nic")
    stored["status"]["containerStatuses"] = [other]
    assert dict(told(stored)["container main"])["card"].startswith("not known")


@pytest.mark.parametrize(
    ("status", "words", "meaning"),
    [
        (
            {
                "phase": "Pending",
                "conditions": [
                    {"type": "Ready", "status": "False", "message": "not this"},
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/1 nodes are available: 1 Insufficient milligpu.io/vgpu.",
                    },
                ],
            },
            "Unschedulable: 0/1 nodes are available: 1 Insufficient milligpu.io/vgpu.",
            "no node that the pod may run on has so many slots of one card free; it waits until"
            " others end. A node without any has no plugin at work",
        ),
        (
            {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed"},
            "UnexpectedAdmissionError: Allocate failed",
            "no card had so many slots, or one was just taken; a controller makes another pod;"
            " a bare pod stays as it is: delete it and create it again",
        ),
        (
            {"phase": "Failed", "reason": "OutOfmilligpu.io/vgpu"},
            "OutOfmilligpu.io/vgpu",
            "another pod was faster; a controller makes another pod;"
            " a bare pod stays as it is: delete it and create it again",
        ),
        (
            {"phase": "Failed", "reason": "OutOfmilligpu.io/pgpu"},
            "OutOfmilligpu.io/pgpu",
            "another pod was faster; a controller makes another pod;"
            " a bare pod stays as it is: delete it and create it again",
        ),
        (
            {
                "phase": "Pending",
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "message": "0/1 nodes are available: 1 Insufficient milligpu.io/pgpu.",
                    }
                ],
            },
            "0/1 nodes are available: 1 Insufficient milligpu.io/pgpu.",
            "no node that it may run on has so many cards without a pod",
        ),
    ],
)
def test_why_a_pod_does_not_run(status: Json, words: str, meaning: str) -> None:
    steps = told(running(SHARING, **status))["pod"]
    assert steps[:3] == [("state", status["phase"]), ("because", words), ("that is", meaning)]
    assert "card" not in dict(told(running(SHARING, **status))["container main"])


def test_a_reason_that_is_nobodys_is_told_without_a_meaning() -> None:
    words = list(state({"status": {"phase": "Failed", "reason": "Evicted", "message": "disk"}}))
    assert words == [("state", "Failed"), ("because", "Evicted: disk")]


@pytest.mark.parametrize(
    "status",
    [[], {"containerStatuses": {}}, {"containerStatuses": [1]}, {"conditions": "none"}],
)
def test_a_status_of_wrong_types_is_denied(status: Any) -> None:
    made = {"status": status}
    item = Container("containers", "spec.containers[0]", "main", {})
    with pytest.raises(Denied, match=r"status.*must be"):
        [*state(made), *cards(made, item)]


# Whatever is written.


def pod_of(document: Json) -> Json:
    """The pod that is made of an object."""
    return {"metadata": {}, **held(document), "apiVersion": "v1", "kind": "Pod"}


@given(strategies.objects)
def test_what_is_refused_is_what_the_webhook_denies(document: Json) -> None:
    assert (REFUSED in told(document)) is not create(document).allowed


@given(strategies.objects)
def test_of_a_custom_resource_it_is_what_its_pods_are_denied_for(document: Json) -> None:
    custom = {**document, "apiVersion": "example.com/v1", "kind": "Trainer"}
    assert (f"its pods are {REFUSED}" in told(custom)) is not create(pod_of(document)).allowed


@given(strategies.good_objects)
def test_every_grant_is_told_once(document: Json) -> None:
    made = created(pod_of(document))
    granted = {body["name"]: body for body in containers(made) if gpus(body)}
    steps = {heading: dict(steps) for heading, steps in told(document).items()}
    stored = {heading.split()[-1]: found for heading, found in steps.items() if "stored" in found}
    assert stored.keys() == granted.keys()
    assert any("not held" in found for found in steps.values()) is bool(granted)
    for name, body in granted.items():
        limit = body["resources"]["limits"].get("cpu")
        assert stored[name].get("cpu", "none").startswith(f"limit {limit}, " if limit else "none")
