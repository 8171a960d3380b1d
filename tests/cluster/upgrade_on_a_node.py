"""From an earlier state to this one and back on the real node, with shares that run and admissions
that go on: `make e2e-upgrade`. It prints how long each took.

Not among the tests that `make e2e` finds: it needs a cluster without milligpu, and minutes.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.chart import CHART
from tests.cluster import earlier, images, load, shapes
from tests.cluster.api import ApiError, Json
from tests.cluster.devices import held, lives
from tests.cluster.eventually import eventually
from tests.cluster.helm import Helm
from tests.cluster.holders import Container, Place, agree, look
from tests.cluster.node import NAME, Node
from tests.cluster.product import manifest, restart_plugin, rolled_out, served, slots
from tests.cluster.shapes import holding
from tests.cluster.spaces import Space, asking, space
from tests.cluster.tools.say import say
from tests.cluster.webhooks import CONFIGURATION
from vgpu import names
from vgpu.slots import PER_CARD

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]

STATUS_SECONDS = 10
"""As kubelets are shipped: so long may the scheduler not know what the node offers."""
WORKLOADS = {
    "deployment/certs": names.NAMESPACE,
    "deployment/webhook": names.NAMESPACE,
    "daemonset/plugin": names.NODE_NAMESPACE,
}
SOCKET = "milligpu-*.sock"
SECRETS = ("milligpu-ca", "milligpu-tls")
CLUSTER_WIDE = "namespaces,mutatingwebhookconfigurations,clusterroles,clusterrolebindings"
LABEL = ("-l", "app.kubernetes.io/name=milligpu", "-o", "name")
VALUES = {
    "plugin.settings.MILLIGPU_INVENTORY": "simulated",
    "plugin.settings.MILLIGPU_SETTLE_SECONDS": "0",
    "webhook.settings.MILLIGPU_CPUS_PER_GPU": "12",
}
"""A user's own; the last one shows in the CPU limit of every share: 12 CPUs times 0.01 are 120m."""


@pytest.fixture(scope="module")
def both(bare: Node, before: Path) -> Node:
    """A cluster that does not know milligpu yet, and has the images of both states."""
    archive = str(earlier.archive(before))
    bare.sandbox.run("ctr", "--namespace", "k8s.io", "images", "import", archive)
    bare.stop_kubelet()
    bare.start_kubelet(STATUS_SECONDS)
    return bare


@pytest.fixture(scope="module")
def before() -> Iterator[Path]:
    """The files of the earlier state."""
    with earlier.checkout() as files:
        yield files


def pods(node: Node, namespace: str) -> list[Json]:
    items: list[Json] = node.plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return items


def ours(node: Node) -> list[Json]:
    return [pod for each in (names.NAMESPACE, names.NODE_NAMESPACE) for pod in pods(node, each)]


def settled(node: Node, image: str, shown: int) -> None:
    """Wait until all that runs of us is of an image and ready, and the node offers so much."""
    for name, namespace in WORKLOADS.items():
        rolled_out(node, name, namespace)

    def only() -> bool:
        found = [c["image"] for pod in ours(node) for c in pod["spec"]["containers"]]
        assert found == [image] * 4, found
        return True

    eventually(only, f"two replicas, certs and the plugin of {image}, and no others", 60)
    eventually(lambda: slots(node) == shown, f"{shown} slots on the node", 60)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a change of the version must leave as it is."""

    lives: list[tuple[str, str, int]]
    containers: tuple[Container, ...]
    """With the environment of each one's process."""
    listed: Mapping[Place, frozenset[str]]
    """By the kubelet."""
    told: Mapping[tuple[Place, str], int]
    """By the plugin that runs now."""
    secrets: list[Json]
    bundles: set[str]


