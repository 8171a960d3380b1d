"""Runs the device plugin inside a test's own event loop, on cards that the test lays down."""

import asyncio
import contextlib
import functools
import itertools
import json
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, Self

import grpc

from milligpu import kubelet
from milligpu.kubelet import AdmissionError, Context, Grant
from milligpu.processes import free_port
from milligpu.workloads import role
from plugin import unix
from plugin.__main__ import run
from plugin.config import Config
from plugin.gpu import MIB, Event, Gpu, InventoryError, Probe
from plugin.v1 import podresources_pb2 as podresources
from plugin.v1 import podresources_pb2_grpc as resources
from plugin.v1beta1 import deviceplugin_pb2 as api
from plugin.v1beta1 import deviceplugin_pb2_grpc as rpc
from tests.device_manager import DeviceManager, Entry
from vgpu import names
from webhook.pod import Container, Json, containers

P = ParamSpec("P")
LOOPBACK = "127.0.0.1"
DEADLINE = 5
"""Seconds in which the slots must be back after whatever happened to the kubelet's connection."""


def in_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run an async test in an event loop of its own."""

    @functools.wraps(test)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(50):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return wrapper


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Return as soon as the check holds. Raises TimeoutError after the deadline."""
    async with asyncio.timeout(DEADLINE):
        for pause in itertools.repeat(0.02):
            if await check():
                return
            await asyncio.sleep(pause)


def pod_resources(folder: Path) -> Path:
    """Return where the kubelet of a folder lists its pods: a short path, however long that is."""
    return Path(tempfile.gettempdir(), f"pr-{zlib.crc32(bytes(folder)):08x}.sock")


