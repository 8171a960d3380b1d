import json
from typing import Any

import pytest

from milligpu.remarks import creation, decided, findings
from tests.unit.webhook.objects import KINDS, TEMPLATES, container, created, held, holding, pod
from vgpu.settings import read
from webhook.config import Config
from webhook.findings import Code
from webhook.pod import Json

SHARING = pod(container(limits={"gpu": "300m", "cpu": 1}))
CUSTOM = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "j"}}
REPLICAS = {**CUSTOM, "spec": {"pytorchReplicaSpecs": {"Master": {"template": SHARING}}}}


def found(document: Json, **settings: str) -> list[tuple[str, str]]:
    """Code and field path of each finding."""
    said = findings(creation(document), read(Config, settings))
    return [(each.code.label, each.path) for each in said]


def changed(document: Json, *way: str | int, to: Any) -> Json:
    """A copy with another value at the end of a way, whose objects are made where they lack."""
    copy: Json = json.loads(json.dumps(document))
    place: Any = copy
    for key in way[:-1]:
        place = place[key] if isinstance(key, int) else place.setdefault(key, {})
    place[way[-1]] = to
    return copy


@pytest.mark.parametrize("kind", KINDS)
def test_a_share_is_nothing_to_say(kind: str) -> None:
    assert found(holding(kind, SHARING)) == []


def test_errors_and_warnings_are_said_at_once() -> None:
    body = container(limits={"gpu": "300m"}, env=[{"name": "NVIDIA_VISIBLE_DEVICES"}])
    other = container("other", limits={"gpu": "1500m"})
    assert found(pod(body, other)) == [
        ("ask", "spec.containers[1].resources.limits[gpu]"),
        ("reserved-variable", "spec.containers[0].env"),
        ("cpu-limit", "spec.containers[0].resources.limits"),
    ]


UNREAD = {
    "a pod's own resources": (("spec", "resources", "limits", "gpu"), "300m"),
    "its requests": (("spec", "resources", "requests", "milligpu.io/gpu"), 0.3),
    "an ephemeral container": (
        ("spec", "ephemeralContainers"),
        [{"name": "debug", "resources": {"limits": {"nvidia.com/gpu": "300m"}}}],
    ),
    "a container, not its limits": (("spec", "containers", 0, "resources", "gpu"), "300m"),
    "misspelled limits": (("spec", "containers", 0, "resources", "limit", "gpu"), 0.3),
    "limits without resources": (("spec", "containers", 0, "limits", "gpu"), "300m"),
    "requests without resources": (("spec", "containers", 0, "requests", "milligpu.io/gpu"), 1),
    "a container": (("spec", "containers", 0, "gpu"), "300m"),
    "an indentation lost": (("spec", "containers", 0, "nvidia.com/gpu"), "300m"),
    "a pod's limits": (("spec", "limits", "gpu"), "300m"),
    "a pod's spec": (("spec", "gpu"), 2),
    "beside the spec": (("gpu",), "300m"),
    "metadata": (("metadata", "milligpu.io/gpu"), "300m"),
    "a label": (("metadata", "labels", "milligpu.io/gpu"), "300m"),
    "an annotation without the prefix": (("metadata", "annotations", "gpu"), "0.3"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", UNREAD)
def test_an_ask_where_nobody_reads_it_is_found(name: str, kind: str) -> None:
    way, value = UNREAD[name]
    way = (*KINDS[kind][1], *way)
    [(code, path)] = found(changed(holding(kind, pod(container())), *way, to=value))
    assert code == "misplaced-ask"
    assert path.startswith(".".join(map(str, way[:-1])).replace(".0", "[0]"))


@pytest.mark.parametrize(
    ("way", "value"),
    [
        (("spec", "nodeSelector"), {"gpu": "1", "milligpu.io/gpu": "true"}),
        (("spec", "resources"), {"limits": {"nvidia.com/gpu": 1, "milligpu.io/vgpu": 3}}),
        (("metadata", "labels"), {"gpu": "1"}),
        (("metadata", "annotations"), {"gpu": "a100", "gpu-type": "0.5"}),
        (("metadata", "annotations"), {"gpu": "1"}),
        (("spec", "volumes"), [{"ephemeral": {"spec": {"resources": {"requests": None}}}}]),
        (("spec", "gpu"), "a100"),
        (("spec", "gpu"), True),
        (("spec", "nvidia.com/gpu"), 1),
        (("spec", "containers", 0, "env"), [{"name": "gpu", "value": "300m"}]),
        (("spec", "volumes"), [{"csi": {"volumeAttributes": {"gpu": "1"}}}]),
        (("spec", "affinity"), {"podAffinity": [{"labelSelector": {"matchLabels": {"gpu": "1"}}}]}),
        (("status", "containerStatuses"), [{"allocatedResources": {"gpu": "1"}}]),
        (("metadata", "managedFields"), [{"fieldsV1": {"f:metadata": {"gpu": "1"}}}]),
    ],
)
def test_what_only_looks_like_an_ask_is_none(way: tuple[str, ...], value: Any) -> None:
    assert found(changed(pod(container()), *way, to=value)) == []


@pytest.mark.parametrize("kind", TEMPLATES)
def test_an_ask_beside_a_template_is_found(kind: str) -> None:
    misplaced = changed(holding(kind, pod(container())), "spec", "resources", "gpu", to="300m")
    assert found(misplaced) == [("misplaced-ask", "spec.resources[gpu]")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "key",
    ["milligpu.io/gpus", "milligpu.io/vpgu", "GPU", "gpus", "nvidia.com/GPUs", "milligpu.io/VGPU"],
)
def test_a_resource_that_no_node_offers_is_found_once(key: str, kind: str) -> None:
    wrong = holding(kind, pod(container(limits={key: 30}, requests={key: 30})))
    at = ".".join((*KINDS[kind][1], "spec.containers[0].resources.limits"))
    assert found(wrong) == [("unknown-resource", f"{at}[{key}]")]
    assert ("unknown-resource", f"spec.template.{at}[{key}]") in found(
        {**CUSTOM, "spec": {"template": wrong}}
    )


@pytest.mark.parametrize("key", ["gpu", "milligpu.io/gpu", "requests.milligpu.io/gpu"])
@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        ("ResourceQuota", lambda key: {"hard": {key: 1}}, "spec.hard"),
        ("LimitRange", lambda key: {"limits": [{"default": {key: 1}}]}, "spec.limits[0].default"),
        ("LimitRange", lambda key: {"limits": [{"max": {key: 1}}]}, "spec.limits[0].max"),
    ],
)
def test_a_quota_on_asks_counts_nothing(kind: str, spec: Any, path: str, key: str) -> None:
    document = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "q"}, "spec": spec(key)}
    assert found(document) == [("misplaced-ask", f"{path}[{key}]")]
    for grant in ("milligpu.io/vgpu", "milligpu.io/pgpu"):
        counted = f"requests.{grant}" if kind == "ResourceQuota" else grant
        assert found({**document, "spec": spec(counted)}) == []
        [said] = findings(creation(document), Config())
        assert grant in said.text


