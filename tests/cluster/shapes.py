"""The nine kinds that hold pods, around one pod each, for tests."""

import copy

from tests.cluster.api import Json
from webhook.templates import PATHS, get

_APPS = {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"}
KINDS = [kind for _, kind in PATHS]


def pod(name: str, *containers: Json, annotations: dict[str, str] | None = None) -> Json:
    """Return a bare pod; containers lack nothing but what a test gives them."""
    metadata: Json = {"name": name, **({"annotations": annotations} if annotations else {})}
    spec = {"containers": [{"image": "none", **container} for container in containers]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def limited(name: str, **limits: str) -> Json:
    """Return a container with limits; `gpu`, or names with `_` for what a keyword cannot have."""
    return {"name": name, "resources": {"limits": limits}}


def holding(kind: str, pod: Json) -> Json:
    """Return an object of a kind whose pods look like a pod."""
    name, template = pod["metadata"]["name"], copy.deepcopy(pod)
    del template["apiVersion"], template["kind"], template["metadata"]["name"]
    template["metadata"]["labels"] = {"app": name}
    selector = {"matchLabels": {"app": name}}
    match kind:
        case "Pod":
            return copy.deepcopy(pod)
        case "PodTemplate":
            return {**_head("v1", kind, name), "template": template}
        case "ReplicationController":
            spec: Json = {"replicas": 1, "selector": {"app": name}, "template": template}
            return {**_head("v1", kind, name), "spec": spec}
        case "Job" | "CronJob":
            template["spec"]["restartPolicy"] = "Never"
            spec = {"template": template}
            if kind == "CronJob":
                spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": spec}}
            return {**_head("batch/v1", kind, name), "spec": spec}
        case _ if kind in _APPS:
            spec = {"selector": selector, "template": template}
            if kind == "StatefulSet":
                spec["serviceName"] = name
            return {**_head("apps/v1", kind, name), "spec": spec}
    raise ValueError(kind)


def _head(version: str, kind: str, name: str) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def held(obj: Json) -> Json:
    """Return what of an object has a pod's metadata and spec."""
    group = obj["apiVersion"].rpartition("/")[0]
    found: Json = get(obj, PATHS[group, obj["kind"]])
    return found
