"""What a node costs the API server because of us, counted in its audit log; and what the plugin
asks of its own kubelet. Counts are asserted, and all are printed (`pytest -s`): the table of
docs/explanation/scale.md is made of them.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests import soak
from tests.cluster import shapes
from tests.cluster.api import Json
from tests.cluster.audit import ACCOUNTS, CERTS, Audit, Request, counted, telling, turns
from tests.cluster.devices import CHECKPOINT, allocatable
from tests.cluster.eventually import eventually
from tests.cluster.holders import scrape
from tests.cluster.node import NAME, Node
from tests.cluster.opens import watched
from tests.cluster.product import configured, use_cards
from tests.cluster.spaces import Space, asking, reporting
from tests.cluster.test_node_health import CARDS, Inventory
from tests.cluster.test_node_kills import containers
from tests.cluster.test_node_webhook import reviews
from tests.cluster.tools.say import say
from vgpu import names
from vgpu.slots import PER_CARD

pytestmark = [pytest.mark.node, pytest.mark.long]

REST = soak.either(60, 300)
"""Seconds for which nothing happens."""
SETTLED = 25
"""Seconds until a change is known to all: the plugin's looks, and two statuses of the node."""
POLL, INTERVAL = 5, 15
"""Seconds between two looks, of the plugin at its kubelet and of certs at the cluster."""
PLACES = (names.NAMESPACE, names.NODE_NAMESPACE)
SLOTS = 2 * PER_CARD
REPEATED = ("patch", "events")
"""The kubelet repeats, of every pod, that this cluster has no DNS."""
OF_A_CARD, OF_A_CONTAINER = 6, 2
"""Series of the plugin's metrics."""


SERVER = "kube-apiserver"


@pytest.fixture(scope="module")
def audit(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audit]:
    """The API server with an audit log, and a node that tells its status as often as real ones."""
    use_cards(node, "two-t4")
    made, command = Audit(tmp_path_factory.mktemp("audit")), node.processes.commands[SERVER]
    restart(node, (*command, *made.arguments()), status_seconds=10)
    yield made
    restart(node, command, status_seconds=1)


def restart(node: Node, command: tuple[str, ...], status_seconds: int) -> None:
    node.processes.kill(SERVER)
    node.processes.commands[SERVER] = command
    node.start_again(SERVER)
    node.stop_kubelet()
    node.start_kubelet(status_seconds)
    eventually(lambda: allocatable(node) == SLOTS, "all slots in the node's status", 60)
    time.sleep(SETTLED)


def ours(requests: list[Request]) -> list[Request]:
    """Return those of our own programs, all service accounts together."""
    return [each for each in requests if each.user.startswith(ACCOUNTS)]


def of_the_kubelet(requests: list[Request], namespace: str) -> Counter[tuple[str, str]]:
    """Return the kubelet's requests about what is in a namespace."""
    about = (it for it in requests if it.program == "kubelet" and it.namespace == namespace)
    return counted(it for it in about if (it.verb, it.resource) != REPEATED)


def show_statuses(requests: list[Request], namespace: str) -> None:
    """Print what was told of the pods in a namespace."""
    for each in requests:
        if (each.resource, each.namespace) == ("pods/status", namespace):
            say(f"  {each.name}: {json.dumps(each.body['status'])[:800]}")


def kubelet_looks(node: Node) -> Counter[str]:
    """Return how often the kubelet was asked for its pods, and for its devices."""
    text = node.plane.api.raw("GET", f"/api/v1/nodes/{NAME}/proxy/metrics")
    prefix = "kubelet_pod_resources_endpoint_requests_"
    return Counter(
        {
            family.name.removeprefix(prefix): int(sum(it.value for it in family.samples))
            for family in text_string_to_metric_families(text)
            if family.name.startswith(prefix)
        }
    )


def show(what: str, requests: list[Request]) -> None:
    """Print who asked for what, of that which concerns us."""
    say(f"{what}:")
    about = [it for it in requests if it.namespace in PLACES or it.user.startswith(ACCOUNTS)]
    found = Counter((it.program, it.verb, it.resource, it.namespace, it.name) for it in about)
    for each, count in found.most_common():
        say(f"  {count} {' '.join(each)}")
    told = [len(json.dumps(each.body)) for each in telling(requests)]
    say(f"  node statuses that tell of our resources, in bytes: {told}")


def test_nobody_of_us_watches_and_a_kubelet_watches_what_its_pods_name(audit: Audit) -> None:
    requests = audit.since(0)
    show("since the API server's start", requests)
    assert not [each for each in ours(requests) if each.verb in ("watch", "list")]
    watches = {
        (it.namespace, it.resource, it.name)
        for it in requests
        if (it.program, it.verb) == ("kubelet", "watch") and it.namespace in PLACES
    }
    say(f"  a kubelet watches: {sorted(watches)}")
    at_every_node = {each for each in watches if each[0] == names.NODE_NAMESPACE}
    assert at_every_node == {(names.NODE_NAMESPACE, "configmaps", "plugin")}


@pytest.mark.timeout(REST + 120)
def test_a_node_at_rest_costs_nothing(node: Node, audit: Audit) -> None:
    looks, asked, mark = kubelet_looks(node), reviews(node), audit.mark()
    with watched(node.device_plugins) as opens:
        time.sleep(REST)
        opened = opens.counted()
    requests, looks = audit.since(mark), kubelet_looks(node) - looks
    show(f"{REST} s at rest", requests)
    say(f"  the kubelet was asked: {dict(looks)}; files opened: {dict(opened)}")
    say(f"  what certs reads in one look: {a_look(node)} bytes")
    assert {each.user for each in ours(requests)} == {CERTS}
    assert abs(turns(requests) - REST / INTERVAL) <= 1
    others = [each for each in requests if each.namespace in PLACES and each.user != CERTS]
    repeats = [each for each in others if (each.verb, each.resource) == REPEATED]
    assert {reason(node, each) for each in repeats} <= {"MissingClusterDNS"}
    assert {each.verb for each in others if each not in repeats} <= {"watch"}  # begun anew at times
    assert telling(requests) == []
    assert reviews(node) == asked
    for what in ("list", "get_allocatable"):
        assert REST / POLL - 3 <= looks[what] <= REST / POLL + 1
    assert abs(opened[CHECKPOINT] - looks["list"]) <= 1


