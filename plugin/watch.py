"""The loops that look: at the driver, and at what the kubelet says of its pods."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Final, TypeVar

import grpc
import structlog

from plugin import checkpoint, edits, pods
from plugin.config import Config
from plugin.gpu import InventoryError
from plugin.inventory import Inventory
from plugin.metrics import Metrics
from plugin.node import Node

HANGS_SECONDS: Final = 60.0
"""How long a call of the driver may take before its cards count as out of order."""
AFTER_EVENT_SECONDS: Final = 1.0
"""How soon the cards are looked at after an error event, which bounds a storm of them."""

CALM_SECONDS: Final = 0.5
"""After a call of the kubelet's, how long another may belong to it."""
BUSY_SECONDS: Final = 10.0
"""How long a look at the pods is put off at most."""
AGAIN_SECONDS: Final = 1.0
"""How soon the pods are looked at again when that will tell more."""

T = TypeVar("T")
log = structlog.get_logger()


async def cards(node: Node, inventory: Inventory, config: Config, metrics: Metrics) -> None:
    """Look at the cards for ever; in the pauses the driver's error events are heard."""
    while True:
        try:
            node.see(await _answer(node, inventory.probe), edits.handing(config))
            node.ill(await _answer(node, inventory.faults))
        except (InventoryError, OSError) as error:  # device files that cannot be looked for, too
            node.see(InventoryError(str(error)))
        await _listen(node, inventory, config.probe_seconds, metrics)


async def _listen(node: Node, inventory: Inventory, seconds: float, metrics: Metrics) -> None:
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    while (rest := until - clock()) > 0:
        for event in await _answer(node, partial(inventory.wait, rest), rest):
            kind = node.struck(event)
            log.warning("XID", gpu=event.uuid, xid=event.xid, kind=kind)
            metrics.events.labels(event.uuid, event.xid, kind).inc()
            until = min(until, clock() + AFTER_EVENT_SECONDS)
        await asyncio.sleep(min(until - clock(), AFTER_EVENT_SECONDS))


async def _answer(node: Node, call: Callable[[], T], asleep: float = 0.0) -> T:
    """Return what the driver answers; tell the node when that takes too long, and wait on.

    `asleep`: seconds that the call is meant to take.
    """
    answer = asyncio.ensure_future(in_thread(call))
    try:
        done, _ = await asyncio.wait([answer], timeout=asleep + HANGS_SECONDS)
        if not done:
            node.see(InventoryError(f"the driver has not answered for {HANGS_SECONDS:.0f} s"))
        return await answer
    finally:
        answer.cancel()


async def holdings(node: Node, config: Config) -> None:
    """Look for ever at who has what, by the kubelet's checkpoint and its list of pods."""
    failing = False
    while True:
        await _calm(node)
        try:
            async with node.looking:
                listed = await pods.look(config.pod_resources)
            failing = False
        except Exception as error:  # noqa: BLE001 - whatever it answered, it may do better next time
            listed = None
            why = error.details() if isinstance(error, grpc.aio.AioRpcError) else repr(error)
            (log.debug if failing else log.warning)("pods not listed", why=why)
            failing = True
        again = node.polled(listed, checkpoint.read(config.device_plugin_dir))
        pause = AGAIN_SECONDS if again else config.poll_seconds
        await asyncio.sleep(min(pause, config.poll_seconds))


async def _calm(node: Node) -> None:
    """Wait until the kubelet is not in the middle of giving something out, but not for ever.

    Asked for its pods then, a kubelet that sees one's end forgets what it is about to give out, and
    gives it out twice (1.36's `UpdateAllocatedDevices`).
    """
    for _ in range(round(BUSY_SECONDS / CALM_SECONDS)):
        if not node.is_called(CALM_SECONDS):
            return
        await asyncio.sleep(CALM_SECONDS)


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
