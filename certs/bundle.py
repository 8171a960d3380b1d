"""CA bundles: bytes in, bytes out."""

import re
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


def merge(bundle: bytes, ca: bytes, now: datetime) -> bytes:
    """Return a bundle with `ca` in it, and with every other certificate that has not expired.

    An old CA stays for as long as a replica may still serve what it signed. What is no certificate
    is dropped, for the API server would refuse the whole bundle. Merging twice changes nothing.
    """
    found = [*_certificates(bundle), x509.load_pem_x509_certificate(ca)]
    kept = dict.fromkeys(each for each in found if now < each.not_valid_after_utc)
    return b"".join(each.public_bytes(Encoding.PEM) for each in kept)


def _certificates(bundle: bytes) -> list[x509.Certificate]:
    found = []
    for block in _BLOCK.findall(bundle):
        try:
            found.append(x509.load_pem_x509_certificate(block))
        except ValueError:
            continue
    return found
