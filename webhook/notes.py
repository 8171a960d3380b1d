"""What a pod's annotations say to us."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from vgpu import names
from webhook import asks, serving
from webhook.asks import Ask, shown
from webhook.config import Config
from webhook.findings import Code, Finding, path
from webhook.pod import MOST_CONTAINERS, Container, Json, annotations

FRAMEWORKS = (serving.FRAMEWORK, "none")
_THROTTLES = ("off",)
_MOST_NAMES = 20
"""Most containers that a message names."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Notes:
    """The annotations of one pod, read; by container name, "" for the main container."""

    asks: dict[str, Ask]
    frameworks: dict[str, str]
    throttle: bool
    """Whether containers may get a CPU limit."""
    default_container: str | None
    findings: list[Finding]


def read(pod: Json, at: str, containers: list[Container], config: Config) -> Notes:
    """Read the annotations. Raises Denied for values that are not strings."""
    found, metadata = annotations(pod, at), path(at, "metadata")
    reader = _Reader(found, metadata, [item.name for item in containers], [])
    ask = partial(asks.read_annotated, metadata, config)
    return Notes(
        asks=reader.by_container(names.ANNOTATION_ASK, ask),
        frameworks=reader.by_container(names.ANNOTATION_FRAMEWORK, partial(_one_of, FRAMEWORKS)),
        throttle=reader.throttle(),
        default_container=found.get(names.ANNOTATION_DEFAULT_CONTAINER),
        findings=[*reader.faults, *unknown(found, metadata)],
    )


def unknown(found: dict[str, str], at: str) -> list[Finding]:
    """Return a warning for each annotation with our prefix that this release does not know."""
    text = "annotation {} is unknown to this release and has no effect"
    return [
        Finding(Code.UNKNOWN_ANNOTATION, at, f"annotations[{key}]", text.format(shown(key)))
        for key in found
        if key.startswith(names.PREFIX) and key not in names.ANNOTATIONS_KNOWN
    ]


def _one_of(words: tuple[str, ...], text: str) -> str:
    if text not in words:
        raise ValueError(f"{shown(text)!r} is not allowed; allowed: {', '.join(words)}")
    return text


@dataclass(frozen=True, slots=True)
class _Reader:
    found: dict[str, str]
    at: str
    containers: list[str]
    faults: list[Finding]

    def by_container(self, key: str, read: Callable[[str], T]) -> dict[str, T]:
        values: dict[str, T] = {}
        if key not in self.found:
            return values
        with self._blamed(key):
            for name, text in _by_name(self.found[key], self.containers).items():
                with self._blamed(key, name):
                    if name and name not in self.containers:
                        there = ", ".join(self.containers[:_MOST_NAMES])
                        raise ValueError(f"names no container {shown(name)!r}; there are {there}")
                    values[name] = read(text)
        return values

    def throttle(self) -> bool:
        value = self.found.get(names.ANNOTATION_THROTTLE)
        if value is not None:
            with self._blamed(names.ANNOTATION_THROTTLE):
                _one_of(_THROTTLES, value)
        return value is None

    @contextmanager
    def _blamed(self, key: str, container: str = "") -> Iterator[None]:
        try:
            yield
        except ValueError as fault:
            field = f"annotations[{key}]"
            self.faults.append(Finding(Code.ANNOTATION, self.at, field, str(fault), container))


def _by_name(text: str, containers: list[str]) -> dict[str, str]:
    """Read an annotation's value: `300m` as {"": "300m"}, `a=500m,b=100m` by container name.

    Raises ValueError for mixed forms, empty parts and a name that comes twice.
    """
    if not containers:
        raise ValueError(f"{shown(text)}: the pod has no containers")
    if "=" not in text:
        return {"": text.strip()}
    if text.count(",") >= MOST_CONTAINERS:
        raise ValueError(f"{shown(text)!r}: names more than {MOST_CONTAINERS} containers")
    parts: dict[str, str] = {}
    for part in text.split(","):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not (name and sign and value):
            raise ValueError(f"{shown(text)!r}: {shown(part)!r} is not of the form container=value")
        if name in parts:
            raise ValueError(f"{shown(text)!r}: names {shown(name)!r} twice; name it once")
        parts[name] = value
    return parts
