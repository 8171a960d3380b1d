"""YAML as different people write it: a strategy for texts with their values."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

TEXTS = [
    "off",
    "30",
    "1e3",
    "300m",
    "null",
    "~",
    "a: b",
    "# c",
    "",
    "1:30",
    "é😀",
    "it's",
    " x ",
    "- a",
    "a:b",
    "=",
    "2001-01-01",
    "--x=$(Y)",
]
LONG = [
    "a\nb\n",
    "a\n\n  b\n# no comment\n",
    "one\ntwo",
    "tab\there\n",
    "end\n\n",
    " first\n",
    "a \n b",
]
texts = st.sampled_from([*TEXTS, *LONG])
scalars = st.none() | st.booleans() | st.integers(-5, 10**6) | st.just(0.5) | texts
KEYS = ["a", "b", "name", "gpu", "on", "x/y", "items", "containers", "null", "1"]
keys = st.sampled_from(KEYS)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
"""Any JSON value of the kinds that make trouble."""
objects = st.dictionaries(keys, values, min_size=1, max_size=5)


@st.composite
def written(draw: Draw, *, anchors: bool = False) -> tuple[Any, str]:
    """A value and a text that means it, with comments that are all different."""
    value = draw(objects)
    writer = _Writer(draw, anchors)
    if anchors:
        value["again"] = [value, *value.values()]
        value["more"] = {"x": value["again"][1], "items": value["again"][1:2]}
        value["again"][0] = dict(list(value.items())[:-2])
    text = "\n".join(writer.lines(value))
    ends = ["\n", "\n\n", "\n# end\n"]  # without one, a block's last line has none either
    text += draw(st.sampled_from(ends if " |\n" in text else [*ends, ""]))
    text = draw(st.sampled_from(["", "# first\n", "---\n", "\ufeff"])) + text
    return value, text.replace("\n", draw(st.sampled_from(["\n", "\n", "\r\n"])))


class _Writer:
    def __init__(self, draw: Draw, anchors: bool) -> None:
        self.draw, self.anchors = draw, anchors
        self.anchored: list[Any] = []
        self.step = draw(st.sampled_from([2, 2, 4]))
        self.offset = draw(st.sampled_from([0, 2]))
        self.comments = count(1)

    def chance(self, one_in: int) -> bool:
        return bool(self.draw(st.integers(1, one_in)) == one_in)

    def comment(self) -> str:
        return f"#c{next(self.comments)}."

    def lines(self, value: Any) -> list[str]:
        """Return a list or an object, not empty, in lines."""
        found: list[str] = []
        for key in value:
            if self.chance(8):
                found += self.draw(st.sampled_from([[""], [self.comment()]]))
            found += self.item(key) if isinstance(value, list) else self.member(key, value[key])
        return found

    def named(self, head: str, value: Any) -> tuple[str, bool]:
        """Return what stands before a value, an anchor perhaps; or with its alias, and True."""
        if not self.anchors:
            return head, False
        found = [name for name, each in self.anchored if _same(each, value)]
        if found and self.chance(2):
            return f"{head} *{found[-1]}", True
        if self.chance(3):
            self.anchored.append((name := f"a{len(self.anchored)}", value))
            return f"{head} &{name}", False
        return head, False

    def member(self, key: str, value: Any) -> list[str]:
        head = f"{json.dumps(key)}:"
        if self.chance(2) and key in ("a", "b", "name", "gpu", "x/y", "items", "containers"):
            head = f"{key}:"
        head, done = self.named(head, value)
        if done:
            return [head]
        if value and isinstance(value, dict | list) and not self.chance(5):
            indent = " " * (self.step if isinstance(value, dict) else self.offset)
            end = f"  {self.comment()}" if self.chance(6) else ""
            return [head + end, *(f"{indent}{line}" for line in self.lines(value))]
        return self.short(head, value)

    def item(self, value: Any) -> list[str]:
        head, done = self.named("-", value)
        if done:
            return [head]
        if value and isinstance(value, dict | list) and not self.chance(5):
            first, *rest = self.lines(value)
            if head == "-" and first and not first.startswith("#"):
                return [f"- {first}", *(f"  {line}" for line in rest)]
            return [head, *(f"  {line}" for line in (first, *rest))]
        return self.short(head, value)

    def short(self, head: str, value: Any) -> list[str]:
        if value is None and self.chance(2):
            return [head]
        if isinstance(value, str) and value.endswith("b\n") and self.chance(2):
            return [f"{head} |", *(f"  {line}" for line in value.splitlines())]
        if value == "300m" and self.chance(2):
            text = "300m"
        else:
            text = json.dumps(value, ensure_ascii=False)
        space = self.draw(st.sampled_from([" ", " ", "   ", "\t" if head[-1] == ":" else " "]))
        end = f" {self.comment()}" if self.chance(4) else ""
        return [f"{head}{space}{text}{end}"]


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
