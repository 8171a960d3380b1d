"""What the real API server stores of a pod, beside the table (test_webhook_matrix.py)."""

import json
from typing import Any

import pytest

from milligpu.processes import Webhook
from tests.cluster import shapes
from tests.cluster.api import ApiError, Json, containers
from tests.cluster.controlplane import ControlPlane
from tests.cluster.shapes import limited
from vgpu import names

pytestmark = pytest.mark.apiserver


def env(container: Json) -> dict[str, Any]:
    return {entry["name"]: entry.get("value") for entry in container.get("env", [])}


def test_a_pod_gets_everything(apiserver: ControlPlane, webhook: Webhook, namespace: str) -> None:
    pod = shapes.pod("model", limited("main", gpu="333m"), {"name": "helper"})
    pod["spec"]["initContainers"] = [
        {"image": "none", **limited("warm", gpu="400m")},
        {"image": "none", "restartPolicy": "Always", **limited("side", gpu="50m")},
        {"image": "none", "name": "plain"},
    ]
    made = apiserver.api.create(pod, namespace)
    found = {each["name"]: each for each in containers(made)}
    counts = {
        name: each["resources"].get("limits", {}).get(names.COUNT) for name, each in found.items()
    }
    assert counts == {"warm": "40", "side": "5", "plain": None, "main": "34", "helper": None}
    cpus = {side: found["main"]["resources"][side]["cpu"] for side in ("limits", "requests")}
    assert cpus == {"limits": "2720m", "requests": "272m"}
    record = json.loads(made["metadata"]["annotations"][names.ANNOTATION_SHARE])
    assert record["main"] == {"slots": 34, "share": "0.34"}
    assert env(found["main"]) == {names.ENV_FRACTION: "0.34"}
    assert env(found["helper"]) == env(found["plain"]) == {names.ENV_VISIBLE_DEVICES: names.VOID}
    tolerations = made["spec"]["tolerations"]
    assert {"key": names.NVIDIA_GPU, "operator": "Exists", "effect": "NoSchedule"} in tolerations


def test_tensorflow_serving_gets_its_flag(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    serving = {**limited("main", gpu="300m"), "image": "tensorflow/serving", "args": ["--x=1"]}
    made = apiserver.api.create(shapes.pod("serving", serving), namespace)
    assert made["spec"]["containers"][0]["args"] == [
        "--x=1",
        "--per_process_gpu_memory_fraction=$(MILLIGPU_MEMORY_FRACTION)",
    ]


def test_every_fault_is_in_one_message(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    pod = shapes.pod("wrong", limited("a", gpu="1500m"), limited("b", gpu="-1"))
    with pytest.raises(ApiError) as denial:
        apiserver.api.create(pod, namespace)
    message = denial.value.body["message"]
    assert "containers[0].resources.limits[gpu]: 1500m" in message
    assert "containers[1].resources.limits[gpu]: -1" in message
