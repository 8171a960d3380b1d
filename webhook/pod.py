"""A pod (or a pod template) as raw JSON: its containers, and parts of a known shape."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A JSON object as it came; fields we do not know stay in it."""

SECTIONS = ("initContainers", "containers")
"""The lists whose containers may ask; ephemeral containers may not have resources."""
MOST_CONTAINERS = 1000
"""Most containers of a pod: the answer grows with them, and no object so large can be stored."""
_MOST_FAULTS = 20  # in a message that a person reads


def path(*parts: str) -> str:
    """Join the parts of a field path; an empty one is the object itself."""
    return ".".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in an object for which the request is denied."""

    at: str = dataclasses.field(compare=False)
    """Field path of the container, or of the pod; it may change in an update, the rest is equal."""
    field: str
    """Rest of the path."""
    text: str
    """The value and what is allowed."""
    container: str = ""
    """Name of the container."""

    def __str__(self) -> str:
        return f"{path(self.at, self.field)}: {self.text}"


class Denied(Exception):
    """The object is refused, for all of its faults."""

    def __init__(self, *faults: Fault) -> None:
        more = len(faults) - _MOST_FAULTS
        shown = [*map(str, faults[:_MOST_FAULTS]), *([f"and {more} more"] if more > 0 else [])]
        super().__init__("; ".join(shown))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod and where it stands."""

    section: str
    """One of SECTIONS."""
    at: str
    """Field path, such as `spec.containers[0]`."""
    name: str
    body: Json

    def fault(self, field: str, text: str) -> Fault:
        """Return a fault of this container."""
        return Fault(self.at, field, text, self.name)

    def mapping(self, key: str) -> Json:
        """Return one of its objects, empty if absent or null. Raises Denied for another type."""
        return mapping(self.body, key, self.at)

    def sides(self) -> tuple[Json, Json]:
        """Return its limits and its requests, each empty if absent or null. Raises Denied."""
        resources, at = self.mapping("resources"), path(self.at, "resources")
        return mapping(resources, "limits", at), mapping(resources, "requests", at)

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
        raise Denied(Fault(at, key, "must be an object"))
    return value


def sequence(parent: Json, key: str, at: str, of: type[Any]) -> list[Any]:
    """Return a list below an object, empty if absent or null. Raises Denied for another type."""
    value = parent.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise Denied(Fault(at, key, "must be a list"))
    for index, item in enumerate(value):
        if not isinstance(item, of):
            kind = "a string" if of is str else "an object"
            raise Denied(Fault(at, f"{key}[{index}]", f"must be {kind}"))
    return value


def containers(pod: Json, at: str) -> list[Container]:
    """Return the init containers and containers of a pod, in the order in which they start."""
    spec, prefix = mapping(pod, "spec", at), path(at, "spec")
    found = []
    for section in SECTIONS:
        for index, body in enumerate(sequence(spec, section, prefix, dict)):
            name = body.get("name")
            place = f"{prefix}.{section}[{index}]"
            found.append(Container(section, place, name if isinstance(name, str) else "", body))
    if len(found) > MOST_CONTAINERS:
        text = f"{len(found)} containers are too many; allowed: {MOST_CONTAINERS}"
        raise Denied(Fault(prefix, "containers", text))
    return found


def annotations(pod: Json, at: str) -> dict[str, str]:
    """Return the annotations of an object. Raises Denied for a value that is not a string."""
    prefix = path(at, "metadata")
    found = mapping(mapping(pod, "metadata", at), "annotations", prefix)
    for key, value in found.items():
        if not isinstance(value, str):
            raise Denied(Fault(prefix, f"annotations[{key}]", "must be a string; quote it"))
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
    owners = mapping(document, "metadata", "").get("ownerReferences")
    for owner in owners if isinstance(owners, list) else []:
        if isinstance(owner, dict) and owner.get("controller") is True:
            return owner
    return {}