def standing(users: Space) -> Standing:
    """Look at the pods that run, at what they hold, and at what the webhook is trusted by."""
    node = users.node
    found = users.all_running("model", 3) + users.all_running("whole", 1)
    agree(node, 90)
    seen = look(node)
    assert len(seen.containers) == len(found)
    secrets = f"/api/v1/namespaces/{names.NAMESPACE}/secrets/"
    entries = node.plane.api.read(CONFIGURATION)["webhooks"]
    return Standing(
        lives(found),
        seen.containers,
        seen.listed,
        seen.told,
        [node.plane.api.get(secrets + name)["data"] for name in SECRETS],
        {each["clientConfig"]["caBundle"] for each in entries},
    )


@dataclass
class Meanwhile:
    """What is seen from outside while a change goes on."""

    users: Space
    pause: float
    """Seconds between two pods that arrive."""
    away: float = 0
    """Seconds for which there was no plugin, by its socket."""
    dark: float = 0
    """Seconds for which the node showed no slots."""
    arrived: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Look ten times a second whether there is a plugin, and what the node shows."""
        last, node = time.monotonic(), self.users.node
        while not self.stop.wait(0.1):
            served, shown, now = (
                any(node.device_plugins.glob(SOCKET)),
                slots(node),
                time.monotonic(),
            )
            self.away += (now - last) * (not served)
            self.dark += (now - last) * (not shown)
            last = now

    def arrive(self) -> None:
        """Make a pod with a share of a hundredth now and then, which ends by itself."""
        while not self.stop.wait(self.pause):
            pod = shapes.pod(f"arrives-{self.arrived}", asking("main", "10m", "--once"))
            pod["spec"]["restartPolicy"] = "Never"
            pod["metadata"]["labels"] = {"app": "arrives"}
            self.users.create(pod)
            self.arrived += 1

    def ends(self) -> list[Json]:
        """Wait until every pod that was made has ended; return the states of all."""

        def look() -> list[Json] | None:
            found = [each["status"] for each in self.users.pods("arrives")]
            phases = [each["phase"] for each in found]
            assert not {"Pending", "Running"} & set(phases), phases
            return found

        return eventually(look, "the end of all pods that arrived", 90)


@contextmanager
def meanwhile(users: Space, pause: float = 2) -> Iterator[Meanwhile]:
    made = Meanwhile(users, pause)
    threads = [threading.Thread(target=each) for each in (made.watch, made.arrive)]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        made.stop.set()
        for thread in threads:
            thread.join()


def change(users: Space, what: str, image: str, act: Callable[[], Any]) -> None:
    """Change the version under admissions, and see that nobody notices."""
    node, before, shown = users.node, standing(users), slots(users.node)
    with (
        meanwhile(users) as seen,
        load.steady(node.plane.api, "default", query="?dryRun=All") as admissions,
    ):
        time.sleep(2)
        began = time.monotonic()
        act()
        settled(node, image, shown)
        took = time.monotonic() - began
        time.sleep(2)
    ends = seen.ends()
    refused = [f"{s.get('reason')}: {s.get('message')}" for s in ends if s["phase"] == "Failed"]
    say(
        f"{what}: {took:.0f} s; {len(admissions.admissions)} admissions,"
        f" {len(admissions.failures)} failed, the slowest {admissions.slowest * 1000:.0f} ms;"
        f" no plugin for {seen.away:.1f} s, no slots shown for {seen.dark:.1f} s;"
        f" {seen.arrived} pods arrived,"
        f" {len(refused)} refused by the kubelet {set(refused) or ''}"
    )
    assert [each.fault for each in admissions.failures] == []
    assert len(admissions.admissions) > 100
    users.kubectl("delete", "pods", "-l", "app=arrives", "--now")
    assert standing(users) == before
    serves(users)


def cordoned(users: Space) -> None:
    """See that a node to which nothing is sent meanwhile refuses nobody."""
    node, shown = users.node, slots(users.node)
    with meanwhile(users, 0.5) as seen:
        time.sleep(2)
        node.plane.kubectl("cordon", NAME)
        restart_plugin(node)
        node.plane.kubectl("uncordon", NAME)
        eventually(lambda: slots(node) == shown, f"{shown} slots on the node", 60)
    phases = [each["phase"] for each in seen.ends()]
    say(
        f"a new plugin on a cordoned node: no plugin for {seen.away:.1f} s;"
        f" {seen.arrived} pods arrived, {phases.count('Failed')} refused by the kubelet"
    )
    assert set(phases) == {"Succeeded"}
    assert seen.away > 1  # pods arrived then
    users.kubectl("delete", "pods", "-l", "app=arrives", "--now")


def serves(users: Space) -> None:
    """See that a new share is translated by the user's settings, and runs beside the others."""
    before = {slot for each in held(users.node) for slot in each.ids}
    users.create(shapes.pod("late", asking("main", "10m")))
    made = users.running("late")
    limits = made["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {names.CPU: "120m", names.COUNT: "1"}
    [got] = (each for each in held(users.node) if each.pod == made["metadata"]["uid"])
    assert len(got.ids) == 1
    assert not got.ids & before
    users.kubectl("delete", "pod", "late", "--now")


@contextmanager
def busy(node: Node) -> Iterator[Space]:
    """Fill the node's two cards: three shares of 30 slots, ten of which are left, and a whole one.

    What is left is for `serves` and for the pods that arrive.
    """
    with space(node) as users:
        model = holding("Deployment", shapes.pod("model", asking("main", "300m")))
        model["spec"]["replicas"] = 3
        users.create(model)
        users.create(holding("Deployment", shapes.pod("whole", asking("main", "1"))))
        users.all_running("model", 3)
        users.all_running("whole", 1)
        eventually(lambda: slots(node) == PER_CARD, "a card's slots, beside the whole one", 60)
        yield users


def gone(node: Node, users: Space) -> None:
    """See that nothing of us is left, and nothing is refused but by the API server itself."""
    look = lambda: node.plane.kubectl("get", CLUSTER_WIDE, *LABEL).stdout == ""  # noqa: E731
    eventually(look, "the end of all", 90)
    users.create(shapes.pod("plain", {"name": "main"}))
    with pytest.raises(ApiError, match="must be a standard resource"):
        users.create(shapes.pod("asks", asking("main", "10m")))


def test_by_the_one_file(both: Node, before: Path) -> None:
    apply, remove = ("apply", "-f", "-"), ("delete", "-f", "-", "--ignore-not-found")
    own = ('MILLIGPU_CPUS_PER_GPU: "8"', 'MILLIGPU_CPUS_PER_GPU: "12"')
    old = manifest(before / "deploy/webhook.yaml", earlier.IMAGE).replace(*own)
    new = manifest().replace(*own)
    run = both.plane.kubectl
    say(f"installing {earlier.COMMIT[:7]} by kubectl")
    run(*apply, stdin=old)
    served(both)
    with busy(both) as users:
        act = lambda: run(*apply, stdin=new)  # noqa: E731
        change(users, "upgrade by kubectl apply", images.PRODUCT, act)
        act = lambda: run(*apply, stdin=old)  # noqa: E731
        change(users, "back by kubectl apply", earlier.IMAGE, act)
        cordoned(users)
        run(*remove, stdin=old)
        gone(both, users)


def test_by_helm(both: Node, before: Path) -> None:
    helm = Helm(both.plane)
    say(f"installing {earlier.COMMIT[:7]} by Helm")
    helm("install", "milligpu", str(before / "deploy/chart"), **image(earlier.IMAGE), **VALUES)
    served(both)
    with busy(both) as users:
        act = lambda: helm("upgrade", "milligpu", str(CHART), **image(images.PRODUCT), **VALUES)  # noqa: E731
        change(users, "helm upgrade", images.PRODUCT, act)
        change(users, "helm rollback", earlier.IMAGE, lambda: helm("rollback", "milligpu"))
        helm("uninstall", "milligpu")
        gone(both, users)


def image(name: str) -> dict[str, str]:
    """Return the chart's values for an image."""
    repository, _, tag = name.rpartition(":")
    return {"image.repository": repository, "image.tag": tag}
