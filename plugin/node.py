"""The node as it was last seen: what it offers, and what there is to say about it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import structlog

from plugin.gpu import InventoryError, Probe, unfit
from plugin.inventory import Inventory
from plugin.metrics import Metrics, State
from plugin.offer import Card, Offer, update
from vgpu import names

T = TypeVar("T")
log = structlog.get_logger()


class Node:
    """Holds the newest offer; readers are woken when it changes."""

    def __init__(self, metrics: Metrics) -> None:
        self.state: State = "starting"
        self.notes: tuple[str, ...] = ("the cards have not been read yet",)
        """Half sentences about what is wrong or left out."""
        self.offer = Offer()
        self._metrics = metrics
        self._pulse = asyncio.Event()

    def see(self, found: Probe | InventoryError) -> None:
        """Take in the outcome of one look at the cards."""
        probe = Probe(notes=(str(found),)) if isinstance(found, InventoryError) else found
        absence = "; ".join(probe.notes) or "the driver no longer lists it"
        cards = update(self.offer.cards, probe.gpus, absence)
        if cards != self.offer.cards:
            before, self.offer = self.offer.healthy, Offer(cards)
            self._metrics.offered(self.offer)
            if self.offer.healthy != before:
                self._tell_offer()
                self.wake()
        left_out = ((gpu, unfit(gpu)) for gpu in probe.gpus)
        notes = (*probe.notes, *(f"{gpu.uuid} is left out: {why}" for gpu, why in left_out if why))
        self._tell_state(_state(cards, isinstance(found, InventoryError)), notes)

    def _tell_offer(self) -> None:
        healthy, cards = sum(self.offer.healthy.values()), self.offer.cards
        well = sum(not card.fault for card in cards)
        gpus = "GPU" if well == 1 else "GPUs"
        log.info("advertising %d x %s for %d %s", healthy, names.COUNT, well, gpus)
        for card in cards:
            if card.fault:
                log.warning("unhealthy", gpu=card.gpu.uuid, model=card.gpu.model, fault=card.fault)

    def _tell_state(self, state: State, notes: tuple[str, ...]) -> None:
        if (state, notes) != (self.state, self.notes):
            self.state, self.notes = state, notes
            (log.error if state == "broken" else log.info)(state, notes=notes)
            self._metrics.state.state(state)

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

    async def watch(self, inventory: Inventory, seconds: float) -> None:
        """Look at the cards for ever, with a pause of so many seconds."""
        while True:
            try:
                self.see(await in_thread(inventory.probe))
            except InventoryError as error:
                self.see(error)
            await asyncio.sleep(seconds)


def _state(cards: tuple[Card, ...], failed: bool) -> State:
    if failed or (cards and all(card.fault for card in cards)):
        return "broken"
    return "serving" if cards else "idle"


async def in_thread(call: Callable[[], T]) -> T:
    """Run a blocking call in a daemon thread: a driver that hangs must not keep us from ending."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # so that it can be settled when nobody waits any more

    def work() -> None:
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001 - it is raised again where it is awaited
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return await asyncio.wrap_future(future)
