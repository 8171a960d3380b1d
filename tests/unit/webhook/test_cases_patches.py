"""Patches as people's pods need them, whatever shape these have (B04, B32, B37, B41, B76, B87)."""

import itertools
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from tests.unit.webhook.objects import (
    COUNT,
    FORMS,
    KINDS,
    OFFICIAL,
    OUR_FLAG,
    TEMPLATES,
    at_place,
    container,
    containers,
    copied,
    create,
    created,
    env,
    gpus,
    held,
    holding,
    named,
    pod,
    sent,
)
from webhook.config import Config
from webhook.pod import Json

ABSENT: Any = object()
FRACTION, SHARE = "PER_PROCESS_GPU_MEMORY_FRACTION", "milligpu.io/share"


def shaped(**shapes: Any) -> Json:
    """Return an object without those keys that are to be absent."""
    return {key: value for key, value in shapes.items() if value is not ABSENT}


EMPTY: dict[str, tuple[Any, ...]] = {
    "env": (ABSENT, None, []),
    "requests": (ABSENT, None, {}),
    "annotations": (ABSENT, None, {}),
    "tolerations": (ABSENT, None, []),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_addition_goes_into_need_not_be_there(kind: str) -> None:
    """B04: absent, null or empty, each with each."""
    for env_, requests, notes, tolerations in itertools.product(*EMPTY.values()):
        resources = shaped(limits={"gpu": "300m"}, requests=requests)
        body = shaped(name="main", image="x", env=env_, resources=resources)
        obj = holding(kind, pod(body))
        held(obj)["metadata"] |= shaped(annotations=notes)
        held(obj)["spec"] |= shaped(tolerations=tolerations)
        made = created(obj)
        assert gpus(named(made)) == {COUNT: "30"}
        if kind == "Pod":
            assert env(named(made)) == {FRACTION: "0.3"}
            assert set(made["metadata"]["annotations"]) == {SHARE}
            assert len(made["spec"]["tolerations"]) == 1


@pytest.mark.parametrize("resources", [ABSENT, None, {}, {"limits": None}, {"limits": {}}], ids=str)
@pytest.mark.parametrize("spec", [{}, {"automountServiceAccountToken": False}], ids=str)
def test_an_annotations_share_needs_no_resources(resources: Any, spec: Json) -> None:
    """B04: the ask is in the annotation, and the container has nothing."""
    body = shaped(name="main", image="x", resources=resources)
    made = created(pod(body, annotations={"milligpu.io/gpu": "300m"}, **spec))
    assert gpus(named(made)) == {COUNT: "30"}
    assert env(named(made)) == {FRACTION: "0.3"}


def test_containers_of_every_shape_in_one_pod() -> None:
    """B04."""
    bodies = [
        container("a", {"gpu": "300m"}),
        container("b", {"gpu": "200m"}, env=[]),
        container("c", {"gpu": "100m"}, env=None),
        container("d"),
    ]
    for form in FORMS.values():
        made = created(form(pod(*bodies)))
        assert [gpus(body).get(COUNT) for body in containers(made)] == ["30", "20", "10", None]
        assert [env(body) for body in containers(made)] == [
            {FRACTION: "0.3"},
            {FRACTION: "0.2"},
            {FRACTION: "0.1"},
            {"NVIDIA_VISIBLE_DEVICES": "void"},
        ]


# A pod with about everything that a pod can have, and more.

FULL = {
    "resources": {"limits": {"memory": "16Gi"}},
    "futureField": {"a": 1, "b": [None, {"gpu": "300m"}]},
    "nodeSelector": {"zone": "a"},
    "affinity": {"podAntiAffinity": {}},
    "schedulerName": "mine",
    "tolerations": [{"key": "mine", "operator": "Exists", "effect": "NoSchedule"}],
    "volumes": [{"name": "v", "image": {"reference": "r.example/v", "pullPolicy": "Always"}}],
    "resourceClaims": [{"name": "c1", "resourceClaimName": "x"}],
    "securityContext": {"runAsNonRoot": True},
}
NOTES = {"a/b": "keep", "c~d": "keep", "e~1f/~0": "keep", "plain": "keep"}


def full(place: str) -> Json:
    body = container(
        "main",
        {
            "gpu": "300m",
            "memory": "8Gi",
            "ephemeral-storage": "1Gi",
            "hugepages-2Mi": "4Mi",
            "example.com/other": "1",
        },
        {"memory": "4Gi"},
        image=OFFICIAL,
        args=["--port=8500", "--x=y z"],
        env=[
            {"name": "NB_PREFIX", "value": "/u/x"},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ],
        restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}],
        futureC={"deep": [{"er": None}]},
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
    )
    body["resources"]["claims"] = [{"name": "c1", "request": "r"}]
    obj = at_place(place, body, annotations=NOTES, **copied(FULL))
    obj["futureTop"] = {"x": [1]}
    return obj


