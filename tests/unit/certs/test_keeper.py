import threading
from datetime import datetime

import pytest
import structlog
from cryptography import x509
from cryptography.x509 import verification
from hypothesis import given
from hypothesis import strategies as st

from certs import keeper
from certs.bundle import merge
from certs.cluster import Conflict, Unavailable
from certs.config import TRUST_DELAY
from certs.model import Bundles, Held, KeyPair, Stored
from certs.plan import SERVED_AS, Decision, IssueLeaf, Keep, MakeCa, SetBundles, Wait
from tests.unit.certs.made import CONFIG, DAY, NOW, Memory, empty, read
from vgpu import names


def turn(cluster: Memory, now: datetime = NOW) -> list[type[Decision]]:
    cluster.now = now
    return [type(decision) for decision in keeper.settle(cluster, CONFIG, lambda: now)]


def pair(cluster: Memory, secret: str = names.SECRET_SERVING) -> KeyPair:
    return cluster.secrets[secret].pair


def trusted(leaf: KeyPair, bundle: bytes, now: datetime) -> bool:
    """Whether the API server would take this certificate from the webhook."""
    store = verification.Store(x509.load_pem_x509_certificates(bundle))
    builder = verification.PolicyBuilder().store(store).time(now)
    verifier = builder.build_server_verifier(x509.DNSName(SERVED_AS[0]))
    try:
        verifier.verify(read(leaf), [])
    except verification.VerificationError:
        return False
    return True


def test_on_an_empty_cluster_everything_is_made_and_then_kept() -> None:
    cluster = empty()
    assert turn(cluster) == [MakeCa, SetBundles, IssueLeaf, Keep]
    ca = pair(cluster, names.SECRET_CA)
    assert cluster.bundles is not None
    assert cluster.bundles.entries == dict.fromkeys(("pods", "templates"), ca.certificate)
    assert trusted(pair(cluster), ca.certificate, NOW)
    writes = cluster.writes
    assert turn(cluster) == [Keep]
    assert cluster.writes == writes


def test_the_webhook_configuration_may_come_later() -> None:
    cluster = Memory()
    assert turn(cluster) == [MakeCa, IssueLeaf, Wait]
    assert turn(cluster) == [Wait]
    cluster.bundles = Bundles({"pods": b""}, "later", NOW)
    assert turn(cluster) == [SetBundles, Keep]


def test_a_lost_secret_is_made_again_and_the_old_ca_stays_trusted() -> None:
    cluster = empty()
    turn(cluster)
    old, served = pair(cluster, names.SECRET_CA), pair(cluster)
    del cluster.secrets[names.SECRET_CA]
    assert turn(cluster) == [MakeCa, SetBundles, Wait]
    assert turn(cluster, NOW + TRUST_DELAY) == [IssueLeaf, Keep]
    assert cluster.bundles is not None
    bundle = cluster.bundles.entries["pods"]
    assert bundle == merge(old.certificate, pair(cluster, names.SECRET_CA).certificate, NOW)
    assert trusted(served, bundle, NOW)


@given(st.lists(st.integers(0, 2), max_size=40))
def test_several_at_once_agree(order: list[int]) -> None:
    cluster = empty()
    running = [keeper.settle(cluster, CONFIG, lambda: NOW) for _ in range(3)]
    for number in order:
        next(running[number], None)
    last = [list(each)[-1:] for each in running]
    assert all(isinstance(decision, Keep) for decisions in last for decision in decisions)
    assert cluster.writes == 3
    assert turn(cluster) == [Keep]


def test_over_the_years_what_is_served_is_always_trusted() -> None:
    """Also by a replica that has not seen a renewed pair for a month."""
    cluster, now = empty(), NOW
    late: list[KeyPair] = []
    while now < NOW + 2000 * DAY:
        for moment in (now, now + TRUST_DELAY):
            turn(cluster, moment)
        assert cluster.bundles is not None
        bundle = cluster.bundles.entries["pods"]
        late = [*late, pair(cluster)][-5:]
        assert all(trusted(leaf, bundle, now) for leaf in late)
        assert len(x509.load_pem_x509_certificates(bundle)) <= 2
        now += 7 * DAY
    # The CA after 600 days each, the leaf after 60 and with every CA, seen each week.
    assert 3 + 30 < cluster.writes < 60


class Refusing(Memory):
    def held(self) -> Held:
        raise Unavailable("the API server refuses: secrets is forbidden")


class Contended(Memory):
    def store(self, secret: str, pair: KeyPair, replaces: Stored | None) -> None:
        raise Conflict


class ReadOnly(Memory):
    def store(self, secret: str, pair: KeyPair, replaces: Stored | None) -> None:
        raise Unavailable("the API server refuses: secrets is forbidden")


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        (Refusing(), "the API server refuses: secrets is forbidden"),
        (Contended(), "others keep changing what was just read"),
    ],
)
def test_a_turn_ends_and_says_why(cluster: Memory, reason: str) -> None:
    assert list(keeper.settle(cluster, CONFIG, lambda: NOW))[-1] == Wait(reason)


class Stop(threading.Event):
    """A time that passes at once, and ends after some waits."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self.waited: list[float | None] = []
        self.turns = turns

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout)
        return len(self.waited) == self.turns


def run(cluster: Memory, turns: int) -> tuple[list[float | None], list[tuple[str, str]]]:
    stop = Stop(turns)
    with structlog.testing.capture_logs() as lines:
        keeper.run(cluster, CONFIG, stop)
    return stop.waited, [(line["decision"], line["log_level"]) for line in lines]


def test_it_looks_each_interval_and_says_each_decision_once() -> None:
    waited, said = run(empty(), turns=3)
    assert waited == [15, 15, 15]
    steps = ("MakeCa", "SetBundles", "IssueLeaf", "Keep")
    assert said == [(step, "info") for step in steps]


def test_what_is_missing_is_looked_for_soon_and_then_less_often() -> None:
    waited, said = run(Refusing(), turns=9)
    assert waited == [1, 2, 4, 8, 15, 15, 15, 15, 15]
    assert said == [("Wait", "warning")]


class Away(Memory):
    """Does not answer at some of the turns."""

    def __init__(self, turns: set[int]) -> None:
        super().__init__(bundles=empty().bundles)
        self.turn, self.away = 0, turns

    def held(self) -> Held:
        self.turn += 1
        if self.turn in self.away:
            raise Unavailable("away")
        return super().held()


def test_a_fault_after_a_good_time_is_looked_at_soon() -> None:
    # The first turn reads four times: three steps, and that nothing is left to do.
    waited, _ = run(Away({1, 2, 7, 8}), turns=6)
    assert waited == [1, 2, 15, 1, 2, 15]


def test_what_fails_again_and_again_is_said_once() -> None:
    wanted = [("MakeCa", "info"), ("Wait", "warning")]
    assert run(ReadOnly(), turns=5)[1] == wanted
    assert run(Contended(), turns=5)[1] == wanted
