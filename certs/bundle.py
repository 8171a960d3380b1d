"""CA bundles: bytes in, bytes out."""

import re
from contextlib import suppress
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

MOST = 16
"""Other CAs that are kept, the latest; there is one, but where Secrets are deleted all the time."""
_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


def merge(bundle: bytes, ca: bytes, now: datetime) -> bytes:
    """Return a bundle that ends with `ca`, after every other certificate that has not expired.

    An old CA stays for as long as a replica may still serve what it signed. What is no certificate
    is dropped, for the API server would refuse the whole bundle. Merging twice changes nothing.
    """
    ours = x509.load_pem_x509_certificate(ca)
    others = dict.fromkeys(each for each in _certificates(bundle) if now < each.not_valid_after_utc)
    kept = [each for each in others if each != ours][-MOST:]
    return b"".join(each.public_bytes(Encoding.PEM) for each in (*kept, ours))


def _certificates(bundle: bytes) -> list[x509.Certificate]:
    found = []
    for block in _BLOCK.findall(bundle):
        with suppress(Exception):  # whatever foreign bytes make the parser raise
            found.append(x509.load_pem_x509_certificate(block))
    return found
