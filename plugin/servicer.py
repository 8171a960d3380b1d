"""The five calls of the device plugin API: message in, pure function, message out."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

import grpc
import structlog

from plugin import allocation, edits
from plugin.allocation import RefusedError
from plugin.config import Placement, UnusableError
from plugin.edits import Edits
from plugin.gpu import Gpu
from plugin.metrics import Metrics, Rpc
from plugin.node import Node
from plugin.v1beta1 import deviceplugin_pb2 as api
from plugin.v1beta1 import deviceplugin_pb2_grpc as rpc
from vgpu import names
from vgpu.slots import Slot, Whole

MAX_MESSAGE = 4 * 2**20
"""Bytes that the kubelet takes in one message (grpc's default); above it the node shows nothing."""

Context = grpc.aio.ServicerContext[Any, Any]
Device = TypeVar("Device", Slot, Whole)
log = structlog.get_logger()


def device_list(devices: Mapping[str, bool], cards: int) -> api.ListAndWatchResponse:
    """Return the full list, without topology, or a NUMA policy would split shares.

    Raises UnusableError with the numbers when the kubelet would not take it.
    """
    response = api.ListAndWatchResponse(
        devices=[
            api.Device(ID=name, health="Healthy" if healthy else "Unhealthy")
            for name, healthy in devices.items()
        ]
    )
    size = response.ByteSize()
    if size > MAX_MESSAGE:
        raise UnusableError(
            f"the list of {len(devices)} devices of {cards} GPUs has {size} bytes;"
            f" the kubelet takes {MAX_MESSAGE}, which is enough for"
            f" {cards * MAX_MESSAGE // size} such GPUs"
        )
    return response


class DevicePlugin(rpc.DevicePluginServicer, ABC, Generic[Device]):
    """Serves one resource; which cards there are is the node's to say."""

    resource: str
    """Its name."""

    def __init__(self, node: Node, metrics: Metrics) -> None:
        self.watchers = 0
        """Open streams of ListAndWatch: 1 when a kubelet listens."""
        self.node = node
        self._metrics = metrics
        self._open = False

    @property
    @abstractmethod
    def devices(self) -> Mapping[str, bool]:
        """The ids that are served now, and whether the kubelet may hand each out."""

    @abstractmethod
    def prefer(
        self, free: Collection[Device], required: Collection[Device], size: int
    ) -> Iterable[Device]:
        """Return so many devices, of which some are required. Raises RefusedError."""

    @abstractmethod
    def allocate(self, devices: Collection[Device]) -> Edits:
        """Return what a container with these devices gets. Raises RefusedError."""

    @abstractmethod
    def known(self) -> Mapping[str, Device]:
        """Return the devices by their ids."""

    def well(self, cards: Collection[str]) -> list[Gpu]:
        """Return what is known of cards. Raises RefusedError for one that has just become ill."""
        found = [card for card in self.node.offer.cards if card.gpu.uuid in cards]
        for card in found:
            if card.fault:
                raise RefusedError(f"{card.gpu.uuid} is not well: {card.fault}")
        return [card.gpu for card in found]

    def set_open(self, value: bool) -> None:
        """Let streams live, or end them, so that a server can stop without cutting off calls."""
        self._open = value
        self.node.wake()

    def full_list(self) -> api.ListAndWatchResponse:
        """Return the list of devices. Raises UnusableError when it would never arrive."""
        return device_list(self.devices, len(self.node.offer.cards))

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
                if sent == (now := (self.node.beat, self.devices)):
                    await self.node.pulse()
                else:
                    sent = now
                    yield self.full_list()
        finally:
            self._watch(-1)

    def _watch(self, change: int) -> None:
        self.watchers += change
        self._metrics.watchers.labels(self.resource).set(self.watchers)

    async def GetPreferredAllocation(  # noqa: N802
        self, request: api.PreferredAllocationRequest, context: Context
    ) -> api.PreferredAllocationResponse:
        """Answer with the best choice for each container."""
        response = api.PreferredAllocationResponse()
        async with self._answering("GetPreferredAllocation", context):
            for asked in request.container_requests:
                # What is required is available to this pod alone: its init containers have it.
                required_ids = set(asked.must_include_deviceIDs)
                self.node.ledger.available(set(asked.available_deviceIDs) - required_ids)
                free = self._offered(asked.available_deviceIDs, asked.allocation_size)
                required = self._parse(required_ids)
                chosen = self.prefer(free, required, asked.allocation_size)
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
                made = self.allocate(self._parse(set(asked.devices_ids)))
                self.node.allocated(asked.devices_ids)
                response.container_responses.append(_message(made))
        return response

    async def PreStartContainer(  # noqa: N802
        self, request: api.PreStartContainerRequest, context: Context
    ) -> api.PreStartContainerResponse:
        """Do nothing: the options say that we need not be called."""
        return api.PreStartContainerResponse()

    def _parse(self, ids: Iterable[str]) -> list[Device]:
        known = self.known()
        try:
            return [known[name] for name in ids]
        except KeyError as unknown:
            raise RefusedError(f"no {self.resource} of this node: {unknown}") from None

    @asynccontextmanager
    async def _answering(self, call: Rpc, context: Context) -> AsyncIterator[None]:
        """Measure a call; a refusal ends it with a sentence that reaches the pod's status."""
        try:
            with self._metrics.call(self.resource, call):
                yield
        except RefusedError as refusal:
            log.warning("refused", call=call, why=str(refusal))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refusal))


