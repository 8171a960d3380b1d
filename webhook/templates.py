"""Where an object holds pods: built-in kinds, and the custom resources that a setting names."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from webhook.pod import Json, named
from webhook.review import Review

EVERY_VALUE, EVERY_ITEM = "*", "[*]"
"""Steps of a pattern that lead to every value of an object, and to every item of a list."""
MOST_TEMPLATES = 200
"""Most templates of an object: the answer grows with them, and no sensible one has so many."""
_TEMPLATE = ("spec", "template")
_PLAIN = re.compile(r"[A-Za-z0-9_*-]*[A-Za-z_*-][A-Za-z0-9_*-]*").fullmatch


class Item(NamedTuple):
    """The step to an item of a list."""

    number: int
    name: str | None
    """Its `name`, if no other item has it: by that it is known also where it stands elsewhere."""


Path: TypeAlias = tuple[str | Item, ...]
Pattern: TypeAlias = tuple[str, ...]
PATHS: dict[tuple[str, str], Pattern] = {
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


@dataclass(frozen=True, slots=True)
class TemplatePath:
    """Where the objects of a custom resource hold pods."""

    group: str
    version: str
    resource: str
    """The plural name, as in the API's paths."""
    pattern: Pattern


def patterns(review: Review, custom: Iterable[TemplatePath]) -> list[Pattern]:
    """Return where objects of a review's kind hold pods; nowhere, if they are not translated."""
    built_in = PATHS.get((review.group, review.kind))
    if built_in is not None:
        return [built_in]
    version = str(review.object.get("apiVersion")).rpartition("/")[2]
    wanted = (review.group, version, review.resource or guessed(review.kind))
    return [each.pattern for each in custom if (each.group, each.version, each.resource) == wanted]


def guessed(kind: str) -> str:
    """Return the plural name that a kind most likely has (apimachinery's guess, pkg/api/meta)."""
    name = kind.lower()
    if name.endswith("y"):
        return name[:-1] + "ies"
    return name + ("es" if name.endswith("s") else "s")


def places(document: Json, found: Iterable[Pattern]) -> list[Path]:
    """Return the ways to an object's templates, each once; of too many, one too many."""
    ways: dict[Path, None] = {}
    for way in (way for each in found for way in _ways(document, each, ())):
        ways[way] = None
        if len(ways) > MOST_TEMPLATES:
            break
    return list(ways)


def _ways(value: Any, pattern: Pattern, way: Path) -> Iterator[Path]:
    if not pattern:
        if isinstance(value, dict):
            yield way
        return
    step, rest = pattern[0], pattern[1:]
    if isinstance(value, dict):
        keys = value if step == EVERY_VALUE else [step] if step in value else []
        for key in keys:
            yield from _ways(value[key], rest, (*way, key))
    elif isinstance(value, list) and step == EVERY_ITEM:
        names = Counter(map(named, value))
        for index, item in enumerate(value):
            name = named(item)
            item_step = Item(index, name if names[name] == 1 else None)
            yield from _ways(item, rest, (*way, item_step))


def get(document: Any, path: Path) -> Any:
    """Return what lies at a path, or None where the way ends early."""
    for step in path:
        if isinstance(step, str):
            document = document.get(step) if isinstance(document, dict) else None
        else:
            document = _item(document, step) if isinstance(document, list) else None
    return document


def _item(items: list[Any], step: Item) -> Any:
    found = items[step.number] if step.number < len(items) else None
    if step.name is None or named(found) == step.name:
        return found
    return next((item for item in items if named(item) == step.name), None)


def replaced(document: Any, path: Path, value: Json) -> Any:
    """Return the document with another value at a path that exists; all else is shared."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        return {**document, step: replaced(document[step], rest, value)}
    index = step.number
    return [*document[:index], replaced(document[index], rest, value), *document[index + 1 :]]


def spelled(path: Path) -> str:
    """Return a path, or a pattern, as messages show it: `spec.groups[0].template`."""
    return "".join(map(_spelled, path)).removeprefix(".")


def _spelled(step: str | Item) -> str:
    if isinstance(step, Item):
        return f"[{step.number}]"
    if step == EVERY_ITEM:
        return step
    return f".{step}" if _PLAIN(step) else f"[{step}]"
