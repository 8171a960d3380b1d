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
        kept = before.keys() & after.keys()
        for key in before:
            if key in kept:
                yield from operations(before[key], after[key], f"{at}/{_escaped(key)}")
        before, after = (
            {key: value for key, value in side.items() if key not in kept}
            for side in (before, after)
        )
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from operations(*pair, f"{at}/{index}")
        return
    if before == after:
        return
    # Without `optimization=False` a removal and an addition of equal values become a `move`.
    for operation in JsonPatch.from_diff(before, after, optimization=False).patch:
        yield {**operation, "path": at + operation["path"]}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
