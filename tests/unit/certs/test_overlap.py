"""Over a long life of short lives: whatever a replica serves, whatever an API server trusts.

A changed Secret is served at once or as late as the setting says; a changed configuration is known
to an API server at once or seconds later. Meanwhile certs is ended, cut off and doubled.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Generic, TypeVar

from cryptography import x509
from cryptography.x509 import verification
from hypothesis import given, settings
from hypothesis import strategies as st

from certs import keeper
from certs.cluster import Unavailable
from certs.config import TRUST_DELAY, Config
from certs.model import Bundles, Held, KeyPair, Stored
from certs.plan import SERVED_AS, Decision, Keep
from tests.unit.certs.made import NOW, Memory, empty, read
from vgpu import names

T = TypeVar("T")
SECOND = timedelta(seconds=1)
INTERVAL, SECRET_DELAY = 60 * SECOND, 120 * SECOND
API_DELAY = TRUST_DELAY - SECOND
"""The API server notes the time of a change in whole seconds."""
LEAF = 3 * (2 * INTERVAL + TRUST_DELAY + SECRET_DELAY)
CONFIG = Config(INTERVAL, ca_life=3 * LEAF, leaf_life=LEAF, secret_delay=SECRET_DELAY)
LONG = 2 * CONFIG.ca_life


@dataclass
class Span(Generic[T]):
    """What was there from one time to another."""

    what: T
    begin: datetime
    end: datetime


def spans(changes: Sequence[tuple[datetime, T]], end: datetime) -> list[Span[T]]:
    times = [*(time for time, _ in changes), end]
    return [Span(what, *time) for (_, what), time in zip(changes, pairwise(times), strict=True)]


@dataclass
class Recorded(Memory):
    """A cluster that remembers since when it holds what, and does not answer at times."""

    silent: frozenset[int] = frozenset()
    """Which of all requests."""
    requests: int = 0
    leaves: list[tuple[datetime, x509.Certificate]] = field(default_factory=list)
    trusted: list[tuple[datetime, list[x509.Certificate]]] = field(default_factory=list)

    def held(self) -> Held:
        self.answer()
        return super().held()

    def store(self, secret: str, pair: KeyPair, replaces: Stored | None) -> None:
        self.answer()
        super().store(secret, pair, replaces)
        if secret == names.SECRET_SERVING:
            self.leaves.append((self.now, read(pair)))

    def set_bundles(self, entries: Mapping[str, bytes], replaces: Bundles) -> None:
        self.answer()
        super().set_bundles(entries, replaces)
        assert self.bundles
        changed = self.now.replace(microsecond=0)
        self.bundles = Bundles(self.bundles.entries, self.bundles.version, changed)
        (bundle,) = set(self.bundles.entries.values())
        self.trusted.append((self.now, x509.load_pem_x509_certificates(bundle)))

    def answer(self) -> None:
        self.requests += 1
        if self.requests in self.silent:
            raise Unavailable("away")


def keeping(cluster: Memory, step: timedelta) -> Iterator[timedelta]:
    """Do as `keeper.run` does, and yield each time how long it is until it goes on."""
    pause = SECOND
    while True:
        last: Decision | None = None
        for last in keeper.settle(cluster, CONFIG, lambda: cluster.now):  # noqa: B007 - the last
            yield step
        well = isinstance(last, Keep)
        yield INTERVAL if well else min(pause, INTERVAL)
        pause = SECOND if well else 2 * pause


@dataclass(frozen=True)
class Life:
    """What happens to certs and to its cluster."""

    processes: int
    step: timedelta
    silent: frozenset[int]
    killed: frozenset[int]
    """After which steps, counted over all processes; another one starts soon."""
    deleted: Sequence[tuple[int, str]]
    """Secrets that somebody deletes, and after which step."""


def live(life: Life) -> Recorded:
    """Let the time pass."""
    made = empty()
    cluster = Recorded(bundles=made.bundles, silent=life.silent)
    waiting = [(NOW + 7 * SECOND * each, each) for each in range(life.processes)]
    running = [keeping(cluster, life.step) for _ in waiting]
    steps = 0
    while waiting[0][0] < NOW + LONG:
        cluster.now, number = heapq.heappop(waiting)
        pause, steps = next(running[number]), steps + 1
        for _, secret in (each for each in life.deleted if each[0] == steps):
            cluster.secrets.pop(secret, None)
        if steps in life.killed:
            running[number], pause = keeping(cluster, life.step), 10 * SECOND
        heapq.heappush(waiting, (cluster.now + pause, number))
    return cluster


def is_trusted(leaf: x509.Certificate, bundle: list[x509.Certificate], now: datetime) -> bool:
    builder = verification.PolicyBuilder().store(verification.Store(bundle)).time(now)
    try:
        builder.build_server_verifier(x509.DNSName(SERVED_AS[0])).verify(leaf, [])
    except verification.VerificationError:
        return False
    return True


def sparse(most: int) -> st.SearchStrategy[frozenset[int]]:
    """Draw numbers with room between them: certs may be hindered, but not for good."""
    places = st.lists(st.none() | st.integers(0, 9), max_size=most)
    return places.map(
        lambda drawn: frozenset(
            20 * block + place for block, place in enumerate(drawn) if place is not None
        )
    )


SECRETS = st.sampled_from([names.SECRET_CA, names.SECRET_SERVING])
LIVES = st.builds(
    Life,
    processes=st.integers(1, 3),
    step=st.sampled_from([0.01, 0.4, 1.0, 3.0]).map(lambda number: number * SECOND),
    silent=sparse(30).map(lambda drawn: drawn | {each + 1 for each in drawn}),
    killed=sparse(30),
    deleted=st.lists(st.tuples(st.integers(30, 400), SECRETS), max_size=3),
)


@given(LIVES)
@settings(max_examples=25, deadline=None)
def test_what_is_served_is_trusted_at_every_moment_and_no_ca_stays_longer(life: Life) -> None:
    cluster = live(life)
    assert len(cluster.leaves) > LONG / LEAF
    assert len(cluster.trusted) > LONG / CONFIG.ca_life
    bundles = spans(cluster.trusted, cluster.now)
    ready = cluster.leaves[0][0] + API_DELAY  # before that there was nothing to lose
    for leaf in spans(cluster.leaves, cluster.now):
        for bundle in bundles:
            first = max(leaf.begin, bundle.begin, ready)
            last = min(leaf.end + SECRET_DELAY, bundle.end + API_DELAY)
            for time in (first, last) if first < last else ():
                assert is_trusted(leaf.what, bundle.what, time), (time, leaf, bundle)
    before = set[x509.Certificate]()
    for bundle in bundles:
        held = set(bundle.what)
        assert held >= {each for each in before if bundle.begin < each.not_valid_after_utc}
        assert all(bundle.begin < each.not_valid_after_utc for each in held)
        assert all(bundle.end < each.not_valid_after_utc + 2 * INTERVAL for each in held)
        assert len(held) <= 2 + len(life.deleted)
        before = held
