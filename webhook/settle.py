"""The update of a pod: what may not change, stays.

A person who applies a bare pod's manifest again sends its asks, its own arguments and what was
removed at creation. The API server would refuse that, although nothing is new. So the mutation of
the creation is run on what was sent, and wherever it arrives at what is stored, that stands.
"""

import json
from typing import Any

from vgpu.names import CPU
from webhook.pod import Container, Json, containers, with_bodies

_ABSENT: Any = object()


def uncopied(pod: Json, old: Json) -> Json:
    """Return an updated pod with its stored CPU requests where it has but copies of the limits.

    Server-side apply takes back whole `requests` that it was once told are the manifest's, and API
    defaulting then copies the limits, ours too, into them.
    """
    stored = {item.name: item.sides() for item in containers(old, "")}

    def body(item: Container) -> Json:
        limit, request = (side.get(CPU) for side in item.sides())
        had_limit, had = (side.get(CPU) for side in stored.get(item.name, ({}, {})))
        if request is None or not request == limit == had_limit or had in (None, request):
            return item.body
        sent = item.body["resources"]
        return {**item.body, "resources": {**sent, "requests": {**sent["requests"], CPU: had}}}

    return with_bodies(pod, map(body, containers(pod, "")))


def settled(sent: Any, made: Any, stored: Any) -> Any:
    """Return what was sent, with those changes of `made` that arrive at the stored value.

    Objects go by key, lists whose items have unique names by name, other lists by item.
    """
    if made is sent or made == sent:
        return sent
    if made == stored:
        return stored
    if all(isinstance(value, dict) for value in (sent, made, stored)):
        return _by_key(sent, made, stored)
    if all(isinstance(value, list) for value in (sent, made, stored)):
        return _lists(sent, made, stored)
    return sent


def _by_key(sent: Any, made: Any, stored: Any) -> dict[Any, Any]:
    result = {}
    for key in dict.fromkeys((*sent, *made)):
        value = settled(*(side.get(key, _ABSENT) for side in (sent, made, stored)))
        if value is not _ABSENT:
            result[key] = value
    return result


def _lists(sent: list[Any], made: list[Any], stored: list[Any]) -> list[Any]:
    keyed = [_keyed(side) for side in (sent, made, stored)]
    if any(side is None for side in keyed):
        return sent
    result = _by_key(*keyed)
    if result.keys() == keyed[2].keys():  # type: ignore[union-attr]
        return [result[key] for key in keyed[2]]  # type: ignore[union-attr]
    return list(result.values())


def _keyed(items: list[Any]) -> dict[str, Any] | None:
    """Return the items by name, or by their text where they have none; None for repeated ones."""
    keyed = {
        item["name"]
        if isinstance(item, dict) and isinstance(item.get("name"), str)
        else json.dumps(item, sort_keys=True): item
        for item in items
    }
    return keyed if len(keyed) == len(items) else None
