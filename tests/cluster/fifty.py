"""Prints how long fifty sharing pods take to run on the real kubelet, beside fifty plain ones.

Part of `make soak`: python -m tests.cluster.fifty
"""

import itertools
import signal
import sys
import time

from tests.cluster import images, setup, shapes
from tests.cluster.api import Json
from tests.cluster.eventually import eventually
from tests.cluster.node import cluster
from tests.cluster.product import deploy
from tests.cluster.shapes import holding
from tests.cluster.spaces import Space, space
from tests.cluster.tools.say import say

PODS, ROUNDS = 50, 3
LIMITS = {"plain": {"cpu": "40m"}, "sharing": {"cpu": "40m", "gpu": "40m"}}
"""Of each container; the same CPUs, so that nothing but the share differs."""


def main() -> None:
    """Create both kinds in turn, and print how long it takes until all run."""
    setup.install()
    with cluster() as node:
        deploy(node)
        say(f"{PODS} pods of one Deployment on two simulated cards, until all run:")
        for _, (kind, limits) in itertools.product(range(ROUNDS), LIMITS.items()):
            with space(node) as fresh:
                say(f"  {kind:10}{_seconds(fresh, kind, limits):7.2f} s")


def _seconds(fresh: Space, kind: str, limits: dict[str, str]) -> float:
    container: Json = {"name": "main", "image": images.WORKLOAD}
    container |= {"resources": {"limits": limits, "requests": {"cpu": "1m"}}}
    deployment: Json = holding("Deployment", shapes.pod(kind, container))
    deployment["spec"]["replicas"] = PODS
    begin = time.monotonic()
    fresh.create(deployment)

    def ready() -> bool:
        path = f"/apis/apps/v1/namespaces/{fresh.name}/deployments/{kind}"
        return bool(fresh.node.plane.api.get(path)["status"].get("readyReplicas") == PODS)

    eventually(ready, f"{PODS} pods of {kind} run", 120)
    return time.monotonic() - begin


if __name__ == "__main__":
    # Ended from outside, too, it takes down what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
