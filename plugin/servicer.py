"""The five calls of the device plugin API: message in, pure function, message out."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import structlog

from plugin import allocation, edits
from plugin.allocation import RefusedError
from plugin.config import UnusableError
from plugin.metrics import Metrics, Rpc
from plugin.node import Node
from plugin.offer import Offer
from plugin.v1beta1 import deviceplugin_pb2 as api
from plugin.v1beta1 import deviceplugin_pb2_grpc as rpc
from vgpu.slots import Slot

MAX_MESSAGE = 4 * 2**20
"""Bytes that the kubelet takes in one message (grpc's default); above it the node shows nothing."""

Context = grpc.aio.ServicerContext[Any, Any]
log = structlog.get_logger()


def device_list(offer: Offer) -> api.ListAndWatchResponse:
    """Return the full list, without topology, or a NUMA policy would split shares.

    Raises UnusableError with the numbers when the kubelet would not take it.
    """
    response = api.ListAndWatchResponse(
        devices=[
            api.Device(ID=name, health="Healthy" if healthy else "Unhealthy")
            for name, healthy in offer.healthy.items()
        ]
    )
    size = response.ByteSize()
    if size > MAX_MESSAGE:
        raise UnusableError(
            f"the list of {len(offer.healthy)} slots of {len(offer.cards)} GPUs has {size} bytes;"
            f" the kubelet takes {MAX_MESSAGE}, which is enough for"
            f" {len(offer.cards) * MAX_MESSAGE // size} such GPUs"
        )
    return response


class DevicePlugin(rpc.DevicePluginServicer):
    """Serves slots; which cards there are is the node's to say."""

    def __init__(self, node: Node, metrics: Metrics, margin_mib: int) -> None:
        self.watchers = 0
        """Open streams of ListAndWatch: 1 when a kubelet listens."""
        self._node = node
        self._metrics = metrics
        self._margin_mib = margin_mib
        self._open = False

    def set_open(self, value: bool) -> None:
        """Let streams live, or end them, so that a server can stop without cutting off calls."""
        self._open = value
        self._node.wake()

    @property
    def offer(self) -> Offer:
        """What is served now."""
        return self._node.offer

    async def GetDevicePluginOptions(  # noqa: N802
        self, request: api.Empty, context: Context
    ) -> api.DevicePluginOptions:
        """Ask to be asked for preferences; nothing is to be done before a container's start."""
        return api.DevicePluginOptions(get_preferred_allocation_available=True)

    async def ListAndWatch(  # noqa: N802
        self, request: api.Empty, context: Context
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        """Send the full list at once, and again at each change."""
        self._watch(+1)
        try:
            sent = None
            while self._open:
                if sent is self.offer:
                    await self._node.pulse()
                else:
                    sent = self.offer
                    yield device_list(sent)
        finally:
            self._watch(-1)

    def _watch(self, change: int) -> None:
        self.watchers += change
        self._metrics.watchers.set(self.watchers)

    async def GetPreferredAllocation(  # noqa: N802
        self, request: api.PreferredAllocationRequest, context: Context
    ) -> api.PreferredAllocationResponse:
        """Answer with the best fit for each container."""
        response = api.PreferredAllocationResponse()
        async with self._answering("GetPreferredAllocation", context):
            for asked in request.container_requests:
                free = self._slots(asked.available_deviceIDs)
                required = self._slots(asked.must_include_deviceIDs)
                chosen = allocation.choose(free, required, asked.allocation_size)
                response.container_responses.add(deviceIDs=map(str, chosen))
        return response

    async def Allocate(  # noqa: N802
        self, request: api.AllocateRequest, context: Context
    ) -> api.AllocateResponse:
        """Answer with each container's environment, which follows from its ids alone."""
        response = api.AllocateResponse()
        async with self._answering("Allocate", context):
            for asked in request.container_requests:
                slots = set(self._slots(asked.devices_ids))
                gpu = self.offer.gpus[allocation.one_card(slots)]
                envs = edits.environment(gpu, len(slots), self._margin_mib)
                response.container_responses.add(envs=envs)
                log.info("allocated", gpu=gpu.uuid, slots=len(slots))
        return response

    async def PreStartContainer(  # noqa: N802
        self, request: api.PreStartContainerRequest, context: Context
    ) -> api.PreStartContainerResponse:
        """Do nothing: the options say that we need not be called."""
        return api.PreStartContainerResponse()

    def _slots(self, ids: Iterable[str]) -> list[Slot]:
        known = self.offer.slots
        try:
            return [known[name] for name in ids]
        except KeyError as unknown:
            raise RefusedError(f"no slot of this node: {unknown}") from None

    @asynccontextmanager
    async def _answering(self, call: Rpc, context: Context) -> AsyncIterator[None]:
        """Measure a call; a refusal ends it with a sentence that reaches the pod's status."""
        try:
            with self._metrics.call(call):
                yield
        except RefusedError as refusal:
            log.warning("refused", call=call, why=str(refusal))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refusal))
