"""Which kinds hold pods, and where."""

from typing import Any, TypeAlias

from webhook.pod import Json

Path: TypeAlias = tuple[str, ...]
_TEMPLATE = ("spec", "template")
PATHS: dict[tuple[str, str], Path] = {
    ("", "Pod"): (),
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


def get(document: Any, path: Path) -> Any:
    """Return what lies at a path, or None where the way ends early."""
    for key in path:
        if not isinstance(document, dict):
            return None
        document = document.get(key)
    return document


def replaced(document: Json, path: Path, value: Json) -> Json:
    """Return the document with another value at a path that exists; all else is shared."""
    if not path:
        return value
    return {**document, path[0]: replaced(document[path[0]], path[1:], value)}
