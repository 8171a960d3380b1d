"""A thousand nodes and some thousand pods change nothing for what is there once in a cluster: the
certificate keeper asks for as much, the webhook is asked as often, and neither grows.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from milligpu.processes import Program, Webhook
from tests.cluster import webhooks
from tests.cluster.api import Json, collection
from tests.cluster.audit import CERTS, Audit, turns
from tests.cluster.controlplane import ControlPlane, control_plane
from tests.cluster.keeper import keeper
from tests.cluster.load import plain, sharing
from tests.cluster.processes import children
from tests.cluster.tools.say import say
from tests.cluster.webhooks import SHIPPED
from vgpu import names

pytestmark = [pytest.mark.apiserver, pytest.mark.long, pytest.mark.timeout(300)]

NODES, PODS, SHARING = 1000, 3000, 300
ASKS = 20
"""Asks in a look, and as many pods without one."""
LOOK_SECONDS = 6
OURS = {CERTS, "admin", "system:apiserver"}
GROWTH_KIB = 4096
"""What a process may grow by for reasons of its own; to know a thousand nodes would take more."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """An API server with our two programs before it."""

    plane: ControlPlane
    audit: Audit
    webhook: Webhook
    certs: Program


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("thousand")
    audit = Audit(folder)
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane(extra=audit.arguments()))
        plane.kubectl("apply", "-f", str(SHIPPED))
        plane.kubectl("delete", webhooks.KIND, names.WEBHOOK_CONFIGURATION)
        webhook = stack.enter_context(webhooks.before(plane, folder))
        certs = stack.enter_context(keeper(plane, folder / "certs.log", interval="1s"))
        certs.wait_until(lambda: "Keep" in [line.get("decision") for line in certs.lines()])
        yield Cluster(plane, audit, webhook, certs)


@dataclass(frozen=True, slots=True)
class Looked:
    """What was seen in some seconds."""

    looks: int
    """Of the certificate keeper."""
    reviews: int
    """Reviews for `ASKS` asks, and as many pods without one."""
    users: frozenset[str]
    """Who else asked the API server, but for itself and us."""
    kib: dict[str, int]
    """Memory of each program."""


def observed(cluster: Cluster) -> Looked:
    """Look for some seconds at who asks whom for what."""
    api, mark, before = cluster.plane.api, cluster.audit.mark(), reviews(cluster)
    for number in range(ASKS):
        for make in (sharing, plain):
            api.create(make(f"look-{number}"), query="?dryRun=All")
    time.sleep(LOOK_SECONDS)
    requests = cluster.audit.since(mark)
    looks = turns(requests)
    assert looks >= LOOK_SECONDS // 2
    others = {it.user for it in requests} - OURS
    return Looked(looks, reviews(cluster) - before, frozenset(others), memory(cluster))


def reviews(cluster: Cluster) -> int:
    """Return how many reviews the webhook has answered."""
    _, text = cluster.webhook.get("/metrics")
    families = text_string_to_metric_families(text)
    [found] = [each for each in families if each.name == "milligpu_webhook_reviews"]
    return int(sum(it.value for it in found.samples if it.name.endswith("_total")))


def memory(cluster: Cluster) -> dict[str, int]:
    """Return the KiB that each program has in memory now."""
    [worker] = children(cluster.webhook.program.process.pid)
    return {"webhook": kib(worker), "certs": kib(cluster.certs.process.pid)}


def kib(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


def node(number: int) -> Json:
    """Return a node that offers two cards."""
    offered = {names.COUNT: "200", names.WHOLE: "2", "cpu": "16", "memory": "64Gi", "pods": "110"}
    status = {"capacity": offered, "allocatable": offered}
    metadata = {"name": f"node-{number}"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def pod(number: int) -> Json:
    """Return a pod that is on a node, every tenth with a share."""
    made = (sharing if number % (PODS // SHARING) == 0 else plain)(f"pod-{number}")
    made["spec"]["nodeName"] = f"node-{number % NODES}"
    return made


def create(cluster: Cluster, objects: Iterable[Json]) -> None:
    """Create objects over one kept connection."""
    api = cluster.plane.api
    place = urlsplit(api.url)
    assert place.hostname
    head = {"Authorization": f"Bearer {api.token}", "Content-Type": "application/json"}
    link = HTTPSConnection(place.hostname, place.port, context=api.tls, timeout=30)
    with closing(link):
        for each in objects:
            link.request("POST", collection(each, "default"), json.dumps(each), head)
            answer = link.getresponse()
            said = answer.read().decode()
            assert answer.status == HTTPStatus.CREATED, said


def test_a_thousand_nodes_are_no_more_work_than_none(cluster: Cluster) -> None:
    observed(cluster)  # what is made once: connections, caches
    without, start = observed(cluster), reviews(cluster)
    create(cluster, map(node, range(NODES)))
    create(cluster, map(pod, range(PODS)))
    filling = reviews(cluster) - start
    having = observed(cluster)
    found = cluster.plane.api.get("/api/v1/nodes?limit=1")
    assert found["metadata"]["remainingItemCount"] == NODES - 1
    say(f"without: {without}")
    say(f"with {NODES} nodes and {PODS} pods: {having}")
    assert filling == SHARING
    assert without.reviews == having.reviews == ASKS
    assert without.users == having.users == frozenset()
    for program, before in without.kib.items():
        assert having.kib[program] < before + GROWTH_KIB, program