def reason(node: Node, event: Request) -> str:
    """Return what an event is about."""
    path = f"/api/v1/namespaces/{event.namespace}/events/{event.name}"
    return str(node.plane.api.get(path)["reason"])


def a_look(node: Node) -> int:
    """Return the bytes of all that the certificate keeper reads each time that it looks."""
    secrets = f"/api/v1/namespaces/{names.NAMESPACE}/secrets"
    configurations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    paths = [f"{secrets}/{name}" for name in (names.SECRET_CA, names.SECRET_SERVING)]
    paths.append(f"{configurations}/{names.WEBHOOK_CONFIGURATION}")
    return sum(len(node.plane.api.raw("GET", path)) for path in paths)


def test_a_restart_of_the_plugin_is_told_in_some_statuses(node: Node, audit: Audit) -> None:
    mark = audit.mark()
    node.kill(*containers(node, ("plugin",)))
    time.sleep(SETTLED)
    eventually(lambda: allocatable(node) == SLOTS, "all slots in the node's status")
    time.sleep(SETTLED)
    requests = audit.since(mark)
    show("the plugin's container was killed", requests)
    assert {each.user for each in ours(requests)} == {CERTS}
    assert len(telling(requests)) <= 2


@pytest.mark.timeout(400)
def test_a_pod_with_a_share_is_one_review_and_two_statuses_more(space: Space, audit: Audit) -> None:
    """The node then has a whole card less, and afterwards one more."""
    plain, sharing = (life(space, audit, it) for it in (reporting("main"), asking("main", "300m")))
    say(f"a pod's life: plain {plain}")
    say(f"a pod's life: with a share {sharing}")
    assert plain["reviews"] == 0
    assert sharing["reviews"] == 1
    assert plain["telling"] == 0
    assert sharing["telling"] == 2
    more = Counter(sharing["kubelet"])
    more.subtract(plain["kubelet"])
    # The health of what it holds is told as well. Into how many statuses the kubelet puts a pod's
    # life differs from run to run; it reads the pod before it writes one.
    told, read = ("patch", "pods/status"), ("get", "pods")
    assert {what for what, count in more.items() if count > 0} <= {told, read}
    assert max(more[told], more[read]) <= 3


def life(space: Space, audit: Audit, container: Json) -> dict[str, Any]:
    """Return what a pod's life from creation to end was to the API server."""
    mark, before = audit.mark(), reviews(space.node)
    space.create(shapes.pod("pod", container))
    space.running("pod")
    time.sleep(SETTLED)
    space.kubectl("delete", "pod", "pod", "--now", "--wait=true")
    time.sleep(SETTLED)
    requests = audit.since(mark)
    show_statuses(requests, space.name)
    return {
        "reviews": reviews(space.node) - before,
        "telling": len(telling(requests)),
        "kubelet": of_the_kubelet(requests, space.name),
    }


@pytest.mark.timeout(400)
def test_a_card_that_falls_ill_is_told_once(space: Space, audit: Audit) -> None:
    """Of the node; and once or twice of each pod that has some of it."""
    node = space.node
    inventory = Inventory(node.device_plugins / "cards.json")
    inventory.says()
    seen = f"/var/lib/kubelet/device-plugins/{inventory.file.name}"
    with configured(node, inventory_file=seen, placement="spread"):
        for name in ("one", "two", "three", "four"):
            space.create(shapes.pod(name, asking("main", "100m")))
            space.running(name)
        on_it = [name for name in ("one", "two", "three", "four") if second(space, name)]
        time.sleep(SETTLED)
        for fault, slots in (({"fault": "it has to be reset"}, PER_CARD), ({}, SLOTS)):
            mark = audit.mark()
            inventory.says(**fault)
            eventually(lambda slots=slots: allocatable(node) == slots, "the node's status", 60)  # type: ignore[misc]
            time.sleep(SETTLED)
            requests = audit.since(mark)
            show(f"a card with {len(on_it)} pods: {fault or 'well'}", requests)
            pods = of_the_kubelet(requests, space.name)
            say(f"  the kubelet about pods: {dict(pods)}")
            show_statuses(requests, space.name)
            assert len(telling(requests)) == 1
            assert len(on_it) <= pods["patch", "pods/status"] <= 2 * len(on_it)
        tell_of_metrics(scrape(node))
        space.kubectl("delete", "pods", "--all", "--now", "--wait=true")
    inventory.file.unlink()


def second(space: Space, name: str) -> bool:
    """Whether a pod is on the card that falls ill."""
    return space.report(name, "main").env[names.ENV_GPU_UUID] == CARDS[1]


def tell_of_metrics(text: str) -> None:
    """See how many series there are of a card, and of a container."""
    cards, containers_ = Counter[str](), Counter[str]()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if "container" in sample.labels:
                containers_[sample.labels["pod"]] += 1
            elif {"gpu", "model"} <= sample.labels.keys():
                cards[sample.labels["gpu"]] += 1
    series = sum(not line.startswith("#") for line in text.splitlines())
    say(f"/metrics: {len(text)} bytes, {series} series")
    assert set(cards.values()) == {OF_A_CARD}
    assert set(containers_.values()) == {OF_A_CONTAINER}
