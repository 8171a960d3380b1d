"""Prints how fast the webhook and the plugin are beside the least that each could take.

In every measurement the parts take turns in short rounds, so that the machine's ups and downs hit
all of them alike.
"""

import asyncio
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench import client, plugin
from bench.measured import show
from milligpu import processes

SERVERS = {
    "floor: a constant answer": "bench.floor:app",
    "webhook": "webhook.wsgi:app",
}
LOADS = ((1, 20, 100), (8, 10, 50))
"""Connections, rounds, reviews of each connection in a round."""


def main() -> None:
    print(f"{os.cpu_count()} CPUs, for the servers and their clients together")
    with tempfile.TemporaryDirectory(prefix="milligpu-bench-") as folder:
        webhook(Path(folder))
        print("starting the plugin ...", flush=True)
        measured = asyncio.run(plugin.measure(Path(folder)))
        show(
            f"The device plugin API over its unix socket, {plugin.CARDS} simulated cards", measured
        )


def webhook(folder: Path) -> None:
    print("starting the webhook, and its floor: the same Flask, gunicorn and TLS ...", flush=True)
    with ExitStack() as stack:
        servers = {}
        for name, application in SERVERS.items():
            home = folder / application
            home.mkdir()
            servers[name] = stack.enter_context(processes.webhook(home, application))
        for connections, rounds, each in LOADS:
            print(f"sending {connections * rounds * each} reviews to each ...", flush=True)
            measured = client.measure(servers, connections, rounds, each)
            show(f"A pod of two shares, 5.2 kB; connections: {connections}", measured)


main()
