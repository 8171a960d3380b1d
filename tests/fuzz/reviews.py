"""AdmissionReviews by the thousand from one seed: as people write, as API servers send, to hurt."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

from tests.fuzz.hostile import spoilt
from tests.strategies import ENTRIES, WORDS
from tests.unit.webhook.objects import (
    KINDS,
    OFFICIAL,
    TOLERATION,
    containers,
    copied,
    held,
    holding,
    merged,
    review,
    sent,
)
from webhook.config import Config
from webhook.pod import Json

CONFIGS = (
    Config(),
    Config(whole_cards=False),
    Config(cpus_per_gpu=Fraction(7, 3), runtime_class="nvidia", tolerations=()),
    Config(cpus_per_gpu=Fraction(40), cpu_limit_max=Fraction(3, 2)),
    Config(
        whole_cards=False,
        cpus_per_gpu=Fraction(1, 3),
        tolerations=(TOLERATION, {"key": "later"}),
    ),
)
Rewritten = Callable[[Json, Config], Json | None]
"""Makes the stored object of a new one; None: it is denied."""

_ASKS: list[Any] = [
    *("300m", "300m", "300m", "0.3", "333m", "10m", "1m", "999m", "0.5", "100e-3", "1n", "3e-1"),
    *(0.3, 0.25, 1, 2, "1", "2", "1000m", "1k", "0", "0", "0.0", "-0", "+1", "-1", "-300m"),
    *("1500m", "1.5", "x", "", "30%", "1Ki", "1E", "1e3", "1e-99", "1e99", "1e400", "9" * 32),
    *("9" * 33, "0." + "3" * 30, "0." + "3" * 31, " 300m", "300 m", "300M", "300mi", "0x1", "1_0"),
    *("\uff13\uff10\uff10m", "300\uff4d", "\u0663\u0660\u0660m", "300\u00b5", "NaN", "inf"),
    *("-", ".", ".5", "5.", "..5", "1e", "1e+"),
]
_WHOLE: list[Any] = ["1", "2", "1", 1, "1000m", "8"]
_OTHERS: dict[str, list[Any]] = {
    "nvidia.com/gpu": [*_WHOLE, "300m", 0.3, "0", "1500m", "-1"],
    "milligpu.io/vgpu": ["30", "30", 30, "34", "100", "1", "150", "1500m", "-3", "0", "3k", "30.0"],
    "milligpu.io/pgpu": ["1", "2", "500m", "-1"],
    "nvidia.com/mig-1g.5gb": ["1"],
    "nvidia.com/gpu.shared": ["1"],
    "amd.com/gpu": ["1"],
    "gpu.intel.com/xe": ["1"],
    "nvidia.com/hostdev": ["1"],
}
_PLAIN: dict[str, list[Any]] = {
    "cpu": ["2", "500m", 1, "0.5", "10m", "64"],
    "memory": ["8Gi", "1G"],
    "example.com/other": ["1"],
    "gpu.": ["1"],
    "\uff47pu": ["300m"],
    "GPU": ["300m"],
    "milligpu.io/gpu\u200b": ["300m"],
    "m\u0456lligpu.io/vgpu": ["30"],  # a Cyrillic letter
}
_NOTES: dict[str, list[Any]] = {
    "milligpu.io/framework": ["tensorflow-serving", "none", "c0=none", "torch", "c9=none", "c0="],
    "milligpu.io/cpu-throttle": ["off"] * 9 + ["OFF"],
    "milligpu.io/share": ["", '{"c0":{"slots":99,"share":"0.99"}}'],
    "milligpu.io/later": ["x"],
    "milligpu.io/mutated": ["true"],
    "kubectl.kubernetes.io/default-container": ["c0", "c1", "x"],
    "a/b~c": ["keep"],
}
_NOTED = [
    *("300m", "300m", "0.1", "30%", "33.3%", "100%", "1", "0", "150%", "-1%", "x", "1.5"),
    *("c0=300m", "c0=30%", "c0=300m,c1=100m", "c1=0.5,c0=1", "c9=300m", "c0=x", "c0", "c0=", "="),
    *("c0=300m,c0=300m", "c0=300m,", ",", "", "300m,100m", "300m,c1=100m", " 300m", "c0 =300m"),
    *("c0=300m=1", "9" * 33, "\uff130%", "c0=-1", "c1=2"),
]
_TOLERATIONS = [TOLERATION, {"key": "k", "value": "v"}, {"key": "k"}, {"operator": "Exists"}]


@dataclass(frozen=True)
class Case:
    """One review to answer."""

    text: str
    """The AdmissionReview as it comes over the wire."""
    config: Config
    kind: str
    operation: str
    hostile: bool
    """Whether it has something that no API server sends."""


def case(seed: int, index: int, rewritten: Rewritten) -> Case:
    """Return one of a seed's reviews; it depends on no other one."""
    rng = Random(f"{seed}/{index}")  # noqa: S311 - nothing secret
    config = rng.choice(CONFIGS)
    kind = "Pod" if rng.random() < 0.35 else rng.choice(list(KINDS))
    manifest = holding(kind, _pod(rng))
    form = sent if rng.random() < 0.6 else copied
    if rng.random() < 0.1:
        _own(rng, manifest)
    old, options = None, None
    obj = form(manifest)
    if rng.random() < 0.5:
        stored = rewritten(sent(manifest), config)
        while stored is None:
            manifest = holding(kind, _pod(rng))
            stored = rewritten(sent(manifest), config)
        obj, old, options = _update(rng, manifest, sent(stored))
    document = review(obj, old, options=options)
    operation, hostile = document["request"]["operation"], rng.random() < 0.25
    text = json.dumps(document)
    if hostile:
        text = spoilt(rng, text)
    return Case(text, config, kind, operation, hostile)


