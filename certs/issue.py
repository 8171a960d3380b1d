"""Certificates, built and signed; what differs each time, `fresh` draws and the caller gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.model import KeyPair

BACKDATE = timedelta(hours=1)
"""How far the clocks of the cluster's machines may be behind ours."""
_CA_NAME = "milligpu webhook CA"


@dataclass(frozen=True, slots=True)
class Fresh:
    """What makes a certificate unlike any other."""

    key: ec.EllipticCurvePrivateKey
    serial: int
    now: datetime


def fresh(now: datetime) -> Fresh:
    """Draw a key and a serial number."""
    return Fresh(ec.generate_private_key(ec.SECP256R1()), x509.random_serial_number(), now)


def ca(fresh: Fresh, life: timedelta) -> KeyPair:
    """Make a CA that signs itself; it may sign servers, but no further CA."""
    subject = _name(_CA_NAME)
    builder = _builder(fresh, subject, subject, fresh.now + life)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_uses(5, 6), critical=True)
    return _pair(builder, fresh.key, signer=fresh.key)


def leaf(fresh: Fresh, life: timedelta, issuer: KeyPair, names: Sequence[str]) -> KeyPair:
    """Sign a serving certificate for DNS names; it ends with its issuer if not before."""
    parent = x509.load_pem_x509_certificate(issuer.certificate)
    end = min(fresh.now + life, parent.not_valid_after_utc)
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    builder = _builder(fresh, _name(names[0]), parent.subject, end)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(_uses(0), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
    builder = builder.add_extension(alternatives, critical=False)
    return _pair(builder, fresh.key, private_key(issuer))


def private_key(pair: KeyPair) -> ec.EllipticCurvePrivateKey:
    """Read a pair's key. Raises ValueError or TypeError when it cannot be one of ours."""
    key = pem.load_pem_private_key(pair.key, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("not an elliptic curve key")
    return key


def _name(text: str) -> x509.Name:
    # A common name holds 64 characters at most; what counts are the alternative names.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _builder(
    fresh: Fresh, subject: x509.Name, issuer: x509.Name, end: datetime
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=issuer,
        public_key=fresh.key.public_key(),
        serial_number=fresh.serial,
        not_valid_before=fresh.now - BACKDATE,
        not_valid_after=end,
    )


def _uses(*bits: int) -> x509.KeyUsage:
    # By RFC 5280 the bits are nine: 0 is to sign, 5 to sign certificates, 6 lists of revoked ones.
    return x509.KeyUsage(*(bit in bits for bit in range(9)))


def _pair(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
) -> KeyPair:
    # Two CAs of one name are told apart by these.
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    signed_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(own, critical=False).add_extension(signed_by, critical=False)
    certificate = builder.sign(signer, hashes.SHA256()).public_bytes(pem.Encoding.PEM)
    form = key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
    return KeyPair(certificate, form)
