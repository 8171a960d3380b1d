"""Small kinds of our own, shaped like those of well-known operators, and milligpu set up for them.

TorchJob: a map of replica specs. GroupSet: a head, and a list of worker groups that is owned whole.
JobGroup: a list of jobs by name, with what makes pods two levels down. FreeForm: no schema at all.
All but the last check their templates as their operators' own webhooks would.
"""

import copy
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

from tests.cluster import shapes
from tests.cluster.api import Json
from tests.cluster.controlplane import ControlPlane
from tests.cluster.eventually import eventually
from tests.cluster.webhooks import SHIPPED

GROUP = "train.example.com"
PATHS = {
    "TorchJob": ["spec.replicaSpecs.*.template"],
    "GroupSet": ["spec.head.template", "spec.groups[*].template"],
    "JobGroup": ["spec.jobs[*].template.spec.template"],
    "FreeForm": ["spec.items[*].template", "spec.named.*", "spec.sets[*].parts.*"],
}
"""Where they hold pods, as the setting says it."""
KINDS = list(PATHS)
SETTING = json.dumps(
    [
        {"group": GROUP, "version": "v1", "resource": f"{kind.lower()}s", "path": path}
        for kind, paths in PATHS.items()
        for path in paths
    ]
)

# What the API server has for built-in templates, and operators' webhooks for their own.
_NAMES = "self.all(k, k.contains('/') || k in ['cpu', 'memory'])"
_AMOUNTS = {
    "type": "object",
    "maxProperties": 8,
    "additionalProperties": {"x-kubernetes-int-or-string": True},
    "x-kubernetes-validations": [{"rule": _NAMES, "message": "must be a standard resource"}],
}
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def _list(items: Json, *, keyed: bool) -> Json:
    schema = {"type": "array", "maxItems": 8, "items": items}
    if not keyed:
        return schema
    return schema | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


def _template(*, keyed: bool) -> Json:
    resources = _object(limits=_AMOUNTS, requests=_AMOUNTS)
    container = _object(name={"type": "string"}, image={"type": "string"}, resources=resources)
    container["required"] = ["name"]
    return _object(metadata=_OPEN, spec=_object(containers=_list(container, keyed=keyed)))


def _spec(kind: str) -> Json:
    count: Json = {"type": "integer", "default": 1}
    match kind:
        case "TorchJob":
            replicas = _object(replicas=count, template=_template(keyed=True))
            values = {"type": "object", "maxProperties": 4, "additionalProperties": replicas}
            return _object(suspend={"type": "boolean"}, replicaSpecs=values)
        case "GroupSet":
            group = _object(
                groupName={"type": "string"}, replicas=count, template=_template(keyed=False)
            )
            return _object(
                suspend={"type": "boolean"}, head=group, groups=_list(group, keyed=False)
            )
        case "JobGroup":
            pods = _object(template=_template(keyed=True))
            job = _object(name={"type": "string"}, replicas=count, template=_object(spec=pods))
            job["required"] = ["name"]
            return _object(suspend={"type": "boolean"}, jobs=_list(job, keyed=True))
    return _OPEN


def definition(kind: str) -> Json:
    """Return a kind's CustomResourceDefinition."""
    plural = f"{kind.lower()}s"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _object(spec=_spec(kind), status=_OPEN)},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version, {**version, "name": "v1beta1", "storage": False}],
        },
    }


def holding(kind: str, first: Json, second: Json, name: str = "model") -> Json:
    """Return an object of a kind that makes pods like two pods."""
    one, two = (_held(pod) for pod in (first, second))
    match kind:
        case "TorchJob":
            spec: Json = {
                "replicaSpecs": {"Master": {"template": one}, "Worker": {"template": two}}
            }
        case "GroupSet":
            groups = [{"groupName": "small", "template": two}]
            spec = {"head": {"template": one}, "groups": groups}
        case "JobGroup":
            named = (("a", one), ("b", two))
            spec = {
                "jobs": [
                    {"name": name, "template": {"spec": {"template": each}}} for name, each in named
                ]
            }
        case _:
            spec = {"items": [{"template": one}], "named": {"a.b/c": two}}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _held(pod: Json) -> Json:
    pod = copy.deepcopy(pod)
    return {"metadata": {"labels": {"app": "x"}, **_annotated(pod)}, "spec": pod["spec"]}


def _annotated(pod: Json) -> Json:
    return {key: value for key, value in pod["metadata"].items() if key == "annotations"}


def held(obj: Json) -> list[Json]:
    """Return the two templates of an object."""
    spec = obj["spec"]
    match obj["kind"]:
        case "TorchJob":
            return [spec["replicaSpecs"][each]["template"] for each in ("Master", "Worker")]
        case "GroupSet":
            return [spec["head"]["template"], spec["groups"][-1]["template"]]
        case "JobGroup":
            return [each["template"]["spec"]["template"] for each in spec["jobs"][-2:]]
    return [spec["items"][-1]["template"], *spec["named"].values()]


def plain() -> Json:
    """Return a pod without a GPU."""
    return shapes.pod("x", {"name": "main"})


def asking(**limits: str) -> Json:
    """Return a pod with limits."""
    return shapes.pod("x", shapes.limited("main", **limits))


def define(plane: ControlPlane, *kinds: str) -> None:
    """Have the API server serve kinds from now on."""
    for kind in kinds:
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(definition(kind)))
    for kind in kinds:
        path = f"/apis/{GROUP}/v1/{kind.lower()}s"
        eventually(partial(plane.api.get, path), f"{kind} to be served")


def edited(setting: str = SETTING) -> str:
    """Return the shipped file with the setting in it, as an administrator writes it."""
    text, unset = SHIPPED.read_text(), 'MILLIGPU_TEMPLATE_PATHS: "[]"\n'
    assert text.count(unset) == 1
    return text.replace(unset, f"MILLIGPU_TEMPLATE_PATHS: '{setting}'\n")


def rendered(folder: Path, setting: str = SETTING) -> Path:
    """Return the file that `milligpu render` makes of the edited one."""
    (folder / "edited.yaml").write_text(edited(setting))
    command = [sys.executable, "-m", "milligpu", "render", str(folder / "edited.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (folder / "rendered.yaml").write_text(done.stdout)
    return folder / "rendered.yaml"
