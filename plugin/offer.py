"""What the node offers: its cards, whether each is well, and the devices that follow from that."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from plugin.gpu import Gpu
from vgpu import slots
from vgpu.slots import Slot, Whole

Held = Mapping[str, Collection[str]]
"""By card, the ids of the devices that containers hold."""


@dataclass(frozen=True, slots=True)
class Card:
    """A card that could be shared once since the start, or of which somebody has a part."""

    gpu: Gpu
    fault: str = ""
    """Why all its devices are unhealthy, as half a sentence; empty if they are not."""
    withdrawn: str = ""
    """Why nobody else gets any of it, as half a sentence; empty if they do."""


def update(
    known: Iterable[Card],
    seen: Collection[Gpu],
    absence: str,
    fault: Callable[[Gpu], str],
    withdrawn: Callable[[Gpu], str],
) -> tuple[Card, ...]:
    """Return the known cards and those seen now that nothing speaks against.

    A known one that is absent or no longer fit stays, with that as its fault: pods may hold its
    slots, and ids that the kubelet's list lacks for a while would be given out twice later.
    """
    cards = {card.gpu.uuid: card for card in known}
    for uuid in cards.keys() - {gpu.uuid for gpu in seen}:
        cards[uuid] = replace(cards[uuid], fault=absence)
    for gpu in seen:
        card = Card(gpu, fault(gpu), withdrawn(gpu))
        if gpu.uuid in cards or not (card.fault or card.withdrawn):
            cards[gpu.uuid] = card
    return tuple(sorted(cards.values(), key=lambda card: (card.gpu.index, card.gpu.uuid)))


class Offer:
    """The devices of the cards at one moment, with all that calls look up, made once for them."""

    def __init__(
        self,
        cards: tuple[Card, ...] = (),
        held: Held | None = None,
        show: Callable[[Mapping[str, int]], Mapping[str, int]] = lambda free: free,
        *,
        wholes: bool = True,
    ) -> None:
        """Take the cards and who holds what of them.

        `show` says of how many free slots of each card to show how many; `wholes`, whether to show
        free cards as whole ones.
        """
        held = held or {}
        self.cards = cards
        self.gpus = {card.gpu.uuid: card.gpu for card in cards}
        """By uuid."""
        self.free = {card.gpu.uuid: _free(card, held) for card in cards}
        """Slots that could be given out, by card."""
        shown = show(self.free)
        self.slots, well = _slots(tuple(self.gpus))
        """By device id."""
        others: dict[str, bool] = {}
        self.wholes: dict[str, Whole] = {}
        self.pgpu: dict[str, bool] = {}
        """By device id: whether the kubelet may hand it out or has done so."""
        for card in cards:
            uuid, mine = card.gpu.uuid, held.get(card.gpu.uuid, ())
            ids, room = devices(uuid), shown.get(uuid, 0)
            if not 0 < room == self.free[uuid]:
                free = (name for name in ids if name not in mine)
                others |= dict.fromkeys(ids, False) | dict.fromkeys(islice(free, room), True)
                if not card.fault:
                    # What is held stays healthy, or the scheduler would count it as gone and used.
                    others |= dict.fromkeys(ids.keys() & mine, True)
            name = str(Whole(uuid))
            self.wholes[name] = Whole(uuid)
            unused = wholes and self.free[uuid] == slots.PER_CARD
            self.pgpu[name] = not card.fault and (unused or name in mine)
        self.vgpu = {**well, **others} if others else well
        """By device id, in order: whether the kubelet may hand it out or has done so."""


def used(card: str, held: Held) -> int:
    """Return how many slots of a card containers have: all, where one has it whole."""
    mine = held.get(card, ())
    return slots.PER_CARD if str(Whole(card)) in mine else len(mine)


def _free(card: Card, held: Held) -> int:
    return 0 if card.fault or card.withdrawn else slots.PER_CARD - used(card.gpu.uuid, held)


@lru_cache(maxsize=4)
def _slots(cards: tuple[str, ...]) -> tuple[Mapping[str, Slot], Mapping[str, bool]]:
    """Return all slots by their ids, and all of these as healthy."""
    found = {name: slot for card in cards for name, slot in devices(card).items()}
    return found, dict.fromkeys(found, True)


@lru_cache(maxsize=256)
def devices(card: str) -> dict[str, Slot]:
    """Return the slots of a card by their ids; not to be changed."""
    return {str(slot): slot for slot in slots.of_card(card)}
