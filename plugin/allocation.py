"""Which slots or whole cards a container should get, and which it cannot have."""

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import chain, islice
from operator import attrgetter

from plugin.config import Placement
from plugin.offer import Held
from vgpu.slots import Slot, Whole

_NUMBER = attrgetter("number")


class RefusedError(Exception):
    """What is asked for cannot be given; the message ends up in the pod's status."""


def choose(
    free: Iterable[Slot],
    required: Collection[Slot],
    size: int,
    placement: Placement = "packed",
    then: int = 0,
) -> tuple[Slot, ...]:
    """Return exactly `size` slots, the required ones among them: of one card if any has room.

    That card is the fullest that fits, or the emptiest to spread; one with room for `then` if there
    is one, where the pod's next container may have to have these slots and more. Where none fits,
    the slots still number `size` (the kubelet would fill up a shorter answer at random) and lie on
    the fewest cards, for Allocate to refuse. The answer does not depend on the order of the input.
    Raises RefusedError for impossible sizes.
    """
    cards: dict[str, dict[int, Slot]] = {}
    for slot in chain(free, required):
        cards.setdefault(slot.card, {})[slot.number] = slot
    chosen = dict.fromkeys(sorted(required))
    room = sum(map(len, cards.values()))
    if not len(chosen) <= size <= room:
        raise RefusedError(f"{size} slots of {room} available, {len(chosen)} of them required")
    sizes = (max(size, then), size)
    for card in _order(cards, {slot.card for slot in chosen}, sizes, placement):
        rest = (slot for slot in sorted(cards[card].values(), key=_NUMBER) if slot not in chosen)
        chosen |= dict.fromkeys(list(islice(rest, size - len(chosen))))
    return tuple(chosen)


def _order(
    cards: dict[str, dict[int, Slot]], held: set[str], sizes: Iterable[int], placement: Placement
) -> list[str]:
    """Return the cards to take slots from, one after the other, by the first size that fits."""
    sign = 1 if placement == "packed" else -1
    for size in sizes:
        if fitting := [card for card in cards if len(cards[card]) >= size and held <= {card}]:
            return [min(fitting, key=lambda card: (sign * len(cards[card]), card))]
    return sorted(cards, key=lambda card: (card not in held, -len(cards[card]), card))


def choose_wholes(
    free: Iterable[Whole], required: Collection[Whole], size: int
) -> tuple[Whole, ...]:
    """Return exactly `size` cards, the required ones among them. Raises RefusedError."""
    chosen = dict.fromkeys(sorted(required))
    rest = sorted(set(free).difference(chosen))
    room = len(chosen) + len(rest)
    if not len(chosen) <= size <= room:
        raise RefusedError(f"{size} cards of {room} available, {len(chosen)} of them required")
    return (*chosen, *rest[: size - len(chosen)])


def one_card(slots: Collection[Slot], held: Held) -> str:
    """Return the card that all slots are of.

    Raises RefusedError when there is not just one, or when somebody has it whole.
    """
    cards = Counter(slot.card for slot in slots)
    if len(cards) != 1:
        parts = ", ".join(f"{card}: {count}" for card, count in sorted(cards.items()))
        raise RefusedError(
            f"{len(slots)} slots of {len(cards)} cards ({parts}):"
            " a share is part of one card, but the node's free slots lie on several"
        )
    card = next(iter(cards))
    if str(Whole(card)) in held.get(card, ()):
        raise RefusedError(f"{len(slots)} slots of {card}, which another container has whole")
    return card


def unshared(wholes: Collection[Whole], held: Held) -> tuple[str, ...]:
    """Return the cards, in order. Raises RefusedError when somebody has a slot of one."""
    for whole in sorted(wholes):
        if used := set(held.get(whole.card, ())) - {str(whole)}:
            raise RefusedError(f"{whole.card} as a whole, but {len(used)} of its slots are in use")
    return tuple(sorted({whole.card for whole in wholes}))