# What a person writes.


def _some(rng: Random, choices: dict[str, list[Any]], chance: float) -> Json:
    picked = (key for key in choices if rng.random() < chance)
    return {key: rng.choice(choices[key]) for key in picked}


def _resources(rng: Random) -> Json | None:
    limits = _some(rng, _PLAIN, 0.12)
    if rng.random() < 0.6:
        limits[rng.choice(["gpu", "gpu", "milligpu.io/gpu", "nvidia.com/gpu"])] = _ask(rng)
    if rng.random() < 0.08:
        limits[rng.choice(["gpu", "milligpu.io/gpu", "nvidia.com/gpu"])] = _ask(rng)
    if rng.random() < 0.2:
        key = rng.choice(list(_OTHERS))
        limits[key] = rng.choice(_OTHERS[key])
    requests = _some(rng, {key: _PLAIN[key] for key in ("cpu", "memory")}, 0.15)
    if rng.random() < 0.1:
        requests |= {k: v for k, v in limits.items() if k not in _PLAIN}
    if rng.random() < 0.03:
        requests[rng.choice(["gpu", "milligpu.io/vgpu", "nvidia.com/gpu"])] = _ask(rng)
    sides = {"limits": limits, "requests": requests}
    resources: Json = {side: values for side, values in sides.items() if values}
    if rng.random() < 0.02:
        resources["claims"] = [{"name": "card"}]
    return resources if resources or rng.random() < 0.5 else None


def _ask(rng: Random) -> Any:
    """Return an ask, mostly a good one."""
    return rng.choice(_ASKS[:12] if rng.random() < 0.7 else _ASKS)


def _container(rng: Random, name: str) -> Json:
    body: Json = {"name": name, "image": rng.choice(["registry.example/model", OFFICIAL])}
    resources = _resources(rng)
    if resources is not None:
        body["resources"] = resources
    if rng.random() < 0.3:
        entries = {entry["name"]: entry for entry in rng.choices(ENTRIES, k=rng.randint(0, 4))}
        body["env"] = list(entries.values())
    for field in ("command", "args"):
        if rng.random() < 0.15:
            body[field] = rng.choices(WORDS, k=rng.randint(0, 3))
    if rng.random() < 0.1:
        body |= rng.choice(
            [
                {"envFrom": [{"configMapRef": {"name": "c"}}]},
                {"futureField": [{"a/b": 1.5}, None]},
                {"restartPolicy": "Always"},
                {"resizePolicy": []},
            ]
        )
    return body


