"""Certificates and a cluster to keep them in, for tests."""

import re
from base64 import b64decode, encodebytes
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from certs import issue
from certs.cluster import Cluster, Conflict
from certs.config import Config
from certs.model import Bundles, Held, KeyPair, Stored
from certs.plan import SERVED_AS
from vgpu import names

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
DAY = timedelta(days=1)
CONFIG = Config(ca_life=900 * DAY, leaf_life=90 * DAY)
BLOCK = re.compile(rb"(-----BEGIN (?:.+)-----\n)([^-]+)(-----END .+-----\n)")
KEYS = [ec.generate_private_key(ec.SECP256R1()) for _ in range(4)]


def fresh(key: int = 0, now: datetime = NOW, serial: int = 7) -> issue.Fresh:
    return issue.Fresh(KEYS[key], serial, now)


def authority(key: int = 0, now: datetime = NOW, life: timedelta = CONFIG.ca_life) -> KeyPair:
    return issue.ca(fresh(key, now), life)


def own(
    *extensions: x509.ExtensionType,
    key: CertificateIssuerPrivateKeyTypes = KEYS[1],
    life: timedelta = CONFIG.ca_life,
) -> KeyPair:
    """Return a CA that somebody made: as OpenSSL makes one, and with these extensions."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "my ca")])
    public, form = key.public_key(), PrivateFormat.TraditionalOpenSSL
    builder = x509.CertificateBuilder(name, name, public, 1, NOW - DAY, NOW + life)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    for each in (identifier, *extensions):
        builder = builder.add_extension(each, critical=isinstance(each, x509.KeyUsage))
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    return KeyPair(certificate, key.private_bytes(Encoding.PEM, form, NoEncryption()))


def served(
    ca: KeyPair,
    now: datetime = NOW,
    life: timedelta = CONFIG.leaf_life,
    names: tuple[str, ...] = SERVED_AS,
) -> KeyPair:
    return issue.leaf(fresh(3, now), life, ca, names)


def read(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def with_bytes(pem: bytes, old: bytes, new: bytes) -> bytes:
    """Change what a PEM block holds."""
    begin, content, end = BLOCK.fullmatch(pem).groups()  # type: ignore[union-attr]
    der = b64decode(content)
    assert old in der
    return b"".join([begin, encodebytes(der.replace(old, new)), end])


def of_version_8(pair: KeyPair) -> KeyPair:
    version = bytes.fromhex("a003020102"), bytes.fromhex("a003020107")
    return KeyPair(with_bytes(pair.certificate, *version), pair.key)


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
        self.secrets[secret] = Stored(pair, str(self.writes), self.now)

    def set_bundles(self, entries: Mapping[str, bytes], replaces: Bundles) -> None:
        if self.bundles != replaces:
            raise Conflict
        self.writes += 1
        self.bundles = Bundles({**replaces.entries, **entries}, str(self.writes), self.now)


def empty(*entries: str) -> Memory:
    """Return a cluster in which somebody has just applied the manifest."""
    return Memory(bundles=Bundles(dict.fromkeys(entries or ("pods", "templates"), b""), "0", NOW))
