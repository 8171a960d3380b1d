"""Puts milligpu into a cluster as a user does: the one file, with an image's name in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import images
from tests.cluster.api import Json
from tests.cluster.eventually import eventually
from tests.cluster.node import NAME, Node
from tests.cluster.tools.say import say
from tests.cluster.webhooks import KIND, SHIPPED, ask
from vgpu import names
from vgpu.slots import PER_CARD

IMAGE = ("image: milligpu:dev", 3)
"""What stands in the file for the image's name, and how often."""
WRITTEN = {
    "MILLIGPU_INVENTORY: nvml": ("MILLIGPU_INVENTORY: simulated", 1),
    # Nobody else lists made-up cards, and every restart would wait.
    'MILLIGPU_SETTLE_SECONDS: "10"': ('MILLIGPU_SETTLE_SECONDS: "0"', 1),
}
"""What a user changes in the file besides: text, its replacement, and how often it stands there."""
CARDS = {"one-t4": 1, "two-t4": 2}
"""Simulated inventories that ship in the image, and how many cards they have."""
SETTINGS: Json = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "plugin", "namespace": names.NODE_NAMESPACE},
}


def manifest(shipped: Path = SHIPPED, image: str = images.PRODUCT) -> str:
    """Return the file with the image's name and the simulated inventory in it, nothing else."""
    text, (placeholder, places) = shipped.read_text(), IMAGE
    for old, (new, times) in {placeholder: (f"image: {image}", places), **WRITTEN}.items():
        assert text.count(old) == times, f"{old!r} stands {text.count(old)} times in {shipped}"
        text = text.replace(old, new)
    return text


def deploy(node: Node) -> None:
    """Apply the file, and wait until shares are served."""
    say("deploying milligpu")
    node.plane.kubectl("apply", "-f", "-", stdin=manifest())
    served(node)


def served(node: Node) -> None:
    """Wait until everything runs and shares of two cards are served."""
    for name in ("deployment/certs", "deployment/webhook"):
        rolled_out(node, name, names.NAMESPACE)
    rolled_out(node, "daemonset/plugin", names.NODE_NAMESPACE)
    config = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": KIND,
        "metadata": {"name": names.WEBHOOK_CONFIGURATION},
    }

    def trusted() -> bool:
        webhooks = node.plane.api.read(config)["webhooks"]
        return all(each["clientConfig"].get("caBundle") for each in webhooks)

    eventually(trusted, "a caBundle in every entry of the webhook configuration")
    eventually(lambda: ask(node.plane), "an ask to get through")
    eventually(lambda: slots(node) == 2 * PER_CARD, "200 slots on the node")


def rolled_out(node: Node, name: str, namespace: str) -> None:
    """Wait until a workload's pods are all of its newest template and ready."""
    node.plane.kubectl("rollout", "status", name, "-n", namespace, "--timeout=60s")


def slots(node: Node) -> int:
    """Return the slots that the scheduler may give out on the node."""
    found = node.plane.api.get(f"/api/v1/nodes/{NAME}")["status"]["allocatable"]
    return int(found.get(names.COUNT, "0"))


def use_cards(node: Node, inventory: str) -> None:
    """Have the plugin simulate another inventory, and wait until the node offers it."""
    api, data = node.plane.api, {"MILLIGPU_INVENTORY_FILE": inventory}
    if api.read(SETTINGS)["data"]["MILLIGPU_INVENTORY_FILE"] != inventory:
        api.patch(SETTINGS, {"data": data})
        restart_plugin(node)
    wanted = CARDS[inventory] * PER_CARD
    eventually(lambda: slots(node) == wanted, f"{wanted} slots on the node")


def restart_plugin(node: Node) -> None:
    """Replace the plugin's pod, so that it reads its settings anew."""
    namespace = names.NODE_NAMESPACE
    node.plane.kubectl("rollout", "restart", "daemonset/plugin", "-n", namespace)
    rolled_out(node, "daemonset/plugin", namespace)


@contextmanager
def configured(node: Node, **settings: str) -> Iterator[None]:
    """Run the plugin with other settings for a while."""
    api, wanted = node.plane.api, {names.ENV_OURS + k.upper(): v for k, v in settings.items()}
    before = api.read(SETTINGS)["data"]
    api.patch(SETTINGS, {"data": wanted})
    restart_plugin(node)
    try:
        yield
    finally:
        api.patch(SETTINGS, {"data": {name: before.get(name) for name in wanted}})
        restart_plugin(node)
