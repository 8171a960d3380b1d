"""`milligpu explain pod`, through the real kubectl, of pods on a real API server."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from milligpu.processes import Webhook
from tests.cluster import shapes
from tests.cluster.api import Json, collection
from tests.cluster.controlplane import TOKEN, ControlPlane
from tests.cluster.shapes import limited

pytestmark = pytest.mark.apiserver

PROGRAMS = Path(sys.executable).parent
CARD = "GPU-1f2e3d4c-0000-1111-2222-333344445555"
Explain = Callable[..., tuple[int, str, str]]


CONTEXTS = f"""
contexts:
  - {{name: admin, context: {{cluster: milligpu, user: admin}}}}
  - {{name: eve, context: {{cluster: milligpu, user: eve}}}}
users:
  - {{name: admin, user: {{token: {TOKEN}}}}}
  - {{name: eve, user: {{token: {TOKEN}, as: eve}}}}
current-context: admin
"""


@pytest.fixture
def explain(apiserver: ControlPlane, namespace: str, tmp_path: Path) -> Explain:
    """Runs `explain pod NAME` in the namespace, as a user who has a kubeconfig and kubectl."""
    kubeconfig = tmp_path / "config"
    clusters = apiserver.kubeconfig.read_text().partition("users:")[0]
    ca = str(apiserver.kubeconfig.parent / "pki/ca.crt")
    kubeconfig.write_text(clusters.replace("pki/ca.crt", ca) + CONTEXTS)

    def run(*words: str, command: tuple[str, ...] = ("milligpu",)) -> tuple[int, str, str]:
        path = f"{apiserver.kubectl_path.parent}:{PROGRAMS}:{os.environ['PATH']}"
        environ = {"PATH": path, "HOME": str(apiserver.folder), "COLUMNS": "100"}
        environ["KUBECONFIG"] = str(kubeconfig)
        program = apiserver.kubectl_path if command[0] == "kubectl" else PROGRAMS / command[0]
        argv = [str(program), *command[1:], "explain", *words, "-n", namespace]
        done = subprocess.run(
            argv, env=environ, capture_output=True, text=True, timeout=30, check=False
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    return run


def with_status(plane: ControlPlane, pod: Json, namespace: str, **status: object) -> None:
    """Write a pod's status as its kubelet or the scheduler would."""
    path = f"{collection(pod, namespace)}/{pod['metadata']['name']}/status"
    kind = "application/strategic-merge-patch+json"
    plane.api.request("PATCH", path, {"status": status}, kind)


def container_status(name: str, *slots: int) -> Json:
    ids = [{"resourceID": f"{CARD}::{slot}", "health": "Healthy"} for slot in slots]
    held = [{"name": "milligpu.io/vgpu", "resources": ids}] if ids else []
    fields: Json = {"image": "none", "imageID": "", "ready": True, "restartCount": 0}
    allocated = {"allocatedResourcesStatus": held} if held else {}
    return {"name": name, **fields, **allocated}


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_running_pods_node_card_and_slots_are_told(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, explain: Explain
) -> None:
    pod = shapes.pod("model", limited("main"), limited("log"), annotations={
        "milligpu.io/gpu": "main=33m"
    })  # fmt: skip
    pod["spec"]["nodeName"] = "node-7"
    apiserver.api.create(pod, namespace)
    told = [container_status("main", 7, 4, 5, 6), container_status("log")]
    with_status(apiserver, pod, namespace, phase="Running", containerStatuses=told)
    status, out, err = explain("pod", "model")
    assert (status, err) == (0, "")
    assert out.startswith(f"Pod/model in {namespace}\n  container main\n")
    said = flat(out)
    for words in (
        "ask 33m in annotations[milligpu.io/gpu]",
        "means 0.033 of a card: 4 of the 100 slots of one card, 4 %",
        "stored milligpu.io/vgpu: 4 in limits and requests",
        "memory PER_PROCESS_GPU_MEMORY_FRACTION=0.04",
        "cpu limit 320m, request 32m plugin",
        f"card {CARD}, Healthy: slots 4-7",
        "container log void NVIDIA_VISIBLE_DEVICES=void: it sees no card",
        "state Running on node node-7",
        "not held a share is advisory",
    ):
        assert words in said


def test_it_is_a_command_of_kubectl_too(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, explain: Explain
) -> None:
    apiserver.api.create(shapes.pod("model", limited("main", gpu="300m")), namespace)
    alone = explain("pod", "model")
    assert alone[0] == 0
    assert explain("pod/model", command=("kubectl", "milligpu")) == alone
    status, _, err = explain("pod", command=("kubectl", "milligpu"))
    assert status == 2
    assert err.startswith("usage: kubectl milligpu explain (FILE... | pod NAME ")


def test_a_pending_pod_is_told_why(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, explain: Explain
) -> None:
    pod = shapes.pod("model", limited("main", gpu="300m"))
    apiserver.api.create(pod, namespace)
    message = "0/3 nodes are available: 3 Insufficient milligpu.io/vgpu."
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    with_status(apiserver, pod, namespace, conditions=[{**waits, "message": message}])
    _, out, _ = explain("pod", "model")
    said = flat(out)
    assert f"state Pending because Unschedulable: {message} that is no node that the pod" in said
    assert " card " not in said.partition(" pod ")[0].partition("plugin")[0]


def test_a_failed_pod_is_told_why(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, explain: Explain
) -> None:
    pod = shapes.pod("model", limited("main", gpu="300m"))
    apiserver.api.create(pod, namespace)
    reason = "UnexpectedAdmissionError"
    message = "Pod was rejected: Allocate failed due to no card has 30 free slots"
    with_status(apiserver, pod, namespace, phase="Failed", reason=reason, message=message)
    said = flat(explain("pod", "model")[1])
    assert f"state Failed because {reason}: {message} that is no card had so many slots" in said


def test_a_pod_without_a_share_is_said_to_have_none(
    apiserver: ControlPlane, namespace: str, explain: Explain
) -> None:
    apiserver.api.create(shapes.pod("plain", limited("main", cpu="1")), namespace)
    told = f"Pod/plain in {namespace}\n  it asks for no share\n"
    assert explain("pod", "plain") == (0, told, "")


def test_who_may_not_read_it_is_told_so(
    apiserver: ControlPlane, namespace: str, explain: Explain
) -> None:
    status, out, err = explain("pod", "absent")
    assert (status, out) == (2, "")
    missing = 'Error from server (NotFound): pods "absent" not found'
    assert err == f"milligpu explain: kubectl: {missing}\n"

    status, out, err = explain("pod", "absent", "--context", "eve")
    assert (status, out) == (2, "")
    assert err.startswith("milligpu explain: kubectl: Error from server (Forbidden): ")
    assert 'User "eve" cannot get resource "pods"' in err

    status, out, err = explain("pod", "absent", "--context", "nobody")
    assert (status, out) == (2, "")
    assert "context" in err
