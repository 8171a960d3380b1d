"""The certificate keeper: `python -m certs`, with `MILLIGPU_*` settings."""

import os
import signal
import sys
import threading

import structlog
from structlog.processors import JSONRenderer, TimeStamper, add_log_level

from certs import keeper
from certs.cluster import Unavailable, connect
from certs.config import Config
from vgpu.settings import SettingsError, read


def main() -> int:
    """Run until SIGTERM; return 0 then, and 2 when it cannot start."""
    try:
        config = read(Config, os.environ)
        cluster = connect()
    except (SettingsError, Unavailable) as fault:
        sys.stderr.write(f"{fault}\n")
        return 2
    structlog.configure(
        processors=[add_log_level, TimeStamper(fmt="iso", utc=True), JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(config.log_level),
    )
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    keeper.run(cluster, config, stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
