"""One card, many containers: what the project is for."""

import pytest

from tests.cluster import shapes
from tests.cluster.api import Json
from tests.cluster.eventually import eventually
from tests.cluster.node import Node
from tests.cluster.product import use_cards
from tests.cluster.shapes import holding
from tests.cluster.spaces import Space, asking, reporting
from vgpu import names

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
