"""The difference of two objects as an RFC 6902 patch.

Objects share what did not change, so the way down to the differences is short; there, jsonpatch
does the work.
"""

from collections.abc import Iterator
from typing import Any

from jsonpatch import JsonPatch


def operations(before: Any, after: Any, at: str = "") -> Iterator[dict[str, Any]]:
    """Yield the operations that make `after` of `before`; `at` is the JSON pointer of both."""
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        kept = [key for key in before if key in after]
        for key in kept:
            yield from operations(before[key], after[key], f"{at}/{_escaped(key)}")
        yield from _difference(_without(before, kept), _without(after, kept), at)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from operations(*pair, f"{at}/{index}")
    else:
        yield from _difference(before, after, at)


def _difference(before: Any, after: Any, at: str) -> Iterator[dict[str, Any]]:
    if before == after:
        return
    # Without `optimization=False` a removal and an addition of equal values become a `move`.
    for operation in JsonPatch.from_diff(before, after, optimization=False).patch:
        yield {**operation, "path": at + operation["path"]}


def _without(side: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    return {key: value for key, value in side.items() if key not in keys}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
