"""A card falls ill on a real node: the scheduler and the card's pods hear of it, no other pod."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import shapes
from tests.cluster.api import Json
from tests.cluster.devices import allocatable, lives
from tests.cluster.eventually import eventually
from tests.cluster.node import Node
from tests.cluster.product import configured
from tests.cluster.spaces import Space, asking
from tests.cluster.tools.say import say
from vgpu import names
from vgpu.slots import PER_CARD

pytestmark = [pytest.mark.node, pytest.mark.long]

CARDS = ("SIM-first", "SIM-second")
QUIET = 60
"""Seconds after which a card that was struck is well again, see plugin/health.py."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """The file of the node's made-up cards, on the host."""

    file: Path

    def says(self, **second: Any) -> None:
        """Say of the second card what it has beside the first; the file is replaced at once."""
        cards = [{"uuid": uuid, "model": "T4", "memory_total_mib": 16384} for uuid in CARDS]
        fresh = self.file.with_suffix(".fresh")
        fresh.write_text(json.dumps({"gpus": [cards[0], cards[1] | second]}))
        fresh.rename(self.file)


@pytest.fixture(scope="module")
def inventory(node: Node) -> Iterator[Inventory]:
    """The plugin on two cards of a file that can be changed, looked at each second.

    The file lies where the plugin looks anyway, beside the sockets.
    """
    made = Inventory(node.device_plugins / "cards.json")
    made.says()
    seen = f"/var/lib/kubelet/device-plugins/{made.file.name}"
    with configured(node, inventory_file=seen, probe_seconds="1", placement="spread"):
        yield made
    made.file.unlink()


@pytest.fixture(autouse=True)
def _well(node: Node, inventory: Inventory) -> None:
    inventory.says()
    eventually(lambda: allocatable(node) == 2 * PER_CARD, "both cards' slots", QUIET + 30)


def healths(pod: Json) -> set[tuple[str, str]]:
    """Return card and health of each device of a running pod, as its status has them."""
    [status] = pod["status"]["containerStatuses"]
    [found] = [each for each in status["allocatedResourcesStatus"] if each["name"] == names.COUNT]
    return {(each["resourceID"].partition("::")[0], each["health"]) for each in found["resources"]}


def two_pods(space: Space) -> dict[str, str]:
    """Start a pod on each card; return their names by card."""
    found = {}
    for name in ("one", "another"):
        space.create(shapes.pod(name, asking("main", "300m")))
        env = space.reports(space.running(name))["main"].env
        found[env[names.ENV_GPU_UUID]] = name
    assert found.keys() == set(CARDS)
    return found


def told(space: Space, pods: dict[str, str], second: str) -> float:
    """Wait until the node and both pods tell of the second card's health; return the seconds."""
    start = time.monotonic()
    slots = {"Healthy": 2 * PER_CARD, "Unhealthy": PER_CARD}[second]
    eventually(lambda: allocatable(space.node) == slots, f"{slots} slots on the node", QUIET + 30)
    took = time.monotonic() - start
    expected = {pods[CARDS[0]]: {(CARDS[0], "Healthy")}, pods[CARDS[1]]: {(CARDS[1], second)}}
    look = lambda: {name: healths(space.pod(name)) for name in expected} == expected  # noqa: E731
    eventually(look, f"{expected} in the pods' statuses")
    return took


def test_a_fault_is_told_and_gone_when_it_is_over(space: Space, inventory: Inventory) -> None:
    pods = two_pods(space)
    before = lives(space.pods())
    told(space, pods, "Healthy")
    inventory.says(fault="it has to be reset")
    fell = told(space, pods, "Unhealthy")
    space.create(shapes.pod("third", asking("main", "800m")))
    unscheduled = "0/1 nodes are available"
    eventually(lambda: unscheduled in json.dumps(space.pod("third")["status"]), "the third waits")
    space.kubectl("delete", "pod", "third", "--now")
    inventory.says()
    rose = told(space, pods, "Healthy")
    say(f"a card's fault: 100 slots less after {fell:.1f} s, back {rose:.1f} s after its end")
    assert lives([space.pod(name) for name in sorted(pods.values())]) == before


@pytest.mark.timeout(QUIET + 240)
def test_an_event_counts_by_what_it_means(space: Space, inventory: Inventory) -> None:
    """XID 31 is a program's own fault; 79 is the card's, until it was quiet for long enough."""
    pods = two_pods(space)
    before = lives(space.pods())
    inventory.says(xids=[31])
    time.sleep(3)
    assert allocatable(space.node) == 2 * PER_CARD
    inventory.says(xids=[31, 79])
    fell = told(space, pods, "Unhealthy")
    rose = told(space, pods, "Healthy")
    say(f"XID 79: 100 slots less after {fell:.1f} s, back {rose:.1f} s later")
    assert rose > QUIET - 5
    assert lives(space.pods()) == before
