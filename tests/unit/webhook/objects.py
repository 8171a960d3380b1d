"""Objects as people write them and as the API server sends them, and what the webhook answers.

Paths and defaults are spelled here from the API's documentation, not taken from the webhook.
"""

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

import jsonpatch

from webhook.admission import answer
from webhook.config import Config
from webhook.pod import Json

_TEMPLATE = ("spec", "template")
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Pod": ("v1", ()),
    "ReplicationController": ("v1", _TEMPLATE),
    "PodTemplate": ("v1", ("template",)),
    "Deployment": ("apps/v1", _TEMPLATE),
    "ReplicaSet": ("apps/v1", _TEMPLATE),
    "StatefulSet": ("apps/v1", _TEMPLATE),
    "DaemonSet": ("apps/v1", _TEMPLATE),
    "Job": ("batch/v1", _TEMPLATE),
    "CronJob": ("batch/v1", ("spec", "jobTemplate", "spec", "template")),
}
"""API version and way to the pod's metadata and spec, by kind."""
TEMPLATES = [kind for kind in KINDS if kind != "Pod"]
PLACES = ("container", "init container", "sidecar")
ASKS = ("gpu", "milligpu.io/gpu", "nvidia.com/gpu")
COUNT, WHOLE = "milligpu.io/vgpu", "milligpu.io/pgpu"

OFFICIAL = "tensorflow/serving:2.16.1-gpu"
FLAG = "--per_process_gpu_memory_fraction="
OUR_FLAG = FLAG + "$(MILLIGPU_MEMORY_FRACTION)"
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def copied(value: Any) -> Any:
    """Return a copy of a JSON value, much faster than `copy.deepcopy`."""
    return json.loads(json.dumps(value))


def container(
    name: str = "main",
    limits: Mapping[str, Any] | None = None,
    requests: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Json:
    """Return a container as a person writes it."""
    sides = {"limits": limits, "requests": requests}
    resources = {side: dict(values) for side, values in sides.items() if values is not None}
    body = {"name": name, "image": "registry.example/model", **fields}
    return {**body, "resources": resources} if resources else body


def pod(
    *containers: Json,
    init: Sequence[Json] = (),
    annotations: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Json:
    """Return a bare pod as a person writes it."""
    metadata: Json = {"name": "model"}
    if annotations is not None:
        metadata["annotations"] = dict(annotations)
    if init:
        spec["initContainers"] = list(init)
    spec["containers"] = list(containers)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def at_place(place: str, body: Json, **spec: Any) -> Json:
    """Return a pod with a container at one of PLACES, beside a plain one."""
    if place == "container":
        return pod(body, **spec)
    if place == "sidecar":
        body = {**body, "restartPolicy": "Always"}
    return pod(container("app"), init=[body], **spec)


def holding(kind: str, pod: Json) -> Json:
    """Return an object of a kind around a pod."""
    if kind == "Pod":
        return {**copied(pod)}
    version, path = KINDS[kind]
    metadata = {**pod["metadata"], "labels": {"app": "model"}}
    del metadata["name"]
    value: Json = {"metadata": metadata, "spec": copied(pod["spec"])}
    for key in reversed(path):
        value = {key: value}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "model"}, **value}


def held(obj: Json) -> Json:
    """Return the part of an object that has a pod's metadata and spec."""
    found: Json = obj
    for key in KINDS[obj["kind"]][1]:
        found = found[key]
    return found


def prefix(kind: str, *rest: str) -> str:
    """Return a field path below the pod of a kind, as a message shows it."""
    return ".".join((*KINDS[kind][1], *rest))


def containers(obj: Json) -> Iterator[Json]:
    """Yield the init containers and containers of an object's pod."""
    spec = held(obj)["spec"]
    yield from spec.get("initContainers") or []
    yield from spec.get("containers") or []


def named(obj: Json, name: str = "main") -> Json:
    """Return the container of a name."""
    (found,) = (body for body in containers(obj) if body["name"] == name)
    return found


def env(body: Json) -> dict[str, Any]:
    """Return a container's environment by name; a name that comes twice is a failure."""
    entries = body.get("env") or []
    found = {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in entries}
    assert len(found) == len(entries)
    return found


def gpus(body: Json) -> dict[str, str]:
    """Return a container's GPU resources, which must be the same in limits and requests."""
    resources = body.get("resources") or {}
    sides = [
        {
            key: value
            for key, value in (resources.get(side) or {}).items()
            if key == "gpu" or "gpu" in key.partition("/")[2]
        }
        for side in ("limits", "requests")
    ]
    assert sides[0] == sides[1]
    return sides[0]


# What the API server makes of an object before a webhook sees it.

NOT_READY = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
]
_SUFFIXES = ("", "k", "M", "G", "T", "P", "E")


def canonical(value: Any) -> Any:
    """Return a quantity as apimachinery writes it, rounded up to thousandths as pods are."""
    if value is None:
        return "0"
    text = value if isinstance(value, str) else json.dumps(value)
    if not re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,18})?m?", text):
        return text
    number = Decimal(text.rstrip("m")) * (1 if text.endswith("m") else 1000)
    thousandths = int(number.to_integral_value(ROUND_CEILING))
    if thousandths % 1000:
        return f"{thousandths}m"
    whole, power = thousandths // 1000, 0
    while whole and whole % 1000 == 0:
        whole, power = whole // 1000, power + 1
    return f"{whole}{_SUFFIXES[power]}"


