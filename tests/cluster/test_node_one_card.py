"""One card, many containers: what the project is for."""

import json
import time

import pytest

from tests.cluster import shapes
from tests.cluster.api import Json
from tests.cluster.eventually import eventually
from tests.cluster.node import Node
from tests.cluster.product import restart_plugin, slots, use_cards
from tests.cluster.shapes import holding
from tests.cluster.spaces import Space, asking, reporting
from vgpu import names
from vgpu.slots import PER_CARD

pytestmark = pytest.mark.node


@pytest.fixture(autouse=True)
def _one_card(node: Node) -> None:
    use_cards(node, "one-t4")


def three(app: str) -> Json:
    deployment = holding("Deployment", shapes.pod(app, asking("main", "300m")))
    deployment["spec"]["replicas"] = 3
    return deployment


def test_a_plain_pod_runs_and_sees_nothing_of_us(space: Space) -> None:
    space.create(shapes.pod("plain", reporting("main")))
    report = space.reports(space.running("plain"))["main"]
    assert not [name for name in report.env if name.startswith(names.ENV_OURS)]
    assert names.ENV_FRACTION not in report.env


def test_three_pods_share_a_card_and_the_fourth_waits_for_room(space: Space) -> None:
    deployment = space.create(three("model"))
    pods = space.all_running("model", 3)
    reports = [space.reports(pod)["main"] for pod in pods]
    (uuid,) = {report.env[names.ENV_GPU_UUID] for report in reports}
    for report in reports:
        assert ours(report.env) == {
            names.ENV_GPU_UUID: uuid,
            names.ENV_VISIBLE_DEVICES: uuid,
            names.ENV_SLOTS: "30",
            names.ENV_SHARE: "0.3",
            names.ENV_MEMORY_MIB: "4608",
            names.ENV_MEMORY_FRACTION: "0.2666",
            names.ENV_FRACTION: "0.3",
        }
        assert report.cpu == "240000 100000"  # 0.3 of the 8 CPUs that a card stands for

    space.create(shapes.pod("fourth", asking("main", "300m")))
    reason = f"1 Insufficient {names.COUNT}"
    eventually(lambda: reason in unschedulable(space.pod("fourth")), f"the fourth waits: {reason}")
    assert all(pod["status"]["phase"] == "Running" for pod in space.pods("model"))

    scale = {"spec": {"replicas": 2}}
    space.node.plane.api.patch(deployment, scale, space.name)
    fourth = space.reports(space.running("fourth"))["main"]
    assert fourth.env[names.ENV_GPU_UUID] == uuid
    assert len(space.all_running("model", 2)) == 2


def ours(env: dict[str, str]) -> dict[str, str]:
    """Return the variables that come from the webhook or the plugin."""
    also = (names.ENV_FRACTION, names.ENV_VISIBLE_DEVICES)
    return {k: v for k, v in env.items() if k.startswith(names.ENV_OURS) or k in also}


def unschedulable(pod: Json) -> str:
    """Return why the scheduler finds no place for a pod; empty while it has not said."""
    conditions = pod["status"].get("conditions", [])
    said = [c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"]
    return str(said[0]["message"]) if said else ""


def registered(node: Node) -> frozenset[str]:
    """Return the slots that the kubelet knows to be healthy, from its own checkpoint."""
    text = (node.device_plugins / "kubelet_internal_checkpoint").read_text()
    return frozenset(json.loads(text)["Data"]["RegisteredDevices"].get(names.COUNT) or ())


def lives(pods: list[Json]) -> list[tuple[str, str, int]]:
    """Return what changes when a pod or one of its containers does not live on."""
    return [
        (pod["metadata"]["uid"], each["containerID"], each["restartCount"])
        for pod in pods
        for each in pod["status"]["containerStatuses"]
    ]


def test_a_restarted_kubelet_has_the_same_slots_again_in_time(space: Space) -> None:
    node = space.node
    space.create(three("model"))
    before = lives(space.all_running("model", 3))
    ids = registered(node)
    assert len(ids) == PER_CARD

    node.restart_kubelet()
    socket = node.device_plugins / "kubelet.sock"
    eventually(socket.exists, "the kubelet's socket")
    served = time.monotonic()
    checkpoint = node.device_plugins / "kubelet_internal_checkpoint"
    eventually(
        lambda: checkpoint.stat().st_mtime > socket.stat().st_mtime and registered(node) == ids,
        "the same slots, registered again",
        seconds=5,
    )
    eventually(lambda: slots(node) == PER_CARD, "all slots in the node's status", seconds=5)
    took = time.monotonic() - served
    assert took < 5, f"slots were back after {took:.1f} s"
    assert lives(space.all_running("model", 3)) == before
    space.create(shapes.pod("another", asking("main", "100m")))
    space.running("another")


def test_a_restarted_plugin_offers_the_same_slots(space: Space) -> None:
    space.create(three("model"))
    before, ids = lives(space.all_running("model", 3)), registered(space.node)
    restart_plugin(space.node)
    eventually(lambda: registered(space.node) == ids, "the same slots")
    eventually(lambda: slots(space.node) == PER_CARD, "all slots in the node's status")
    assert lives(space.all_running("model", 3)) == before
