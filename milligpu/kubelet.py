"""A stand-in for the kubelet's device manager: the real API over unix sockets, no node needed.

It chooses devices in the order of the real one (`devicesToAllocate` in Kubernetes 1.36) and rejects
pods with its words, so what the demo and the fast tests see is what a node would show.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Never, Self
from urllib.parse import quote

import grpc

from plugin.v1beta1 import deviceplugin_pb2 as api
from plugin.v1beta1 import deviceplugin_pb2_grpc as rpc
from vgpu import quantity

SOCKET = "kubelet.sock"
DIAL_SECONDS = 10
# A process shares connections by address; but a new socket at an old address is a new plugin.
CHANNEL = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))

Pod = dict[str, Any]
Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Grant:
    """What one container of an admitted pod got of one resource."""

    container: str
    resource: str
    ids: tuple[str, ...]
    env: dict[str, str]
    """The plugin's; in a container the pod's own variables of these names would win."""


class AdmissionError(Exception):
    """A pod was not admitted; the real kubelet would set it Failed with this reason and message."""

    def __init__(self, cause: str) -> None:
        self.reason = "UnexpectedAdmissionError"
        self.message = f"Allocate failed due to {cause}, which is unexpected"
        super().__init__(f"{self.reason}: {self.message}")


class Endpoint(NamedTuple):
    """A registered plugin."""

    channel: grpc.aio.Channel
    plugin: rpc.DevicePluginStub
    preferring: bool


class Kubelet(rpc.RegistrationServicer):
    """Serves `kubelet.sock` in a device plugin folder; use it with `async with`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.devices: dict[str, dict[str, bool]] = {}
        """By resource, the newest list: device id to whether it is healthy."""
        self.pods: dict[str, tuple[Grant, ...]] = {}
        """The admitted pods by `namespace/name`."""
        self.registrations = 0
        self._endpoints: dict[str, Endpoint] = {}
        self._watches: set[asyncio.Task[None]] = set()
        self._server: grpc.aio.Server | None = None
        self._admission = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Clear the folder of sockets, as the kubelet does, and serve; devices wait for plugins."""
        for path in self.folder.iterdir():
            if path.is_socket():
                path.unlink()
        self.devices = {name: dict.fromkeys(ids, False) for name, ids in self.devices.items()}
        self._server = grpc.aio.server()
        rpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(_address(self.folder / SOCKET))
        await self._server.start()

    async def stop(self) -> None:
        """Hang up on every plugin and remove the socket; pods keep what they have."""
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        for name in list(self._endpoints):
            await self.disconnect(name)
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def Register(self, request: api.RegisterRequest, context: Context) -> api.Empty:  # noqa: N802
        """Connect to a plugin, inside the call, as the kubelet does."""
        name = request.resource_name
        if request.version != "v1beta1":
            fault = f'requested API version "{request.version}" is not supported by kubelet.'
            fault += ' Supported version is ["v1beta1"]'
            await context.abort(grpc.StatusCode.UNKNOWN, fault)
        if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
            await context.abort(grpc.StatusCode.UNKNOWN, f'the ResourceName "{name}" is invalid')
        address = _address(self.folder / request.endpoint)
        channel = grpc.aio.insecure_channel(address, options=CHANNEL)
        plugin = rpc.DevicePluginStub(channel)
        try:
            await asyncio.wait_for(channel.channel_ready(), DIAL_SECONDS)
            options = await plugin.GetDevicePluginOptions(api.Empty())
        except (TimeoutError, grpc.aio.AioRpcError):
            await channel.close()
            await context.abort(grpc.StatusCode.UNKNOWN, "failed to dial device plugin")
        self.registrations += 1
        preferring = options.get_preferred_allocation_available
        self._endpoints[name] = Endpoint(channel, plugin, preferring)
        watch = asyncio.create_task(self._watch(name, plugin))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)
        return api.Empty()

    async def _watch(self, name: str, plugin: rpc.DevicePluginStub) -> None:
        with contextlib.suppress(grpc.aio.AioRpcError):
            async for response in plugin.ListAndWatch(api.Empty()):
                self.devices[name] = {d.ID: d.health == "Healthy" for d in response.devices}
        # By name, whoever that is by now: kubernetes#127803, which plugins must survive.
        await self.disconnect(name)

    async def disconnect(self, name: str) -> None:
        """Hang up on a resource's plugin; its devices become unhealthy."""
        if endpoint := self._endpoints.pop(name, None):
            self.devices[name] = dict.fromkeys(self.devices.get(name, ()), False)
            await endpoint.channel.close()

    def healthy(self, name: str) -> set[str]:
        """Return the ids of a resource's healthy devices."""
        return {device for device, healthy in self.devices.get(name, {}).items() if healthy}

    async def admit(self, pod: Pod) -> tuple[Grant, ...]:
        """Give each container, init containers first, the devices that its limits ask for.

        Resources that nobody registered are passed over, as by the kubelet. Raises AdmissionError.
        """
        async with self._admission:
            reusable: dict[str, set[str]] = {}
            grants: list[Grant] = []
            for container, once in _containers(pod):
                for name, amount in container.get("resources", {}).get("limits", {}).items():
                    needed = int(quantity.parse(str(amount)))
                    if name not in self.devices or needed == 0:
                        continue
                    again = reusable.setdefault(name, set())
                    ids = await self._choose(name, needed, again, grants)
                    grants.append(await self._allocate(container["name"], name, ids))
                    (again.update if once else again.difference_update)(ids)
            self.pods[pod_key(pod)] = tuple(grants)
            return tuple(grants)

    def free(self, key: str) -> None:
        """Let a pod end: its devices are free again. Raises KeyError for an unknown pod."""
        del self.pods[key]

    async def _choose(
        self, name: str, needed: int, reusable: set[str], earlier: list[Grant]
    ) -> set[str]:
        healthy = self.healthy(name)
        if not healthy:
            fault = "no healthy devices present; cannot allocate unhealthy devices"
            raise AdmissionError(f"{fault} {name}")
        chosen = _some(reusable, needed)
        if len(chosen) == needed:
            return chosen
        taken = {i for grants in (*self.pods.values(), earlier) for g in grants for i in g.ids}
        free, missing = healthy - taken, needed - len(chosen)
        if len(free) < missing:
            numbers = f"Requested: {missing}, Available: {len(free)}"
            raise AdmissionError(f"requested number of devices unavailable for {name}. {numbers}")
        preferred = await self._preferred(name, free | chosen, chosen, needed)
        chosen |= _some(preferred & free, missing)
        return chosen | _some(free - chosen, needed - len(chosen))

    async def _preferred(self, name: str, free: set[str], must: set[str], size: int) -> set[str]:
        endpoint = self._endpoint(name)
        if not endpoint.preferring:
            return set()
        one = api.ContainerPreferredAllocationRequest(
            available_deviceIDs=free, must_include_deviceIDs=must, allocation_size=size
        )
        request = api.PreferredAllocationRequest(container_requests=[one])
        try:
            response = await endpoint.plugin.GetPreferredAllocation(request)
        except grpc.aio.AioRpcError as error:
            _reject(error, "device plugin GetPreferredAllocation rpc failed with err: ")
        return {i for answer in response.container_responses[:1] for i in answer.deviceIDs}

    async def _allocate(self, container: str, name: str, ids: set[str]) -> Grant:
        one = api.ContainerAllocateRequest(devices_ids=ids)
        request = api.AllocateRequest(container_requests=[one])
        try:
            response = await self._endpoint(name).plugin.Allocate(request)
        except grpc.aio.AioRpcError as error:
            _reject(error)
        if not response.container_responses:
            raise AdmissionError("no containers return in allocation response")
        in_order = sorted(ids, key=lambda device: (len(device), device))
        env = dict(sorted(response.container_responses[0].envs.items()))
        return Grant(container, name, tuple(in_order), env)

    def _endpoint(self, name: str) -> Endpoint:
        if name not in self._endpoints:
            raise AdmissionError(f"endpoint {name} has been stopped")
        return self._endpoints[name]


def pod_key(pod: Pod) -> str:
    """Return `namespace/name` of a pod."""
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def _address(socket: Path) -> str:
    return f"unix:{quote(str(socket))}"


def _containers(pod: Pod) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield containers in the order of admission, and whether each ends before the next starts."""
    for container in pod["spec"].get("initContainers", ()):
        yield container, container.get("restartPolicy") != "Always"
    for container in pod["spec"]["containers"]:
        yield container, False


def _some(ids: set[str], count: int) -> set[str]:
    """Return any `count` of the ids: the order of a set is as arbitrary as that of Go's maps."""
    return set(list(ids)[:count])


def _reject(error: grpc.aio.AioRpcError, before: str = "") -> Never:
    code = error.code().name.title().replace("_", "")
    raise AdmissionError(f"{before}rpc error: code = {code} desc = {error.details()}") from error
