"""The kubelet and the plugin end and come again, each, both, and many times: slots come back soon
under the same ids, and pods that hold some notice nothing. Figures are printed (`pytest -s`).
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest

from tests import soak
from tests.cluster import shapes
from tests.cluster.api import Json
from tests.cluster.devices import CHECKPOINT, allocatable, held, lives, registered
from tests.cluster.eventually import eventually
from tests.cluster.node import Node
from tests.cluster.product import configured, restart_plugin, use_cards
from tests.cluster.shapes import holding
from tests.cluster.spaces import Space, asking
from tests.cluster.tools.say import say
from vgpu import names
from vgpu.slots import PER_CARD

pytestmark = [pytest.mark.node, pytest.mark.long]

DEADLINE = 5
"""Seconds from the moment the kubelet or the plugin can answer."""
IN_NODES = ("-n", names.NODE_NAMESPACE)
SLOTS = 2 * PER_CARD
RESTARTS = soak.either(4, 20)


@pytest.fixture(scope="module", autouse=True)
def _as_shipped(node: Node) -> Iterator[None]:
    """Two cards, and a plugin that waits before it offers cards that are new to the node."""
    use_cards(node, "two-t4")
    with configured(node, settle_seconds="10"):
        eventually(lambda: allocatable(node) == SLOTS, "all slots in the node's status")
        yield


def three(app: str, ask: str = "300m") -> Json:
    deployment = holding("Deployment", shapes.pod(app, asking("main", ask)))
    deployment["spec"]["replicas"] = 3
    return deployment


@contextmanager
def untouched(space: Space) -> Iterator[None]:
    """See that pods live on with what they hold, ids stay, and a new pod gets its share."""
    space.create(three("model"))
    before, ids = lives(space.all_running("model", 3)), registered(space.node)
    assert len(ids) == SLOTS
    yield
    assert registered(space.node) == ids
    assert lives(space.all_running("model", 3)) == before
    assert [count for _, _, count in before] == [0, 0, 0]
    space.create(shapes.pod("another", asking("main", "100m")))
    space.running("another")


def failed(space: Space) -> list[str]:
    """Return why pods were refused."""
    pods = [p["status"] for p in space.pods() if p["status"]["phase"] == "Failed"]
    return [f"{each.get('reason')}: {each.get('message')}" for each in pods]


def listed(node: Node, since: float) -> float:
    """Wait until all slots are registered after a moment; return the seconds from it.

    Before that the checkpoint is that of the kubelet, or of the plugin, which has ended.
    """
    checkpoint = node.device_plugins / CHECKPOINT

    def again() -> bool:
        return checkpoint.stat().st_mtime > since and len(registered(node)) == SLOTS

    eventually(again, "all slots, registered again")
    took = time.time() - since
    eventually(lambda: allocatable(node) == SLOTS, "all slots in the node's status")
    return took


def answers(node: Node) -> float:
    """Wait until the kubelet serves; return since when."""
    socket = node.device_plugins / "kubelet.sock"
    return eventually(lambda: socket.exists() and socket.stat().st_mtime, "the kubelet's socket")


def plugin(node: Node) -> Json:
    """Return the pod of the plugin that runs now."""
    return eventually(lambda: _running(node), "a plugin that runs", 60)


def _running(node: Node) -> Json | None:
    pods = node.plane.api.get(f"/api/v1/namespaces/{names.NODE_NAMESPACE}/pods")["items"]
    alive = [each for each in pods if "deletionTimestamp" not in each["metadata"]]
    [pod] = alive
    statuses = pod["status"].get("containerStatuses", ())
    return pod if ["running" in each["state"] for each in statuses] == [True] else None


def container(pod: Json) -> str:
    [status] = pod["status"]["containerStatuses"]
    return str(status["containerID"])


def started(pod: Json) -> float:
    """Return when the pod's container started, to the second."""
    [status] = pod["status"]["containerStatuses"]
    return datetime.fromisoformat(status["state"]["running"]["startedAt"]).timestamp()


def replaced(node: Node, old: Json) -> Json:
    """Wait until another container of the plugin runs than that of an older pod."""

    def look() -> Json | None:
        pod = _running(node)
        return pod if pod and container(pod) != container(old) else None

    return eventually(look, "another container of the plugin", 60)


# One after the other.


def test_the_kubelet_restarts_again_and_again(space: Space) -> None:
    times = []
    with untouched(space):
        for _ in range(RESTARTS):
            space.node.restart_kubelet()
            times.append(listed(space.node, answers(space.node)))
    soak.tell(f"{RESTARTS} kubelet restarts", times)
    assert max(times) < DEADLINE