class Kubelet(kubelet.Kubelet, resources.PodResourcesListerServicer):
    """The stand-in, with the checks, the order of choice, the files and the words of the real one.

    See `devicemanager` in Kubernetes 1.36: its registration server, and `devicesToAllocate`.
    """

    dial_seconds = 10.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.registrations = 0
        self.messages = 0
        """Device lists that plugins have sent."""
        self.ready = True
        """Whether it has seen all its pods; until then none is listed, and none is seen to end."""
        self.others: dict[str, frozenset[str]] = {}
        """Healthy devices of other plugins, by resource."""
        self.pod_resources = pod_resources(folder)
        """The socket of its own that tells which pod has which devices."""
        self.manager = DeviceManager(folder)
        self._shown: dict[str, tuple[str, ...]] = {}
        """By pod, the containers that are listed."""
        self._preferring: dict[str, bool] = {}
        self._admission = asyncio.Lock()

    async def __aenter__(self) -> Self:
        for path in self.folder.iterdir():
            if path.is_socket():
                path.unlink()
        self.manager.restore()
        self._lister = grpc.aio.server()
        resources.add_PodResourcesListerServicer_to_server(self, self._lister)
        self._lister.add_insecure_port(unix.address(self.pod_resources))
        await super().__aenter__()
        await self._lister.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._lister.stop(None)
        await super().__aexit__()
        self.devices = {name: dict.fromkeys(ids, False) for name, ids in self.devices.items()}

    async def disconnect(self, name: str) -> None:
        """Hang up on a resource's plugin; its devices become unhealthy."""
        if channel := self._channels.pop(name, None):
            self.devices[name] = dict.fromkeys(self.devices.get(name, ()), False)
            await channel.close()

    async def restart(self, ready: bool = True) -> None:
        """Stop and start: a new socket, and plugins have to register again."""
        await self.__aexit__()
        self.ready = ready
        await self.__aenter__()

    async def List(  # noqa: N802
        self, request: podresources.ListPodResourcesRequest, context: Context
    ) -> podresources.ListPodResourcesResponse:
        """Look at which pods have ended, and list the others."""
        active = {pod: self._shown.get(pod, ()) for pod in self.pods} if self.ready else {}
        self._update()
        return podresources.ListPodResourcesResponse(pod_resources=self.manager.listed(active))

    async def GetAllocatableResources(  # noqa: N802
        self, request: podresources.AllocatableResourcesRequest, context: Context
    ) -> podresources.AllocatableResourcesResponse:
        """List the healthy devices of all plugins."""
        every = {**{name: self.healthy(name) for name in self.devices}, **self.others}
        devices = [
            podresources.ContainerDevices(resource_name=name, device_ids=[each])
            for name, ids in every.items()
            for each in ids
        ]
        return podresources.AllocatableResourcesResponse(devices=devices)

    def _update(self) -> None:
        if self.ready:
            self.manager.update(self.pods)

    def _write(self) -> None:
        every = {name: self.healthy(name) for name in self.devices}
        self.manager.write({**every, **self.others})

    async def listed(self, name: str, count: int, timeout: float = 10) -> frozenset[str]:  # noqa: ASYNC109
        """Wait until a resource has exactly so many healthy devices and return their ids.

        Raises TimeoutError that says how many there are.
        """
        limit = asyncio.get_running_loop().time() + timeout
        while len(healthy := self.healthy(name)) != count:
            if asyncio.get_running_loop().time() > limit:
                raise TimeoutError(f"{len(healthy)} of {count} x {name} after {timeout} s")
            await asyncio.sleep(0.005)
        return healthy

    async def Register(self, request: api.RegisterRequest, context: Context) -> api.Empty:  # noqa: N802
        """Refuse what is no plugin, and call it inside the call."""
        name = request.resource_name
        if request.version != "v1beta1":
            fault = f'requested API version "{request.version}" is not supported by kubelet.'
            fault += ' Supported version is ["v1beta1"]'
            await context.abort(grpc.StatusCode.UNKNOWN, fault)
        if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
            await context.abort(grpc.StatusCode.UNKNOWN, f'the ResourceName "{name}" is invalid')
        try:
            answer = await super().Register(request, context)
        except (TimeoutError, grpc.aio.AioRpcError):
            await context.abort(grpc.StatusCode.UNKNOWN, "failed to dial device plugin")
        self.registrations += 1
        return answer

    async def _dial(self, request: api.RegisterRequest) -> grpc.aio.Channel:
        channel = await super()._dial(request)
        try:
            await asyncio.wait_for(channel.channel_ready(), self.dial_seconds)
            options = await rpc.DevicePluginStub(channel).GetDevicePluginOptions(api.Empty())
        except BaseException:
            await channel.close()
            raise
        preferring = options.get_preferred_allocation_available
        self._preferring[request.resource_name] = preferring
        return channel

    def _received(self, name: str, response: api.ListAndWatchResponse) -> None:
        super()._received(name, response)
        self.messages += 1
        self._write()

    async def _watch(self, name: str, plugin: rpc.DevicePluginStub) -> None:
        await super()._watch(name, plugin)
        # By name, whoever that is by now: kubernetes#127803, which plugins must survive.
        await self.disconnect(name)

    async def admit(self, pod: Json) -> tuple[Grant, ...]:
        """Admit one pod after the other."""
        async with self._admission:
            listed = (each.name for each in containers(pod, "") if role(each) != "init container")
            self._shown[kubelet.pod_key(pod)] = tuple(listed)
            return await super().admit(pod)

    def free(self, name: str) -> frozenset[str]:
        """Return the healthy devices that it has given to nobody, as far as it remembers."""
        return self.healthy(name) - self.manager.allocated()

    async def _allocate(
        self, key: str, item: Container, reusable: dict[str, frozenset[str]]
    ) -> None:
        self._update()
        before = len(self.pods[key])
        await super()._allocate(key, item, reusable)
        for grant in self.pods[key][before:]:
            self.manager.insert(key, Entry(grant.container, grant.resource, grant.ids))
        if self.pods[key][before:]:
            self._write()

    async def _choose(
        self, name: str, needed: int, must: frozenset[str], free: frozenset[str]
    ) -> frozenset[str]:
        if not self.healthy(name):
            fault = "no healthy devices present; cannot allocate unhealthy devices"
            raise AdmissionError(f"{fault} {name}")
        missing = needed - len(must)
        if not missing:
            return must
        if len(free) < missing:
            numbers = f"Requested: {missing}, Available: {len(free)}"
            raise AdmissionError(f"requested number of devices unavailable for {name}. {numbers}")
        preferred = frozenset[str]()
        if self._preferring[name]:
            preferred = await super()._choose(name, needed, must, free)
        chosen = must | _some(preferred & free, missing)
        return chosen | _some(free - chosen, needed - len(chosen))


