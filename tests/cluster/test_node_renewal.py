"""Certificates renewed and mended on the real node, under load: `make e2e-certs`."""

import base64
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from cryptography import x509
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster import load, pki, shapes
from tests.cluster.api import Json
from tests.cluster.eventually import eventually
from tests.cluster.load import Admission, Client, Load
from tests.cluster.node import Node
from tests.cluster.product import manifest, rolled_out, served
from tests.cluster.served import (
    CALLED,
    PERIOD,
    POD_PORT,
    PODS,
    SERVICE,
    Sample,
    Watch,
    arrivals,
    bundle_faults,
    reigns,
    watched,
)
from tests.cluster.tools.say import say
from tests.cluster.webhooks import CONFIGURATION
from vgpu import names

pytestmark = [pytest.mark.node, pytest.mark.long, pytest.mark.timeout(900)]

MINUTE = 60
JUDGED = "?dryRun=All"
"""The objects are judged and not made, or they would fill the node."""
CLIENTS, TICK = 25, 0.5
"""Fifty admissions a second."""
CROWD, CROWD_TICK = 60, 1.5
"""Clients that ask all at once, and seconds between two times."""
RENEWALS = 10
SHORT = {"interval": "2s", "secret_delay": "6s", "leaf_life": "48s", "ca_life": "170s"}
"""The CA is renewed between two renewals of the leaf, and ends within the run."""
LATE = 2 + 2
"""Seconds after its end until a CA is gone: the interval, and a little."""
SHORTEST = {"interval": "1s", "secret_delay": "3s", "leaf_life": "30s", "ca_life": "90s"}
CALM = 6
"""Samples in a row until what is whole is so for good."""
NAMESPACE = ("-n", names.NAMESPACE)
WALL = time.time() - time.monotonic()
"""What makes Unix seconds of an admission's times."""


def settings(kind: str, name: str) -> Json:
    metadata = {"name": name, "namespace": names.NAMESPACE}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


CERTS, CA, SERVING = (
    settings("ConfigMap", "certs"),
    settings("Secret", names.SECRET_CA),
    settings("Secret", names.SECRET_SERVING),
)


@pytest.fixture(scope="module")
def quick(node: Node) -> Iterator[Node]:
    """The node with a kubelet that looks at its pods every two seconds."""
    node.stop_kubelet()
    node.start_kubelet(sync_seconds=2)
    served(node)
    yield node
    node.restart_kubelet()
    served(node)


@contextmanager
def keeping(node: Node, **wanted: str) -> Iterator[None]:
    """Have certs keep everything by other settings, from a CA of their own on."""
    data = {names.ENV_OURS + name.upper(): value for name, value in wanted.items()}
    before = node.plane.api.read(CERTS)["data"]
    _anew(node, data)
    try:
        yield
    finally:
        _anew(node, {name: before[name] for name in data})


def _anew(node: Node, data: dict[str, str]) -> None:
    # Lives are those of new certificates, so the old ones go; certs makes them when it is back.
    scale_certs(node, 0)
    node.plane.api.delete(CA)
    node.plane.api.patch(CERTS, {"data": data})
    scale_certs(node, 1)
    served(node)


def scale_certs(node: Node, count: int) -> None:
    node.plane.kubectl(*NAMESPACE, "scale", "deployment/certs", f"--replicas={count}")
    rolled_out(node, "deployment/certs", names.NAMESPACE)
    path = f"/api/v1/namespaces/{names.NAMESPACE}/{PODS.replace('webhook', 'certs')}"
    eventually(lambda: len(node.plane.api.get(path)["items"]) == count, f"{count} pods of certs")


def restarts(node: Node) -> dict[str, int]:
    """Return how often each replica's container was started again."""
    found = node.plane.api.get(f"/api/v1/namespaces/{names.NAMESPACE}/{PODS}")["items"]
    return {
        pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"]
        for pod in found
    }


def whole(watch: Watch) -> Sample:
    """Wait until both replicas serve the stored pair and are trusted."""
    look = lambda: watch.samples()[-1] if watch.samples()[-1].whole else None  # noqa: E731
    return eventually(look, lambda: f"all whole; last: {watch.samples()[-1]}", seconds=150)


def mixed() -> Callable[[str], Json]:
    """Return what makes sharing objects of three kinds in turn."""
    kinds = itertools.cycle(("Pod", "Deployment", "Pod", "CronJob"))
    return lambda name: shapes.holding(next(kinds), load.sharing(name))


