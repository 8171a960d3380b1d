"""The webhook in its cluster: what it never sees, and what goes on while it is away."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster import shapes
from tests.cluster.api import ApiError, Json
from tests.cluster.eventually import eventually
from tests.cluster.node import Node
from tests.cluster.product import rolled_out, use_cards
from tests.cluster.shapes import holding
from tests.cluster.spaces import Space, asking, reporting
from tests.cluster.webhooks import ask
from vgpu import names

pytestmark = pytest.mark.node

PODS = f"/api/v1/namespaces/{names.NAMESPACE}/pods"
WEBHOOKS = f"{PODS}?labelSelector=app.kubernetes.io/component%3Dwebhook"
REPLICAS = 2


@pytest.fixture(autouse=True)
def _two_cards(node: Node) -> None:
    use_cards(node, "two-t4")


def replicas(node: Node) -> list[str]:
    return [pod["metadata"]["name"] for pod in node.plane.api.get(WEBHOOKS)["items"]]


def reviews(node: Node) -> int:
    """Return how many reviews the webhook's pods have answered, all together."""
    found = replicas(node)
    assert len(found) == REPLICAS
    total = 0.0
    for name in found:
        text = node.plane.api.raw("GET", f"{PODS}/https:{name}:8443/proxy/metrics")
        for family in text_string_to_metric_families(text):
            if family.name == "milligpu_webhook_reviews":
                total += sum(sample.value for sample in family.samples)
    return int(total)


def scale(node: Node, count: int) -> None:
    namespace = ("-n", names.NAMESPACE)
    node.plane.kubectl(*namespace, "scale", "deployment/webhook", f"--replicas={count}")


def back(node: Node) -> None:
    """Wait until the webhook is whole and answers again."""
    rolled_out(node, "deployment/webhook", names.NAMESPACE)
    eventually(lambda: len(replicas(node)) == REPLICAS, "both replicas, and no old one")
    eventually(lambda: ask(node.plane), "an ask to get through")


@contextmanager
def away(node: Node) -> Iterator[None]:
    """Take the webhook away; its configuration stays."""
    scale(node, 0)
    try:
        eventually(lambda: not replicas(node), "the end of the webhook's pods")
        yield
    finally:
        scale(node, REPLICAS)
        back(node)


def test_plain_pods_and_whole_cards_are_never_sent_to_us(space: Space) -> None:
    node = space.node
    before = reviews(node)
    whole = reporting("main", resources={"limits": {names.NVIDIA_GPU: "1"}})
    made = space.create(shapes.pod("whole", whole))
    assert made["spec"]["containers"][0]["resources"]["limits"] == {names.NVIDIA_GPU: "1"}
    space.create(holding("Deployment", shapes.pod("plain", reporting("main"))))
    (plain,) = space.all_running("plain")
    space.kubectl("label", "pod", plain["metadata"]["name"], "a=b")
    space.kubectl("delete", "deployment", "plain", "--cascade=foreground")
    assert reviews(node) == before
    space.create(shapes.pod("asks", asking("main", "20m")))
    assert reviews(node) > before


def test_what_shares_already_can_be_handled_while_it_is_away(space: Space) -> None:
    deployment = holding("Deployment", shapes.pod("model", asking("main", "50m")))
    deployment["spec"]["replicas"] = 2
    space.create(deployment)
    job = holding("Job", shapes.pod("train", asking("main", "50m")))
    space.create(job)
    space.create(holding("Job", shapes.pod("short", asking("main", "50m", "--once"))))
    pods = space.all_running("model", 2)
    space.all_running("train")
    with away(space.node):
        space.kubectl("label", "pod", pods[0]["metadata"]["name"], "a=b")
        space.kubectl("label", "deployment", "model", "a=b")
        space.kubectl("scale", "deployment/model", "--replicas=1")
        space.all_running("model", 1)
        space.kubectl("delete", "job", "train", "--cascade=foreground", "--timeout=30s")
        assert not space.pods("train")
        space.kubectl("wait", "--for=condition=complete", "job/short", "--timeout=30s")
        space.kubectl("delete", "job", "short", "--cascade=foreground", "--timeout=30s")
        with pytest.raises(ApiError, match="failed calling webhook"):
            space.create(shapes.pod("new", asking("main", "50m")))
        space.create(shapes.pod("plain", reporting("main")))
        space.running("plain")
        space.kubectl("scale", "deployment/model", "--replicas=2")
        eventually(lambda: failed_create(space), "the event that says why no pod is made")
    space.all_running("model", 2)


def failed_create(space: Space) -> bool:
    events = space.node.plane.api.get(f"/api/v1/namespaces/{space.name}/events")["items"]
    said = [each["message"] for each in events if each["reason"] == "FailedCreate"]
    return any("failed calling webhook" in message for message in said)


@dataclass
class Stream:
    """Creates pods one after another, in a thread of its own, until it is told to stop."""

    space: Space
    name: str
    container: Json
    made: list[Json] = field(default_factory=list)
    refused: list[ApiError] = field(default_factory=list)

    def run(self, stop: threading.Event) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            pod = shapes.pod(f"{self.name}-{number}", self.container)
            pod["spec"]["restartPolicy"] = "Never"
            try:
                self.made.append(self.space.create(pod))
            except ApiError as error:
                self.refused.append(error)
            time.sleep(0.3)


def test_killed_while_pods_are_created_it_harms_no_other(space: Space) -> None:
    node, stop = space.node, threading.Event()
    plain = Stream(space, "plain", reporting("main", "--once"))
    sharing = Stream(space, "sharing", asking("main", "10m", "--once"))
    threads = [threading.Thread(target=each.run, args=[stop]) for each in (plain, sharing)]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: len(plain.made) > 2 and len(sharing.made) > 2, "some pods before")
        namespace = ("-n", names.NAMESPACE)
        killed = replicas(node)
        node.plane.kubectl(*namespace, "delete", "pod", *killed, "--force", "--grace-period=0")
        back(node)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert plain.refused == []
    for pod in plain.made:
        assert pod["spec"]["containers"][0]["resources"] == {}
    # An ask is served whole, or it is refused in words: nothing half done is stored.
    for pod in sharing.made:
        assert pod["spec"]["containers"][0]["resources"]["limits"][names.COUNT] == "1"
    for error in sharing.refused:
        assert "failed calling webhook" in str(error)
    last = sharing.made[-1]["metadata"]["name"]
    eventually(lambda: space.pod(last)["status"]["phase"] == "Succeeded", "the last one runs")