@pytest.mark.parametrize("key", ["milligpu.io/vgpu", "limits.milligpu.io/pgpu"])
def test_a_quota_on_slots_that_kubernetes_ignores_is_found(key: str) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {key: 1}}}
    assert found(quota) == [("misplaced-ask", f"spec.hard[{key}]")]


@pytest.mark.parametrize("version", ["v1", "networking.k8s.io/v1", "autoscaling/v2"])
def test_an_ask_in_a_kind_without_pods_is_misplaced(version: str) -> None:
    document = {"apiVersion": version, "kind": "Service", "metadata": {"name": "s"}}
    assert found(document) == []
    noted = changed(document, "metadata", "annotations", "milligpu.io/gpu", to="300m")
    assert found(noted) == [("misplaced-ask", "metadata.annotations[milligpu.io/gpu]")]


def test_an_ask_in_a_custom_resource_is_noted() -> None:
    prefix = "spec.pytorchReplicaSpecs.Master.template.spec.containers[0].resources"
    assert found(REPLICAS) == [("custom-resource", f"{prefix}.limits[gpu]")]
    assert Code.CUSTOM_RESOURCE.level == "note"
    assert found(CUSTOM) == []


def test_a_request_beside_its_limit_is_not_noted_twice() -> None:
    resources = ("spec", "worker", "resources")
    both = changed(CUSTOM, *resources, to={"limits": {"gpu": 1}, "requests": {"gpu": 1}})
    assert found(both) == [("custom-resource", "spec.worker.resources.limits[gpu]")]
    only = changed(CUSTOM, *resources, to={"requests": {"gpu": 1}})
    assert found(only) == [("custom-resource", "spec.worker.resources.requests[gpu]")]


