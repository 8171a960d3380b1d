"""The difference of two objects as an RFC 6902 patch.

Objects share what did not change, so the way down to the differences is short. What is left to
find out, how one list becomes a longer or shorter one, jsonpatch does.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from jsonpatch import JsonPatch

_ABSENT: Any = object()
_LONG = 200
"""Items of a list above which it is replaced: the time of jsonpatch grows with their square."""


def operations(before: Any, after: Any, at: str = "") -> Iterator[dict[str, Any]]:
    """Yield the operations that make `after` of `before`; `at` is the JSON pointer of both."""
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _of_members(before, after, at)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_items(before, after, at)
    elif before != after:
        yield {"op": "replace", "path": at, "value": after}


def _of_members(before: Any, after: Any, at: str) -> Iterator[dict[str, Any]]:
    for key, old in before.items():
        new = after.get(key, _ABSENT)
        if new is _ABSENT:
            yield {"op": "remove", "path": f"{at}/{_escaped(key)}"}
        elif new is not old:
            yield from operations(old, new, f"{at}/{_escaped(key)}")
    for key, new in after.items():
        if key not in before:
            yield {"op": "add", "path": f"{at}/{_escaped(key)}", "value": new}


def _of_items(before: list[Any], after: list[Any], at: str) -> Iterator[dict[str, Any]]:
    if len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            if new is not old:
                yield from operations(old, new, f"{at}/{index}")
        return
    pairs = zip(before, after, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))
    if same == len(before):
        for index in range(same, len(after)):
            yield {"op": "add", "path": f"{at}/{index}", "value": after[index]}
        return
    if max(len(before), len(after)) > _LONG:
        yield {"op": "replace", "path": at, "value": after}
        return
    # Without `optimization=False` a removal and an addition of equal values become a `move`.
    for operation in JsonPatch.from_diff(before, after, optimization=False).patch:
        yield {**operation, "path": at + operation["path"]}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
