"""Two cards, each 40 % free, and a deployment that wants half a card: how many pods the kubelet
refuses until the scheduler leaves the node alone, by what the plugin advertises. The node's status
comes every ten seconds, as on a real node. Figures are printed (`pytest -s`).
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest

from tests import soak
from tests.cluster import shapes
from tests.cluster.api import Json
from tests.cluster.eventually import eventually
from tests.cluster.node import Node
from tests.cluster.product import configured, use_cards
from tests.cluster.shapes import holding
from tests.cluster.spaces import Space, asking, reporting
from tests.cluster.tools.say import say
from vgpu import names

pytestmark = [
    pytest.mark.node,
    pytest.mark.long,
    pytest.mark.timeout(soak.either(300, 1200)),
]

FILLERS = ("a", "b", "c", "d")
SECONDS = soak.either(45, 600)
"""For how long we look."""
REASONS = (
    "a share is part of one card",
    f"requested number of devices unavailable for {names.COUNT}. Requested: 50, Available: ",
)
"""Why it is refused: by us, and by the kubelet once we have told it of fewer free slots."""
NOW = {"gracePeriodSeconds": 0}
EPISODE = 20
"""Seconds after which the scheduler has long heard of what the plugin did."""


@pytest.fixture(scope="module", autouse=True)
def _slow_status(node: Node) -> Iterator[None]:
    use_cards(node, "two-t4")
    node.stop_kubelet()
    node.start_kubelet(status_seconds=10)
    yield
    node.restart_kubelet()


@contextmanager
def half_full(space: Space, advertise: str) -> Iterator[None]:
    """Leave 40 slots free on each card, of which no pod on them would ask for more."""
    with configured(space.node, advertise=advertise, placement="spread"):
        for name in FILLERS:
            space.create(shapes.pod(name, asking("main", "300m")))
            space.running(name)
        cards = Counter(space.report(name, "main").env[names.ENV_GPU_UUID] for name in FILLERS)
        assert list(cards.values()) == [2, 2]
        try:
            yield
        finally:
            clear(space)


def clear(space: Space) -> None:
    """Take the deployment away, and what was refused, which can be thousands of pods."""
    space.kubectl("delete", "deployment", "--all")
    api, path = space.node.plane.api, f"/api/v1/namespaces/{space.name}/pods"
    while len(space.pods()) > len(FILLERS):
        api.request("DELETE", f"{path}?labelSelector=app%3Dlarge&limit=500", NOW)
    # The kubelet is busy with them for minutes after that.
    space.create(shapes.pod("after", reporting("main")))
    eventually(lambda: space.pod("after")["status"]["phase"] == "Running", "a pod to start", 400)


def made(pod: Json) -> float:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()


def failures(space: Space, advertise: str) -> list[float]:
    """Watch the deployment for long; return when each pod that was refused came, in seconds."""
    start = time.time()
    space.create(holding("Deployment", shapes.pod("large", asking("main", "500m"))))
    while (left := start + SECONDS - time.time()) > 0:
        time.sleep(min(left, 5))
    pods = [pod for pod in space.pods("large") if pod["status"]["phase"] == "Failed"]
    times = sorted(max(0.0, made(pod) - start) for pod in pods)
    first, ten = (sum(each < limit for each in times) for limit in (60, 600))
    minutes = Counter(int(each // 60) for each in times)
    say(f"advertise {advertise}: {first} pods refused in a minute, {ten} in ten minutes")
    last = max((each for each in times if each < 60), default=0)
    say(f"  by minute: {[minutes[n] for n in range(-(-SECONDS // 60))]}; the first minute's last")
    say(f"  came after {last:.0f} s")
    for reason in REASONS:
        seen = [pod for pod in pods if reason in pod["status"]["message"]]
        say(f"  {len(seen)} because {reason!r}")
    assert all(any(reason in pod["status"]["message"] for reason in REASONS) for pod in pods)
    return times


def makes_room(space: Space) -> None:
    """End one of those that fill the cards, and see that the large one gets its place."""
    start = time.monotonic()
    space.kubectl("delete", "pod", FILLERS[0], "--now")
    eventually(lambda: runs(space), "the large pod", 90)
    say(f"  a pod's end let the large one in after {time.monotonic() - start:.0f} s")


def runs(space: Space) -> bool:
    return any(pod["status"]["phase"] == "Running" for pod in space.pods("large"))


def test_without_memory_the_same_pod_comes_again_and_again(space: Space) -> None:
    with half_full(space, "all"):
        times = failures(space, "all")
        assert max(times) > SECONDS - EPISODE, "it goes on"
        makes_room(space)


def test_a_size_that_does_not_fit_is_refused_in_one_episode(space: Space) -> None:
    with half_full(space, "fitting"):
        times = failures(space, "fitting")
        assert times, "the first comes before the plugin knows of the size"
        assert max(times) < EPISODE
        makes_room(space)


def test_where_the_largest_hole_is_always_told_none_is_refused(space: Space) -> None:
    with half_full(space, "largest-hole"):
        time.sleep(EPISODE)  # the node's status
        times = failures(space, "largest-hole")
        assert not times
        makes_room(space)
