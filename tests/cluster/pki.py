"""Certificates for test servers: one throw-away authority, and pairs signed by it."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

WEEK = datetime.timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write `<name>.crt` and `<name>.key`, and return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = folder / f"{name}.crt", folder / f"{name}.key"
        for path, content in zip(paths, (self.certificate, self.key), strict=True):
            path.write_bytes(content)
            path.chmod(0o600)
        return paths


def authority(name: str = "milligpu test authority") -> Pair:
    """Make a CA that is valid for a week."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(name, name, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_signs_certificates(), critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    return _pair(builder.sign(key, hashes.SHA256()), key)


def issue(ca: Pair, *names: str) -> Pair:
    """Sign a serving pair for host names and IP addresses."""
    ca_key = serialization.load_pem_private_key(ca.key, None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(ca.certificate).subject
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(names[0], issuer, key.public_key())
    alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
    builder = builder.add_extension(alternatives, critical=False)
    # Python 3.13 refuses a certificate that does not say who signed it.
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = builder.add_extension(signer, critical=False)
    return _pair(builder.sign(ca_key, hashes.SHA256()), key)


def token_signer() -> Pair:
    """Make the key pair for service account tokens; the certificate half is the public key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = key.public_key().public_bytes(serialization.Encoding.PEM, form)
    return Pair(public, _key_pem(key))


def _builder(
    subject: str, issuer: str | x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer) if isinstance(issuer, str) else issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + WEEK)
    )


def _signs_certificates() -> x509.KeyUsage:
    uses = "digital_signature content_commitment key_encipherment data_encipherment key_agreement"
    others = dict.fromkeys(uses.split(), False)
    return x509.KeyUsage(
        **others, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))