def well(admissions: list[Admission]) -> None:
    """Check that every ask was served, and translated."""
    assert [each.fault for each in admissions if each.fault] == []
    assert {each.grant for each in admissions} == {"30"}


def tell(admissions: list[Admission], samples: list[Sample]) -> None:
    """Print the figures of a run."""
    seconds = sorted(each.ended - each.began for each in admissions)
    lasted = max(each.ended for each in admissions) - min(each.began for each in admissions)
    p50, p99 = (seconds[int(len(seconds) * share)] * 1000 for share in (0.5, 0.99))
    say(f"  {len(seconds)} admissions in {lasted:.0f} s, {len(seconds) / lasted:.1f} a second")
    say(f"  p50 {p50:.0f} ms, p99 {p99:.0f} ms, slowest {seconds[-1] * 1000:.0f} ms")
    ways = sorted(delays(samples))
    middle = ways[len(ways) // 2]
    say(f"  from Secret to served: {ways[0]:.1f} to {ways[-1]:.1f} s, median {middle:.1f} s")
    shaken = sum(len(each.served) for each in samples)
    failed = sum(len(each.faults) for each in samples)
    opened = len({port for each in samples for port in each.connections})
    say(f"  {shaken} handshakes of ours, {failed} failed; {opened} of the API server's")


def delays(samples: list[Sample]) -> list[float]:
    """Return the seconds from Secret to served, of each pair that is new and each replica."""
    stored, arrived = reigns(samples), arrivals(samples)
    new = list(stored)[1:]
    return [at - stored[leaf] for leaf in new for at in arrived.get(leaf, {}).values()]


def half_write(node: Node) -> None:
    node.plane.api.patch(SERVING, {"data": {names.TLS_KEY: ""}})


def delete_serving(node: Node) -> None:
    node.plane.api.delete(SERVING)


@pytest.mark.parametrize("force", [half_write, delete_serving])
def test_a_forced_renewal_under_a_kubelet_of_default_settings(
    node: Node, force: Callable[[Node], None]
) -> None:
    """Comes before what uses `quick`: here the kubelet takes its time."""
    before = restarts(node)
    say(f"\n{force.__name__}, {CLIENTS / TICK:.0f} admissions a second, a kubelet by default:")
    with (
        watched(node) as watch,
        load.steady(node.plane.api, "default", CLIENTS, TICK, JUDGED, mixed()) as seen,
    ):
        old = whole(watch).leaf
        force(node)
        eventually(lambda: watch.samples()[-1].leaf not in ("", old), "a new pair", seconds=30)
        whole(watch)
        # Connected only now: a connection that idles for as long as this may take is closed.
        with load.clients(node.plane.api, "default", CROWD, JUDGED) as many:
            crowd = load.crowd(many)
    tell(seen.admissions, watch.samples())
    well([*seen.admissions, *crowd])
    assert restarts(node) == before
    assert [each.faults for each in watch.samples() if each.faults] == []
    assert len(delays(watch.samples())) == len(before)


def told_ends(node: Node) -> dict[str, float]:
    """Return when what each replica serves ends, as its metrics tell."""
    here = f"/api/v1/namespaces/{names.NAMESPACE}/pods"
    name = "milligpu_webhook_certificate_not_after_timestamp_seconds"
    return {
        pod: family.samples[0].value
        for pod in restarts(node)
        for family in text_string_to_metric_families(
            node.plane.api.raw("GET", f"{here}/https:{pod}:{POD_PORT}/proxy/metrics")
        )
        if family.name == name
    }


def stored_end(node: Node) -> float:
    """Return when the stored serving certificate ends."""
    data = node.plane.api.read(SERVING)["data"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(data[names.TLS_CERTIFICATE]))
    return certificate.not_valid_after_utc.timestamp()


def renewed(watch: Watch, many: list[Client], number: int) -> list[Admission]:
    """Wait until both replicas serve another pair than now, and have a crowd come then."""
    leaf = watch.samples()[-1].leaf
    eventually(lambda: watch.samples()[-1].leaf != leaf, f"renewal {number}", seconds=90)
    now = whole(watch)
    say(f"  {number:2} served; CAs trusted: {len(now.bundles[0])}")
    came = load.crowd(many)
    time.sleep(3 * PERIOD)  # a sample is taken of what connections that made
    return came


def test_renewals_under_load_fail_no_admission(quick: Node) -> None:
    """B07. Leaf and CA are renewed again and again; nobody notices, and nothing is restarted."""
    api = quick.plane.api
    say(f"\n{RENEWALS} renewals under {CLIENTS / TICK:.0f} admissions a second; certs: {SHORT}")
    with keeping(quick, **SHORT), watched(quick) as watch:
        whole(watch)
        before, came = restarts(quick), list[Admission]()
        with (
            load.clients(api, "default", CROWD, JUDGED) as many,
            load.steady(api, "default", CLIENTS, TICK, JUDGED, mixed()) as seen,
        ):
            for number in range(1, RENEWALS + 1):
                came += renewed(watch, many, number)
        samples = list(watch.samples())
        assert restarts(quick) == before
        assert told_ends(quick) == dict.fromkeys(before, stored_end(quick))
    tell(seen.admissions, samples)
    well([*seen.admissions, *came])
    assert len(seen.admissions) > 0.8 * CLIENTS / TICK * seen.seconds
    served_by_both(samples, set(before))
    trusted_until_their_end(samples)


def served_by_both(samples: list[Sample], replicas: set[str]) -> None:
    """Check that every pair was served by every replica, and that the API server saw it so."""
    assert [each.faults for each in samples if each.faults] == []
    stored, arrived = reigns(samples), arrivals(samples)
    assert len(stored) > RENEWALS
    assert {leaf: set(arrived[leaf]) for leaf in stored} == dict.fromkeys(stored, replicas)
    known: set[int] = set()
    opened = dict.fromkeys(stored, 0)
    for sample in samples:
        if sample.whole:
            opened[sample.leaf] += len(set(sample.connections) - known)
        known |= set(sample.connections)
    say(f"  connections that the API server opened, pair by pair: {list(opened.values())}")
    assert all(opened.values())


def trusted_until_their_end(samples: list[Sample]) -> None:
    """Check that CAs were renewed, and each was in every bundle exactly until its end."""
    assert bundle_faults(samples, LATE) == []
    ends = {ca: end for sample in samples for each in sample.bundles for ca, end in each.items()}
    over = [end for end in ends.values() if end + LATE < samples[-1].at]
    say(f"  {len({each.ca for each in samples})} CAs; {len(over)} of the old ones had their end")
    assert len({each.ca for each in samples}) >= 3
    assert over


def set_bundles(node: Node, ca: bytes) -> None:
    config = node.plane.api.read(CONFIGURATION)
    for each in config["webhooks"]:
        each["clientConfig"]["caBundle"] = base64.b64encode(ca).decode()
    node.plane.api.update(config)


def give_pair(node: Node, pair: pki.Pair) -> None:
    data = {names.TLS_CERTIFICATE: pair.certificate, names.TLS_KEY: pair.key}
    text = {name: base64.b64encode(content).decode() for name, content in data.items()}
    node.plane.api.patch(SERVING, {"data": text})


def apply_anew(node: Node) -> None:
    node.plane.kubectl("delete", "mutatingwebhookconfiguration", names.WEBHOOK_CONFIGURATION)
    node.plane.kubectl("apply", "-f", "-", stdin=manifest())


def delete_pods(node: Node) -> None:
    chosen = ("-l", "app.kubernetes.io/component in (certs,webhook)")
    node.plane.kubectl(*NAMESPACE, "delete", "pods", *chosen, "--wait=false")


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that is done to what certs keeps."""

    do: Callable[[Node], object]
    felt: bool
    """Whether asks may fail until it is mended."""


DAMAGES = {
    "caBundle emptied": Damage(lambda node: set_bundles(node, b""), felt=True),
    "caBundle of another CA": Damage(
        lambda node: set_bundles(node, pki.authority().certificate), felt=True
    ),
    "serving Secret deleted": Damage(delete_serving, felt=False),
    "serving Secret half-written": Damage(half_write, felt=False),
    "serving pair of another CA": Damage(
        lambda node: give_pair(node, pki.issue(pki.authority(), CALLED)), felt=True
    ),
    "CA's Secret deleted": Damage(lambda node: node.plane.api.delete(CA), felt=False),
    "configuration deleted and applied again": Damage(apply_anew, felt=True),
    "all pods of certs and webhook deleted": Damage(delete_pods, felt=True),
}


@dataclass(frozen=True, slots=True)
class Streams:
    """Admissions that go on while something is damaged."""

    asks: Load
    plain: Load


@contextmanager
def streams(node: Node) -> Iterator[Streams]:
    """Have asks come in crowds, for which the API server opens connections, and others one by one.

    Ends a little after the block, so that there is something to see of the time when all is well.
    """
    api, asks, stop = node.plane.api, Load(), threading.Event()

    def come() -> None:
        with load.clients(api, "default", CROWD, JUDGED) as many:
            while not stop.wait(CROWD_TICK):
                asks.admissions += load.crowd(many)

    with (
        ThreadPoolExecutor(1) as pool,
        load.steady(api, "default", 2, 0.4, JUDGED, load.plain) as plain,
    ):
        coming = pool.submit(come)
        try:
            yield Streams(asks, plain)
            time.sleep(2 * CROWD_TICK)
        finally:
            stop.set()
    coming.result()


def mended(watch: Watch, since: float) -> None:
    """Wait until all is whole, and stays so for a while."""

    def calm() -> bool:
        last = [each for each in watch.samples() if each.at > since][-CALM:]
        return len(last) == CALM and all(each.whole for each in last)

    eventually(calm, lambda: f"all whole again; last: {watch.samples()[-1]}", seconds=150)


def mended_at(samples: list[Sample], since: float) -> float:
    """Return when all was whole for good."""
    later = [each for each in samples if each.at > since]
    broken = max((each.at for each in later if not each.whole), default=since)
    return min(each.at for each in later if each.at > broken)


def failures(load: Load, since: float, until: float = math.inf) -> list[float]:
    """Return when those that failed had begun."""
    return [t for each in load.failures if since < (t := each.began + WALL) < until]


def judged(what: str, seen: Streams, watch: Watch, since: float, felt: bool) -> None:
    """Print what became of the asks until all was whole, and check it."""
    asks, failed = seen.asks.admissions, failures(seen.asks, since)
    last = max(failed, default=since)
    good = min((each.ended + WALL for each in asks if each.began + WALL > last), default=math.inf)
    shaken = [each.at for each in watch.samples() if each.at > since and SERVICE in each.faults]
    whole_after = mended_at(watch.samples(), since) - since
    say(f"\n  {what}: whole after {whole_after:.1f} s; good asks after {good - since:.1f} s")
    say(f"    {len(failed)} of {len(asks)} asks failed, {span(failed, since)}")
    say(f"    {len(shaken)} handshakes of ours failed, {span(shaken, since)}")
    for fault in sorted({each.fault.replace(load.CROWDED, "...") for each in seen.asks.failures}):
        say(f"      {fault}")
    broken = [each for each in watch.samples() if each.at > since and not each.whole]
    assert broken or failed, "there was no damage, or it was mended between two samples"
    assert max(whole_after, good - since) <= MINUTE
    assert felt or not failed + shaken
    assert {each.grant for each in asks if not each.fault} == {"30"}
    assert [each.fault for each in seen.plain.failures] == []


def span(times: list[float], since: float) -> str:
    return f"{min(times) - since:.1f} to {max(times) - since:.1f} s after" if times else "never"


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_is_mended_within_a_minute(quick: Node, name: str) -> None:
    """By the shipped settings. Pods without an ask never notice."""
    damage = DAMAGES[name]
    with watched(quick) as watch:
        whole(watch)
        with streams(quick) as seen:
            time.sleep(1)
            since = time.time()
            damage.do(quick)
            mended(watch, since)
    judged(name, seen, watch, since, damage.felt)


def expired(sample: Sample) -> bool:
    """Whether no replica serves a pair that still holds."""
    pods = [text for place, text in sample.faults.items() if place != SERVICE]
    return len(pods) == 2 and all("certificate has expired" in each for each in pods)


def test_certs_that_come_back_too_late_mend_it_within_a_minute(quick: Node) -> None:
    """Time counts from their return; asks may fail from the pair's end on."""
    with keeping(quick, **SHORTEST), watched(quick) as watch:
        whole(watch)
        with streams(quick) as seen:
            scale_certs(quick, 0)
            eventually(lambda: expired(watch.samples()[-1]), "the end of the served pair", 60)
            end = time.time()
            time.sleep(10)
            since = time.time()
            scale_certs(quick, 1)
            mended(watch, since)
    say(f"\n  certs returned {since - end:.1f} s after the pair's end; until then", end=" ")
    say(f"{len(failures(seen.asks, end, since))} asks failed")
    judged("certs away past the pair's end", seen, watch, since, felt=True)
