"""A pod (or a pod template) as raw JSON: its containers, and parts of a known shape."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from webhook.findings import Code, Finding, malformed, path

Json: TypeAlias = dict[str, Any]
"""A JSON object as it came; fields we do not know stay in it."""

# Made once: json.dumps with arguments makes a new one each time.
encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
"""Returns a JSON value as text without spaces."""

SECTIONS = ("initContainers", "containers")
"""The lists whose containers may ask; ephemeral containers may not have resources."""
MOST_CONTAINERS = 1000
"""Most containers of a pod: the answer grows with them, and no object so large can be stored."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod and where it stands."""

    section: str
    """One of SECTIONS."""
    at: str
    """Field path, such as `spec.containers[0]`."""
    name: str
    body: Json

    def finding(self, code: Code, field: str, text: str) -> Finding:
        """Return a finding about this container."""
        return Finding(code, self.at, field, text, self.name)

    def mapping(self, key: str) -> Json:
        """Return one of its objects, empty if absent or null. Raises Denied for another type."""
        return mapping(self.body, key, self.at)

    def sides(self) -> tuple[Json, Json]:
        """Return its limits and its requests, each empty if absent or null. Raises Denied."""
        resources, at = self.mapping("resources"), f"{self.at}.resources"
        return mapping(resources, "limits", at), mapping(resources, "requests", at)

    def with_sides(self, limits: Json, requests: Json) -> Json:
        """Return its body with other limits and requests; one that is empty now is left out."""
        had = self.body.get("resources") or {}
        both = (("limits", limits), ("requests", requests))
        changed = {key: side for key, side in both if side != (had.get(key) or {})}
        if not changed:
            return self.body
        resources = {**had, **changed}
        for key, side in changed.items():
            if not side:  # as it is stored: an update has to arrive at the same
                del resources[key]
        return {**self.body, "resources": resources}

    def texts(self, key: str) -> list[str]:
        """Return one of its lists of strings, empty if absent or null."""
        return sequence(self.body, key, self.at, str)

    def env(self) -> list[Json]:
        """Return its environment entries, empty if absent or null."""
        return sequence(self.body, "env", self.at, dict)


def mapping(parent: Json, key: str, at: str) -> Json:
    """Return an object below another, empty if absent or null. Raises Denied for another type."""
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise malformed(at, key, "must be an object")
    return value


def sequence(parent: Json, key: str, at: str, of: type[Any]) -> list[Any]:
    """Return a list below an object, empty if absent or null. Raises Denied for another type."""
    value = parent.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise malformed(at, key, "must be a list")
    for index, item in enumerate(value):
        if not isinstance(item, of):
            kind = "a string" if of is str else "an object"
            raise malformed(at, f"{key}[{index}]", f"must be {kind}")
    return value


def containers(pod: Json, at: str) -> list[Container]:
    """Return the init containers and containers of a pod, in the order in which they start."""
    spec, prefix = mapping(pod, "spec", at), path(at, "spec")
    found = []
    for section in SECTIONS:
        for index, body in enumerate(sequence(spec, section, prefix, dict)):
            name, place = body.get("name"), f"{prefix}.{section}[{index}]"
            if name is not None and not isinstance(name, str):
                raise malformed(place, "name", "must be a string; quote it")  # such as `n`, in YAML
            found.append(Container(section, place, name or "", body))
    if len(found) > MOST_CONTAINERS:
        text = f"{len(found)} containers are too many; allowed: {MOST_CONTAINERS}"
        raise malformed(prefix, "containers", text)
    return found


def named(item: Any) -> str | None:
    """Return the `name` of a list's item; None if it has none, or one that is no string."""
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else None


def annotations(pod: Json, at: str) -> dict[str, str]:
    """Return the annotations of an object. Raises Denied for a value that is not a string."""
    prefix = path(at, "metadata")
    found = mapping(mapping(pod, "metadata", at), "annotations", prefix)
    if None in found.values():  # which the API server reads as an empty text
        found = {key: "" if value is None else value for key, value in found.items()}
    for key, value in found.items():
        if not isinstance(value, str):
            raise malformed(prefix, f"annotations[{key}]", "must be a string; quote it")
    return found


def with_bodies(pod: Json, bodies: Iterable[Json]) -> Json:
    """Return the pod with other bodies for its `containers`, in their order; the rest is shared."""
    spec, following = pod.get("spec") or {}, iter(bodies)
    changed = {}
    for section in SECTIONS:
        before = spec.get(section) or []
        after = list(islice(following, len(before)))
        if any(new is not old for new, old in zip(after, before, strict=True)):
            changed[section] = after
    return {**pod, "spec": {**spec, **changed}} if changed else pod


def controller(document: Json) -> Json:
    """Return the reference to the controller that owns an object, empty if none does."""
    metadata = document.get("metadata")
    owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    for owner in owners if isinstance(owners, list) else []:
        if isinstance(owner, dict) and owner.get("controller") is True:
            return owner
    return {}
