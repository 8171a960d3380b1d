"""Replicas of the webhook come and go under a steady load of admissions (B24).

Two real gunicorns, as the shipped Deployment runs them, behind a balancer that stands in for their
Service. What the API server does when a connection breaks (client-go 1.36, Go's net/http): a review
is a POST, so it is sent again only when not a byte of it had been written yet, which a broken
connection that was idle has usually told before; any other loss fails the admission.
"""

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from milligpu.processes import Webhook
from tests.cluster import load
from tests.cluster.controlplane import ControlPlane
from tests.cluster.eventually import eventually
from tests.cluster.load import Client, Load
from tests.cluster.replicas import Replicas, crash, replicated, workers
from tests.webhook_server import SLOW_SECONDS
from vgpu import names

pytestmark = pytest.mark.apiserver

Pair = tuple[Replicas, Webhook, Webhook]
UNHURRIED = "tests.cluster.replicas:unhurried()"
SLOW = "tests.webhook_server:slow()"
NEWS_SECONDS = 0.1
"""How long a process's end may take to reach the API server, through the balancer."""


@pytest.fixture
def pair(apiserver: ControlPlane, tmp_path: Path) -> Iterator[Pair]:
    with replicated(apiserver, tmp_path, UNHURRIED) as made:
        yield made


def answered(replica: Webhook, namespace: str) -> int:
    """Return how many reviews of a namespace a replica has answered."""
    lines = replica.program.lines()
    return len([line for line in lines if line.get("namespace") == namespace])


def all_is_well(plane: ControlPlane, namespace: str, seen: Load) -> None:
    """Check that the pods that are there are those that were made, and have what they asked for."""
    pods = plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    made = {each.name for each in seen.admissions if not each.fault}
    assert {pod["metadata"]["name"] for pod in pods} == made
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert container["resources"]["limits"][names.COUNT] == "30"
        assert {"name": names.ENV_FRACTION, "value": "0.3"} in container["env"]


def works(namespace: str, *replicas: Webhook) -> Callable[[], bool]:
    """Return what tells whether each of the replicas has answered something since now."""
    before = [answered(each, namespace) for each in replicas]
    return lambda: all(
        answered(each, namespace) > had for each, had in zip(replicas, before, strict=True)
    )


def replaced(replica: Webhook, before: tuple[int, ...]) -> Callable[[], bool]:
    return lambda: len(workers(replica)) == 1 and workers(replica) != before


def test_a_rolling_restart_fails_no_admission(
    apiserver: ControlPlane, pair: Pair, namespace: str
) -> None:
    """One replica is evicted: its successor starts when it is gone. The other one is rolled over.

    There, as in the shipped Deployment, the successor is ready before the old one is told to end.
    """
    replicas, evicted, rolled = pair
    with load.steady(apiserver.api, namespace) as seen:
        eventually(works(namespace, evicted, rolled), "reviews at both replicas")
        assert replicas.end(evicted) == 0
        successors = [replicas.start(), replicas.start()]
        assert replicas.end(rolled) == 0
        eventually(works(namespace, *successors), "reviews at the new replicas")
    assert seen.failures == []
    all_is_well(apiserver, namespace, seen)


def test_a_reload_fails_no_admission(
    apiserver: ControlPlane, tmp_path: Path, namespace: str
) -> None:
    """The new worker listens where the old one does: there is no news that could be late."""
    with (
        replicated(apiserver, tmp_path, UNHURRIED, drain_seconds=1) as (_, one, other),
        load.steady(apiserver.api, namespace) as seen,
    ):
        eventually(works(namespace, one, other), "reviews at both replicas")
        for replica in (one, other):
            before = workers(replica)
            replica.program.process.send_signal(signal.SIGHUP)
            eventually(replaced(replica, before), "a new worker in the place of the old")
        eventually(works(namespace, one), "reviews at the one whose connections were ended first")
    assert seen.failures == []
    all_is_well(apiserver, namespace, seen)


def test_a_worker_that_dies_takes_only_what_it_was_answering_with_it(
    apiserver: ControlPlane, tmp_path: Path, namespace: str
) -> None:
    """A review takes a second here, so that it is known who answers what."""
    pods = [load.sharing(f"slow-{number}") for number in range(6)]
    with (
        replicated(apiserver, tmp_path, SLOW) as (_, one, other),
        ThreadPoolExecutor(len(pods)) as pool,
    ):
        clients = [Client(apiserver.api, namespace) for _ in pods]
        admissions = [
            pool.submit(client.create, pod) for client, pod in zip(clients, pods, strict=True)
        ]
        with pytest.raises(TimeoutError):
            admissions[0].result(SLOW_SECONDS / 2)
        crash(one)
        seen = Load([admission.result() for admission in admissions])
        assert 0 < len(seen.failures) < len(pods)
        rest = len(pods) - len(seen.failures)
        eventually(lambda: answered(other, namespace) == rest, "a line for each answer", seconds=5)
        for failure in seen.failures:
            assert 'failed calling webhook "pods.milligpu.io"' in failure.fault
            assert "EOF" in failure.fault or "connection reset" in failure.fault
        all_is_well(apiserver, namespace, seen)
        # Who failed may come again at once: the next worker takes connections that wait for it.
        lost = {failure.name for failure in seen.failures}
        again = [
            pool.submit(client.create, pod)
            for client, pod in zip(clients, pods, strict=True)
            if pod["metadata"]["name"] in lost
        ]
        assert Load([admission.result() for admission in again]).failures == []
        for client in clients:
            client.close()


def test_a_worker_that_dies_between_reviews_is_not_missed(
    apiserver: ControlPlane, pair: Pair, namespace: str
) -> None:
    _, *both = pair
    seen = Load()
    with closing(Client(apiserver.api, namespace)) as client:
        for number in range(4):
            seen.admissions.append(client.create(load.sharing(f"before-{number}")))
            for each in both:
                crash(each)
            time.sleep(NEWS_SECONDS)
            seen.admissions.append(client.create(load.sharing(f"after-{number}")))
            for each in both:
                each.program.wait_until(each.ready)
    assert seen.failures == []
    all_is_well(apiserver, namespace, seen)


def test_a_crash_under_load_fails_only_what_was_in_flight(
    apiserver: ControlPlane, pair: Pair, namespace: str
) -> None:
    _, one, other = pair
    crashes = []
    with load.steady(apiserver.api, namespace) as seen:
        # In turn: the API server goes to the one that lives, and stays there.
        for victim, heir in ((one, other), (other, one), (one, other)):
            eventually(works(namespace, victim), "reviews at the one that is to die")
            crashes.append(crash(victim))
            eventually(works(namespace, heir), "reviews at the other")
            victim.program.wait_until(victim.ready)
    for failure in seen.failures:
        assert any(
            failure.began < gone + NEWS_SECONDS and failure.ended > killed
            for killed, gone in crashes
        ), (failure, crashes)
    all_is_well(apiserver, namespace, seen)
