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
    "floor: Flask and gunicorn": "-k gthread bench.floor:app",
    "a constant as we answer": "bench.floor:bare",
    "webhook": "webhook.wsgi:app",
}
"""What answers a constant by Flask and gunicorn's own worker; without Flask by ours; and ours."""
LOADS = ((1, 20, 100), (8, 10, 50))
"""Connections, rounds, reviews of each connection in a round."""


def main() -> None:
    print(f"{os.cpu_count()} CPUs, for the servers and their clients together")
    with tempfile.TemporaryDirectory(prefix="milligpu-bench-") as folder:
        webhook(Path(folder))
        print(f"starting the plugin, and letting it rest {plugin.IDLE_SECONDS} s ...", flush=True)
        seen = asyncio.run(plugin.measure(Path(folder)))
        title = f"The device plugin API over its unix socket, {plugin.CARDS} simulated cards"
        show(title, seen.calls)
        print(f"\nThe plugin at rest: {seen.idle:.2%} of a core; memory: {seen.resident:.1f} MiB")


def webhook(folder: Path) -> None:
    print(
        "starting the webhook, and its floor: a constant behind Flask, gunicorn and TLS ...",
        flush=True,
    )
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
        print("\nResident memory after that, of gunicorn's arbiter and worker together:")
        for name, server in servers.items():
            print(f"  {name:32}{resident(server.program.process.pid):>7.1f} MiB")


def resident(process: int) -> float:
    """Return the RSS of a process and its children, in MiB; what they share counts twice."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    files = [Path(f"/proc/{each}/statm").read_text().split() for each in (process, *children)]
    return sum(int(pages[1]) for pages in files) * os.sysconf("SC_PAGE_SIZE") / 2**20


main()
