"""What people met with other webhooks, before the real API server (tests/cases/table.py)."""

import copy
from typing import Any

import pytest

from milligpu.processes import Webhook
from tests.cluster import shapes
from tests.cluster.api import ApiError, Json
from tests.cluster.controlplane import ControlPlane
from tests.cluster.shapes import limited
from vgpu import names

pytestmark = pytest.mark.apiserver


# What we change is all that changes: the same pod with and without us.

RICH: Json = {
    "securityContext": {"runAsNonRoot": True, "fsGroup": 7},
    "nodeSelector": {"zone": "a"},
    "schedulerName": "mine",
    "priority": 0,
    "hostname": "h",
    "shareProcessNamespace": True,
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
            ]
        }
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "tolerations": [{"key": "mine", "operator": "Exists", "effect": "NoSchedule"}],
    "volumes": [
        {"name": "files", "emptyDir": {"medium": "Memory"}},
        {"name": "image", "image": {"reference": "r.example/v", "pullPolicy": "Always"}},
    ],
    "resourceClaims": [{"name": "claim", "resourceClaimName": "x"}],
    "readinessGates": [{"conditionType": "example.com/ready"}],
}
BODY: Json = {
    "name": "main",
    "image": "none",
    "command": ["run"],
    "args": ["--x=y z", "--last"],
    "env": [
        {"name": "A", "value": "1"},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ],
    "volumeMounts": [{"name": "files", "mountPath": "/f"}, {"name": "image", "mountPath": "/i"}],
    "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
    "livenessProbe": {"exec": {"command": ["true"]}},
}
LIMITS = {"memory": "8Gi", "ephemeral-storage": "1Gi", "example.com/other": "1"}


def rich(limits: Json) -> Json:
    """Return a pod with about everything that a pod may have."""
    resources = {"limits": {**LIMITS, **limits}, "requests": {"memory": "4Gi"}}
    body = {**BODY, "resources": {**resources, "claims": [{"name": "claim"}]}}
    sidecar = {**limited("side", **limits), "image": "none", "restartPolicy": "Always"}
    notes = {"a.example/b": "keep", "c": "keep"}
    pod = shapes.pod("rich", body, limited("nvidia", **{names.NVIDIA_GPU: "1"}), annotations=notes)
    pod["metadata"] |= {"labels": {"a": "b"}, "finalizers": ["example.com/wait"]}
    pod["spec"] |= {**copy.deepcopy(RICH), "initContainers": [sidecar]}
    return pod


def test_nothing_is_lost_and_nothing_else_is_added(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    """Beside the same pod with the count written by hand, in a namespace that we are not asked of.

    B32, B37, B41, B86: newer fields, keys with slashes, lists, and how a pod is scheduled.
    """
    made = apiserver.api.create(rich({"gpu": "300m"}), namespace, "?dryRun=All")
    label = {"metadata": {"labels": {names.LABEL_ADMISSION: names.ADMISSION_DISABLED}}}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    apiserver.api.patch(space, label)
    wanted = unmutated(apiserver, namespace)
    fraction = {"name": names.ENV_FRACTION, "value": "0.3"}
    for body in (*wanted["spec"]["containers"], *wanted["spec"]["initContainers"]):
        if names.COUNT in body["resources"]["limits"]:
            body["env"] = [*body.get("env", []), fraction]
            body["resources"]["limits"]["cpu"] = "2400m"
            body["resources"]["requests"]["cpu"] = "240m"
    # Kubernetes' own two come after those that the pod had when it was sent to us.
    wanted["spec"]["tolerations"].append(
        {"key": names.NVIDIA_GPU, "operator": "Exists", "effect": "NoSchedule"}
    )
    share = '{"side":{"slots":30,"share":"0.3"},"main":{"slots":30,"share":"0.3"}}'
    wanted["metadata"]["annotations"][names.ANNOTATION_SHARE] = share
    assert made["spec"] == wanted["spec"]
    assert made["metadata"]["annotations"] == wanted["metadata"]["annotations"]
    for key in ("labels", "finalizers"):
        assert made["metadata"][key] == wanted["metadata"][key]


def unmutated(plane: ControlPlane, namespace: str) -> Json:
    """Return the pod as it is without us; a changed label takes a moment to be seen."""
    for _ in range(100):
        pod = plane.api.create(rich({names.COUNT: "30"}), namespace, "?dryRun=All")
        if names.ANNOTATION_SHARE not in pod["metadata"]["annotations"]:
            return pod
    raise AssertionError("the namespace's label is not seen")


# Resizing in place.


def resize(plane: ControlPlane, pod: Json, namespace: str, **sides: Any) -> Json:
    """Ask for other resources of a pod's only container, as an autoscaler does: all of them."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
    changed = plane.api.get(path)
    changed["spec"]["containers"][0]["resources"] = sides
    return plane.api.request("PUT", f"{path}/resize", changed)


def test_a_resize_is_the_api_servers_and_the_share_stays(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    """B64: CPUs may change; what leaves the share out, or changes it, is refused, not by us."""
    pod = apiserver.api.create(shapes.pod("model", limited("main", gpu="300m")), namespace)
    held = {names.COUNT: "30"}
    sides = {"limits": {**held, "cpu": "3"}, "requests": {**held, "cpu": "1"}}
    made = resize(apiserver, pod, namespace, **sides)
    assert made["spec"]["containers"][0]["resources"] == sides
    for count in ({}, {names.COUNT: "50"}):
        sides = {"limits": {**count, "cpu": "2"}, "requests": {**count, "cpu": "1"}}
        with pytest.raises(ApiError, match="only cpu and memory resources are mutable"):
            resize(apiserver, pod, namespace, **sides)
    assert ("UPDATE", "model") not in reviews(apiserver, webhook)


def reviews(plane: ControlPlane, webhook: Webhook) -> set[tuple[str, str]]:
    """Return operation and name of what was sent to us until now; lines come after the answers."""

    def sent() -> set[tuple[str, str]]:
        lines = [line for line in webhook.program.lines() if line["event"] == "review"]
        return {(line["operation"], line["name"]) for line in lines}

    last = shapes.pod("the-last", limited("main", gpu="300m"))
    plane.api.create(last, query="?dryRun=All")
    webhook.program.wait_until(lambda: ("CREATE", "the-last") in sent())
    return sent()
