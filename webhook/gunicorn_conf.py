"""gunicorn's settings: `gunicorn -c python:webhook.gunicorn_conf`."""

import gc
import os
import signal
import socket
import ssl
import sys
from typing import Any

from vgpu import settings
from webhook import log
from webhook.config import Config
from webhook.tls import Certificate

try:
    _config = settings.read(Config, os.environ)
except settings.SettingsError as fault:
    sys.exit(f"webhook: {fault}")
log.configure(_config.log_level)
certificate = Certificate(_config.tls_dir)

wsgi_app = "webhook.wsgi:app"
_everywhere = "[::]" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 - a server in a pod
bind = f"{_config.host or _everywhere}:{_config.port}"

# One worker, so that one registry has all the numbers; more pods for more.
workers = 1
worker_class = "webhook.worker.Worker"
threads = _config.threads
# Each costs a file, and a container's soft limit may be 1024.
worker_connections = 512
# The API server closes its idle connections after 90 s; it must never be us who does, or a request
# may just be on its way.
keepalive = 120
# From SIGTERM on: accept a little longer, then what is running has time to end. The pod's
# terminationGracePeriodSeconds must be above it.
graceful_timeout = int(_config.drain_seconds) + 15
# The heartbeat file: on a disk its update could block, and stop the worker.
worker_tmp_dir = "/dev/shm"  # noqa: S108
control_socket_disable = True

certfile = str(certificate.certificate)
keyfile = str(certificate.key)
do_handshake_on_connect = False

accesslog = None
loglevel = _config.log_level
logconfig_dict = log.for_gunicorn(_config.log_level)


def ssl_context(_conf: Any, _default: Any) -> ssl.SSLContext | None:
    """Return the TLS context for a new connection."""
    return certificate.context()


def on_starting(_server: Any) -> None:
    """Wait for the certificate before there is a port.

    Until then every probe is refused, so the pod's startupProbe has to allow for as long as the
    certificates may take; a restart meanwhile does no harm.
    """
    # Process 1 of a container ignores SIGTERM unless it says what to do.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    certificate.wait()


def post_worker_init(worker: Any) -> None:
    """Tell the worker what `Config` says."""
    worker.drain_seconds = _config.drain_seconds
    # It would put a line together for each request, which nobody gets to see.
    worker.log.access = lambda *_: None
    # What is loaded stays: the collector need not go through it, which takes 20 ms. And a review
    # leaves no cycles, so there is no need to look for some twice in each.
    gc.freeze()
    gc.set_threshold(50_000)
