"""`milligpu revert` between `kubectl get` and `kubectl replace`, when milligpu is gone."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from milligpu import processes
from tests.cluster import shapes, webhooks
from tests.cluster.api import Json
from tests.cluster.controlplane import ControlPlane
from tests.cluster.shapes import KINDS, holding, limited
from vgpu import names

pytestmark = pytest.mark.apiserver

PROGRAMS = Path(sys.executable).parent
FIXED = ("Pod", "Job")
"""Kinds whose pods' resources cannot change: they are made anew."""
Typed = Callable[..., "subprocess.CompletedProcess[str]"]


def sharing(kind: str) -> Json:
    return holding(kind, shapes.pod("shares", limited("main", gpu="300m"), {"name": "other"}))


@pytest.fixture
def translated(apiserver: ControlPlane, namespace: str, tmp_path: Path) -> str:
    """A namespace with a share in an object of each kind, applied; the webhook is gone again."""
    with (
        processes.webhook(tmp_path) as started,
        webhooks.installed(apiserver, started.url, started.ca),
    ):
        for kind in KINDS:
            apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(sharing(kind)))
        plain = holding("Deployment", shapes.pod("plain", {"name": "main"}))
        apiserver.api.create(plain, namespace)
    return namespace


@pytest.fixture
def typed(apiserver: ControlPlane, namespace: str) -> Typed:
    """Runs a line in a shell, with kubectl set to the namespace."""
    path = f"{apiserver.kubectl_path.parent}:{PROGRAMS}:{os.environ['PATH']}"
    environ = {"PATH": path, "HOME": str(apiserver.folder)}
    kubectl = f"kubectl --kubeconfig {apiserver.kubeconfig} --namespace {namespace}"

    def run(line: str, status: int = 0) -> "subprocess.CompletedProcess[str]":
        command = ["bash", "-c", f"set -o pipefail; {line.replace('kubectl', kubectl)}"]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        return done

    return run


PIPE = "kubectl get {} -o yaml | milligpu revert --to {} --only-changed - | kubectl {} -f -"
CHANGEABLE = ",".join(kind for kind in KINDS if kind not in FIXED)


def resources(plane: ControlPlane, kind: str, namespace: str) -> Json:
    [main, other] = shapes.held(plane.api.read(sharing(kind), namespace))["spec"]["containers"]
    assert not other.get("resources")
    return dict(main.get("resources") or {})


@pytest.mark.parametrize("form", ["whole", "none"])
def test_workloads_are_turned_back_where_they_are(
    apiserver: ControlPlane, translated: str, typed: Typed, form: str
) -> None:
    plain = holding("Deployment", shapes.pod("plain", {"name": "main"}))
    before = apiserver.api.read(plain, translated)
    done = typed(PIPE.format(CHANGEABLE, form, "replace"))
    assert done.stdout.count("shares replaced") == len(KINDS) - len(FIXED)
    assert done.stderr.count("/shares in ") == len(KINDS) - len(FIXED)
    assert apiserver.api.read(plain, translated) == before
    for kind in KINDS:
        found = resources(apiserver, kind, translated)
        if kind in FIXED:
            assert found["limits"][names.COUNT] == "30"
        elif form == "whole":
            assert found["limits"] == {names.NVIDIA_GPU: "1"}
            assert found.get("requests", found["limits"]) == found["limits"]
        else:
            assert found == {}
    again = typed(
        f"kubectl get {CHANGEABLE} -o yaml | milligpu revert --to {form} --only-changed -"
    )
    assert (again.stdout, again.stderr) == ("", "")


def test_a_bare_pod_is_made_anew(apiserver: ControlPlane, translated: str, typed: Typed) -> None:
    typed(PIPE.format("pod", "whole", "replace --force --grace-period=0"))
    assert resources(apiserver, "Pod", translated)["limits"] == {names.NVIDIA_GPU: "1"}
    pod = apiserver.api.read(sharing("Pod"), translated)
    assert all("env" not in each for each in pod["spec"]["containers"])
    [key] = pod["metadata"]["annotations"]
    assert key == names.ANNOTATION_LAST_APPLIED
    assert all(each["key"] != names.NVIDIA_GPU for each in pod["spec"]["tolerations"])


def test_a_job_is_made_anew_of_its_manifest(
    apiserver: ControlPlane, translated: str, typed: Typed, tmp_path: Path
) -> None:
    manifest = tmp_path / "job.json"
    manifest.write_text(json.dumps(sharing("Job")))
    typed(f"milligpu revert --to whole {manifest} | kubectl replace --force -f -")
    assert resources(apiserver, "Job", translated)["limits"] == {names.NVIDIA_GPU: "1"}


def test_applying_it_would_leave_the_count_beside(
    apiserver: ControlPlane, translated: str, typed: Typed
) -> None:
    """Why the page says `replace`: what no manifest declares, no apply takes away."""
    both = {names.COUNT: "30", names.NVIDIA_GPU: "1"}
    typed(PIPE.format("deployment", "whole", "apply"))
    assert resources(apiserver, "Deployment", translated)["limits"] == both
    typed(PIPE.format("statefulset", "whole", "apply --server-side --force-conflicts"))
    assert resources(apiserver, "StatefulSet", translated)["limits"] == both
    said = typed(PIPE.format("deployment", "whole", "replace"), status=1).stderr
    assert "milligpu.io/vgpu: 30 beside nvidia.com/gpu: 1; a container gets one GPU" in said
    typed(PIPE.format("deployment", "none", "replace"))
    assert resources(apiserver, "Deployment", translated)["limits"] == {names.NVIDIA_GPU: "1"}


def test_the_asks_come_back_to_a_cluster_that_has_the_webhook(
    apiserver: ControlPlane, translated: str, typed: Typed, tmp_path: Path
) -> None:
    before = {kind: resources(apiserver, kind, translated) for kind in KINDS}
    line = PIPE.format(CHANGEABLE, "ask", "replace")
    assert "must be a standard resource" in typed(line, status=1).stderr
    with (
        processes.webhook(tmp_path) as started,
        webhooks.installed(apiserver, started.url, started.ca),
    ):
        typed(line)
        assert {kind: resources(apiserver, kind, translated) for kind in KINDS} == before