def _some(ids: frozenset[str], count: int) -> frozenset[str]:
    """Return any `count` of the ids: the order of a set is as arbitrary as that of Go's maps."""
    return frozenset(list(ids)[:count])


def t4(letter: str, index: int) -> Gpu:
    return Gpu(f"GPU-{letter}", index, index, "Tesla T4", 16384 * MIB, 1024 * MIB)


A, B = t4("a", 0), t4("b", 1)


class Cards:
    """An inventory whose next answer can be changed at any time."""

    def __init__(self, *gpus: Gpu) -> None:
        self.answer: Probe | InventoryError = Probe(gpus)
        self.ill: dict[str, str] = {}
        """What the driver says of cards' health, by uuid."""
        self.events: list[Event] = []
        """Those that are to happen next."""

    def probe(self) -> Probe:
        if isinstance(self.answer, InventoryError):
            raise self.answer
        return self.answer

    def faults(self) -> dict[str, str]:
        return self.ill

    def wait(self, seconds: float) -> tuple[Event, ...]:
        until = time.monotonic() + seconds
        while not self.events and time.monotonic() < until:
            time.sleep(0.01)
        events, self.events = tuple(self.events), []
        return events

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Plugin:
    """A running plugin, seen through its HTTP port."""

    task: asyncio.Task[None]
    port: int

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Send any bytes; return status and body, or 0 where there is no answer."""
        reader, writer = await asyncio.open_connection(LOOPBACK, self.port)
        try:
            writer.write(request)
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        return int(head.split(b" ")[1]) if head else 0, body

    async def get(self, path: str) -> tuple[int, bytes]:
        return await self.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    async def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((await self.get("/healthz"))[1])
        return state

    async def becomes(self, state: str) -> dict[str, Any]:
        """Wait for a state and return all of it."""

        async def reached() -> bool:
            return bool((await self.state())["state"] == state)

        await eventually(reached)
        return await self.state()

    async def metric(self, line: str) -> float:
        """Return the value of one line of /metrics, named with its labels."""
        text = (await self.get("/metrics"))[1].decode()
        [value] = [row.split()[-1] for row in text.splitlines() if row.startswith(line + " ")]
        return float(value)

    async def stop(self) -> None:
        """End it as SIGTERM does."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


@contextlib.asynccontextmanager
async def plugin(folder: Path, cards: Cards, **settings: Any) -> AsyncIterator[Plugin]:
    """Run a plugin; it may not have registered yet."""
    quick = {"settle_seconds": 0, "probe_seconds": 0.1, "poll_seconds": 0.1}
    place = {"device_plugin_dir": folder, "pod_resources": pod_resources(folder)}
    http = {"host": LOOPBACK, "port": free_port()}
    config = Config(**{**quick, **place, **http, **settings})
    running = Plugin(asyncio.create_task(run(config, cards)), config.port)
    try:
        while not running.task.done():  # a failure to start is raised when it is stopped
            with contextlib.suppress(ConnectionRefusedError):
                await running.state()
                break
            await asyncio.sleep(0.01)
        yield running
    finally:
        await running.stop()


def container(name: str, slots: int, **fields: Any) -> dict[str, Any]:
    limits = {names.COUNT: str(slots), "cpu": "1"} if slots else {}
    return {"name": name, "resources": {"limits": limits}, **fields}


def pod(
    name: str, *containers: dict[str, Any] | int, init: tuple[dict[str, Any], ...] = ()
) -> Json:
    """Return a pod; a number stands for a container with so many slots."""
    filled = [container(f"c{n}", c) if isinstance(c, int) else c for n, c in enumerate(containers)]
    return {
        "metadata": {"name": name, "namespace": "test"},
        "spec": {"initContainers": list(init), "containers": filled},
    }
