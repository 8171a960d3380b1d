"""Who has which devices, as the kubelet lists it on its socket for pod resources."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from plugin import unix
from plugin.v1 import podresources_pb2 as api
from plugin.v1 import podresources_pb2_grpc as rpc
from vgpu import names, slots

DEADLINE = 5.0
"""Seconds for a call: the kubelet answers from memory."""
MAX_MESSAGE = 16 * 2**20
"""Bytes of an answer; each device is a message of its own in it."""
OPTIONS = (unix.AUTHORITY, unix.FRESH, ("grpc.max_receive_message_length", MAX_MESSAGE))


@dataclass(frozen=True, slots=True, order=True)
class Holding:
    """What a container of a listed pod has of our two resources."""

    namespace: str
    pod: str
    container: str
    ids: tuple[str, ...]
    """Sorted."""


@dataclass(frozen=True, slots=True)
class Pods:
    """The node's active pods; init containers are left out by the kubelet, other than sidecars."""

    holdings: tuple[Holding, ...] = ()
    """Sorted."""
    names: frozenset[tuple[str, str]] = frozenset()
    """Namespace and name of every pod, with a grant or without."""
    foreign: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The devices of other resources, held or not."""


async def look(socket: Path) -> Pods:
    """Ask the kubelet. Raises grpc.aio.AioRpcError."""
    async with grpc.aio.insecure_channel(unix.address(socket), options=OPTIONS) as channel:
        kubelet = rpc.PodResourcesListerStub(channel)
        listed = await kubelet.List(api.ListPodResourcesRequest(), timeout=DEADLINE)
        request = api.AllocatableResourcesRequest()
        known = await kubelet.GetAllocatableResources(request, timeout=DEADLINE)
    return gather(listed.pod_resources, known.devices)


def gather(pods: Iterable[api.PodResources], known: Iterable[api.ContainerDevices]) -> Pods:
    """Make of the kubelet's answers what we want to know."""
    foreign, holdings = _by_resource(known), []
    for pod in pods:
        for container in pod.containers:
            has = _by_resource(container.devices)
            granted = (each for ours in names.GRANT_KEYS for each in has.pop(ours, ()))
            if ids := sorted(slots.valid(granted)):
                holdings.append(Holding(pod.namespace, pod.name, container.name, tuple(ids)))
            for name, others in has.items():
                foreign[name] |= others
    for ours in names.GRANT_KEYS:
        foreign.pop(ours, None)
    return Pods(
        tuple(sorted(holdings)),
        frozenset((pod.namespace, pod.name) for pod in pods),
        {name: frozenset(ids) for name, ids in foreign.items()},
    )


def _by_resource(devices: Iterable[api.ContainerDevices]) -> defaultdict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for each in devices:
        found[each.resource_name].update(each.device_ids)
    return found
