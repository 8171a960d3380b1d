"""What the real kubelet knows of devices and when it writes it down: the stand-ins' own truth.

See `pkg/kubelet/cm/devicemanager` and `pkg/kubelet/apis/podresources` in Kubernetes 1.36, and
`tests/cluster/test_node_ledger.py`, which sees the same of the real one.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from plugin import checkpoint
from plugin.v1 import podresources_pb2 as api


@dataclass(frozen=True, slots=True)
class Entry:
    """What a container was allocated of a resource."""

    container: str
    resource: str
    ids: frozenset[str]


class DeviceManager:
    """Remembers by pod; that a pod has ended it only sees when it has a reason to look."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / checkpoint.NAME
        self.entries: dict[str, tuple[Entry, ...]] = {}

    def update(self, active: Collection[str]) -> None:
        """Forget the pods that have ended: before each container's allocation and at each List."""
        self.entries = {pod: each for pod, each in self.entries.items() if pod in active}

    def insert(self, pod: str, entry: Entry) -> None:
        """Take in an Allocate's answer."""
        self.entries[pod] = (*self.entries.get(pod, ()), entry)

    def allocated(self) -> frozenset[str]:
        """Return the ids that are not free."""
        return frozenset(id_ for has in self.entries.values() for each in has for id_ in each.ids)

    def write(self, registered: Mapping[str, Iterable[str]]) -> None:
        """Write the checkpoint: after a container's allocation and at each plugin's device list."""
        entries = [
            {
                "PodUID": pod,
                "ContainerName": each.container,
                "ResourceName": each.resource,
                "DeviceIDs": {"-1": sorted(each.ids)},
                "AllocResp": "",
            }
            for pod, has in self.entries.items()
            for each in has
        ]
        known = {name: sorted(ids) for name, ids in registered.items()}
        data = {"PodDeviceEntries": entries or None, "RegisteredDevices": known}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"Data": data, "Checksum": 0}))
        new.rename(self.path)

    def restore(self) -> None:
        """Start anew from the checkpoint; one that cannot be read is passed over."""
        self.entries = {}
        try:
            entries = json.loads(self.path.read_text())["Data"]["PodDeviceEntries"] or []
        except (FileNotFoundError, ValueError):
            return
        for each in entries:
            ids = frozenset(id_ for ids in each["DeviceIDs"].values() for id_ in ids)
            self.insert(each["PodUID"], Entry(each["ContainerName"], each["ResourceName"], ids))

    def listed(self, pods: Mapping[str, Collection[str]]) -> list[api.PodResources]:
        """Answer List for pods, each with the containers that are shown: one device a message."""
        answer = []
        for pod, containers in pods.items():
            namespace, _, name = pod.partition("/")
            answer.append(
                api.PodResources(
                    name=name,
                    namespace=namespace,
                    containers=[
                        api.ContainerResources(name=shown, devices=self._devices(pod, shown))
                        for shown in containers
                    ],
                )
            )
        return answer

    def _devices(self, pod: str, container: str) -> list[api.ContainerDevices]:
        return [
            api.ContainerDevices(resource_name=each.resource, device_ids=[id_])
            for each in self.entries.get(pod, ())
            if each.container == container
            for id_ in each.ids
        ]