def sent(obj: Json) -> Json:
    """Return an object as the API server sends it: canonical, defaulted, with its own fields."""
    obj = copied(obj)
    obj["metadata"].setdefault("namespace", "team-a")
    obj["metadata"].setdefault("creationTimestamp", None)
    obj["metadata"].setdefault("managedFields", _managed("kubectl-create", "Update"))
    obj["status"] = {}
    for body in containers(obj):
        _defaulted(body, limits_are_requested=obj["kind"] == "Pod")
    spec = held(obj)["spec"]
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    if obj["kind"] == "Pod":
        present = spec.get("tolerations") or []
        missing = [item for item in NOT_READY if item not in present]
        spec["tolerations"] = [*present, *missing]
    else:
        held(obj).setdefault("metadata", {}).setdefault("creationTimestamp", None)
    return obj


def _managed(manager: str, operation: str) -> list[Json]:
    fields: Json = {"f:spec": {"f:containers": {'k:{"name":"main"}': {"f:resources": {}}}}}
    return [{"manager": manager, "operation": operation, "fieldsV1": fields}]


def _defaulted(body: Json, *, limits_are_requested: bool) -> None:
    body.setdefault("imagePullPolicy", "IfNotPresent")
    body.setdefault("terminationMessagePath", "/dev/termination-log")
    body.setdefault("env", None)
    resources = body.setdefault("resources", {})
    for side in ("limits", "requests"):
        if side in resources:
            resources[side] = {key: canonical(each) for key, each in resources[side].items()}
    if limits_are_requested and resources.get("limits"):
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}


FORMS = {"as written": copied, "as sent": sent}
"""An object as a person writes it, and as the API server sends it."""


# What is applied again.


def merged(stored: Any, manifest: Any) -> Any:
    """Return what a manifest makes of a stored object: maps and lists of named things merge.

    Client-side apply (its patch keeps what the manifest never had) and server-side apply (nobody
    owns what we added) give the same here.
    """
    if isinstance(stored, dict) and isinstance(manifest, dict):
        both = {key: merged(stored.get(key), value) for key, value in manifest.items()}
        return {**stored, **both}
    if isinstance(stored, list) and isinstance(manifest, list) and _all_named(manifest):
        by_name = {item["name"]: item for item in manifest}
        known = {item["name"] for item in stored}
        kept = [merged(item, by_name.get(item["name"], item)) for item in stored]
        return [*kept, *(item for item in manifest if item["name"] not in known)]
    return manifest


def _all_named(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(item, dict) and "name" in item for item in items)


def reapplied(stored: Json, manifest: Json, operation: str = "Update") -> Json:
    """Return what the API server sends when a manifest is applied to a stored object again."""
    result = sent(merged(stored, manifest))
    # Whoever applied it owns `gpu`, which the stored object has not.
    result["metadata"]["managedFields"] = _managed("kubectl", operation)
    return result


# What the webhook answers.


@dataclass(frozen=True)
class Outcome:
    """An answer, with its patch applied."""

    allowed: bool
    message: str
    object: Json
    patch: list[Json]
    warnings: list[str]


def review(obj: Any, old: Any = None, **request: Any) -> Json:
    """Return the AdmissionReview of an object on its way into the cluster."""
    group, _, version = obj["apiVersion"].rpartition("/")
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "00000000-0000-0000-0000-000000000001",
            "kind": {"group": group, "version": version, "kind": obj["kind"]},
            "operation": "CREATE" if old is None else "UPDATE",
            "namespace": "team-a",
            "object": obj,
            "oldObject": old,
            "options": None,
            **request,
        },
    }


def answered(document: Json, config: Config | None = None) -> Outcome:
    """Return the answer to an AdmissionReview."""
    text = json.dumps(document)
    arrived = json.loads(text)
    body = copied(answer(arrived, config or Config()).body)
    assert json.dumps(arrived) == text, "the argument was changed"
    response, obj = body["response"], arrived["request"]["object"]
    patch = json.loads(b64decode(response["patch"])) if "patch" in response else []
    assert ("patch" in response) == ("patchType" in response) == bool(patch)
    if response["allowed"]:
        assert "status" not in response
    else:
        assert not patch
        assert response["status"]["code"] == 422
    return Outcome(
        allowed=response["allowed"],
        message=response.get("status", {}).get("message", ""),
        object=jsonpatch.apply_patch(obj, patch, in_place=True),
        patch=patch,
        warnings=response.get("warnings", []),
    )


def create(obj: Json, config: Config | None = None) -> Outcome:
    """Return the answer to the creation of an object."""
    outcome = answered(review(obj), config)
    if outcome.allowed:
        again = answered(review(outcome.object), config)
        assert (again.allowed, again.patch) == (True, []), "not idempotent (B17)"
    return outcome


def update(obj: Json, old: Json, config: Config | None = None) -> Outcome:
    """Return the answer to the update of an object."""
    outcome = answered(review(obj, old), config)
    if outcome.allowed:
        again = answered(review(outcome.object, old), config)
        assert (again.allowed, again.patch) == (True, []), "not idempotent (B17)"
    return outcome


def created(obj: Json, config: Config | None = None) -> Json:
    """Return an object as it is created; a denial is a failure."""
    outcome = create(obj, config)
    assert outcome.allowed, outcome.message
    return outcome.object


def denied(obj: Json, config: Config | None = None) -> str:
    """Return the message with which the creation of an object is denied."""
    outcome = create(obj, config)
    assert not outcome.allowed
    return outcome.message
