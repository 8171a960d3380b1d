"""Every example, applied by kubectl to a cluster whose controllers watch: the pods run, and what is
applied again changes nothing.
"""

import json
from pathlib import Path

import pytest

from tests.cluster.api import Json
from tests.cluster.examples import EXAMPLES, give_images
from tests.cluster.node import Node
from tests.cluster.product import use_cards
from tests.cluster.spaces import Space

pytestmark = pytest.mark.node

WAYS = {"client-side": (), "server-side": ("--server-side",)}
NEVER_RUN_HERE = ("CronJob",)


@pytest.fixture(scope="module", autouse=True)
def _images(node: Node) -> None:
    use_cards(node, "two-t4")
    give_images(node)


def state(space: Space) -> Json:
    """Return what must not change: the generation of every object, and the pods."""
    kinds = "deployments,replicasets,statefulsets,daemonsets,jobs,cronjobs,pods"
    items = json.loads(space.kubectl("get", kinds, "-o", "json"))["items"]
    return {
        f"{each['kind']}/{each['metadata']['name']}": (
            each["metadata"]["uid"],
            each["metadata"].get("generation") if each["kind"] != "Pod" else None,
        )
        for each in items
    }


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_is_the_same_when_applied_again(
    space: Space, example: Path, how: str
) -> None:
    apply = ("apply", *WAYS[how], "-f", str(example))
    obj = json.loads(space.kubectl(*apply, "-o", "json"))
    if obj["kind"] not in NEVER_RUN_HERE:
        replicas = obj["spec"].get("replicas", 1)
        app = obj["spec"].get("selector", {}).get("matchLabels", {}).get("app")
        space.all_running(app, replicas)
    before = state(space)
    space.kubectl(*apply)
    space.kubectl("diff", *WAYS[how], "-f", str(example))  # exits with 1 where something differs
    assert state(space) == before
