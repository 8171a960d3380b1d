"""What a pod's annotations say to us."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from vgpu import names
from webhook import asks
from webhook.asks import Ask
from webhook.pod import Container, Fault, Json, annotations

FRAMEWORKS = ("tensorflow-serving", "none")
_THROTTLES = ("off",)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Notes:
    """The annotations of one pod, read; by container name, "" for the main container."""

    asks: dict[str, Ask]
    frameworks: dict[str, str]
    throttle: bool
    """Whether containers may get a CPU limit."""
    default_container: str | None
    faults: tuple[Fault, ...]
    warnings: tuple[str, ...]


def read(pod: Json, at: str, containers: list[Container]) -> Notes:
    """Read the annotations. Raises Denied for values that are not strings."""
    found = annotations(pod, at)
    faults: list[Fault] = []
    reader = _Reader(found, f"{at}.metadata" if at else "metadata", containers, faults)
    return Notes(
        asks=reader.by_container(names.ANNOTATION_ASK, asks.read_annotated),
        frameworks=reader.by_container(names.ANNOTATION_FRAMEWORK, _framework),
        throttle=reader.throttle(),
        default_container=found.get(names.ANNOTATION_DEFAULT_CONTAINER),
        faults=tuple(faults),
        warnings=tuple(unknown(found)),
    )


def unknown(found: dict[str, str]) -> list[str]:
    """Return a warning for each annotation with our prefix that this release does not know."""
    return [
        f"annotation {asks.shown(key)} is unknown to this release and has no effect"
        for key in found
        if key.startswith(names.PREFIX) and key not in names.ANNOTATIONS_KNOWN
    ]


def _framework(_at: str, _field: str, text: str) -> str:
    if text not in FRAMEWORKS:
        raise ValueError(f"{asks.shown(text)!r} is unknown; there are {', '.join(FRAMEWORKS)}")
    return text


@dataclass(frozen=True, slots=True)
class _Reader:
    found: dict[str, str]
    at: str
    containers: list[Container]
    faults: list[Fault]

    def by_container(self, key: str, read: Callable[[str, str, str], T]) -> dict[str, T]:
        if key not in self.found:
            return {}
        if not self.containers:
            self._fault(key, f"{asks.shown(self.found[key])}: the pod has no containers")
            return {}
        values: dict[str, T] = {}
        try:
            parts = asks.by_name(self.found[key])
        except ValueError as fault:
            self._fault(key, str(fault))
            return {}
        known = [container.name for container in self.containers]
        for name, text in parts.items():
            if name and name not in known:
                there = f"there are {', '.join(known)}"
                self._fault(key, f"names no container {asks.shown(name)!r}; {there}")
                continue
            try:
                values[name] = read(self.at, f"annotations[{key}]", text)
            except ValueError as fault:
                self._fault(key, str(fault), name)
        return values

    def throttle(self) -> bool:
        value = self.found.get(names.ANNOTATION_THROTTLE)
        if value is not None and value not in _THROTTLES:
            text = f"{asks.shown(value)!r} is not allowed; allowed: {', '.join(_THROTTLES)}"
            self._fault(names.ANNOTATION_THROTTLE, text)
        return value is None

    def _fault(self, key: str, text: str, container: str = "") -> None:
        self.faults.append(Fault(self.at, f"annotations[{key}]", text, container))
