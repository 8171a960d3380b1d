"""`milligpu explain pod` of pods on a real node: card and slots are those that they were given."""

import os
import re
import subprocess
import sys

import pytest

from tests.cluster import shapes
from tests.cluster.eventually import eventually
from tests.cluster.node import Node
from tests.cluster.product import configured, use_cards
from tests.cluster.spaces import Space, asking
from vgpu import names

pytestmark = pytest.mark.node


@pytest.fixture(autouse=True)
def _two_cards(node: Node) -> None:
    use_cards(node, "two-t4")


def explained(space: Space, pod: str) -> str:
    """Return what is told of a pod, on one line, to a user with a kubeconfig and kubectl."""
    plane = space.node.plane
    environ = {
        "PATH": f"{plane.kubectl_path.parent}:{os.environ['PATH']}",
        "KUBECONFIG": str(plane.kubeconfig),
        "HOME": str(plane.folder),
    }
    argv = [sys.executable, "-m", "milligpu", "explain", "pod", pod, "-n", space.name]
    done = subprocess.run(
        argv, env=environ, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return " ".join(done.stdout.split())


def slots_of(text: str) -> set[int]:
    """Return the slots that `slots 0-2, 7` names."""
    ends = re.findall(r"(\d+)(?:-(\d+))?", text)
    return {slot for low, high in ends for slot in range(int(low), int(high or low) + 1)}


def test_a_running_pods_card_and_slots_are_told(space: Space) -> None:
    space.create(shapes.pod("neighbour", asking("main", "100m")))
    space.running("neighbour")
    space.create(shapes.pod("model", asking("main", "333m")))
    report = space.reports(space.running("model"))["main"]
    card = re.compile(rf"card ({report.env[names.ENV_GPU_UUID]}), Healthy: slots ([\d, -]+\d)")
    said = eventually(
        lambda: found if card.search(found := explained(space, "model")) else None,
        "the card in the pod's status",
    )
    found = card.search(said)
    assert found
    mine = slots_of(found[2])
    assert len(mine) == 34
    assert "state Running on node node1" in said
    other = card.search(explained(space, "neighbour"))
    assert other, "both are on the fuller card"
    assert len(slots_of(other[2])) == 10
    assert not mine & slots_of(other[2])


def test_why_a_pod_does_not_run_is_told(space: Space) -> None:
    with configured(space.node, advertise="all"):  # else none is sent where no card has room
        for name in ("first", "second"):
            space.create(shapes.pod(name, asking("main", "600m")))
            space.running(name)
        space.create(shapes.pod("split", asking("main", "500m")))
        refused = "because UnexpectedAdmissionError: "
        said = eventually(
            lambda: found if refused in (found := explained(space, "split")) else None, refused
        )
    space.create(shapes.pod("large", asking("main", "900m")))
    assert "state Failed on node node1" in said
    assert "that is no card had so many slots, or one was just taken; a controller" in said
    waits = f"1 Insufficient {names.COUNT}"
    said = eventually(
        lambda: found if waits in (found := explained(space, "large")) else None, waits
    )
    assert "state Pending because Unschedulable: " in said
    assert "that is no node that the pod may run on has so many slots of one card free" in said
