"""The five calls of the device plugin API: message in, pure function, message out."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Generic

import grpc
import structlog

from plugin.allocation import RefusedError
from plugin.config import UnusableError
from plugin.metrics import Metrics
from plugin.node import Node
from plugin.resources import Device, Resource
from plugin.v1beta1 import deviceplugin_pb2 as api
from plugin.v1beta1 import deviceplugin_pb2_grpc as rpc

MAX_MESSAGE = 4 * 2**20
"""Bytes that the kubelet takes in one message (grpc's default); above it the node shows nothing."""

LOOK_SECONDS = 0.2
"""How long an allocation waits for our own look at the kubelet's pods, which takes some ms."""

Context = grpc.aio.ServicerContext[Any, Any]
log = structlog.get_logger()


def device_list(devices: Mapping[str, bool], cards: int) -> api.ListAndWatchResponse:
    """Return the full list, without topology, or a NUMA policy would split shares.

    Raises UnusableError with the numbers when the kubelet would not take it.
    """
    words = {True: "Healthy", False: "Unhealthy"}
    listed = (api.Device(ID=name, health=words[healthy]) for name, healthy in devices.items())
    response = api.ListAndWatchResponse(devices=listed)
    size = response.ByteSize()
    if size > MAX_MESSAGE:
        raise UnusableError(
            f"the list of {len(devices)} devices of {cards} GPUs has {size} bytes;"
            f" the kubelet takes {MAX_MESSAGE}, which is enough for"
            f" {cards * MAX_MESSAGE // size} such GPUs"
        )
    return response


class DevicePlugin(rpc.DevicePluginServicer, Generic[Device]):
    """Serves one resource; which cards there are is the node's to say."""

    def __init__(self, resource: Resource[Device], node: Node, metrics: Metrics) -> None:
        self.resource: Resource[Device] = resource
        self.watchers = 0
        """Open streams of ListAndWatch: 1 when a kubelet listens."""
        self.unknown = ""
        """Why the kubelet did not know us when it was last tried, as half a sentence."""
        self._node = node
        self._metrics = metrics
        self._open = False
        metrics.watchers.labels(resource.name).set_function(lambda: self.watchers)

    @property
    def devices(self) -> Mapping[str, bool]:
        """The ids that are served now, and whether the kubelet may hand each out."""
        return self.resource.healthy(self._node.offer)

    def set_open(self, value: bool) -> None:
        """Let streams live, or end them, so that a server can stop without cutting off calls."""
        self._open = value
        self._node.wake()

    def full_list(self) -> api.ListAndWatchResponse:
        """Return the list of devices. Raises UnusableError when it would never arrive."""
        return device_list(self.devices, len(self._node.offer.cards))

    async def GetDevicePluginOptions(  # noqa: N802
        self, request: api.Empty, context: Context
    ) -> api.DevicePluginOptions:
        """Ask to be asked for preferences; nothing is to be done before a container's start."""
        return api.DevicePluginOptions(get_preferred_allocation_available=True)

    async def ListAndWatch(  # noqa: N802
        self, request: api.Empty, context: Context
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        """Send the full list at once, and again at each change."""
        self.watchers += 1
        try:
            sent = None
            while self._open:
                if sent == (now := (self._node.beat, self.devices)):
                    await self._node.pulse()
                else:
                    sent = now
                    yield self.full_list()
        finally:
            self.watchers -= 1

    async def GetPreferredAllocation(  # noqa: N802
        self, request: api.PreferredAllocationRequest, context: Context
    ) -> api.PreferredAllocationResponse:
        """Answer with the best choice for each container."""
        response = api.PreferredAllocationResponse()
        if self._node.looking.locked():  # that look must not fall between here and Allocate's end
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS), self._node.looking:
                    pass
        async with self._answering("GetPreferredAllocation", context):
            for asked in request.container_requests:
                # What is required is available to this pod alone: its init containers have it.
                required_ids = set(asked.must_include_deviceIDs)
                self._node.ledger.available(set(asked.available_deviceIDs) - required_ids)
                free = self._offered(asked.available_deviceIDs, asked.allocation_size)
                required = self._parse(required_ids)
                size = asked.allocation_size
                chosen = self.resource.prefer(self._node, free, required, size)
                response.container_responses.add(deviceIDs=map(str, chosen))
        return response

    def _offered(self, available: Collection[str], size: int) -> list[Device]:
        """Return what is available and was not withdrawn since the kubelet last heard of us.

        Where that is too little it is all of it: a short answer would be filled up at random.
        """
        devices = self.devices
        still = [name for name in available if devices.get(name)]
        return self._parse(still if len(still) >= size else available)

    async def Allocate(  # noqa: N802
        self, request: api.AllocateRequest, context: Context
    ) -> api.AllocateResponse:
        """Answer with each container's edits, which follow from its ids alone."""
        response = api.AllocateResponse()
        async with self._answering("Allocate", context):
            for asked in request.container_requests:
                devices = self._parse(set(asked.devices_ids))
                made = self.resource.give(self._node, devices)
                self._node.allocated(asked.devices_ids)
                response.container_responses.append(made)
        return response

    async def PreStartContainer(  # noqa: N802
        self, request: api.PreStartContainerRequest, context: Context
    ) -> api.PreStartContainerResponse:
        """Do nothing: the options say that we need not be called."""
        return api.PreStartContainerResponse()

    def _parse(self, ids: Iterable[str]) -> list[Device]:
        known = self.resource.known(self._node.offer)
        try:
            return [known[name] for name in ids]
        except KeyError as unknown:
            raise RefusedError(f"no {self.resource.name} of this node: {unknown}") from None

    @asynccontextmanager
    async def _answering(self, call: str, context: Context) -> AsyncIterator[None]:
        """Measure a call; a refusal ends it with a sentence that reaches the pod's status."""
        start, outcome = time.perf_counter(), "failed"
        self._node.called()
        try:
            yield
            outcome = "answered"
        except RefusedError as refusal:
            outcome = "refused"
            log.warning("refused", call=call, why=str(refusal))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refusal))
        finally:
            self._node.called()
            calls = self._metrics.calls.labels(self.resource.name, call, outcome)
            calls.observe(time.perf_counter() - start)
