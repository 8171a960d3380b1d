"""What the node offers: its cards, whether each is well, and the slots that follow from that."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from plugin.gpu import Gpu, unfit
from vgpu import slots


@dataclass(frozen=True, slots=True)
class Card:
    """A card that could be shared at least once since the start."""

    gpu: Gpu
    fault: str = ""
    """Why all its slots are unhealthy, as half a sentence; empty if they are not."""


def update(known: Iterable[Card], seen: Iterable[Gpu], absence: str) -> tuple[Card, ...]:
    """Return the known cards and the fit ones that are seen now.

    A known one that is absent or no longer fit stays, with that as its fault: pods may hold its
    slots, and ids that the kubelet's list lacks for a while would be given out twice later.
    """
    cards = {card.gpu.uuid: replace(card, fault=absence) for card in known}
    for gpu in seen:
        fault = unfit(gpu)
        if gpu.uuid in cards or not fault:
            cards[gpu.uuid] = Card(gpu, fault)
    return tuple(sorted(cards.values(), key=lambda card: (card.gpu.index, card.gpu.uuid)))


class Offer:
    """The cards at one moment, with all that calls look up, made once and not for each call."""

    def __init__(self, cards: tuple[Card, ...] = ()) -> None:
        self.cards = cards
        self.gpus = {card.gpu.uuid: card.gpu for card in cards}
        """By uuid."""
        self.slots = {str(slot): slot for uuid in self.gpus for slot in slots.of_card(uuid)}
        """By device id."""
        well = {card.gpu.uuid for card in cards if not card.fault}
        self.healthy = {name: slot.card in well for name, slot in self.slots.items()}
        """By device id, in order: whether the kubelet may hand it out."""
