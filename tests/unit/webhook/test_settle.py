"""What was sent, what we would make of it, and what is stored: which stands (design section 4)."""

from typing import Any

import pytest

from webhook.settle import settled

A, B, C = ({"name": name, "value": name} for name in "abc")
OTHER = {"name": "a", "value": "other"}

CASES: dict[str, tuple[Any, Any, Any, Any]] = {
    "nothing made of it": ({"a": 1}, {"a": 1}, {"a": 2}, {"a": 1}),
    "made arrives at stored": ({"a": 1}, {"a": 2}, {"a": 2}, {"a": 2}),
    "made arrives elsewhere": ({"a": 1}, {"a": 2}, {"a": 3}, {"a": 1}),
    "one of two arrives": ({"a": 1, "b": 1}, {"a": 2, "b": 2}, {"a": 2, "b": 3}, {"a": 2, "b": 1}),
    "a key goes, as stored": ({"a": 1, "b": 1}, {"b": 1}, {"b": 9}, {"b": 1}),
    "a key goes, stored has it": ({"a": 1}, {}, {"a": 2}, {"a": 1}),
    "a key comes, as stored": ({}, {"a": 1}, {"a": 1, "b": 2}, {"a": 1}),
    "a key comes, stored lacks it": ({"b": 1}, {"a": 1, "b": 1}, {"b": 2}, {"b": 1}),
    "deep": (
        {"x": {"y": [A]}},
        {"x": {"y": [A, B]}},
        {"x": {"y": [A, B], "z": 1}},
        {"x": {"y": [A, B]}},
    ),
    "a named item comes": ([A], [A, B], [A, B], [A, B]),
    "a named item comes, another was changed": ([OTHER], [OTHER, B], [A, B], [OTHER, B]),
    "a named item goes": ([A, B], [B], [{**B, "value": 9}], [B]),
    "in the order of the stored": ([A], [A, B, C], [C, B, A], [C, B, A]),
    "not in the order of the stored": ([A], [A, B], [B, OTHER, C], [A, B]),
    "items without names": (["x"], ["x", "y"], ["y", "x"], ["y", "x"]),
    "items without names, one more": (["x", "z"], ["x", "z", "y"], ["x", "y"], ["x", "z", "y"]),
    "items without names, keys in another order": (
        [{"key": "k", "operator": "Exists"}],
        [{"key": "k", "operator": "Exists"}, A],
        [A, {"operator": "Exists", "key": "k"}],
        [A, {"key": "k", "operator": "Exists"}],
    ),
    "repeated names": ([A, A], [A, B], [B, B], [A, A]),
    "an item comes that is not stored": (["x"], ["x", "y"], ["x", "z"], ["x"]),
    "null becomes a list": (None, [A], [A], [A]),
    "null stays": (None, [A], [B], None),
    "another type": ({"a": 1}, [1], [2], {"a": 1}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_stands(name: str) -> None:
    sent, made, stored, wanted = CASES[name]
    assert settled(sent, made, stored) == wanted


def test_what_stands_is_shared_with_what_was_sent_or_stored() -> None:
    sent, stored = {"a": [1], "b": [2], "c": {"d": [3]}}, {"a": [9], "b": [8], "c": {"d": [3]}}
    result = settled(sent, {**sent, "b": [8]}, stored)
    assert result == {"a": [1], "b": [8], "c": {"d": [3]}}
    assert result["a"] is sent["a"]
    assert result["b"] is stored["b"]
    assert result["c"] is sent["c"]


def test_an_empty_name_is_one() -> None:
    sent, made, stored = ([{"name": "", "a": a, "b": b}] for a, b in ((1, 1), (2, 3), (2, 1)))
    assert settled(sent, made, stored) == [{"name": "", "a": 2, "b": 1}]
