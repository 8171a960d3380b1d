"""Our two resources: what the node offers of each, which devices are best, what they bring."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog

from plugin import allocation, edits
from plugin.allocation import RefusedError
from plugin.edits import Edits
from plugin.gpu import Gpu
from plugin.node import Node
from plugin.offer import Offer
from vgpu import names
from vgpu.slots import Slot, Whole

Device = TypeVar("Device", Slot, Whole)
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Resource(Generic[Device]):
    """What tells one from the other; the functions raise RefusedError."""

    name: str
    endpoint: str
    """File name of its socket."""
    known: Callable[[Offer], Mapping[str, Device]]
    """The devices by their ids."""
    healthy: Callable[[Offer], Mapping[str, bool]]
    """By id, whether the kubelet may hand it out."""
    prefer: Callable[[Node, Collection[Device], Collection[Device], int], Iterable[Device]]
    """Of free ones the best so many, of which some are required."""
    give: Callable[[Node, Collection[Device]], Edits]
    """What a container with these devices gets."""


def _prefer_shares(
    node: Node, free: Collection[Slot], required: Collection[Slot], size: int
) -> Iterable[Slot]:
    now = node.now()
    then = node.sizes.then(size, now)
    chosen = allocation.choose(free, required, size, node.config.placement, then)
    if required and len({slot.card for slot in chosen}) > 1:
        node.sizes.in_vain(len(required), size, now)
    return chosen


def _share(node: Node, devices: Collection[Slot]) -> Edits:
    node.asked(len(devices))
    card = allocation.one_card(devices, node.ledger.held)
    [gpu] = _well(node, [card])
    log.info("allocated", gpu=card, slots=len(devices))
    return edits.share(gpu, len(devices), node.handing)


def _whole(node: Node, devices: Collection[Whole]) -> Edits:
    cards = allocation.unshared(devices, node.ledger.held)
    gpus = _well(node, cards)
    log.info("allocated", gpus=cards)
    return edits.whole(gpus, node.handing)


def _well(node: Node, cards: Collection[str]) -> list[Gpu]:
    """Return what is known of cards. Raises RefusedError for one that has just become ill."""
    found = [card for card in node.offer.cards if card.gpu.uuid in cards]
    for card in found:
        if card.fault:
            raise RefusedError(f"{card.gpu.uuid} is not well: {card.fault}")
    return [card.gpu for card in found]


SHARES: Final[Resource[Slot]] = Resource(
    names.COUNT,
    "milligpu-vgpu.sock",
    known=lambda offer: offer.slots,
    healthy=lambda offer: offer.vgpu,
    prefer=_prefer_shares,
    give=_share,
)
WHOLES: Final[Resource[Whole]] = Resource(
    names.WHOLE,
    "milligpu-pgpu.sock",
    known=lambda offer: offer.wholes,
    healthy=lambda offer: offer.pgpu,
    prefer=lambda _, free, required, size: allocation.choose_wholes(free, required, size),
    give=_whole,
)