def test_the_plugin_is_killed(space: Space) -> None:
    with untouched(space):
        old = plugin(space.node)
        space.node.kill(container(old))
        killed = time.time()
        new = replaced(space.node, old)
        took = listed(space.node, started(new))
        assert new["metadata"]["uid"] == old["metadata"]["uid"]
    soak.tell(f"the plugin killed, its container {started(new) - killed:.0f} s later", [took])
    assert took < DEADLINE


def test_the_plugins_pod_is_deleted(space: Space) -> None:
    with untouched(space):
        old = plugin(space.node)
        space.node.plane.kubectl("delete", "pod", old["metadata"]["name"], *IN_NODES)
        new = replaced(space.node, old)
        took = listed(space.node, started(new))
    soak.tell("the plugin's pod deleted", [took])
    assert took < DEADLINE


def test_the_plugin_is_rolled_out(space: Space) -> None:
    with untouched(space):
        restart_plugin(space.node)
        took = listed(space.node, started(plugin(space.node)))
    soak.tell("a roll-out of the plugin", [took])
    assert took < DEADLINE


# Both.


def test_kubelet_and_plugin_end_together(space: Space) -> None:
    """B01. Pods that hold slots are there before the plugin is."""
    with untouched(space):
        old = plugin(space.node)
        space.node.stop_kubelet()
        space.node.kill(container(old))
        space.node.start_kubelet()
        kubelet = answers(space.node)
        new = replaced(space.node, old)
        took = listed(space.node, started(new))
    later = started(new) - kubelet
    soak.tell(f"kubelet and plugin, whose container came {later:.0f} s after the kubelet", [took])
    assert took < DEADLINE


def test_all_containers_end_with_the_kubelet(space: Space) -> None:
    """B01, as when the machine starts anew: the kubelet refuses what comes before the plugin, and
    a controller makes new pods, all of which run in the end.
    """
    node = space.node
    space.create(three("model"))
    pods = space.all_running("model", 3)
    old = plugin(node)
    node.stop_kubelet()
    node.kill(container(old), *map(container, pods))
    node.start_kubelet()
    kubelet = answers(node)
    took = listed(node, started(replaced(node, old)))
    # At first the API server still has the old ones as running.
    eventually(
        lambda: len(ids_of(node, running(space, 3))) == 90, "three pods with their slots", 60
    )
    refused, later = failed(space), time.time() - kubelet
    soak.tell("a machine's start", [took])
    say(f"  three pods run after {later:.0f} s, {len(refused)} were refused: {set(refused)}")
    assert took < DEADLINE
    disjoint(node, running(space, 3), 90)


def running(space: Space, count: int) -> frozenset[str]:
    """Return the uids of the pods that run when these are so many, else none."""
    pods = [each for each in space.pods() if each["status"]["phase"] == "Running"]
    ready = [p for p in pods if all(c["ready"] for c in p["status"].get("containerStatuses", ()))]
    return frozenset(p["metadata"]["uid"] for p in ready) if len(ready) == count else frozenset()


def disjoint(node: Node, uids: frozenset[str], slots: int) -> None:
    """See that pods have so many slots all together, each of them once."""
    ids = ids_of(node, uids)
    assert len(ids) == len(set(ids)) == slots


def ids_of(node: Node, uids: frozenset[str]) -> list[str]:
    """Return what pods hold by the kubelet's checkpoint, each id as often as it is held."""
    return [slot for each in held(node) if each.pod in uids for slot in each.ids]


@pytest.mark.timeout(60 * RESTARTS)
def test_pods_are_created_while_the_kubelet_restarts(space: Space) -> None:
    """What it refuses for want of the plugin a controller makes anew; no slot has two owners."""
    node, times, stop = space.node, list[float](), threading.Event()
    with untouched(space):
        arrivals = threading.Thread(target=arrive, args=[space, stop])
        arrivals.start()
        try:
            for _ in range(RESTARTS):
                node.restart_kubelet()
                times.append(listed(node, answers(node)))
        finally:
            stop.set()
            arrivals.join()
        soak.tell(f"{RESTARTS} kubelet restarts while pods are created", times)
        assert max(times) < DEADLINE
        uids = eventually(lambda: running(space, 3 + 8), "eight more pods that run", 90)
        disjoint(node, uids, 90 + 80)


def arrive(space: Space, stop: threading.Event) -> None:
    """Make and unmake a deployment of eight pods until it is time to let it be."""
    burst = three("burst", "100m")
    burst["spec"]["replicas"] = 0
    space.create(burst)
    while not stop.is_set():
        for replicas in (0, 8):
            space.node.plane.api.patch(burst, {"spec": {"replicas": replicas}}, space.name)
            stop.wait(2)
