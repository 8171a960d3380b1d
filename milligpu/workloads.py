"""What the API server, the controllers and the scheduler make of a manifest: as much as a demo
needs, as pure functions on raw JSON."""

import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from vgpu import names, quantity
from webhook import templates
from webhook.pod import SECTIONS, Container, Denied, Json, containers, mapping

LASTING = frozenset(
    {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"}
)
"""Kinds whose pods run until they are deleted."""
_USER = "demo"
_DECIMAL = re.compile(r"[+-]?[0-9.]+m?")


def review(document: Json) -> Json:
    """Return the AdmissionReview of an object's creation."""
    group, _, version = document["apiVersion"].rpartition("/")
    metadata = document["metadata"]
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": {"group": group, "version": version, "kind": document["kind"]},
            "name": metadata.get("name", ""),
            "namespace": metadata.get("namespace", ""),
            "operation": "CREATE",
            "userInfo": {"username": _USER},
            "object": document,
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    }


def template(document: Json) -> Json | None:
    """Return what holds the pod's `metadata` and `spec`; None for what makes no pods."""
    group = document["apiVersion"].rpartition("/")[0]
    path = templates.PATHS.get((group, document["kind"]))
    found = None if path is None else templates.get(document, path)
    return found if isinstance(found, dict) else None


def arriving(document: Json) -> Json:
    """Return an object as the API server hands it to webhooks.

    It has a namespace, its quantities are canonical, and a pod's limits stand in its requests too.
    """
    document = {**document, "metadata": {"namespace": "default", **document["metadata"]}}
    group = document["apiVersion"].rpartition("/")[0]
    path = templates.PATHS.get((group, document["kind"]))
    held = template(document)
    if path is None or held is None or not isinstance(held.get("spec"), dict):
        return document
    spec = dict(held["spec"])
    for section in SECTIONS:
        if isinstance(spec.get(section), list):
            spec[section] = [_container(body, defaulted=path == ()) for body in spec[section]]
    return templates.replaced(document, path, {**held, "spec": spec})


def _container(body: Any, *, defaulted: bool) -> Any:
    match body:
        case {"resources": {"limits": {**written}, **rest}}:
            limits = {key: _canonical(value) for key, value in written.items()}
        case _:
            return body
    requests = rest.get("requests") or {}
    if isinstance(requests, dict) and (requests or defaulted):
        requests = {key: _canonical(value) for key, value in requests.items()}
        rest["requests"] = {**limits, **requests} if defaulted else requests
    return {**body, "resources": {"limits": limits, **rest}}


def _canonical(value: Any) -> Any:
    """Return `0.3` as `300m`; what has another suffix, or none that can be read, stays."""
    if isinstance(value, bool) or not _DECIMAL.fullmatch(str(value)):
        return value
    try:
        return quantity.milli(quantity.parse(str(value)))
    except ValueError:
        return value


def asked(document: Json) -> tuple[str, ...]:
    """Return what an object says of GPUs, a text for each container's resource and annotation."""
    said: list[str] = []
    with suppress(Denied):  # what is malformed, the webhook says
        said.extend(_asked(template(document) or {}))
    return tuple(said)


def _asked(held: Json) -> Iterator[str]:
    for item in containers(held, ""):
        for key, value in mapping(item.mapping("resources"), "limits", "").items():
            if key in names.ASK_KEYS or names.is_gpu_resource(key):
                yield f"{item.name}: {key}: {value}"
    note = mapping(mapping(held, "metadata", ""), "annotations", "").get(names.ANNOTATION_ASK)
    if note is not None:
        yield f"annotation {names.ANNOTATION_ASK}: {note}"


def pods(document: Json) -> Iterator[tuple[str, Json]]:
    """Yield name and object of each pod that a workload's controllers create at once."""
    held, name = template(document), document["metadata"].get("name", "generated")
    first = 0 if document["kind"] == "StatefulSet" else 1
    for number in range(first, first + _count(document)):
        yield f"{name}-{number}", _pod(document, name, held or {}, number)


def _pod(document: Json, name: str, held: Json, number: int) -> Json:
    kind = document["kind"]
    owner = {"Deployment": ("apps/v1", "ReplicaSet"), "CronJob": ("batch/v1", "Job")}.get(
        kind, (document["apiVersion"], kind)
    )
    reference = {"apiVersion": owner[0], "kind": owner[1], "name": name, "controller": True}
    identity = (
        {"name": f"{name}-{number}"} if kind == "StatefulSet" else {"generateName": f"{name}-"}
    )
    metadata = {
        **identity,
        "namespace": document["metadata"]["namespace"],
        **(held.get("metadata") or {}),
        "ownerReferences": [reference],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": held.get("spec") or {}}


def _count(document: Json) -> int:
    """Return how many pods run at the same time; on the demo's only node a DaemonSet has one."""
    spec = document.get("spec") or {}
    match document["kind"]:
        case "PodTemplate":
            return 0
        case "DaemonSet":
            return 1
        case "CronJob":
            return _parallel((spec.get("jobTemplate") or {}).get("spec") or {})
        case "Job":
            return _parallel(spec)
    return _whole(spec.get("replicas"), 1)


def _parallel(spec: Json) -> int:
    parallelism = _whole(spec.get("parallelism"), 1)
    return min(parallelism, _whole(spec.get("completions"), parallelism))


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) else default


def needs(pod: Json, resource: str) -> int:
    """Return how much of a resource the scheduler counts for a pod (KEP-753 for sidecars)."""
    together, most = 0, 0
    for item in containers(pod, ""):
        limits = item.mapping("resources").get("limits") or {}
        amount = int(quantity.parse(str(limits.get(resource, 0))))
        if role(item) == "init":
            most = max(most, together + amount)
        else:
            together += amount
    return max(together, most)


def role(item: Container) -> Literal["", "init", "sidecar"]:
    """Return what an init container is, or nothing."""
    if item.section == "containers":
        return ""
    return "sidecar" if item.body.get("restartPolicy") == "Always" else "init"


Origin = Literal["yours", "webhook", "plugin"]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable as the container sees it, and who set it."""

    name: str
    value: str
    origin: Origin


def environment(
    written: list[Json], stored: list[Json], plugin: Mapping[str, str]
) -> tuple[Variable, ...]:
    """Return a container's environment: a pod's own variable beats the plugin's.

    `written` is the container's `env` before the webhook saw it, `stored` after.
    """
    seen = {name: Variable(name, value, "plugin") for name, value in sorted(plugin.items())}
    texts: dict[str, str] = {}
    for entry in stored:
        name = str(entry.get("name"))
        texts[name] = _value(entry, texts)
        seen[name] = Variable(name, texts[name], "yours" if entry in written else "webhook")
    return tuple(seen.values())


def _value(entry: Json, before: Mapping[str, str]) -> str:
    source = entry.get("valueFrom")
    if source:
        return f"(from {', '.join(source)})"
    return expanded(str(entry.get("value", "")), before)


def expanded(text: str, env: Mapping[str, str]) -> str:
    """Fill in `$(NAME)` as the kubelet does: unknown names stay, `$$` is a dollar sign."""
    return re.sub(
        r"\$(\$|\(([^()]+)\))",
        lambda found: "$" if found[1] == "$" else env.get(found[2], found[0]),
        text,
    )
