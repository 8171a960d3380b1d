"""A rollout of the webhook in its cluster, under load: its own Deployment, its Service, its probes.

test_webhook_rollout.py has the same without root, with a balancer in the Service's place.
"""

import pytest

from tests.cluster import load
from tests.cluster.eventually import eventually
from tests.cluster.node import Node
from tests.cluster.product import rolled_out
from vgpu import names

pytestmark = pytest.mark.node

WEBHOOKS = (
    f"/api/v1/namespaces/{names.NAMESPACE}/pods?labelSelector=app.kubernetes.io/component%3Dwebhook"
)


def replicas(node: Node) -> set[str]:
    return {pod["metadata"]["name"] for pod in node.plane.api.get(WEBHOOKS)["items"]}


def test_a_rollout_fails_no_admission(node: Node) -> None:
    """B24. The pods are judged and not made, or they would fill the node."""
    before = replicas(node)
    with load.steady(node.plane.api, "default", query="?dryRun=All") as seen:
        restart = ("rollout", "restart", "deployment/webhook", "-n", names.NAMESPACE)
        node.plane.kubectl(*restart)
        rolled_out(node, "deployment/webhook", names.NAMESPACE)
        eventually(lambda: not before & replicas(node), "the end of the old replicas", seconds=60)
    assert len(replicas(node)) == len(before) == 2
    assert [failure.fault for failure in seen.failures] == []
    assert len(seen.admissions) > 100