def test_the_pods_in_a_custom_resource_are_looked_into() -> None:
    wrong = pod(container(limits={"gpu": "1500m"}), container("other", requests={"gpu": "300m"}))
    picks = pod(container(limits={"gpu": "300m"}, env=[{"name": "CUDA_VISIBLE_DEVICES"}]))
    groups = [{"template": wrong}, {"template": picks}, {"template": pod(container())}]
    said = [
        each for each in found({**CUSTOM, "spec": {"groups": groups}}) if each[0] != "cpu-limit"
    ]
    at = "spec.groups[{}].template.spec.containers[{}]"
    assert said == [
        ("ask", f"{at.format(0, 0)}.resources.limits[gpu]"),
        ("requests", f"{at.format(0, 1)}.resources.requests[gpu]"),
        ("reserved-variable", f"{at.format(1, 0)}.env"),
    ], "none of what is refused is said to count"


@pytest.mark.parametrize(
    "way", [("gpu",), ("resources", "gpu"), ("resources", "limit", "gpu"), ("limits", "gpu")]
)
def test_an_ask_at_a_wrong_place_in_a_custom_resources_pods_counts_nowhere(
    way: tuple[str, ...],
) -> None:
    holder = ("spec", "replicas", "template", "spec", "containers", 0)
    plain = {**CUSTOM, "spec": {"replicas": {"gpu": 1, "template": pod(container())}}}
    assert found(plain) == [], "what else it has is its own"
    [(code, at)] = found(changed(plain, *holder, *way, to="300m"))
    assert code == "misplaced-ask"
    assert at.startswith("spec.replicas.template.spec.containers[0]")


def test_a_label_on_a_custom_resource_asks_for_nothing() -> None:
    labelled = changed(CUSTOM, "metadata", "labels", "milligpu.io/gpu", to="300m")
    assert found(labelled) == [("misplaced-ask", "metadata.labels[milligpu.io/gpu]")]


def test_only_who_wants_to_is_told_of_the_pods_in_a_custom_resource() -> None:
    wrong = changed(CUSTOM, "spec", "template", to=pod(container(limits={"gpu": "1500m"})))
    _, [only] = decided(creation(wrong), Config())
    assert only.code is Code.CUSTOM_RESOURCE


def test_an_annotation_on_a_custom_resource_may_get_to_its_pods() -> None:
    noted = changed(REPLICAS, "metadata", "annotations", "milligpu.io/gpu", to="300m")
    assert ("custom-resource", "metadata.annotations[milligpu.io/gpu]") in found(noted)
    texts = [each.text for each in findings(creation(noted), Config())]
    [own] = [text for text in texts if "only if the operator of PyTorchJob copies it" in text]
    assert own.startswith("milligpu.io/gpu: 300m counts only")
    on_template = ("spec", "pytorchReplicaSpecs", "Master", "template", "metadata", "annotations")
    handed_on = changed(CUSTOM, *on_template, "milligpu.io/gpu", to="300m")
    handed_on = changed(handed_on, *on_template[:-2], "spec", to={"containers": [container()]})
    _, [said] = decided(creation(handed_on), Config())
    assert "counts when pods are made of this PyTorchJob" in said.text
    assert {code for code, _ in found(noted)} == {"custom-resource"}


def test_a_custom_resource_that_the_settings_know_is_looked_into() -> None:
    known = {"group": "kubeflow.org", "version": "v1", "resource": "pytorchjobs"}
    paths = json.dumps([{**known, "path": "spec.pytorchReplicaSpecs.*.template"}])
    assert found(REPLICAS, MILLIGPU_TEMPLATE_PATHS=paths) == []
    way = ("spec", "pytorchReplicaSpecs", "Master", "template", "spec", "containers", 0)
    wrong = changed(REPLICAS, *way, "resources", "limits", "gpu", to="1500m")
    assert [code for code, _ in found(wrong, MILLIGPU_TEMPLATE_PATHS=paths)] == ["ask"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_webhooks_record_is_not_for_hands(kind: str) -> None:
    document = holding(kind, pod(container(), annotations={"milligpu.io/share": "{}"}))
    assert [code for code, _ in found(document)] == ["record"]
    stored = changed(document, "metadata", "uid", to="1")
    assert found(stored) == []


def test_what_a_webhook_wrote_is_nothing_to_say() -> None:
    assert found(changed(created(SHARING), "metadata", "uid", to="1")) == []


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_template_that_is_none_does_not_stop_it(kind: str) -> None:
    document = holding(kind, SHARING)
    held(document)["spec"] = {"containers": "none"}
    assert [code for code, _ in found(document)] == ["malformed"]
