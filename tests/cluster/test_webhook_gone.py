"""The webhook is away: only what needs it waits for it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from milligpu import processes
from milligpu.processes import Webhook
from tests.cluster import shapes, webhooks
from tests.cluster.api import ApiError
from tests.cluster.controlplane import ControlPlane
from tests.cluster.shapes import KINDS, holding, limited
from vgpu import names

pytestmark = pytest.mark.apiserver


@pytest.fixture
def mortal(apiserver: ControlPlane, tmp_path: Path) -> Iterator[Webhook]:
    """A webhook that a test may end; its configuration stays."""
    with webhooks.before(apiserver, tmp_path) as started:
        yield started


def test_only_asks_and_grants_wait_for_it(
    apiserver: ControlPlane, mortal: Webhook, namespace: str
) -> None:
    api = apiserver.api
    sharing = {
        kind: api.create(holding(kind, shapes.pod("old", limited("main", gpu="300m"))), namespace)
        for kind in KINDS
    }
    mortal.program.stop()

    for kind in KINDS:
        api.create(holding(kind, shapes.pod("plain", {"name": "main"})), namespace)
        with pytest.raises(ApiError, match=r"failed calling webhook .*milligpu\.io"):
            api.create(holding(kind, shapes.pod("new", limited("main", gpu="300m"))), namespace)
    whole = {"name": "main", "resources": {"limits": {names.NVIDIA_GPU: "1"}}}
    api.create(shapes.pod("whole", whole), namespace)

    for kind, obj in sharing.items():
        apiserver.kubectl("label", kind, "old", "a=b", "-n", namespace)
        apiserver.kubectl("annotate", kind, "old", "a=b", "-n", namespace)
        if kind in ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"):
            apiserver.kubectl("scale", kind, "old", "--replicas=2", "-n", namespace)
        if kind in ("Deployment", "StatefulSet", "DaemonSet"):
            apiserver.kubectl("rollout", "restart", f"{kind}/old", "-n", namespace)
        if kind in ("Job", "CronJob"):
            api.patch(obj, {"spec": {"suspend": True}}, namespace)
        # What the garbage collector and the Job controller do at the end of an object.
        api.patch(obj, {"metadata": {"finalizers": ["example.com/wait"]}}, namespace)
        api.delete(obj, namespace, policy="Foreground")
        api.patch(obj, {"metadata": {"finalizers": None}}, namespace)
        with pytest.raises(ApiError, match="not found"):
            api.read(obj, namespace)


def test_it_comes_back_and_serves(
    apiserver: ControlPlane, mortal: Webhook, namespace: str, tmp_path: Path
) -> None:
    mortal.program.stop()
    pod = shapes.pod("model", limited("main", gpu="300m"))
    create = ("create", "-n", namespace, "-f", "-")
    refused = apiserver.kubectl(*create, stdin=json.dumps(pod), check=False)
    assert "failed calling webhook" in refused.stderr
    address: dict[str, object] = {"host": "127.0.0.1", "port": mortal.port, "drain_seconds": 0}
    command = ("-m", "gunicorn", "-c", "python:webhook.gunicorn_conf", "webhook.wsgi:app")
    settings: dict[str, object] = {**address, "tls_dir": tmp_path / "tls"}
    with processes.running(*command, output=tmp_path / "again.log", settings=settings) as program:
        again = Webhook(program, mortal.port, mortal.ca)
        program.wait_until(again.ready)
        apiserver.kubectl(*create, stdin=json.dumps(pod))
