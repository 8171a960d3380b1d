import json
import re
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milligpu import kubeyaml
from milligpu.manifests import Piece
from tests.unit.milligpu.written import KEYS, Draw, objects, values, written


def rewritten(text: str, after: Any) -> str:
    root, before = kubeyaml.load(text)
    return Piece(text, 1, root, before).rewritten({id(before): after})


@given(written() | written(anchors=True))
def test_a_text_means_what_was_written(pair: tuple[Any, str]) -> None:
    value, text = pair
    assert kubeyaml.load(text)[1] == value


@given(written(), objects)
def test_any_value_can_be_given_to_any_text(pair: tuple[Any, str], after: Any) -> None:
    _, text = pair
    assert exact(kubeyaml.load(rewritten(text, after))[1]) == exact(after)


@given(written(anchors=True), st.data())
def test_a_change_reaches_no_other_place_of_the_same_anchor(
    pair: tuple[Any, str], data: st.DataObject
) -> None:
    value, text = pair
    after = deepcopy(json.loads(json.dumps(value)))
    holders = list(inside(after))
    for _ in range(data.draw(st.integers(1, 3))):
        holder = data.draw(st.sampled_from(holders))
        key = data.draw(st.sampled_from(list(holder) if isinstance(holder, dict) else [0]))
        if data.draw(st.booleans()):
            holder[key] = data.draw(values)
        elif len(holder) > 1:
            del holder[key]
    assert exact(kubeyaml.load(rewritten(text, after))[1]) == exact(after)


def exact(value: Any) -> Any:
    """A value in which `1` is not `true`."""
    if isinstance(value, dict):
        return {key: exact(each) for key, each in value.items()}
    return [exact(each) for each in value] if isinstance(value, list) else (type(value), value)


@st.composite
def changed(draw: Draw) -> tuple[str, Any, list[str]]:
    """A text, another value for it, and the comments that must survive."""
    value, text = draw(written())
    after = deepcopy(value)
    holders = list(inside(after))
    for _ in range(draw(st.integers(1, 4))):
        holder = draw(st.sampled_from(holders))
        new = draw(values)
        if isinstance(holder, list):
            holder.append(new)
        else:
            free = [key for key in KEYS if key not in holder]
            holder[draw(st.sampled_from([*free, "new"]))] = new
    return text, after, re.findall(r"#c\d+\.", text)


def inside(value: Any) -> Any:
    """Every object and list that is not empty, which stands in lines if anything in it does."""
    if isinstance(value, dict | list) and value:
        yield value
        for each in value.values() if isinstance(value, dict) else value:
            yield from inside(each)


@given(changed())
def test_what_is_added_costs_no_comment(case: tuple[str, Any, list[str]]) -> None:
    text, after, comments = case
    made = rewritten(text, after)
    assert exact(kubeyaml.load(made)[1]) == exact(after)
    assert re.findall(r"#c\d+\.", made) == comments
    lines = iter(made.splitlines())
    kept = [line for line in text.splitlines() if not re.search(r"[\[{]", line)]
    assert all(line in lines for line in kept), "and no line"


EXAMPLES = {
    "a key takes the place of one that goes, before its comment": (
        """\
limits:
  # of one card
  gpu: 300m  # a third
  memory: 2Gi
# the end
""",
        {"limits": {"memory": "2Gi", "vgpu": "30"}},
        """\
limits:
  # of one card
  vgpu: '30'  # a third
  memory: 2Gi
# the end
""",
    ),
    "what is new comes after the last line, not after what follows it": (
        """\
- name: a
  args: ["--x",  # odd
    "--y"]

# about b
- name: b
""",
        [{"name": "a", "args": ["--x", "--y"], "env": [{"name": "V"}]}, {"name": "b"}],
        """\
- name: a
  args: ["--x",  # odd
    "--y"]
  env:
    - {name: V}

# about b
- name: b
""",
    ),
    "an item goes with its line, and comments stay": (
        """\
env:
# first
- name: A
  value: |
    x

# second
- {name: B, value: '1'}  # gone
# third
- name: C
""",
        {"env": [{"name": "A", "value": "x\n"}, {"name": "C"}]},
        """\
env:
# first
- name: A
  value: |
    x

# second
# third
- name: C
""",
    ),
    "brackets stay brackets, and lists are indented as the others": (
        """\
spec:
    tolerations:
    - {key: a}
    limits: {gpu: 300m, "memory": 2Gi}
""",
        {
            "spec": {
                "tolerations": [{"key": "a"}],
                "limits": {"memory": "2Gi", "vgpu": "30"},
                "more": {"list": [["x"]]},
            }
        },
        """\
spec:
    tolerations:
    - {key: a}
    limits: {memory: 2Gi, vgpu: '30'}
    more:
        list:
        - - x
""",
    ),
    "null and nothing become something": (
        """\
a: # nothing
b: ~
c: {}
d: []   # none
e:
""",
        {"a": {"x": 1}, "b": [1], "c": {"z": "2"}, "d": ["z"], "e": "long\ntext\n"},
        """\
a:
  x: 1
b:
  - 1
c: {z: '2'}
d: [z]   # none
e: |
  long
  text
""",
    ),
    "an alias of what changes alike stays, another one is written out": (
        """\
base: &base  # shared
  cpu: 1
  gpu: 300m
one: *base  # as base
two: *base
""",
        {
            "base": {"cpu": 1, "gpu": "300m"},
            "one": {"cpu": 1, "vgpu": "30"},
            "two": {"cpu": 1, "gpu": "300m"},
        },
        """\
base: &base  # shared
  cpu: 1
  gpu: 300m
one:
  cpu: 1
  vgpu: '30'
two: *base
""",
    ),
    "a key that was taken from another object can go": (
        """\
base: &base {cpu: 1, gpu: 300m}
one:
  <<: *base
  memory: 2Gi
two:
  <<: *base
""",
        {
            "base": {"cpu": 1, "gpu": "300m"},
            "one": {"cpu": 1, "memory": "2Gi"},
            "two": {"cpu": 1, "gpu": "300m"},
        },
        """\
base: &base {cpu: 1, gpu: 300m}
one:
  cpu: 1
  memory: 2Gi
two:
  <<: *base
""",
    ),
    "words without quotes keep their meaning": (
        """\
off: 0644
on: 1e3
""",
        {"false": 0o644, "true": "1e3", "y": ["off", "on", "1:30", "2001-01-01"]},
        """\
off: 0644
'true': '1e3'
'y':
  - 'off'
  - 'on'
  - '1:30'
  - '2001-01-01'
""",
    ),
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_only_what_changes_is_written_anew(name: str, newline: str) -> None:
    text, after, wanted = EXAMPLES[name]
    assert rewritten(text.replace("\n", newline), after) == wanted.replace("\n", newline)
