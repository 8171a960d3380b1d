"""Each part of a cluster is killed while slots change hands, and started again: who was there
lives on, nobody without an ask is refused for our sake, new asks are served, and all accounts of
who holds what agree. Figures are printed (`pytest -s`).
"""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pytest

from tests.cluster import shapes, spaces
from tests.cluster.api import ApiError, Json
from tests.cluster.churn import Churn, Refusal, churn, settled, shaped
from tests.cluster.devices import lives
from tests.cluster.eventually import eventually
from tests.cluster.holders import agree, look
from tests.cluster.node import Node
from tests.cluster.product import use_cards
from tests.cluster.shapes import holding
from tests.cluster.spaces import asking
from tests.cluster.test_node_whole import REASONS
from tests.cluster.tools.say import say
from vgpu import names
from vgpu.slots import PER_CARD

pytestmark = [pytest.mark.node, pytest.mark.long]

DOWN = 5
"""Seconds for which a killed program stays away; the kubelet starts containers by itself."""
AROUND = 6
"""Seconds for which the load runs before the kill, and once more when shares are served again."""
SERVED = 90
"""Seconds until shares are served again at the latest: a container's third end costs 20 s."""
AGREED = 30
"""Seconds: two looks of the plugin, a new checkpoint, the node's status, and as much again."""
OURS = names.PREFIX.strip("/")


@dataclass(frozen=True, slots=True)
class Victim:
    """What is killed at once."""

    programs: tuple[str, ...] = ()
    """Of the node and the control plane, in the order in which they are started again."""
    components: tuple[str, ...] = ()
    """Ours; every container of each."""

    @property
    def takes_the_api(self) -> bool:
        """Whether the API server answers nobody for a while."""
        return not {"etcd", "kube-apiserver"}.isdisjoint(self.programs)


CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
COMPONENTS = ("webhook", "certs", "plugin")
VICTIMS = {
    "nothing": Victim(),
    **{name: Victim((name,)) for name in (*CONTROL_PLANE, "containerd", "kubelet")},
    **{name: Victim(components=(name,)) for name in COMPONENTS},
    "everything": Victim((*CONTROL_PLANE, "containerd", "kube-proxy", "kubelet"), COMPONENTS),
}


@pytest.fixture(scope="module")
def load(node: Node) -> Iterator[Churn]:
    """A space in which some pods stay, and many come and go."""
    use_cards(node, "two-t4")
    with spaces.space(node) as space:
        for name, ask in (("veteran-a", "100m"), ("veteran-b", "30m")):
            space.create(shapes.pod(name, asking("main", ask)))
        template = shapes.pod("veterans", asking("main", "50m"))
        space.create(holding("Deployment", template) | {"metadata": {"name": "veterans"}})
        space.all_running("veterans")
        with churn(space, "kills") as made:
            yield made


def veterans(load: Churn) -> list[tuple[str, str, int]]:
    """Return what changes when one of those that stay does not live on."""
    pods = [pod for pod in load.space.pods() if pod["metadata"]["name"].startswith("veteran")]
    return lives(pods)


def containers(node: Node, components: tuple[str, ...]) -> list[str]:
    """Return the ids of our programs' containers that run."""
    found = []
    for namespace in (names.NAMESPACE, names.NODE_NAMESPACE):
        for pod in node.plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
            if pod["metadata"]["labels"]["app.kubernetes.io/component"] in components:
                statuses = pod["status"]["containerStatuses"]
                found += [each["containerID"] for each in statuses if "running" in each["state"]]
    return found


def strike(node: Node, victim: Victim) -> None:
    """Kill all at the same moment, more or less."""
    if victim.components:
        node.kill(*containers(node, victim.components))
    node.processes.kill(*victim.programs)


def serves(load: Churn, name: str) -> Json | None:
    """Return a pod with a share that runs, None while it does not; it is asked for until then."""
    try:
        pod = load.space.pod(name)
    except ApiError as fault:
        if fault.code == 404:
            load.space.create(shaped("probe", name, "10m"))
        raise
    if pod["status"]["phase"] == "Failed":
        load.space.node.plane.api.delete(pod, load.space.name)
    return pod if pod["status"]["phase"] == "Running" else None


def probed(load: Churn, name: str) -> str:
    """Wait until a new pod with a share runs, and take it away; return what took how long."""
    what = "a new pod with a share that runs"
    pod = eventually(lambda: serves(load, name), what, SERVED)
    load.space.node.plane.api.delete(pod, load.space.name)
    conditions = {it["type"]: it["lastTransitionTime"] for it in pod["status"]["conditions"]}
    times = (pod["metadata"]["creationTimestamp"], conditions["PodScheduled"], conditions["Ready"])
    created, scheduled, ready = (datetime.fromisoformat(each).timestamp() for each in times)
    return f"{scheduled - created:.0f} s until it had its node, {ready - scheduled:.0f} s there"


def tell(created: Counter[str], refused: list[Refusal], failed: list[tuple[str, str]]) -> None:
    """Print what became of the load."""
    say(f"  created {sum(created.values())}: {dict(created)}")
    for what, faults in (
        ("refused", [(it.kind, it.message) for it in refused]),
        ("failed", failed),
    ):
        for (kind, message), count in Counter(faults).most_common():
            say(f"  {what} {count} {kind}: {message[:300]}")


@pytest.mark.parametrize("name", VICTIMS)
def test_a_part_is_killed_under_load(load: Churn, name: str) -> None:
    node, victim = load.space.node, VICTIMS[name]
    before = veterans(load)
    assert [restarts for _, _, restarts in before] == [0, 0, 0]
    load.told()
    time.sleep(AROUND)
    start = time.monotonic()
    strike(node, victim)
    if victim.programs:
        time.sleep(DOWN)
    node.start_again(*victim.programs)
    back = time.monotonic() - start
    stages = probed(load, f"probe-{name}")
    served = time.monotonic() - start
    time.sleep(AROUND)
    with load.calm:
        eventually(lambda: settled(load.space), "pods that neither come nor go", 60)
        took = agree(node, AGREED)
        created, refused, failed = load.told()
        say(
            f"{name} killed: started again after {back:.1f} s, a share was served"
            f" {served:.1f} s after the kill ({stages}), all accounts agreed {took:.1f} s after"
            " the load"
        )
        tell(created, refused, failed)
        assert created["small"] and created["large"], "slots changed hands"  # noqa: PT018
        assert veterans(load) == before
        plain = [each.message for each in refused if each.kind == "plain"]
        assert not [message for message in plain if OURS in message]
        assert victim.takes_the_api or not plain
        assert not [message for kind, message in failed if kind == "plain"]
        assert all(any(why in message for why in REASONS) for _, message in failed)


def test_nothing_is_held_when_all_have_gone(load: Churn) -> None:
    node = load.space.node
    with load.calm:
        load.space.kubectl("delete", spaces.WORKLOADS, "--all", "--now", "--wait=false")
        load.alive.clear()
        path = f"/api/v1/namespaces/{load.space.name}/pods"
        eventually(lambda: not node.plane.api.get(path)["items"], "the end of all pods", 60)
        agree(node, AGREED)
        seen = look(node)
    assert not seen.containers
    assert seen.allocatable == {names.COUNT: 2 * PER_CARD, names.WHOLE: 2}
    assert {states["held"] for states in seen.states.values()} == {0}
