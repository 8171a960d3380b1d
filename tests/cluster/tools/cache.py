"""Where things that are slow to make are kept between runs, and who may make them when."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def root(environ: Mapping[str, str]) -> Path:
    """Return the folder that the environment chooses."""
    if chosen := environ.get("CLUSTER_CACHE"):
        return Path(chosen).resolve()
    base = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).resolve() / "milligpu"


ROOT = root(os.environ)
"""Settled at import."""


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold a lock file, so that two runs do not make the same thing at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
