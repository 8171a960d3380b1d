"""How a difference is told to the API server."""

from typing import Any

import jsonpatch
import pytest

from tests.unit.webhook.objects import copied, create, pod, sent
from webhook.patch import operations

A, B, C = ({"name": name} for name in "abc")

CASES: dict[str, tuple[Any, Any, list[dict[str, Any]]]] = {
    "nothing": ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, []),
    "a value": ({"a": 1}, {"a": "1"}, [{"op": "replace", "path": "/a", "value": "1"}]),
    "another type": ({"a": []}, {"a": {}}, [{"op": "replace", "path": "/a", "value": {}}]),
    "a null parent": (
        {"env": None},
        {"env": [A]},
        [{"op": "replace", "path": "/env", "value": [A]}],
    ),
    "no parent": ({}, {"env": [A]}, [{"op": "add", "path": "/env", "value": [A]}]),
    "an empty parent": ({"env": []}, {"env": [A]}, [{"op": "add", "path": "/env/0", "value": A}]),
    "one more": ([A, B], [A, B, C], [{"op": "add", "path": "/2", "value": C}]),
    "keys with signs": (
        {"a/b": {"c~d": 1}, "e~1f": 1},
        {"a/b": {"c~d": 2}},
        [
            {"op": "replace", "path": "/a~1b/c~0d", "value": 2},
            {"op": "remove", "path": "/e~01f"},
        ],
    ),
    "never a move": (
        {"limits": {"nvidia.com/gpu": "1"}},
        {"limits": {}, "note": "1"},
        [
            {"op": "remove", "path": "/limits/nvidia.com~1gpu"},
            {"op": "add", "path": "/note", "value": "1"},
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_difference(name: str) -> None:
    """B04, B37."""
    before, after, wanted = CASES[name]
    assert operations(before, after) == wanted


@pytest.mark.parametrize(
    ("before", "after"),
    [([A, B, C], [B, C]), ([A, B, C], [A, C]), ([A], []), ([A, B], [C, A, B]), ([A, A], [A])],
)
def test_a_list_that_gets_shorter_or_longer_in_the_middle(before: Any, after: Any) -> None:
    patch = operations({"x": before}, {"x": after})
    assert jsonpatch.apply_patch({"x": copied(before)}, patch) == {"x": after}
    assert all(operation["path"].startswith("/x/") for operation in patch)


def test_a_long_list_is_replaced() -> None:
    before = [{"name": str(index)} for index in range(1000)]
    after = before[1:]
    (operation,) = operations({"x": before}, {"x": after})
    assert operation == {"op": "replace", "path": "/x", "value": after}


def test_every_operation_is_at_what_it_is_about() -> None:
    """B76: the share of the second container touches neither the first nor an init container."""
    main = {"name": "main", "resources": {"limits": {"gpu": "300m"}}}
    obj = sent(
        pod(
            {"name": "proxy", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
            main,
            init=[{"name": "other", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        )
    )
    places = {"/".join(operation["path"].split("/")[:4]) for operation in create(obj).patch}
    assert places == {"/spec/containers/1", "/spec/tolerations/2", "/metadata/annotations"}


def test_the_patch_of_a_big_pod_is_as_small_as_its_change() -> None:
    """B49: 900 KiB of annotations and 500 variables are legal."""
    variables = [{"name": f"V{index}", "value": str(index)} for index in range(500)]
    notes = {f"example.com/{index}": "x" * 1024 for index in range(900)}
    main = {"name": "main", "env": variables, "resources": {"limits": {"gpu": "300m"}}}
    outcome = create(sent(pod(main, annotations=notes)))
    assert outcome.allowed
    assert len(outcome.patch) < 15
    assert len(str(outcome.patch)) < 2000
