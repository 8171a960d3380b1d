"""Which slots a container should get (the best fit), and which it cannot have."""

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import chain, islice
from operator import attrgetter

from vgpu.slots import Slot

_NUMBER = attrgetter("number")


class RefusedError(Exception):
    """What is asked for cannot be given; the message ends up in the pod's status."""


def choose(free: Iterable[Slot], required: Collection[Slot], size: int) -> tuple[Slot, ...]:
    """Return exactly `size` slots, the required ones among them: of one card if any has room.

    That card is the fullest that fits. Where none fits, the slots still number `size` (the kubelet
    would fill up a shorter answer at random) and lie on the fewest cards, for Allocate to refuse.
    The answer does not depend on the order of the input. Raises RefusedError for impossible sizes.
    """
    cards: dict[str, dict[int, Slot]] = {}
    for slot in chain(free, required):
        cards.setdefault(slot.card, {})[slot.number] = slot
    chosen = dict.fromkeys(sorted(required))
    room = sum(map(len, cards.values()))
    if not len(chosen) <= size <= room:
        raise RefusedError(f"{size} slots of {room} available, {len(chosen)} of them required")
    for card in _order(cards, {slot.card for slot in chosen}, size):
        rest = (slot for slot in sorted(cards[card].values(), key=_NUMBER) if slot not in chosen)
        chosen |= dict.fromkeys(list(islice(rest, size - len(chosen))))
    return tuple(chosen)


def _order(cards: dict[str, dict[int, Slot]], held: set[str], size: int) -> list[str]:
    """Return the cards to take slots from, one after the other."""
    fitting = [card for card in cards if len(cards[card]) >= size and held <= {card}]
    if fitting:
        return [min(fitting, key=lambda card: (len(cards[card]), card))]
    return sorted(cards, key=lambda card: (card not in held, -len(cards[card]), card))


def one_card(slots: Collection[Slot]) -> str:
    """Return the card that all slots are of. Raises RefusedError when there is not just one."""
    cards = Counter(slot.card for slot in slots)
    if len(cards) != 1:
        parts = ", ".join(f"{card}: {count}" for card, count in sorted(cards.items()))
        raise RefusedError(
            f"{len(slots)} slots of {len(cards)} cards ({parts}):"
            " a share is part of one card, but the node's free slots lie on several"
        )
    return next(iter(cards))
