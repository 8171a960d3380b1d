"""Runs the device plugin inside a test's own event loop, on cards that the test lays down."""

import asyncio
import contextlib
import functools
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec

from milligpu import kubelet
from milligpu.kubelet import Pod
from milligpu.processes import free_port
from plugin.__main__ import run
from plugin.config import Config
from plugin.gpu import MIB, Gpu, InventoryError, Probe
from vgpu import names

P = ParamSpec("P")
LOOPBACK = "127.0.0.1"
DEADLINE = 5
"""Seconds in which the slots must be back after whatever happened to the kubelet's connection."""


def in_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run an async test in an event loop of its own."""

    @functools.wraps(test)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(50):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return wrapper


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    """Return as soon as the check holds. Raises TimeoutError after the deadline."""
    async with asyncio.timeout(DEADLINE):
        for pause in itertools.repeat(0.02):
            if await check():
                return
            await asyncio.sleep(pause)


class Kubelet(kubelet.Kubelet):
    """The stand-in, with what only tests do with it."""

    async def restart(self) -> None:
        """Stop and start: a new socket, and plugins have to register again."""
        await self.stop()
        await self.start()

    async def listed(self, name: str, count: int, timeout: float = 10) -> frozenset[str]:  # noqa: ASYNC109
        """Wait until a resource has exactly so many healthy devices and return their ids.

        Raises TimeoutError that says how many there are.
        """
        limit = asyncio.get_running_loop().time() + timeout
        while len(healthy := self.healthy(name)) != count:
            if asyncio.get_running_loop().time() > limit:
                raise TimeoutError(f"{len(healthy)} of {count} x {name} after {timeout} s")
            await asyncio.sleep(0.005)
        return frozenset(healthy)


def t4(letter: str, index: int) -> Gpu:
    return Gpu(f"GPU-{letter}", index, index, "Tesla T4", 16384 * MIB, 1024 * MIB)


A, B = t4("a", 0), t4("b", 1)


class Cards:
    """An inventory whose next answer can be changed at any time."""

    def __init__(self, *gpus: Gpu) -> None:
        self.answer: Probe | InventoryError = Probe(gpus)

    def probe(self) -> Probe:
        if isinstance(self.answer, InventoryError):
            raise self.answer
        return self.answer


@dataclass(frozen=True)
class Plugin:
    """A running plugin, seen through its HTTP port."""

    task: asyncio.Task[None]
    port: int

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Send any bytes; return status and body, or 0 where there is no answer."""
        reader, writer = await asyncio.open_connection(LOOPBACK, self.port)
        try:
            writer.write(request)
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        return int(head.split(b" ")[1]) if head else 0, body

    async def get(self, path: str) -> tuple[int, bytes]:
        return await self.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    async def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((await self.get("/healthz"))[1])
        return state

    async def becomes(self, state: str) -> dict[str, Any]:
        """Wait for a state and return all of it."""

        async def reached() -> bool:
            return bool((await self.state())["state"] == state)

        await eventually(reached)
        return await self.state()

    async def metric(self, line: str) -> float:
        """Return the value of one line of /metrics, named with its labels."""
        text = (await self.get("/metrics"))[1].decode()
        [value] = [row.split()[-1] for row in text.splitlines() if row.startswith(line + " ")]
        return float(value)

    async def stop(self) -> None:
        """End it as SIGTERM does."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


@contextlib.asynccontextmanager
async def plugin(folder: Path, cards: Cards) -> AsyncIterator[Plugin]:
    """Run a plugin; it may not have registered yet."""
    config = Config(device_plugin_dir=folder, probe_seconds=0.1, host=LOOPBACK, port=free_port())
    running = Plugin(asyncio.create_task(run(config, cards)), config.port)
    try:
        while not running.task.done():  # a failure to start is raised when it is stopped
            with contextlib.suppress(ConnectionRefusedError):
                await running.state()
                break
            await asyncio.sleep(0.01)
        yield running
    finally:
        await running.stop()


def container(name: str, slots: int, **fields: Any) -> dict[str, Any]:
    limits = {names.COUNT: str(slots), "cpu": "1"} if slots else {}
    return {"name": name, "resources": {"limits": limits}, **fields}


def pod(name: str, *containers: dict[str, Any] | int, init: tuple[dict[str, Any], ...] = ()) -> Pod:
    """Return a pod; a number stands for a container with so many slots."""
    filled = [container(f"c{n}", c) if isinstance(c, int) else c for n, c in enumerate(containers)]
    return {
        "metadata": {"name": name, "namespace": "test"},
        "spec": {"initContainers": list(init), "containers": filled},
    }
