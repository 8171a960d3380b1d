"""A stand-in for the kubelet's device manager: the real API over unix sockets, no node needed."""

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

import grpc

from milligpu.workloads import role
from plugin import unix
from plugin.v1beta1 import deviceplugin_pb2 as api
from plugin.v1beta1 import deviceplugin_pb2_grpc as rpc
from vgpu import quantity
from webhook.pod import Container, Json, containers

SOCKET = "kubelet.sock"
CHANNEL = (unix.AUTHORITY, unix.FRESH)

Ids: TypeAlias = frozenset[str]
Env: TypeAlias = dict[str, str]
Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Grant:
    """What one container of an admitted pod got of one resource."""

    container: str
    resource: str
    ids: Ids
    env: Env
    """The plugin's; in a container the pod's own variables of these names would win."""


class AdmissionError(Exception):
    """A pod was not admitted; the real kubelet would set it Failed with this reason and message."""

    def __init__(self, cause: str) -> None:
        text = f"Allocate failed due to {cause}, which is unexpected"
        super().__init__(f"UnexpectedAdmissionError: {text}")


class Kubelet(rpc.RegistrationServicer):
    """Serves `kubelet.sock` in a device plugin folder; use it with `async with`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.devices: dict[str, dict[str, bool]] = {}
        """By resource, the newest list: device id to whether it is healthy."""
        self.pods: dict[str, tuple[Grant, ...]] = {}
        """The pods by `namespace/name`; one that is taken out has ended."""
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._plugins: dict[str, rpc.DevicePluginStub] = {}
        self._watches: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._server = grpc.aio.server()
        rpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(unix.address(self.folder / SOCKET))
        starting = asyncio.ensure_future(self._server.start())
        try:
            await asyncio.shield(starting)  # half a start cannot be taken back
        except asyncio.CancelledError:
            await starting
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        for channel in self._channels.values():
            await channel.close()
        await self._server.stop(None)

    async def Register(self, request: api.RegisterRequest, context: Context) -> api.Empty:  # noqa: N802
        """Connect to a plugin and follow its list of devices."""
        name = request.resource_name
        self._channels[name] = await self._dial(request)
        self._plugins[name] = rpc.DevicePluginStub(self._channels[name])
        self._watches.append(asyncio.create_task(self._watch(name, self._plugins[name])))
        return api.Empty()

    async def _dial(self, request: api.RegisterRequest) -> grpc.aio.Channel:
        address = unix.address(self.folder / request.endpoint)
        return grpc.aio.insecure_channel(address, options=CHANNEL)

    async def _watch(self, name: str, plugin: rpc.DevicePluginStub) -> None:
        with contextlib.suppress(grpc.aio.AioRpcError):
            async for response in plugin.ListAndWatch(api.Empty()):
                self._received(name, response)

    def _received(self, name: str, response: api.ListAndWatchResponse) -> None:
        self.devices[name] = {d.ID: d.health == "Healthy" for d in response.devices}

    def healthy(self, name: str) -> Ids:
        """Return the ids of a resource's healthy devices."""
        return frozenset(each for each, healthy in self.devices.get(name, {}).items() if healthy)

    def free(self, name: str) -> Ids:
        """Return the healthy devices that no pod has."""
        return self.healthy(name).difference(*(g.ids for held in self.pods.values() for g in held))

    async def admit(self, pod: Json) -> tuple[Grant, ...]:
        """Give each container, init containers first, the devices that its limits ask for.

        Resources that nobody registered are passed over, as by the kubelet. Raises AdmissionError.
        """
        key, reusable = pod_key(pod), dict[str, Ids]()
        self.pods[key] = ()
        try:
            for item in containers(pod, ""):
                await self._allocate(key, item, reusable)
        except BaseException:
            self.pods.pop(key, None)
            raise
        return self.pods[key]

    async def _allocate(self, key: str, item: Container, reusable: dict[str, Ids]) -> None:
        """Give one container what it asks for; later ones may use an init container's again."""
        for name, amount in item.sides()[0].items():
            if name in self.devices and (needed := int(quantity.parse(str(amount)))):
                again = reusable.get(name, Ids())
                ids, env = await self._grant(name, needed, again, self.free(name))
                self.pods[key] += (Grant(item.name, name, ids, env),)
                reusable[name] = again | ids if role(item) == "init container" else again - ids

    async def _grant(self, name: str, needed: int, reusable: Ids, free: Ids) -> tuple[Ids, Env]:
        """Return devices and the plugin's environment, by the two calls of a real kubelet."""
        try:
            ids = await self._choose(name, needed, frozenset(list(reusable)[:needed]), free)
            one = api.ContainerAllocateRequest(devices_ids=ids)
            request = api.AllocateRequest(container_requests=[one])
            response = await self._plugins[name].Allocate(request)
        except grpc.aio.AioRpcError as error:
            code = error.code().name.title().replace("_", "")
            cause = f"rpc error: code = {code} desc = {error.details()}"
            raise AdmissionError(cause) from error
        return ids, dict(sorted(response.container_responses[0].envs.items()))

    async def _choose(self, name: str, needed: int, must: Ids, free: Ids) -> Ids:
        """Return the devices that the plugin prefers; some `must` be among them."""
        one = api.ContainerPreferredAllocationRequest(
            available_deviceIDs=free | must, must_include_deviceIDs=must, allocation_size=needed
        )
        request = api.PreferredAllocationRequest(container_requests=[one])
        response = await self._plugins[name].GetPreferredAllocation(request)
        return frozenset(response.container_responses[0].deviceIDs)


def pod_key(pod: Json) -> str:
    """Return `namespace/name` of a pod."""
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
