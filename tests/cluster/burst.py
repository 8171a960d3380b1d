"""Prints how long a burst of sharing pods takes beside as many plain ones: `make burst`."""

import itertools
import signal
import sys
import tempfile
from pathlib import Path

from tests.cluster import load
from tests.cluster.api import Api
from tests.cluster.controlplane import control_plane
from tests.cluster.load import Load
from tests.cluster.replicas import replicated
from tests.cluster.tools.say import say

PODS, ROUNDS = 500, 3
MAKE = {"plain": load.plain, "sharing": load.sharing}
_numbers = itertools.count(1)


def main() -> None:
    """Run bursts of both kinds in turn, print each, and fail if a single pod failed."""
    with (
        tempfile.TemporaryDirectory(prefix="milligpu-burst-") as folder,
        control_plane() as plane,
        replicated(plane, Path(folder)),
    ):
        say(f"{PODS} pods at once on a real API server, two replicas of the webhook")
        failures = 0
        for _, (kind, make) in itertools.product(range(ROUNDS), MAKE.items()):
            seen = load.burst(plane.api, _namespace(plane.api), make, PODS)
            say(_row(kind, seen))
            failures += len(seen.failures)
    if failures:
        raise SystemExit(f"{failures} admissions failed")


def _namespace(api: Api) -> str:
    name = f"burst-{next(_numbers)}"
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def _row(kind: str, seen: Load) -> str:
    text = f"  {kind:10}{seen.seconds:7.2f} s in all{seen.slowest:8.2f} s the slowest"
    reasons = {failure.fault for failure in seen.failures}
    return text + "".join(f"\n    failed: {reason}" for reason in sorted(reasons))


if __name__ == "__main__":
    # Ended from outside, too, it takes down what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
