"""The difference of two objects as an RFC 6902 patch.

Objects share what did not change, so the way down to the differences is short. What is left to
find out, how one list becomes a longer or shorter one, jsonpatch does.
"""

from typing import Any, TypeAlias

from jsonpatch import JsonPatch

Operation: TypeAlias = dict[str, Any]
_ABSENT: Any = object()
_LONG = 200
"""Items of a list above which it is replaced: the time of jsonpatch grows with their square."""


def operations(before: Any, after: Any) -> list[Operation]:
    """Return the operations that make `after` of `before`."""
    found: list[Operation] = []
    _compare(before, after, "", found)
    return found


def _compare(before: Any, after: Any, at: str, found: list[Operation]) -> None:
    """Add the operations of a part; `at` is the JSON pointer of both."""
    if isinstance(before, dict) and isinstance(after, dict):
        _compare_members(before, after, at, found)
    elif isinstance(before, list) and isinstance(after, list):
        _compare_items(before, after, at, found)
    elif after is _ABSENT:
        found.append({"op": "remove", "path": at})
    elif before != after:
        found.append({"op": "replace", "path": at, "value": after})


def _compare_members(before: Any, after: Any, at: str, found: list[Operation]) -> None:
    for key, old in before.items():
        new = after.get(key, _ABSENT)
        if new is not old:
            _compare(old, new, f"{at}/{_escaped(key)}", found)
    if not after.keys() <= before.keys():
        found += [
            {"op": "add", "path": f"{at}/{_escaped(key)}", "value": new}
            for key, new in after.items()
            if key not in before
        ]


def _compare_items(before: list[Any], after: list[Any], at: str, found: list[Operation]) -> None:
    if len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            if new is not old:
                _compare(old, new, f"{at}/{index}", found)
        return
    same = 0
    for old, new in zip(before, after, strict=False):
        if new is not old:
            break
        same += 1
    if same == len(before):
        longer = range(same, len(after))
        found += [{"op": "add", "path": f"{at}/{index}", "value": after[index]} for index in longer]
        return
    if max(len(before), len(after)) > _LONG:
        found.append({"op": "replace", "path": at, "value": after})
        return
    # Without `optimization=False` a removal and an addition of equal values become a `move`.
    made = JsonPatch.from_diff(before, after, optimization=False).patch
    found += [{**operation, "path": at + operation["path"]} for operation in made]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
