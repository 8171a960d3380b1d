"""The update of a pod: what may not change, stays.

A person who applies a bare pod's manifest again sends its asks, its own arguments and what was
removed at creation. The API server would refuse that, although nothing is new. So the mutation of
the creation is run on what was sent, and wherever it arrives at what is stored, that stands.
"""

import json
from typing import Any

_ABSENT: Any = object()


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
