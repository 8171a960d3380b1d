"""What the API server, the controllers and the scheduler make of a manifest.

As much as a demo needs, as pure functions on raw JSON.
"""

import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from vgpu import names, quantity
from webhook import asks, templates
from webhook.findings import Denied, malformed
from webhook.pod import (
    Container,
    Json,
    annotations,
    containers,
    mapping,
    with_bodies,
)

_OWNERS = {"Deployment": ("apps/v1", "ReplicaSet"), "CronJob": ("batch/v1", "Job")}
LASTING = frozenset(
    {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"}
)
"""Kinds whose pods run until they are deleted."""


def review(document: Json) -> Json:
    """Return the AdmissionReview of an object's creation."""
    group, _, version = document["apiVersion"].rpartition("/")
    request = {
        "uid": str(uuid.uuid4()),
        "kind": {"group": group, "version": version, "kind": document["kind"]},
        "name": document["metadata"].get("name", ""),
        "namespace": document["metadata"].get("namespace", ""),
        "operation": "CREATE",
        "userInfo": {"username": "demo"},
        "object": document,
        "oldObject": None,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def template(document: Json) -> Json | None:
    """Return what holds the pod's `metadata` and `spec`; None for what makes no pods."""
    group = document["apiVersion"].rpartition("/")[0]
    path = templates.PATHS.get((group, document["kind"]))
    found = None if path is None else templates.get(document, path)
    return found if isinstance(found, dict) else None


def arriving(document: Json) -> Json:
    """Return an object as the API server hands it to webhooks.

    It has a namespace, a pod's limits stand in its requests too, and what is null is left out.
    """
    document = _without_nulls(document)
    document["metadata"] = {"namespace": "default", **document["metadata"]}
    if template(document) is document:
        with suppress(Denied):  # what is malformed, the webhook says
            return with_bodies(document, [_defaulted(item) for item in containers(document, "")])
    return document


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_nulls(item) for key, item in value.items() if item is not None}


def check(pod: Json) -> None:
    """Raise Denied for names and quantities of a pod that an API server would refuse."""
    listed = containers(pod, "")
    if not any(item.section == "containers" for item in listed):
        raise malformed("spec", "containers", "must hold one at least")
    for item in listed:
        if not item.name:
            raise malformed(item.at, "name", "must be a text; quote it")
        for side, values in zip(("limits", "requests"), item.sides(), strict=True):
            for key, value in values.items():
                if asks.number(value) is None:
                    raise malformed(item.at, f"resources.{side}[{key}]", "must be a quantity")


def _defaulted(item: Container) -> Json:
    limits, requests = item.sides()
    if not limits:
        return item.body
    resources = {**item.mapping("resources"), "requests": {**limits, **requests}}
    return {**item.body, "resources": resources}


def asked(document: Json) -> tuple[str, ...]:
    """Return what an object says of GPUs, a text for each container's resource and annotation."""
    held, said = template(document) or {}, []
    with suppress(Denied):  # what is malformed, the webhook says
        for item in containers(held, ""):
            for key, value in item.sides()[0].items():
                if key in names.ASK_KEYS or names.is_gpu_resource(key):
                    said.append(f"{item.name}: {key}: {value}")
        if ask := annotations(held, "").get(names.ANNOTATION_ASK):
            said.append(f"annotation {names.ANNOTATION_ASK}: {ask}")
    return tuple(said)


def pods(document: Json) -> Iterator[tuple[str, Json]]:
    """Yield name and object of each pod that there is at once: itself, or a workload's."""
    held, metadata, kind = template(document) or {}, document["metadata"], document["kind"]
    name = metadata.get("name", "generated")
    if kind == "Pod":
        yield name, document
        return
    version, owner = _OWNERS.get(kind, (document["apiVersion"], kind))
    reference = {"apiVersion": version, "kind": owner, "name": name, "controller": True}
    stateful = kind == "StatefulSet"
    first = 0 if stateful else 1
    for number in range(first, first + _count(document)):
        mine = {"name": f"{name}-{number}"} if stateful else {"generateName": f"{name}-"}
        made = {**mine, "namespace": metadata["namespace"], **mapping(held, "metadata", "")}
        made["ownerReferences"] = [reference]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": held.get("spec") or {}}
        yield f"{name}-{number}", pod


def _count(document: Json) -> int:
    """Return how many pods run at the same time; on an only node a DaemonSet has one."""
    kind, spec = document["kind"], document.get("spec") or {}
    if kind == "PodTemplate":
        return 0
    if kind == "DaemonSet":
        return 1
    if kind not in ("Job", "CronJob"):
        return _whole(spec.get("replicas"), 1)
    job = spec["jobTemplate"]["spec"] if kind == "CronJob" else spec
    parallelism = _whole(job.get("parallelism"), 1)
    return min(parallelism, _whole(job.get("completions"), parallelism))


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def needs(pod: Json, resource: str) -> int:
    """Return how much of a resource the scheduler counts for a pod (KEP-753 for sidecars)."""
    together, most = 0, 0
    for item in containers(pod, ""):
        limits, _ = item.sides()
        amount = int(quantity.parse(str(limits.get(resource, 0))))
        if role(item) == "init container":
            most = max(most, together + amount)
        else:
            together += amount
    return max(together, most)


def role(item: Container) -> str:
    """Return `init container`, `sidecar`, or nothing for a main container."""
    if item.section == "containers":
        return ""
    return "sidecar" if item.body.get("restartPolicy") == "Always" else "init container"


def environment(
    written: list[Json], stored: list[Json], plugin: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Return a container's variables: value, and who set it: `plugin`, `webhook` or `yours`.

    A pod's own variable beats the plugin's. `written` is the container's `env` before the webhook
    saw it, `stored` after.
    """
    seen = {name: (value, "plugin") for name, value in sorted(plugin.items())}
    texts: dict[str, str] = {}
    for entry in stored:
        name, source = str(entry.get("name")), entry.get("valueFrom")
        value = expanded(str(entry.get("value", "")), texts)
        texts[name] = f"(from {', '.join(source)})" if source else value
        seen[name] = (texts[name], "yours" if entry in written else "webhook")
    return seen


def expanded(text: str, env: Mapping[str, str]) -> str:
    """Fill in `$(NAME)` as the kubelet does: unknown names stay, `$$` is a dollar sign."""
    return re.sub(
        r"\$(\$|\(([^()]+)\))",
        lambda found: "$" if found[1] == "$" else env.get(found[2], found[0]),
        text,
    )
