"""Another plugin on the node that lists the same cards, as NVIDIA's does."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from milligpu.kubelet import CHANNEL, Context
from plugin.v1beta1 import deviceplugin_pb2 as api
from plugin.v1beta1 import deviceplugin_pb2_grpc as rpc
from tests.cluster import shapes
from tests.cluster.eventually import eventually
from tests.cluster.node import NAME, Node
from tests.cluster.product import SETTINGS, restart_plugin, slots, use_cards
from tests.cluster.spaces import Space, asking
from vgpu import names
from vgpu.slots import PER_CARD

pytestmark = [pytest.mark.node, pytest.mark.long]

SOCKET = "neighbour.sock"


class Neighbour(rpc.DevicePluginServicer):
    """Lists devices, and gives nothing out."""

    def __init__(self, *ids: str) -> None:
        self._ids = ids
        self._end = asyncio.Event()

    async def GetDevicePluginOptions(  # noqa: N802
        self, request: api.Empty, context: Context
    ) -> api.DevicePluginOptions:
        return api.DevicePluginOptions()

    async def ListAndWatch(  # noqa: N802
        self, request: api.Empty, context: Context
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        devices = [api.Device(ID=each, health="Healthy") for each in self._ids]
        yield api.ListAndWatchResponse(devices=devices)
        await self._end.wait()

    async def GetPreferredAllocation(  # noqa: N802
        self, request: api.PreferredAllocationRequest, context: Context
    ) -> api.PreferredAllocationResponse:
        raise NotImplementedError

    async def Allocate(  # noqa: N802
        self, request: api.AllocateRequest, context: Context
    ) -> api.AllocateResponse:
        raise NotImplementedError

    async def PreStartContainer(  # noqa: N802
        self, request: api.PreStartContainerRequest, context: Context
    ) -> api.PreStartContainerResponse:
        raise NotImplementedError

    async def serve(self, folder: Path, registered: threading.Event, end: threading.Event) -> None:
        """Register for `nvidia.com/gpu`, and stay until the end."""
        server = grpc.aio.server()
        rpc.add_DevicePluginServicer_to_server(self, server)
        server.add_insecure_port(f"unix:{folder / SOCKET}")
        await server.start()
        kubelet = f"unix:{folder / 'kubelet.sock'}"
        async with grpc.aio.insecure_channel(kubelet, options=CHANNEL) as channel:
            request = api.RegisterRequest(
                version="v1beta1", endpoint=SOCKET, resource_name=names.NVIDIA_GPU
            )
            await rpc.RegistrationStub(channel).Register(request, timeout=15)
        registered.set()
        await asyncio.to_thread(end.wait)
        self._end.set()
        await server.stop(1)


@contextmanager
def neighbour(folder: Path, *ids: str) -> Iterator[None]:
    """Run a plugin for `nvidia.com/gpu` with devices of these ids."""
    registered, end = threading.Event(), threading.Event()
    serving = threading.Thread(
        target=lambda: asyncio.run(Neighbour(*ids).serve(folder, registered, end))
    )
    serving.start()
    try:
        assert registered.wait(20)
        yield
    finally:
        end.set()
        serving.join()


@pytest.fixture(autouse=True)
def _settling(node: Node) -> Iterator[None]:
    node.plane.api.patch(SETTINGS, {"data": {"MILLIGPU_SETTLE_SECONDS": "4"}})
    yield
    node.plane.api.patch(SETTINGS, {"data": {"MILLIGPU_SETTLE_SECONDS": "0"}})
    restart_plugin(node)
    eventually(lambda: slots(node) == 2 * PER_CARD, "both cards are shared again")


def whole(node: Node) -> int:
    """Return the whole cards that the scheduler may give out."""
    found = node.plane.api.get(f"/api/v1/nodes/{NAME}")["status"]["allocatable"]
    return int(found.get(names.WHOLE, "0"))


def test_a_card_that_another_plugin_lists_is_left_to_it(space: Space) -> None:
    node = space.node
    use_cards(node, "two-t4")
    space.create(shapes.pod("before", asking("main", "300m")))
    mine = space.reports(space.running("before"))["main"].env[names.ENV_GPU_UUID]
    with neighbour(node.device_plugins, mine):
        # What is held stays held, the other seventy slots of the card are not given out any more.
        eventually(lambda: slots(node) == PER_CARD + 30, "the card's free slots are withdrawn")
        assert whole(node) == 1
        space.create(shapes.pod("after", asking("main", "700m")))
        theirs = space.reports(space.running("after"))["main"].env[names.ENV_GPU_UUID]
        assert theirs != mine
        space.kubectl("delete", "pod", "before", "--now")
        eventually(lambda: slots(node) == PER_CARD, "nothing of the card is left")
        restart_plugin(node)
        eventually(lambda: slots(node) == PER_CARD, "the card is left out from the start")
