"""What the pages on nodes, runtime classes and autoscalers tell, before a real API server."""

import re

import pytest

from milligpu.processes import Webhook
from tests.cluster import shapes
from tests.cluster.api import ApiError, Json
from tests.cluster.controlplane import ControlPlane
from tests.cluster.shapes import limited
from tests.documents import ROOT
from vgpu import names
from vgpu.slots import PER_CARD

pytestmark = pytest.mark.apiserver

HOW_TO = ROOT / "docs/how-to"


def test_a_class_that_is_not_there_is_refused_as_the_page_says(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    (message,) = re.findall(r"\(`(pod rejected: .*?)`\)", (HOW_TO / "runtime-class.md").read_text())
    pod = shapes.pod("model", limited("main", gpu="300m"))
    pod["spec"]["runtimeClassName"] = "nvidia"
    with pytest.raises(ApiError, match=re.escape(message)):
        apiserver.api.create(pod, namespace)


def test_the_taint_of_a_node_that_starts_is_taken_off_when_it_has_slots(
    apiserver: ControlPlane,
) -> None:
    page = (HOW_TO / "autoscaler.md").read_text()
    (wait, untaint) = re.findall(r"^kubectl (wait .*|taint .*)$", page, re.MULTILINE)
    (key,) = re.findall(r"taint node NAME (\S+):NoSchedule-", untaint)
    taint = {"key": key, "value": "wait", "effect": "NoSchedule"}
    node: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "starting"}}
    apiserver.api.create({**node, "spec": {"taints": [taint]}})
    try:
        commands = [each.replace("NAME", "starting").split() for each in (wait, untaint)]
        waiting = [
            re.sub("'|10m$", lambda it: {"'": "", "10m": "1s"}[it[0]], each) for each in commands[0]
        ]
        assert apiserver.kubectl(*waiting, check=False).returncode != 0
        status = {"allocatable": {names.COUNT: str(PER_CARD)}}
        patch = "application/merge-patch+json"
        path = "/api/v1/nodes/starting/status"
        apiserver.api.request(
            "PATCH", path, {"status": {**status, "capacity": status["allocatable"]}}, patch
        )
        apiserver.kubectl(*waiting)
        apiserver.kubectl(*commands[1])
        left = apiserver.api.get("/api/v1/nodes/starting")["spec"].get("taints", [])
        assert key not in {each["key"] for each in left}
    finally:
        apiserver.api.delete(node)
