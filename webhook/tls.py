"""The serving certificate: re-read when it changes, without a restart."""

import ssl
import time
from pathlib import Path

import structlog

from vgpu import names

log = structlog.get_logger()


class Certificate:
    """The pair `tls.crt` and `tls.key` of a folder, as it last was good."""

    def __init__(self, folder: Path) -> None:
        self.certificate = folder / names.TLS_CERTIFICATE
        self.key = folder / names.TLS_KEY
        self._seen: tuple[bytes, bytes] | None = None
        self._context: ssl.SSLContext | None = None

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
            self._load()
        return self._context

    def _load(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # Reads the files once more. If they changed meanwhile, the next call sees that.
            context.load_cert_chain(self.certificate, self.key)
        except OSError as fault:  # SSLError is one
            kept = "keeping the last good one" if self._context else "waiting for a good one"
            log.warning("certificate unusable", path=self.certificate, fault=str(fault), now=kept)
            return
        self._context = context
        log.info("certificate loaded", path=self.certificate)

    def wait(self) -> None:
        """Return when there is a good pair, which may be long after start: certs makes it."""
        if self.context() is None:
            log.info("waiting for the certificate", path=self.certificate)
        while self.context() is None:
            time.sleep(0.25)
