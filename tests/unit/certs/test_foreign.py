"""What others put in our places: any of it is either used or replaced, and then there is rest."""

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs import keeper
from certs.config import TRUST_DELAY
from certs.model import Bundles, KeyPair, Stored
from certs.plan import Decision, IssueLeaf, Keep, MakeCa, SetBundles, Wait
from milligpu.processes import write_pair
from tests.unit.certs.made import (
    CONFIG,
    DAY,
    NOW,
    Memory,
    authority,
    empty,
    of_version_8,
    own,
    served,
    with_bytes,
)
from vgpu import names
from webhook.tls import Certificate

P_256 = bytes.fromhex("2a8648ce3d030107")
PARAMETERS = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"


def of_no_curve(pair: KeyPair) -> KeyPair:
    """Name a curve that nobody knows."""
    unknown = P_256[:-1] + b"\x77"
    return KeyPair(*(with_bytes(each, P_256, unknown) for each in (pair.certificate, pair.key)))


def with_two_of_a_kind(pair: KeyPair) -> KeyPair:
    """Say twice whose key it is, by the numbers of these extensions."""
    own, signed_by = bytes.fromhex("0603551d0e"), bytes.fromhex("0603551d23")
    return KeyPair(with_bytes(pair.certificate, signed_by, own), pair.key)


def uses(*, sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(not sign, *(False,) * 4, sign, *(False,) * 3)


def turn(cluster: Memory) -> list[type[Decision]]:
    return [type(each) for each in keeper.settle(cluster, CONFIG, lambda: cluster.now)]


def holding(secret: str, pair: KeyPair) -> Memory:
    """Return a cluster in which all was good, until somebody wrote that Secret."""
    cluster = empty()
    assert turn(cluster)[-1] is Keep
    cluster.secrets[secret], cluster.now = Stored(pair, "theirs", NOW + DAY), NOW + DAY
    return cluster


USED = {
    "as OpenSSL makes it": own(),
    "with what is usual around it": KeyPair(
        b"Certificate:\n" + own().certificate, b"".join([PARAMETERS, own().key, b"\n\n"])
    ),
    "P-384": own(key=ec.generate_private_key(ec.SECP384R1())),
    "P-521": own(key=ec.generate_private_key(ec.SECP521R1())),
    "that may sign": own(uses(sign=True)),
}
REPLACED = {
    "P-224": own(key=ec.generate_private_key(ec.SECP224R1())),
    "RSA": own(key=rsa.generate_private_key(65537, 2048)),
    "that may not sign": own(uses(sign=False)),
    "for other names": own(x509.NameConstraints([x509.DNSName("example.com")], None)),
    "for clients": own(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])),
    "a leaf": served(authority(1), life=CONFIG.ca_life),
    "of no curve": of_no_curve(authority(1)),
    "of version 8": of_version_8(authority(1)),
    "with two of a kind": with_two_of_a_kind(authority(1)),
    "rubbish": KeyPair(b"rubbish", b"\xff\x00"),
}


@pytest.mark.parametrize("kind", USED)
def test_a_ca_of_your_own_is_used(kind: str) -> None:
    cluster = holding(names.SECRET_CA, USED[kind])
    assert turn(cluster) == [SetBundles, Wait]
    cluster.now += TRUST_DELAY
    assert turn(cluster) == [IssueLeaf, Keep]
    assert turn(cluster) == [Keep]
    assert cluster.secrets[names.SECRET_CA].pair == USED[kind]


@pytest.mark.parametrize("kind", REPLACED)
@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
def test_a_ca_that_signs_nothing_good_is_replaced(kind: str) -> None:
    cluster = holding(names.SECRET_CA, REPLACED[kind])
    assert turn(cluster) == [MakeCa, SetBundles, Wait]
    cluster.now += TRUST_DELAY
    assert turn(cluster) == [IssueLeaf, Keep]
    assert turn(cluster) == [Keep]


CA = authority()
LEAF = served(CA, NOW + DAY)
PEM = LEAF.certificate
PAIRS = {
    "good": LEAF,
    "twice": KeyPair(2 * PEM, LEAF.key),
    "and half of it": KeyPair(PEM + PEM[:400], LEAF.key),
    "and an empty block": KeyPair(PEM + b"".join(PEM.splitlines(keepends=True)[::99]), LEAF.key),
    "and its CA": KeyPair(PEM + CA.certificate, LEAF.key),
    "after half of a line": KeyPair(b"CERTIFICATE-----\n" + PEM, LEAF.key),
    "in one line": KeyPair(PEM.replace(b"\n", b"\r"), LEAF.key),
    "its key twice": KeyPair(PEM, 2 * LEAF.key),
    "its key and half of it": KeyPair(PEM, LEAF.key + LEAF.key[:99]),
    "its key after its half": KeyPair(PEM, LEAF.key[:99] + LEAF.key),
    "its key after the certificate": KeyPair(PEM, PEM + LEAF.key),
    "its key in one line": KeyPair(PEM, LEAF.key.replace(b"\n", b"\r")),
    "its key after zeros": KeyPair(PEM, bytes(9) + LEAF.key),
    **REPLACED,
}


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
def test_what_is_kept_can_be_served(kind: str, tmp_path: Path) -> None:
    cluster = holding(names.SECRET_CA, CA)
    cluster.bundles = Bundles({"pods": CA.certificate}, "theirs", NOW)
    cluster.secrets[names.SECRET_SERVING] = Stored(PAIRS[kind], "theirs", NOW)
    assert turn(cluster) in ([Keep], [IssueLeaf, Keep])
    assert turn(cluster) == [Keep]
    kept = cluster.secrets[names.SECRET_SERVING].pair
    write_pair(tmp_path, kept)
    assert Certificate(tmp_path).context()
    if kind == "good":
        assert kept == LEAF
