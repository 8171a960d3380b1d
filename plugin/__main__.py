"""The device plugin: `python -m plugin`."""

import asyncio
import contextlib
import os
import signal
import sys

import structlog

from plugin import checkpoint, log, session, watch
from plugin.config import Config, UnusableError
from plugin.http import Http
from plugin.inventory import Inventory, open_inventory
from plugin.metrics import Metrics
from plugin.node import Node
from plugin.resources import SHARES, WHOLES
from plugin.series import Series
from plugin.servicer import DevicePlugin
from vgpu import settings


async def run(config: Config, inventory: Inventory) -> None:
    """Serve the inventory's cards until cancelled."""
    metrics, node = Metrics(), Node(config)
    metrics.registry.register(Series(node, config.node_name))
    resources = DevicePlugin(SHARES, node, metrics), DevicePlugin(WHOLES, node, metrics)
    async with (
        Http(node, resources, metrics).listening(config.host, config.port) as port,
        asyncio.TaskGroup() as looking,
    ):
        structlog.get_logger().debug("listening", port=port)
        looking.create_task(watch.cards(node, inventory, config, metrics))
        async with session.alone(config.device_plugin_dir), asyncio.TaskGroup() as tasks:
            # Not before we are alone: another plugin may have given something out until then.
            node.start(checkpoint.read(config.device_plugin_dir))
            tasks.create_task(watch.holdings(node, config))
            await node.has_cards()
            for each in resources:
                tasks.create_task(session.run(config.device_plugin_dir, each, metrics))


async def _start(config: Config) -> None:
    for resource in (SHARES, WHOLES):
        session.check(config.device_plugin_dir / resource.endpoint)
    await run(config, await watch.in_thread(lambda: open_inventory(config)))


async def _until_signal(config: Config) -> str:
    """Run until a signal cancels it, or until it cannot go on; return why."""
    task, why = asyncio.create_task(_start(config)), ""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except* UnusableError as faults:  # one for each of what runs at the same time
        fault: BaseException = faults
        while isinstance(fault, BaseExceptionGroup):
            fault = fault.exceptions[0]
        why = str(fault)
    return why


def main() -> int:
    """Run the plugin. Returns the exit status: 2 for bad settings, 1 for what cannot work."""
    try:
        config = settings.read(Config, os.environ)
    except settings.SettingsError as fault:
        sys.stderr.write(f"{fault}\n")
        return 2
    log.configure(config.log_level)
    with contextlib.suppress(asyncio.CancelledError):
        sys.stderr.write(f"{asyncio.run(_until_signal(config))}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
