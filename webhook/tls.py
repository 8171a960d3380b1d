"""The serving certificate: re-read when it changes, without a restart."""

import base64
import re
import ssl
import time
from datetime import UTC, datetime
from pathlib import Path

import structlog

from vgpu import names

log = structlog.get_logger()

# By RFC 5280, 4.1.2.5: a sequence of two times, with the year in two digits from 1950 to 2049.
_VALIDITY = re.compile(rb"(?s)\x30." + 2 * rb"(?:\x17\x0d|\x18\x0f)((?:[0-9]{2})?[0-9]{12}Z)")


class Certificate:
    """The pair `tls.crt` and `tls.key` of a folder, as it last was good."""

    def __init__(self, folder: Path) -> None:
        self.certificate = folder / names.TLS_CERTIFICATE
        self.key = folder / names.TLS_KEY
        self._seen: tuple[bytes, bytes] | None = None
        self._context: ssl.SSLContext | None = None
        self.begin = self.end = datetime.min.replace(tzinfo=UTC)

    def state(self, now: datetime) -> tuple[bool, str]:
        """Return whether the one that is served is valid, and a sentence about its time."""
        begin, end, here = (f"{each:%Y-%m-%dT%H:%M:%SZ}" for each in (self.begin, self.end, now))
        sentence = f"the served certificate is valid from {begin} to {end}, and here it is {here}"
        is_valid = self.begin <= now < self.end
        return is_valid, f"{'ok' if is_valid else 'not ready'}: {sentence}"

    def context(self) -> ssl.SSLContext | None:
        """Return the context of the newest good pair; None while there has been none.

        Called for every new connection: reading 2 kB costs a hundredth of what loading them does.
        """
        try:
            seen = self.certificate.read_bytes(), self.key.read_bytes()
        except OSError:
            return self._context
        # Remembered also when it is bad, so that it is tried, and complained about, once.
        if seen != self._seen:
            self._seen = seen
            self._load(seen[0])
        return self._context

    def _load(self, pem: bytes) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # Reads the files once more. If they changed meanwhile, the next call sees that.
            context.load_cert_chain(self.certificate, self.key)
            self.begin, self.end = _validity(pem)
        except (OSError, ValueError) as fault:
            kept = "keeping the last good one" if self._context else "waiting for a good one"
            log.warning("certificate unusable", path=self.certificate, fault=str(fault), now=kept)
            return
        self._context = context
        log.info("certificate loaded", path=self.certificate, end=self.end.isoformat())

    def wait(self) -> None:
        """Return when there is a good pair, which may be long after start: certs makes it."""
        if self.context() is None:
            log.info("waiting for the certificate", path=self.certificate)
        while self.context() is None:
            time.sleep(0.25)


def _validity(pem: bytes) -> tuple[datetime, ...]:
    """Return when the first certificate begins and ends. Raises ValueError when it cannot say.

    Python's TLS does not tell them of one's own certificate.
    """
    block = pem.partition(b"CERTIFICATE-----")[2].partition(b"-----END")[0]
    found = _VALIDITY.search(base64.b64decode(block))
    if not found:
        raise ValueError("its time of validity cannot be read")
    texts = ((b"20" if text < b"5" else b"19") + text for text in found.groups())
    return tuple(datetime.strptime(text[-15:].decode(), "%Y%m%d%H%M%S%z") for text in texts)
