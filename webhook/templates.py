"""Which kinds hold pods, and where."""

from typing import Any

from webhook.pod import Json

POD = ("", "Pod")
_TEMPLATE = ("spec", "template")
PATHS: dict[tuple[str, str], tuple[str, ...]] = {
    POD: (),
    ("", "ReplicationController"): _TEMPLATE,
    ("", "PodTemplate"): ("template",),
    ("apps", "Deployment"): _TEMPLATE,
    ("apps", "ReplicaSet"): _TEMPLATE,
    ("apps", "StatefulSet"): _TEMPLATE,
    ("apps", "DaemonSet"): _TEMPLATE,
    ("batch", "Job"): _TEMPLATE,
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}
"""(API group, kind) to the way from the object to what has a pod's `metadata` and `spec`."""


def get(document: Any, path: tuple[str, ...]) -> Any:
    """Return what lies at a path, or None where the way ends early."""
    for key in path:
        if not isinstance(document, dict):
            return None
        document = document.get(key)
    return document


def replaced(document: Json, path: tuple[str, ...], value: Json) -> Json:
    """Return the document with another value at a path that exists; all else is shared."""
    if not path:
        return value
    key, *rest = path
    return {**document, key: replaced(document[key], tuple(rest), value)}


def holders(path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the ways to the objects around the pod that have metadata of their own."""
    # A CronJob's jobTemplate has metadata; `spec` has not, but looking there finds nothing.
    return [path[:i] for i in range(len(path))]
