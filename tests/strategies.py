"""Pods as people could write them, well and badly: strategies for property tests."""

from typing import Any

from hypothesis import strategies as st

from tests.unit.webhook.objects import FLAG, KINDS, OFFICIAL, OUR_FLAG, TOLERATION, holding
from webhook.pod import Json

_MEANT = {
    "gpu": st.sampled_from(["300m", "0.3", 0.3, "333m", "10m", "0"]),
    "milligpu.io/vgpu": st.just("30"),
    "cpu": st.sampled_from(["2", "500m", 1, "0.5"]),
    "memory": st.just("8Gi"),
    "example.com/other": st.just("1"),
}
_ASK = st.sampled_from(["300m", 0.3, "333m", "0", 1, "1500m", "-1", "x", None, "9" * 40])
_ANY = {
    **_MEANT,
    "gpu": _ASK,
    "milligpu.io/gpu": _ASK,
    "nvidia.com/gpu": st.sampled_from([1, "0", "300m", "2"]),
    "milligpu.io/vgpu": st.sampled_from(["30", 30, "34", "100", "0", "150", "1500m"]),
    "milligpu.io/pgpu": st.sampled_from(["1", "2"]),
    "nvidia.com/mig-1g.5gb": st.just("1"),
}
_STORED = {
    **_ANY,
    "milligpu.io/gpu": st.sampled_from(["1", "0", "2"]),
    "nvidia.com/gpu": st.sampled_from(["1", "0"]),
    "milligpu.io/vgpu": st.sampled_from(["30", "100", "0", "150"]),
}
del _STORED["gpu"]
_VARIABLES = [
    *("A", "B", "PATH", "PER_PROCESS_GPU_MEMORY_FRACTION", "NVIDIA_VISIBLE_DEVICES"),
    *("CUDA_VISIBLE_DEVICES", "MILLIGPU_SHARE", "NVIDIA_DRIVER_CAPABILITIES"),
]
_WORDS = st.sampled_from(
    ["--x=1", "sh", "-c", "run", "tensorflow_model_server", f"{FLAG}0.2", f"{FLAG}0.9", OUR_FLAG]
)

texts = st.text(max_size=8)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**6) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
"""Any JSON value."""

unknown_fields = st.dictionaries(st.sampled_from(["futureA", "futureB"]), json_values, max_size=1)
"""Fields that a later API may have."""


Resources = dict[str, st.SearchStrategy[Any]]


@st.composite
def _limits(draw: st.DrawFn, keys: Resources) -> Json:
    chosen = draw(st.lists(st.sampled_from(list(keys)), max_size=3, unique=True))
    return {key: draw(keys[key]) for key in chosen}


def _env() -> st.SearchStrategy[list[Json]]:
    value = st.sampled_from(["", "1", "all", "0.1", "0.9", "void"])
    source = st.just({"fieldRef": {"fieldPath": "metadata.name"}})
    entry = st.one_of(
        st.builds(lambda name, value: {"name": name, "value": value}, _name(), value),
        st.builds(lambda name, source: {"name": name, "valueFrom": source}, _name(), source),
    )
    return st.lists(entry, max_size=4, unique_by=lambda entry: entry["name"])


def _name() -> st.SearchStrategy[str]:
    return st.sampled_from(_VARIABLES)


def _container(keys: Resources) -> st.SearchStrategy[Json]:
    resources = st.fixed_dictionaries(
        {}, optional={"limits": _limits(keys), "requests": _limits({"cpu": keys["cpu"]})}
    )
    return st.builds(
        lambda fields, unknown: {**fields, **unknown},
        st.fixed_dictionaries(
            {"image": st.sampled_from(["registry.example/model", OFFICIAL])},
            optional={
                "resources": st.builds(lambda a, b: {**a, **b}, resources, unknown_fields),
                "env": _env() | st.none(),
                "envFrom": st.just([{"configMapRef": {"name": "c"}}]),
                "command": st.lists(_WORDS, max_size=3),
                "args": st.lists(_WORDS, max_size=3) | st.none(),
                "restartPolicy": st.just("Always"),
            },
        ),
        unknown_fields,
    )


_NOTES = {
    "milligpu.io/framework": st.sampled_from(["tensorflow-serving", "none", "c0=none"]),
    "milligpu.io/cpu-throttle": st.just("off"),
    "milligpu.io/share": st.sampled_from(["", '{"c0":{"slots":30,"share":"0.3"}}']),
    "milligpu.io/later": st.just("x"),
    "kubectl.kubernetes.io/default-container": st.sampled_from(["c0", "c1", "x"]),
    "a/b~c": st.just("keep"),
}
_NOTED = st.sampled_from(["300m", "c0=10%", "0.1"])
_ANY_NOTED = st.sampled_from(["300m", "c0=10%", "1", "x", "c9=300m", "0", ""])


@st.composite
def _pods(draw: st.DrawFn, keys: Resources, noted: st.SearchStrategy[str] | None) -> Json:
    containers = draw(st.lists(_container(keys), min_size=1, max_size=3))
    init = draw(st.lists(_container(keys), max_size=2))
    for index, body in enumerate((*containers, *init)):
        body["name"] = f"c{index}"
    spec: Json = {**draw(unknown_fields), "containers": containers}
    if init:
        spec["initContainers"] = init
    if draw(st.booleans()):
        spec["tolerations"] = draw(
            st.lists(st.sampled_from([TOLERATION, {"key": "k", "value": "v"}]), max_size=2)
        )
    if draw(st.integers(0, 9)) == 0:
        spec["resources"] = {"limits": {"cpu": "4"}}
    metadata: Json = {"name": "model", **draw(unknown_fields)}
    if draw(st.booleans()):
        metadata["annotations"] = draw(st.fixed_dictionaries({}, optional=_NOTES))
        if noted is not None:
            metadata["annotations"]["milligpu.io/gpu"] = draw(noted)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _without(keys: Resources, *names: str) -> Resources:
    return {name: values for name, values in keys.items() if name not in names}


meant = _pods(_without(_MEANT, "milligpu.io/vgpu"), None) | _pods(
    _without(_MEANT, "milligpu.io/vgpu", "gpu"), _NOTED
)
"""Pods that are admitted."""
pods = meant | _pods(_ANY, None) | _pods(_ANY, _ANY_NOTED)
"""Pods, good and bad."""
kinds = st.sampled_from(list(KINDS))
template_kinds = st.sampled_from([kind for kind in KINDS if kind != "Pod"])
objects = st.builds(holding, kinds, pods)
"""Objects of all nine kinds around them."""
good_objects = st.builds(holding, kinds, meant)
"""Objects that are admitted."""
stored_objects = st.builds(holding, kinds, _pods(_STORED, None) | _pods(_STORED, _ANY_NOTED))
"""Objects that an API server may hold, also from before the webhook was there."""
