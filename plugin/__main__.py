"""The device plugin: `python -m plugin`."""

import asyncio
import contextlib
import os
import signal
import sys

import structlog

from plugin import log, session
from plugin.config import Config, UnusableError
from plugin.http import Http
from plugin.inventory import Inventory, open_inventory
from plugin.metrics import Metrics
from plugin.node import Node, in_thread
from plugin.servicer import DevicePlugin
from plugin.session import Place
from vgpu import names, settings

ENDPOINT = "milligpu-vgpu.sock"


async def run(config: Config, inventory: Inventory) -> None:
    """Serve the inventory's cards until cancelled."""
    metrics = Metrics()
    node = Node(metrics)
    servicer = DevicePlugin(node, metrics, config.memory_margin_mib)
    async with Http(node, servicer, metrics).listening(config.host, config.port) as port:
        structlog.get_logger().debug("listening", port=port)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(node.watch(inventory, config.probe_seconds))
            await node.has_cards()
            place = Place(config.device_plugin_dir, names.COUNT, ENDPOINT)
            tasks.create_task(session.run(place, servicer, metrics))


async def _start(config: Config) -> None:
    session.check(config.device_plugin_dir)
    await run(config, await in_thread(lambda: open_inventory(config)))


async def _until_signal(config: Config) -> str:
    """Run until a signal cancels it, or until it cannot go on; return why."""
    task, why = asyncio.create_task(_start(config)), ""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except* UnusableError as faults:  # one for each of what runs at the same time
        why = str(faults.exceptions[0])
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