class Shares(DevicePlugin[Slot]):
    """Serves slots, `milligpu.io/vgpu`."""

    resource = names.COUNT

    def __init__(self, node: Node, metrics: Metrics, placement: Placement) -> None:
        super().__init__(node, metrics)
        self._placement = placement

    @property
    def devices(self) -> Mapping[str, bool]:
        """The slots of all cards."""
        return self.node.offer.vgpu

    def known(self) -> Mapping[str, Slot]:
        """Return the slots by their ids."""
        return self.node.offer.slots

    def prefer(
        self, free: Collection[Slot], required: Collection[Slot], size: int
    ) -> Iterable[Slot]:
        """Return slots of one card, if one has so many."""
        return allocation.choose(free, required, size, self._placement)

    def allocate(self, devices: Collection[Slot]) -> Edits:
        """Return what a share of a card brings along."""
        self.node.asked(len(devices))
        card = allocation.one_card(devices, self.node.ledger.held)
        [gpu] = self.well([card])
        log.info("allocated", gpu=card, slots=len(devices))
        return edits.share(gpu, len(devices), self.node.handing)


class Wholes(DevicePlugin[Whole]):
    """Serves whole cards, `milligpu.io/pgpu`."""

    resource = names.WHOLE

    @property
    def devices(self) -> Mapping[str, bool]:
        """The cards, each as one device."""
        return self.node.offer.pgpu

    def known(self) -> Mapping[str, Whole]:
        """Return the whole cards by their ids."""
        return self.node.offer.wholes

    def prefer(
        self, free: Collection[Whole], required: Collection[Whole], size: int
    ) -> Iterable[Whole]:
        """Return any cards, in order."""
        return allocation.choose_wholes(free, required, size)

    def allocate(self, devices: Collection[Whole]) -> Edits:
        """Return what whole cards bring along."""
        cards = allocation.unshared(devices, self.node.ledger.held)
        gpus = self.well(cards)
        log.info("allocated", gpus=cards)
        return edits.whole(gpus, self.node.handing)


def _message(made: Edits) -> api.ContainerAllocateResponse:
    return api.ContainerAllocateResponse(
        envs=made.envs,
        mounts=[
            api.Mount(host_path=host, container_path=inside, read_only=read_only)
            for host, inside, read_only in made.mounts
        ],
        devices=[
            api.DeviceSpec(host_path=host, container_path=inside, permissions="rw")
            for host, inside in made.devices
        ],
        cdi_devices=[api.CDIDevice(name=name) for name in made.cdi],
    )
