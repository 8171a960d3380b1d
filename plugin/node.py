"""The node as it is known now: what it offers, and what there is to say about it."""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import structlog

from plugin import cdi, edits, health, holes
from plugin.checkpoint import Checkpoint
from plugin.claims import Claims
from plugin.config import Config, UnusableError
from plugin.edits import Handing
from plugin.gpu import Event, Gpu, InventoryError, Probe, named, unfit
from plugin.health import Health
from plugin.holes import Sizes
from plugin.ledger import Ledger
from plugin.offer import Card, Offer, update
from plugin.pods import Pods
from vgpu import names

log = structlog.get_logger()

State = Literal["starting", "idle", "broken", "serving"]
"""Idle: there is no card to share. Broken: there should be, but none can be used."""


class Node:
    """Takes in what the driver and the kubelet say, and holds the newest offer that follows.

    Readers are woken when it changes. `now` is any steady clock, in seconds.
    """

    def __init__(self, config: Config, now: Callable[[], float] = time.monotonic) -> None:
        self.state: State = "starting"
        self.notes: tuple[str, ...] = ("the cards have not been read yet",)
        """Half sentences about what is wrong or left out."""
        self.handing = Handing(config)
        """How cards are handed out now."""
        self.offer = Offer()
        self.ledger = Ledger()
        self.beat = 0
        """Counts the times that the lists are to be sent although they may not have changed."""
        self.config = config
        self.now = now
        self._settles: float | None = None
        """Until when cards that are new to us are held back; None before the start."""
        self._found: Probe | InventoryError | None = None
        self._claims = Claims()
        self._health = Health(config.ignored_xids)
        self.looking = asyncio.Lock()
        """Held while the kubelet is asked for its pods."""
        self._called = -math.inf
        self._due = False
        self.sizes = Sizes()
        """Those that shares were asked for in."""
        self._pulse = asyncio.Event()

    def start(self, checkpoint: Checkpoint | None) -> None:
        """Take in what the kubelet has written down, before anything is offered."""
        self._settles = self.now() + self.config.settle_seconds
        self.ledger.start(checkpoint)
        self._claims.start(checkpoint or Checkpoint())
        self._update()

    def see(self, found: Probe | InventoryError, handing: Handing | None = None) -> None:
        """Take in the outcome of one look at the cards, and at the files they are handed out by."""
        self._found = found
        self.handing = handing or self.handing
        self._update()

    def ill(self, faults: Mapping[str, str]) -> None:
        """Take in what the driver says of the cards' health, by uuid."""
        self._health = health.polled(self._health, faults, self.now())
        self._update()

    def struck(self, event: Event) -> health.Kind:
        """Take in an error event of the driver, and return what kind it is."""
        self._health = health.struck(self._health, event, self.now())
        self._update()
        return health.kind(event.xid, self.config.ignored_xids)

    def polled(self, pods: Pods | None, checkpoint: Checkpoint | None) -> bool:
        """Take in who has what, as far as the kubelet could tell.

        Returns whether it will soon know more, for it has been asked to write it down anew.
        """
        self._claims.polled(pods, checkpoint)
        if again := self.ledger.polled(pods, checkpoint, self.now()):
            self.beat += 1
            self.wake()
        self._update()
        return again

    def asked(self, size: int) -> None:
        """Take in that somebody asks for so many slots, whether that is granted or refused."""
        self.sizes.asked(size, self.now())
        self._soon()

    def allocated(self, ids: Iterable[str]) -> None:
        """Take in what a container gets."""
        self.ledger.allocated(ids, self.now())
        self._soon()

    def _soon(self) -> None:
        """Work out what follows from a call when it has its answer."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(lambda: self._show(self.offer.cards))

    def called(self) -> None:
        """Take in that the kubelet is giving something out."""
        self._called = self.now()

    def is_called(self, seconds: float) -> bool:
        """Whether the kubelet has called within so many seconds."""
        return self.now() - self._called < seconds

    def wake(self) -> None:
        """Wake all who wait for a pulse."""
        self._pulse.set()
        self._pulse = asyncio.Event()

    async def pulse(self) -> None:
        """Wait until something has changed."""
        await self._pulse.wait()

    async def has_cards(self) -> None:
        """Wait until there is a card to share."""
        while not self.offer.cards:
            await self.pulse()

    def _update(self) -> None:
        """Work out the offer anew, and tell whom it concerns."""
        if (found := self._found) is None or self._settles is None:
            return  # not even the cards that somebody holds part of are known well enough
        probe = Probe(notes=(str(found),)) if isinstance(found, InventoryError) else found
        absence = "; ".join(probe.notes) or "the driver no longer lists it"
        cards = update(self._known(), probe.gpus, absence, self._fault, self._withdrawn)
        before, offer = self.offer, self._show(cards)
        if cards != before.cards:
            _tell(before.cards, offer, self.config.device_list_strategy)
        notes = list(probe.notes)
        try:
            cdi.write(offer.gpus.values(), self.handing)
        except UnusableError as error:
            if not before.cards:
                raise
            notes.append(str(error))  # what was written before does for the cards that there were
        notes += (
            f"{gpu.uuid} is left out: {why}"
            for gpu in probe.gpus
            if gpu.uuid not in offer.gpus and (why := self._fault(gpu) or self._withdrawn(gpu))
        )
        settling = bool(probe.gpus) and not cards and self._settling
        state = "starting" if settling else _state(cards, isinstance(found, InventoryError))
        self._tell_state(state, tuple(notes))

    def _show(self, cards: tuple[Card, ...]) -> Offer:
        """Offer what there is of the cards, and wake those who send the lists if they differ."""
        self._due = False
        before = self.offer
        self.offer = Offer(cards, self.ledger.held, self._room, wholes=self.ledger.known)
        if (self.offer.vgpu, self.offer.pgpu) != (before.vgpu, before.pgpu):
            self.wake()
        return self.offer

    def _room(self, free: Mapping[str, int]) -> Mapping[str, int]:
        """Return how many of its free slots each card shows."""
        match self.config.advertise:
            case "all":
                return free
            case "largest-hole":
                return holes.largest(free)
        slots = self.offer.slots
        running = {len(it.ids) for it in self.ledger.holdings if it.ids[0] in slots}
        return holes.fitting(free, running | self.sizes.remembered(self.now()))

    def _known(self) -> tuple[Card, ...]:
        """Return the cards of which the kubelet must go on to hear."""
        seen = [card for card in self.offer.cards if card.gpu.index >= 0]
        unseen = self.ledger.held.keys() - {card.gpu.uuid for card in seen}
        return (*seen, *(Card(Gpu(uuid, -1, None, "unknown", 0)) for uuid in unseen))

    def _unfit(self, gpu: Gpu) -> str:
        config = self.config
        if (config.cards and not named(gpu, config.cards)) or named(gpu, config.cards_except):
            return "the settings say so"
        return unfit(gpu) or edits.lacks(gpu, self.handing)

    def _fault(self, gpu: Gpu) -> str:
        return self._unfit(gpu) or health.fault(self._health, gpu.uuid, self.now())

    @property
    def _settling(self) -> bool:
        return self._settles is not None and self.now() < self._settles

    def _withdrawn(self, gpu: Gpu) -> str:
        claim = self._claims.of(gpu.uuid, settling=self._settling)
        if claim and not self.config.beside_others:
            return f"another plugin lists it as {claim}"
        if self._settling and not self._claims.served and gpu.uuid not in self.ledger.held:
            return "the node is new to us, and another plugin may want to list it"
        return ""

    def _tell_state(self, state: State, notes: tuple[str, ...]) -> None:
        if (state, notes) != (self.state, self.notes):
            self.state, self.notes = state, notes
            (log.error if state == "broken" else log.info)(state, notes=notes)


def _tell(before: tuple[Card, ...], offer: Offer, by: str) -> None:
    well = sum(not card.fault for card in offer.cards)
    gpus = "GPU" if well == 1 else "GPUs"
    slots = sum(offer.vgpu.values())
    log.info("advertising %d x %s for %d %s", slots, names.COUNT, well, gpus, by=by)
    for card in set(offer.cards).difference(before):
        about = {"gpu": card.gpu.uuid, "model": card.gpu.model}
        if card.fault:
            log.warning("unhealthy", **about, fault=card.fault)
        elif card.withdrawn:
            log.warning("withdrawn", **about, why=card.withdrawn)


def _state(cards: tuple[Card, ...], failed: bool) -> State:
    if failed or (cards and all(card.fault for card in cards)):
        return "broken"
    return "serving" if cards else "idle"
