"""What the API server, the controllers and the scheduler make of a manifest.

As much as a demo needs, as pure functions on raw JSON.
"""

import uuid
from collections.abc import Iterator
from contextlib import suppress

from vgpu import quantity
from webhook import templates
from webhook.findings import Denied
from webhook.pod import Container, Json, containers, mapping, with_bodies


def review(document: Json) -> Json:
    """Return the AdmissionReview of an object's creation."""
    group, _, version = document["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": document["kind"]}
    request = {"uid": str(uuid.uuid4()), "kind": kind, "operation": "CREATE", "object": document}
    request |= {key: document["metadata"].get(key, "") for key in ("namespace", "name")}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def template(document: Json) -> Json | None:
    """Return what holds the pod's `metadata` and `spec`; None for what makes no pods."""
    group = document["apiVersion"].rpartition("/")[0]
    way = templates.PATHS.get((group, document["kind"]))
    found = None if way is None else templates.get(document, way)
    return found if isinstance(found, dict) else None


def arriving(document: Json) -> Json:
    """Return an object as the API server hands it to webhooks.

    It has a name and a namespace, and a pod's limits stand in its requests too.
    """
    metadata = {"name": "generated", "namespace": "default", **document["metadata"]}
    document = {**document, "metadata": metadata}
    if document["kind"] == "Pod":
        with suppress(Denied):  # what is malformed, the webhook says
            sides = ((item, *item.sides()) for item in containers(document, ""))
            bodies = (item.with_sides(has, {**has, **asks}) for item, has, asks in sides)
            return with_bodies(document, bodies)
    return document


def pods(document: Json) -> Iterator[Json]:
    """Yield each pod that there is at once: itself, or a workload's."""
    if document["kind"] == "Pod":
        yield document
        return
    held, name = template(document) or {}, document["metadata"]["name"]
    owner = {"apiVersion": document["apiVersion"], "kind": document["kind"], "name": name}
    owned = {"ownerReferences": [{**owner, "controller": True}]}
    placed = {"namespace": document["metadata"]["namespace"], **mapping(held, "metadata", "")}
    for number in range(_count(document)):
        metadata = {**placed, **owned, "name": f"{name}-{number}"}
        spec = held.get("spec") or {}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _count(document: Json) -> int:
    """Return how many pods run at the same time; on an only node a DaemonSet has one."""
    if document["kind"] == "PodTemplate":
        return 0
    spec = document["spec"]
    beside = spec["jobTemplate"]["spec"] if document["kind"] == "CronJob" else spec
    said = {key: value for key, value in beside.items() if isinstance(value, int)}
    most = said.get("replicas", said.get("parallelism", 1))
    return min(most, said.get("completions", most))


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
