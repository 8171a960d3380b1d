"""Pods as people could write them, well and badly: strategies for property tests."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from tests.unit.webhook.objects import FLAG, KINDS, OFFICIAL, OUR_FLAG, TOLERATION, holding
from webhook.pod import Json

Choices = dict[str, list[Any]]
"""What a key may hold."""

_PLAIN: Choices = {
    "cpu": ["2", "500m", 1, "0.5"],
    "memory": ["8Gi"],
    "example.com/other": ["1"],
}
_MEANT: Choices = {**_PLAIN, "gpu": ["300m", "0.3", 0.3, "333m", "10m", "0"]}
_ASK = ["300m", 0.3, "333m", "0", 1, "1500m", "-1", "x", None, "9" * 40]
_ANY: Choices = {
    **_PLAIN,
    "gpu": _ASK,
    "milligpu.io/gpu": _ASK,
    "nvidia.com/gpu": [1, "0", "300m", "2"],
    "milligpu.io/vgpu": ["30", 30, "34", "100", "0", "150", "1500m"],
    "milligpu.io/pgpu": ["1", "2"],
    "nvidia.com/mig-1g.5gb": ["1"],
}
_STORED: Choices = {
    **_PLAIN,
    "milligpu.io/gpu": ["1", "0", "2"],
    "nvidia.com/gpu": ["1", "0"],
    "milligpu.io/vgpu": ["30", "100", "0", "150"],
    "milligpu.io/pgpu": ["1"],
}
_NOTES: Choices = {
    "milligpu.io/framework": ["tensorflow-serving", "none", "c0=none"],
    "milligpu.io/cpu-throttle": ["off"],
    "milligpu.io/share": ["", '{"c0":{"slots":30,"share":"0.3"}}'],
    "milligpu.io/later": ["x"],
    "kubectl.kubernetes.io/default-container": ["c0", "c1", "x"],
    "a/b~c": ["keep"],
}
_NOTED: Choices = {"milligpu.io/gpu": ["300m", "c0=10%", "0.1"]}
_ANY_NOTED: Choices = {"milligpu.io/gpu": ["300m", "c0=10%", "1", "x", "c9=300m", "0", ""]}
VARIABLES = [
    *("A", "B", "PER_PROCESS_GPU_MEMORY_FRACTION", "NVIDIA_VISIBLE_DEVICES"),
    *("CUDA_VISIBLE_DEVICES", "MILLIGPU_SHARE", "NVIDIA_DRIVER_CAPABILITIES"),
]
ENTRIES: list[Json] = [
    *({"name": name, "value": value} for name in VARIABLES for value in ("", "0.1", "0.9")),
    *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": "x"}}} for name in VARIABLES),
    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
]
WORDS = [
    *("--x=1", "sh", "-c", "run", "tensorflow_model_server"),
    *(f"{FLAG}0.2", f"{FLAG}0.9", OUR_FLAG),
]

texts = st.text(max_size=8)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**6) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
"""Any JSON value."""

unknown_fields: st.SearchStrategy[Json] = st.sampled_from(
    [{}, {}, {"futureA": None}, {"futureB": [{"a/b": 1.5}, "x"]}, {"futureC": {"gpu": "300m"}}]
)
"""Fields that a later API may have."""


def _some(choices: Choices, most: int = 3) -> st.SearchStrategy[Json]:
    """Return objects with some of the keys."""
    pairs = [(key, value) for key, values in choices.items() for value in values]
    return st.lists(st.sampled_from(pairs), max_size=most).map(dict)


def _lists(items: Sequence[Any], most: int = 3) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(items), max_size=most)


def _containers(choices: Choices, least: int, most: int) -> st.SearchStrategy[list[Json]]:
    resources = st.fixed_dictionaries(
        {}, optional={"limits": _some(choices), "requests": _some({"cpu": _PLAIN["cpu"]})}
    )
    env = st.lists(st.sampled_from(ENTRIES), max_size=4, unique_by=lambda entry: entry["name"])
    fields: st.SearchStrategy[Json] = st.fixed_dictionaries(
        {"image": st.sampled_from(["registry.example/model", OFFICIAL]), "resources": resources},
        optional={
            "env": env | st.none(),
            "envFrom": st.just([{"configMapRef": {"name": "c"}}]),
            "command": _lists(WORDS),
            "args": _lists(WORDS) | st.none(),
            "restartPolicy": st.just("Always"),
        },
    )
    body = st.builds(lambda fields, unknown: {**fields, **unknown}, fields, unknown_fields)
    return st.lists(body, min_size=least, max_size=most)


def _pod(containers: list[Json], init: list[Json], spec: Json, metadata: Json, notes: Json) -> Json:
    for letter, bodies in (("c", containers), ("i", init)):
        for index, body in enumerate(bodies):
            body["name"] = f"{letter}{index}"
    spec = {**spec, "containers": containers, **({"initContainers": init} if init else {})}
    metadata = {"name": "model", **metadata, **({"annotations": notes} if notes else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _pods(choices: Choices, noted: Choices) -> st.SearchStrategy[Json]:
    tolerations = _lists([TOLERATION, {"key": "k", "value": "v"}], 2)
    spec: st.SearchStrategy[Json] = st.fixed_dictionaries(
        {}, optional={"tolerations": tolerations, "futureSpec": st.just([1])}
    )
    notes = st.builds(lambda some, ask: {**some, **ask}, _some(_NOTES), _some(noted, 1))
    return st.builds(
        _pod,
        _containers(choices, 1, 3),
        _containers(choices, 0, 2),
        spec | spec | spec | st.just({"resources": {"limits": {"cpu": "4"}}}),
        unknown_fields,
        notes,
    )


meant = _pods(_MEANT, {"milligpu.io/later": ["y"]}) | _pods(_PLAIN, _NOTED)
"""Pods that are admitted."""
pods = meant | _pods(_ANY, _ANY_NOTED)
"""Pods, good and bad."""
kinds = st.sampled_from(list(KINDS))
template_kinds = st.sampled_from([kind for kind in KINDS if kind != "Pod"])
objects = st.builds(holding, kinds, pods)
"""Objects of all nine kinds around them."""
good_objects = st.builds(holding, kinds, meant)
"""Objects that are admitted."""
stored_objects = st.builds(holding, kinds, _pods(_STORED, _ANY_NOTED))
"""Objects that an API server may hold, also from before the webhook was there."""
