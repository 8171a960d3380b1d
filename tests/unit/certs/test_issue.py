from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs import issue
from certs.model import KeyPair
from certs.plan import SERVED_AS
from tests.unit.certs.made import DAY, KEYS, NOW, authority, fresh, read, served


def test_a_ca_may_sign_servers_and_nothing_else() -> None:
    ca = read(authority())
    constraints = ca.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)
    usage = ca.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.key_cert_sign
    assert usage.crl_sign
    assert not usage.digital_signature


def test_a_serving_certificate_is_for_our_service_and_signs_nothing() -> None:
    ca = authority()
    leaf = read(served(ca))
    leaf.verify_directly_issued_by(read(ca))
    alternatives = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert alternatives.get_values_for_type(x509.DNSName) == [
        "webhook.milligpu.svc",
        "webhook.milligpu.svc.cluster.local",
        "webhook.milligpu",
        "webhook",
    ]
    uses = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(uses) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = leaf.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature
    assert not usage.key_cert_sign


def test_key_serial_and_time_are_the_callers() -> None:
    ca = read(issue.ca(fresh(1, serial=4711), DAY))
    assert ca.serial_number == 4711
    assert ca.public_key() == KEYS[1].public_key()
    assert ca.not_valid_before_utc == NOW - timedelta(hours=1)
    assert ca.not_valid_after_utc == NOW + DAY


def test_a_leaf_ends_with_its_ca_at_the_latest() -> None:
    assert read(served(authority(life=3 * DAY), life=2 * DAY)).not_valid_after_utc == NOW + 2 * DAY
    assert read(served(authority(life=3 * DAY), life=9 * DAY)).not_valid_after_utc == NOW + 3 * DAY


def test_two_cas_of_one_name_are_told_apart() -> None:
    old, new = authority(0), authority(1)
    leaf = read(served(new))
    identifier = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    own = [
        read(ca).extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
        for ca in (old, new)
    ]
    assert identifier.key_identifier == own[1] != own[0]


def test_a_long_name_is_still_a_certificate() -> None:
    name = "webhook." + ".".join(["a" * 60] * 3) + ".svc"
    leaf = read(served(authority(), names=(name,)))
    alternatives = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert alternatives.get_values_for_type(x509.DNSName) == [name]


def test_a_pairs_key_is_read_back() -> None:
    assert issue.private_key(authority(2)).private_numbers() == KEYS[2].private_numbers()


def sealed() -> bytes:
    form = BestAvailableEncryption(b"password")
    return KEYS[0].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, form)


def of_another_kind() -> bytes:
    key = ed25519.Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize("key", [b"", b"rubbish", sealed(), of_another_kind()])
def test_a_key_that_is_none_of_ours_is_refused(key: bytes) -> None:
    with pytest.raises((ValueError, TypeError)):
        issue.private_key(KeyPair(b"", key))


def test_the_api_server_asks_for_the_first_name() -> None:
    assert SERVED_AS[0] == "webhook.milligpu.svc"