def missing(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """Yield the places of what was there before and is not now; lists may only have grown.

    For a list, null is an empty one.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from missing(value, after.get(key, ABSENT), f"{at}/{key}")
    elif isinstance(before, list) and isinstance(after, list):
        for index, value in enumerate(before):
            inner = after[index] if index < len(after) else ABSENT
            yield from missing(value, inner, f"{at}/{index}")
    elif before != after and not (before is None and isinstance(after, list)):
        yield at


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_written_is_still_there_but_for_the_ask(kind: str) -> None:
    """B32, B41: no field is lost that no release knows, no list or map is replaced."""
    for place, form in itertools.product(("container", "init container", "sidecar"), FORMS):
        obj = FORMS[form](holding(kind, full(place)))
        outcome = create(obj)
        assert outcome.allowed, outcome.message
        gone = {at.rpartition("resources/")[2] for at in missing(obj, outcome.object)}
        asks = {"limits/gpu", "requests/gpu"}
        # A pod's requests are a copy of its limits where the API server has been.
        assert gone == (asks if kind == "Pod" and form == "as sent" else {"limits/gpu"})
        for operation in outcome.patch:
            if operation["op"] == "remove":
                assert operation["path"].endswith(("/limits/gpu", "/requests/gpu"))
        assert OUR_FLAG in named(outcome.object)["args"] or kind in TEMPLATES


@pytest.mark.parametrize("kind", KINDS)
def test_keys_with_slashes_and_tildes_are_one_key(kind: str) -> None:
    """B37: in annotations and in the names of resources."""
    limits = {"example.com/other": "1", "gpu": "300m"}
    for form in FORMS.values():
        obj = form(holding(kind, pod(container(limits=limits), annotations=NOTES)))
        made = held(created(obj))
        (body,) = made["spec"]["containers"]
        assert {key: body["resources"]["limits"][key] for key in ("example.com/other", COUNT)} == {
            "example.com/other": "1",
            COUNT: "30",
        }
        found = made["metadata"]["annotations"]
        assert {key: found[key] for key in NOTES} == NOTES


@pytest.mark.parametrize("section", ["initContainers", "containers"])
@pytest.mark.parametrize("index", range(3))
def test_only_the_container_that_asks_is_touched(section: str, index: int) -> None:
    """B76: wherever it stands; the others have cards of NVIDIA's, and so need no `void`."""
    others = {"nvidia.com/gpu": "1"}
    obj = pod(
        *(container(f"app{n}", others) for n in range(3)),
        init=[container(f"init{n}", others) for n in range(3)],
    )
    obj["spec"][section][index]["resources"]["limits"] = {"gpu": "300m"}
    for form in FORMS.values():
        patch = create(form(obj)).patch
        touched = {"/".join(operation["path"].split("/")[:4]) for operation in patch}
        inside = {at for at in touched if "ontainers/" in at}
        assert inside == {f"/spec/{section}/{index}"}


@pytest.mark.parametrize("cpus", ["8", "1/3", "96"])
def test_numbers_are_written_as_short_text(cpus: str) -> None:
    """B87: for every count there is; never a JSON number, an exponent, or a long tail."""
    config = Config(cpus_per_gpu=Fraction(cpus))
    for slots in range(1, 101):
        made = named(created(sent(pod(container(limits={COUNT: slots}))), config))
        assert re.fullmatch(r"1|0\.[0-9]{1,2}", env(made)[FRACTION])
        for side in ("limits", "requests"):
            assert re.fullmatch(r"[0-9]{1,5}m?", made["resources"][side]["cpu"])
            assert made["resources"][side][COUNT] == str(slots)
