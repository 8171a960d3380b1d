"""Certificates and a cluster to keep them in, for tests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from certs import issue
from certs.cluster import Cluster, Conflict
from certs.config import Config
from certs.model import Bundles, Held, KeyPair, Stored
from certs.plan import SERVED_AS
from vgpu import names

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
DAY = timedelta(days=1)
CONFIG = Config(ca_life=900 * DAY, leaf_life=90 * DAY)
KEYS = [ec.generate_private_key(ec.SECP256R1()) for _ in range(4)]


def fresh(key: int = 0, now: datetime = NOW, serial: int = 7) -> issue.Fresh:
    return issue.Fresh(KEYS[key], serial, now)


def authority(key: int = 0, now: datetime = NOW, life: timedelta = CONFIG.ca_life) -> KeyPair:
    return issue.ca(fresh(key, now), life)


def served(
    ca: KeyPair,
    now: datetime = NOW,
    life: timedelta = CONFIG.leaf_life,
    names: tuple[str, ...] = SERVED_AS,
) -> KeyPair:
    return issue.leaf(fresh(3, now), life, ca, names)


def read(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


@dataclass
class Memory(Cluster):
    """A cluster as the keeper sees one, with the API server's rule about versions."""

    secrets: dict[str, Stored] = field(default_factory=dict)
    bundles: Bundles | None = None
    writes: int = 0
    now: datetime = NOW

    def held(self) -> Held:
        ca, serving = self.secrets.get(names.SECRET_CA), self.secrets.get(names.SECRET_SERVING)
        return Held(ca, serving, self.bundles)

    def store(self, secret: str, pair: KeyPair, replaces: Stored | None) -> None:
        if self.secrets.get(secret) != replaces:
            raise Conflict
        self.writes += 1
        self.secrets[secret] = Stored(pair, str(self.writes))

    def set_bundles(self, entries: Mapping[str, bytes], replaces: Bundles) -> None:
        if self.bundles != replaces:
            raise Conflict
        self.writes += 1
        self.bundles = Bundles({**replaces.entries, **entries}, str(self.writes), self.now)


def empty(*entries: str) -> Memory:
    """Return a cluster in which somebody has just applied the manifest."""
    return Memory(bundles=Bundles(dict.fromkeys(entries or ("pods", "templates"), b""), "0", NOW))