def _pod(rng: Random) -> Json:
    number = 40 if rng.random() < 0.004 else rng.choice([1, 1, 1, 2, 2, 3])
    first = [_container(rng, f"c{index}") for index in range(number)]
    spec: Json = {"containers": first}
    if rng.random() < 0.2:
        spec["initContainers"] = [_container(rng, f"i{n}") for n in range(rng.choice([1, 2]))]
    if rng.random() < 0.15:
        spec["tolerations"] = rng.choices(_TOLERATIONS, k=2)
    spec |= _some(
        rng,
        {
            "runtimeClassName": ["mine"],
            "resources": [{"limits": {"cpu": "4"}}, {}],
            "futureSpec": [[1, None, {"x": ""}]],
            "nodeSelector": [{"gpu": "300m"}],
        },
        0.06,
    )
    notes = _some(rng, _NOTES, 0.05)
    if rng.random() < 0.15:
        notes["milligpu.io/gpu"] = rng.choice(_NOTED)
    metadata: Json = {"name": "model", **({"annotations": notes} if notes else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _own(rng: Random, obj: Json) -> None:
    """Give an object an owner, or an ask on the wrong metadata."""
    by = ("apps/v1", "Deployment") if obj["kind"] == "ReplicaSet" else ("x/v1", "RayCluster")
    owner: Json = {"apiVersion": by[0], "kind": by[1], "name": "x"}
    owner |= {"uid": "1", "controller": rng.random() < 0.8}
    if rng.random() < 0.8:
        obj["metadata"]["ownerReferences"] = [owner]
    else:
        obj["metadata"].setdefault("annotations", {})["milligpu.io/gpu"] = rng.choice(_NOTED)


# What an API server sends when something is changed.


def _update(rng: Random, manifest: Json, stored: Json) -> tuple[Json, Json, Json | None]:
    """Return the new object, the old one, and the options."""
    how = rng.choices(["label", "other", "edit", "client", "server"], [10, 5, 30, 25, 30])[0]
    if how == "label":
        new = copied(stored)
        new["metadata"]["labels"] = {"a": "b"}
        return new, stored, None
    if how == "other":
        return sent(holding(manifest["kind"], _pod(rng))), stored, None
    changed = copied(manifest)
    if rng.random() < 0.6:
        _change(rng, changed)
    new = sent(merged(_without(stored, manifest, changed), changed))
    if how == "client":
        _last_applied(stored, manifest)
        _last_applied(new, changed)
        return new, stored, {"fieldManager": "kubectl-client-side-apply"}
    if how == "server" and manifest["kind"] != "Pod":
        _applied(rng, (stored, manifest), (new, changed))
        return new, stored, {"fieldManager": rng.choice(["argo", "argo", "argo", "other", ""])}
    return new, stored, None


def _applied(rng: Random, *pairs: tuple[Json, Json]) -> None:
    """Give objects the managedFields of their manifests' server-side apply."""
    by_other = rng.random() < 0.3
    manifest, operation = rng.choice(pairs)[1], rng.choice(["Apply", "Update"])
    for obj, own in pairs:
        others = [_entry(manifest, "other", operation)] if by_other else []
        obj["metadata"]["managedFields"] = [_entry(own, "argo"), *others]


def _change(rng: Random, manifest: Json) -> None:
    """Change what a person would: the ask, the image, another resource, a note."""
    body = rng.choice(list(containers(manifest)))
    limits = body.setdefault("resources", {}).setdefault("limits", {})
    what = rng.randrange(6)
    if what == 0:
        body["image"] = "registry.example/newer"
    elif what == 1:
        limits["gpu"] = _ask(rng)
    elif what in (2, 3):
        for side in ("limits", "requests"):
            values = body["resources"].get(side, {})
            body["resources"][side] = {k: v for k, v in values.items() if k in _PLAIN}
        if what == 3:
            key = rng.choice(list(_OTHERS))
            body["resources"]["limits"][key] = rng.choice(_OTHERS[key])
    elif what == 4:
        body["resources"] = _resources(rng) or {}
    else:
        metadata = held(manifest).setdefault("metadata", {})
        metadata.setdefault("annotations", {})["milligpu.io/gpu"] = rng.choice(_NOTED)


def _without(stored: Json, before: Json, after: Json) -> Json:
    """Return a stored object without the resources that a manifest has not any more."""
    stored = copied(stored)
    now = {body["name"]: body for body in containers(after)}
    kept = {body["name"]: body for body in containers(stored)}
    for was in containers(before):
        for side in ("limits", "requests"):
            gone = (was.get("resources") or {}).get(side, {}).keys() - (
                now[was["name"]].get("resources") or {}
            ).get(side, {}).keys()
            values = (kept.get(was["name"], {}).get("resources") or {}).get(side) or {}
            for key in gone:
                values.pop(key, None)
    return stored


def _last_applied(obj: Json, manifest: Json) -> None:
    notes = obj["metadata"].get("annotations") or {}
    key = "kubectl.kubernetes.io/last-applied-configuration"
    obj["metadata"]["annotations"] = {**notes, key: json.dumps(manifest)}


def _entry(manifest: Json, manager: str, operation: str = "Apply") -> Json:
    """Return the entry of managedFields for a manifest, with the containers' resources."""
    fields: Json = {}
    for kind in ("initContainers", "containers"):
        for body in held(manifest)["spec"].get(kind, []):
            limits = (body.get("resources") or {}).get("limits") or {}
            owned: Json = {f"f:{key}": {} for key in limits}
            key = f'k:{{"name":"{body["name"]}"}}'
            fields.setdefault(f"f:{kind}", {})[key] = {"f:resources": {"f:limits": owned}}
    for step in ("spec", *reversed(KINDS[manifest["kind"]][1])):
        fields = {f"f:{step}": fields}
    return {"manager": manager, "operation": operation, "fieldsV1": fields}
