"""What the node's kubelet knows of devices: from its own checkpoint, and what it told of them."""

import json
from dataclasses import dataclass

from tests.cluster.api import Json
from tests.cluster.node import NAME, Node
from vgpu import names

CHECKPOINT = "kubelet_internal_checkpoint"


@dataclass(frozen=True, slots=True)
class Held:
    """What one container has of one resource."""

    pod: str
    """The pod's uid."""
    resource: str
    ids: frozenset[str]

    @property
    def cards(self) -> frozenset[str]:
        """The cards that the ids are of."""
        return frozenset(each.partition("::")[0] for each in self.ids)


def _data(node: Node) -> Json:
    data: Json = json.loads((node.device_plugins / CHECKPOINT).read_text())["Data"]
    return data


def registered(node: Node, resource: str = names.COUNT) -> frozenset[str]:
    """Return the devices of a resource that the kubelet knows to be healthy."""
    return frozenset(_data(node)["RegisteredDevices"].get(resource) or ())


def held(node: Node) -> list[Held]:
    """Return who has which devices, also of pods that have ended and are not forgotten yet."""
    return [
        Held(
            each["PodUID"],
            each["ResourceName"],
            frozenset(device for ids in each["DeviceIDs"].values() for device in ids),
        )
        for each in _data(node)["PodDeviceEntries"] or ()
    ]


def allocatable(node: Node, resource: str = names.COUNT) -> int:
    """Return how many of a resource the scheduler may give out on the node."""
    status = node.plane.api.get(f"/api/v1/nodes/{NAME}")["status"]
    return int(status["allocatable"].get(resource, "0"))


def lives(pods: list[Json]) -> list[tuple[str, str, int]]:
    """Return what changes when a pod or one of its containers does not live on."""
    return [
        (pod["metadata"]["uid"], each["containerID"], each["restartCount"])
        for pod in pods
        for each in pod["status"]["containerStatuses"]
    ]
