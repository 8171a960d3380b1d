"""Who has what, by the real kubelet's checkpoint and list of pods, and by what the plugin offers.

What is seen here of the kubelet is what `tests/device_manager.py` stands in for.
"""

import asyncio
import time

import grpc
import pytest

from plugin import checkpoint, pods
from plugin.pods import Pods
from tests.cluster import shapes
from tests.cluster.api import Json
from tests.cluster.eventually import eventually
from tests.cluster.node import NAME, Node
from tests.cluster.product import restart_plugin, slots, use_cards
from tests.cluster.spaces import Space, reporting
from tests.cluster.tools.say import say
from vgpu import names

pytestmark = [pytest.mark.node, pytest.mark.long]

CARDS = 2
SOON = 25
"""Seconds: two looks of the plugin, and what the node's status takes."""


@pytest.fixture(autouse=True)
def _two_cards(node: Node) -> None:
    use_cards(node, "two-t4")
    eventually(lambda: wholes(node) == CARDS, "whole cards", SOON)


def having(name: str, count: int, *args: str) -> Json:
    return reporting(name, *args, resources={"limits": {names.COUNT: str(count)}})


def with_init(name: str, init: int, main: int) -> Json:
    """Return a pod whose init container has ended when the main one runs."""
    pod = shapes.pod(name, having("main", main))
    pod["spec"]["initContainers"] = [having("init", init, "--once")]
    return pod


def written(node: Node) -> frozenset[str]:
    found = checkpoint.read(node.device_plugins)
    assert found is not None
    return found.held


def listed(node: Node) -> Pods:
    return asyncio.run(pods.look(node.device_plugins.parent / "pod-resources/kubelet.sock"))


def first_list(node: Node) -> Pods:
    """Wait for the kubelet's first answer."""

    def look() -> Pods:
        try:
            return listed(node)
        except grpc.aio.AioRpcError as error:
            raise OSError(error.details()) from error

    return eventually(look, "the first list of pods")


def wholes(node: Node) -> int:
    """Return the whole cards that the scheduler may give out: those of which nobody has a slot."""
    found = node.plane.api.get(f"/api/v1/nodes/{NAME}")["status"]["allocatable"]
    return int(found.get(names.WHOLE, "0"))


def test_what_the_kubelet_lists_and_writes(space: Space) -> None:
    space.create(with_init("model", 50, 30))
    space.running("model")
    found = listed(space.node)
    [holding] = (each for each in found.holdings if each.namespace == space.name)
    assert (holding.pod, holding.container, len(holding.ids)) == ("model", "main", 30)
    assert (space.name, "model") in found.names
    assert {namespace for namespace, _ in found.names} >= {names.NAMESPACE, names.NODE_NAMESPACE}
    assert not found.foreign
    assert len(written(space.node)) == 50
    assert set(holding.ids) < written(space.node)


def test_what_an_ended_pod_had_is_free_soon_though_nothing_tells_of_it(space: Space) -> None:
    node = space.node
    space.create(with_init("model", 50, 30))
    space.running("model")
    eventually(lambda: wholes(node) == CARDS - 1, "a card that is in use", SOON)
    space.kubectl("delete", "pod", "model", "--now", "--wait=true")
    start = time.monotonic()
    eventually(lambda: not written(node), "a new checkpoint", SOON)
    say(f"a checkpoint without the ended pod: after {time.monotonic() - start:.1f} s")
    eventually(lambda: wholes(node) == CARDS, "whole cards again", SOON)
    say(f"its card as a whole: after {time.monotonic() - start:.1f} s")


def test_what_a_refused_pods_first_container_had_is_free_soon(space: Space) -> None:
    both = reporting("b", resources={"limits": {names.WHOLE: str(CARDS)}})
    space.create(shapes.pod("split", having("a", 30), both))
    eventually(lambda: space.pod("split")["status"]["phase"] == "Failed", "the refusal")
    eventually(lambda: not written(space.node), "a new checkpoint", SOON)
    eventually(lambda: wholes(space.node) == CARDS, "whole cards again", SOON)


@pytest.mark.parametrize("times", [1, 3])
def test_a_new_plugin_knows_who_has_what(space: Space, times: int) -> None:
    """Also an init container's slots, which no list shows."""
    node = space.node
    space.create(with_init("model", 50, 1))
    space.running("model")
    eventually(lambda: wholes(node) == CARDS - 1, "a card that is in use", SOON)
    for _ in range(times):
        restart_plugin(node)
        eventually(lambda: slots(node) == 100 * CARDS, "slots again", SOON)
        for _ in range(8):
            assert wholes(node) < CARDS
            time.sleep(1)
    assert len(written(node)) == 50
    space.kubectl("delete", "pod", "model", "--now", "--wait=true")
    eventually(lambda: wholes(node) == CARDS, "whole cards again", SOON)
    assert not written(node)


def test_a_kubelet_that_starts_lists_no_pod_though_they_run(space: Space) -> None:
    node = space.node
    space.create(shapes.pod("model", having("main", 30)))
    ids = frozenset(written(node) if space.running("model") else ())
    eventually(lambda: wholes(node) == CARDS - 1, "a card that is in use", SOON)
    node.restart_kubelet()
    assert not first_list(node).names
    assert written(node) == ids
    eventually(lambda: (space.name, "model") in listed(node).names, "the pod in the list")
    eventually(lambda: slots(node) == 100 * CARDS, "slots again", SOON)
    for _ in range(12):
        assert wholes(node) < CARDS
        assert written(node) == ids
        time.sleep(1)
    assert space.pod("model")["status"]["phase"] == "Running"
