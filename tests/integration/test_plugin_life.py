"""The plugin as a process beside a kubelet that comes and goes: what it holds on to, and how soon
its slots are back. Figures are printed (`pytest -s`); `make soak` takes longer.
"""

import asyncio
import contextlib
import itertools
import os
import random
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import pytest

from milligpu.kubelet import AdmissionError, Context
from milligpu.processes import Program, free_port, running
from plugin.v1beta1 import deviceplugin_pb2 as api
from tests import soak
from tests.cluster.tools.say import say
from tests.integration.plugin_rig import DEADLINE, LOOPBACK, Kubelet, eventually, in_loop, pod
from vgpu import names

pytestmark = pytest.mark.long

CARDS, SLOTS = 2, 200
EVENTS = soak.either(100, 1000)
"""In a row, after which the plugin must hold no more than before."""
AWAY = soak.either(5.0, 120.0)
"""Seconds for which there is no kubelet."""
START = 15
"""Seconds in which a process is up; the deadline is for a plugin that runs."""
PATIENCE = 30
"""Seconds until we give up, so that what takes longer than the deadline can be told."""
GROWTH = soak.either(2048, 4096)
"""KiB of memory that pools may take which fill once; 1,000 events took 900."""
BUSY = 0.05
"""Part of a core that a plugin may take while it waits. It takes 0.004 on an idle machine."""
WARM = 50
"""Events after which pools are full."""
ENDPOINT = "milligpu-vgpu.sock"
LONGEST_PATH = 107
"""Bytes of a unix socket's path: sockaddr_un has room for 108, the last is 0."""

# The program itself, with pauses of hundredths of seconds: for many rounds in little time.
HASTY = """
import sys
from plugin import __main__, session
session.POLL, session.PATIENCE, session.BACK_OFF = 0.02, 0.3, (0.02, 0.1)
sys.exit(__main__.main())
"""

# The program without root's right to write everywhere, as in its container.
POWERLESS = """
import ctypes, os, sys
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-m", "plugin"])
"""


def settings(folder: Path) -> dict[str, object]:
    return {
        "inventory": "simulated",
        "simulate_beside_gpus": "true",
        "device_plugin_dir": folder,
        "pod_resources": folder.parent / "pod-resources.sock",
        "settle_seconds": 0,
        "host": LOOPBACK,
        "port": free_port(),
    }


@contextlib.contextmanager
def plugin(folder: Path, output: Path, *command: str) -> Iterator[Program]:
    """Run the plugin as a process, or another command in its place."""
    argv = command or ("-m", "plugin")
    with running(*argv, output=output, settings=settings(folder)) as program:
        yield program


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a process has at a moment."""

    threads: int
    descriptors: int
    resident: int
    """KiB of memory."""
    cpu: float
    """Seconds of CPU time since its start."""


def footprint(program: Program) -> Footprint:
    home = Path("/proc") / str(program.process.pid)
    fields = (home / "stat").read_text().rpartition(")")[2].split()
    ticks, pages = int(fields[11]) + int(fields[12]), int(fields[21])
    return Footprint(
        threads=int(fields[17]),
        descriptors=len(list((home / "fd").iterdir())),
        resident=pages * os.sysconf("SC_PAGE_SIZE") // 1024,
        cpu=ticks / os.sysconf("SC_CLK_TCK"),
    )


async def at_rest(program: Program) -> Footprint:
    """Return what a process has at most within a second in which nothing happens."""
    looks = []
    for _ in range(20):
        looks.append(footprint(program))
        await asyncio.sleep(0.05)
    threads = max(each.threads for each in looks)
    return replace(looks[-1], threads=threads, descriptors=max(it.descriptors for it in looks))


async def steady(before: Footprint, program: Program) -> None:
    """See that nothing has piled up. gRPC has a pool of threads of its own, which breathes."""

    async def no_more() -> bool:
        after = footprint(program)
        return after.threads <= before.threads + 2 and after.descriptors <= before.descriptors

    with contextlib.suppress(TimeoutError):  # what is too much is told below
        await eventually(no_more)
    after = footprint(program)
    assert after.threads <= before.threads + 2
    assert after.descriptors <= before.descriptors
    assert after.resident <= before.resident + GROWTH


async def back(kubelet: Kubelet, registrations: int = 0) -> float:
    """Wait for all slots, and so many registrations; return the seconds that it took."""
    start = time.monotonic()
    while len(kubelet.healthy(names.COUNT)) != SLOTS or kubelet.registrations < registrations:
        waited = time.monotonic() - start
        assert waited < PATIENCE, f"{kubelet.registrations} of {registrations} registrations"
        await asyncio.sleep(0.005)
    return time.monotonic() - start


# Restarts.


class Arrivals:
    """Pods that come one after the other, whatever the kubelet does; some of them end soon."""

    def __init__(self, kubelet: Kubelet) -> None:
        self.kubelet = kubelet
        self.admitted = 0
        self.refused: list[str] = []

    async def run(self) -> None:
        for number in itertools.count():
            admission = asyncio.create_task(self.kubelet.admit(pod(f"p{number}", 1 + number % 7)))
            await asyncio.wait({admission})
            match None if admission.cancelled() else admission.exception() or admission.result():
                case AdmissionError() as refusal:
                    self.refused.append(str(refusal))
                case tuple():
                    self.admitted += 1
                case None | grpc.aio.UsageError():
                    pass  # the kubelet that was asked is no more
                case fault:
                    raise AssertionError(fault)
            self.kubelet.pods.pop(f"test/p{number - 8}", None)
            await asyncio.sleep(0.01)

    @contextlib.asynccontextmanager
    async def coming(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@in_loop
async def test_twenty_restarts_while_pods_are_admitted(folder: Path, tmp_path: Path) -> None:
    """Nothing piles up, no id changes, nobody's slot is given to another."""
    with plugin(folder, tmp_path / "log") as program:
        async with Kubelet(folder) as kubelet:
            ids = await kubelet.listed(names.COUNT, SLOTS, START)
            [keeper] = await kubelet.admit(pod("keeper", 30))
            arrivals, times, before = Arrivals(kubelet), [], await at_rest(program)
            async with arrivals.coming():
                for _ in range(20):
                    await kubelet.restart()
                    times.append(await back(kubelet))
                    assert kubelet.healthy(names.COUNT) == ids
                    await asyncio.sleep(0.05)  # so that pods come in between as well
            soak.tell("20 kubelet restarts in a row", times)
            assert max(times) < DEADLINE
            say(f"  {arrivals.admitted} pods admitted, {len(arrivals.refused)} refused meanwhile")
            await steady(before, program)
            assert kubelet.pods["test/keeper"] == (keeper,)
            held = [device for grants in kubelet.pods.values() for g in grants for device in g.ids]
            assert len(held) == len(set(held))
            assert arrivals.admitted > 20
            # No other reason: what the kubelet says of a plugin that has not registered again.
            assert all("no healthy devices present" in refusal for refusal in arrivals.refused)


class Trouble:
    """What can happen between a kubelet and us; at the end of each the kubelet is well again."""

    dice = random.Random(1)  # noqa: S311 - nothing secret

    def __init__(self, kubelet: Kubelet, pause: float = 0.1) -> None:
        self.kubelet = kubelet
        self.pause = pause
        """Seconds for which a kubelet that ends is away."""
        self.events = (
            self.kubelet.restart,
            self.restarts_twice,
            self.is_away,
            self.is_killed,
            self.hangs_up,
            self.deletes_our_sockets,
        )

    async def restarts_twice(self) -> None:
        """Before we have registered, or just then."""
        await self.kubelet.restart()
        await asyncio.sleep(self.dice.uniform(0, 0.1))
        await self.kubelet.restart()

    async def is_away(self) -> None:
        await self.kubelet.__aexit__()
        await asyncio.sleep(self.pause)
        await self.kubelet.__aenter__()

    async def is_killed(self) -> None:
        """Its socket stays, and nobody is behind it."""
        path = self.kubelet.folder / "kubelet.sock"
        path.rename(path.with_suffix(".gone"))
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        await self.is_away()

    async def hangs_up(self) -> None:
        for name in tuple(self.kubelet.devices):
            await self.kubelet.disconnect(name)

    async def deletes_our_sockets(self) -> None:
        for path in ours(self.kubelet.folder):
            path.unlink()


def ours(folder: Path) -> list[Path]:
    """Return the sockets in the kubelet's folder that are not its own."""
    return [each for each in folder.iterdir() if each.is_socket() and each.name != "kubelet.sock"]


async def settled(kubelet: Kubelet, sockets: int) -> None:
    """Wait until all is served; a kubelet that starts while we register may get us twice."""

    async def all_served() -> bool:
        counts = [len(kubelet.healthy(name)) for name in (names.COUNT, names.WHOLE)]
        return counts == [SLOTS, CARDS] and len(ours(kubelet.folder)) == sockets

    await eventually(all_served)


@pytest.mark.timeout(EVENTS)
def test_nothing_piles_up_over_many_events(folder: Path, tmp_path: Path) -> None:
    """Threads, sockets, descriptors and memory, over every kind of event in any order."""

    async def scene(program: Program) -> None:
        async with Kubelet(folder) as kubelet:
            ids = await kubelet.listed(names.COUNT, SLOTS, START)
            sockets, trouble, before = len(ours(folder)), Trouble(kubelet), await at_rest(program)
            times = dict[str, list[float]]()
            for number in range(EVENTS):
                event, earlier = trouble.dice.choice(trouble.events), kubelet.registrations
                await event()
                took = await back(kubelet, earlier + sockets)
                times.setdefault(event.__name__, []).append(took)
                await settled(kubelet, sockets)
                assert kubelet.healthy(names.COUNT) == ids
                if number == WARM:
                    before = await at_rest(program)
            await steady(before, program)
            for name, each in times.items():
                soak.tell(f"{len(each)} x {name}, with short pauses", each)
            assert {name: max(each) for name, each in times.items() if max(each) > DEADLINE} == {}

    with plugin(folder, tmp_path / "log", "-c", HASTY) as program:
        asyncio.run(scene(program))


@pytest.mark.timeout(AWAY + 60)
@pytest.mark.parametrize("event", [Trouble.is_away, Trouble.is_killed])
def test_the_kubelet_is_away_for_long(
    folder: Path, tmp_path: Path, event: Callable[[Trouble], Awaitable[None]]
) -> None:
    """Nothing is done meanwhile but to look, and yet the slots are back at once."""

    async def scene(program: Program) -> None:
        async with Kubelet(folder) as kubelet:
            ids = await kubelet.listed(names.COUNT, SLOTS, START)
            before = await at_rest(program)
            await event(Trouble(kubelet, AWAY))
            after, took = footprint(program), await back(kubelet)
            assert kubelet.healthy(names.COUNT) == ids
            busy = (after.cpu - before.cpu) / AWAY
            soak.tell(
                f"a kubelet that {event.__name__} for {AWAY:.0f} s ({busy:.2%} of a core)", [took]
            )
            assert took < DEADLINE
            assert busy < BUSY
            await steady(before, program)

    with plugin(folder, tmp_path / "log") as program:
        asyncio.run(scene(program))


class Sweeping(Kubelet):
    """It clears its folder of sockets as it starts: of ours too, just when we register."""

    swept = False

    async def Register(self, request: api.RegisterRequest, context: Context) -> api.Empty:  # noqa: N802
        if not self.swept:
            self.swept = True
            (self.folder / request.endpoint).unlink()
        return await super().Register(request, context)


@in_loop
async def test_our_socket_is_deleted_while_we_register(folder: Path, tmp_path: Path) -> None:
    """The kubelet would look for it until the dial's time is up."""
    with plugin(folder, tmp_path / "log"):
        async with Sweeping(folder) as kubelet:
            start = time.monotonic()
            while not kubelet.swept:
                assert time.monotonic() < start + START
                await asyncio.sleep(0.01)
            took = await back(kubelet)
            soak.tell("our socket deleted while we register", [took])
            assert took < DEADLINE


# The end of a plugin.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@in_loop
async def test_one_takes_over_from_another(
    folder: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """A roll-out in which both are there for a moment; pods keep their slots, nobody gets them."""
    with plugin(folder, tmp_path / "first") as first:
        async with Kubelet(folder) as kubelet:
            ids = await kubelet.listed(names.COUNT, SLOTS, START)
            grants = await kubelet.admit(pod("p", 30, 40))
            with plugin(folder, tmp_path / "second") as second:
                await asyncio.to_thread(second.wait_until, lambda: waits(second))
                sockets = len(ours(folder))
                assert kubelet.registrations == sockets, "the second has none yet"
                first.process.send_signal(number)
                took = await back(kubelet, 2 * sockets)
                soak.tell(f"the other plugin after {number.name}", [took])
                assert took < DEADLINE
                assert kubelet.healthy(names.COUNT) == ids
                assert kubelet.pods["test/p"] == grants
                [other] = await kubelet.admit(pod("q", 60))
                assert not set(other.ids) & {device for grant in grants for device in grant.ids}


def waits(plugin: Program) -> bool:
    return any("waiting for another plugin" in line["event"] for line in plugin.lines())


# The folder.


def refused(folder: Path, output: Path, *command: str) -> str:
    """Run a plugin that cannot work, and return the one sentence that it says."""
    with plugin(folder, output, *command) as program:
        assert program.wait(START) == 1
    [said] = output.read_text().splitlines()
    return said


def deep(folder: Path, size: int) -> Path:
    """Make a folder whose path has so many bytes."""
    path = folder / ("d" * (size - len(str(folder)) - 1))
    path.mkdir()
    assert len(os.fsencode(path)) == size
    return path


LONGEST_FOLDER = LONGEST_PATH - len(f"/{ENDPOINT}")


@in_loop
async def test_the_longest_folder_works(folder: Path, tmp_path: Path) -> None:
    path = deep(folder, LONGEST_FOLDER)
    with plugin(path, tmp_path / "log"):
        async with Kubelet(path) as kubelet:
            await kubelet.listed(names.COUNT, SLOTS, START)
            assert await kubelet.admit(pod("p", 30))


@pytest.mark.parametrize("size", [LONGEST_FOLDER + 1, LONGEST_FOLDER + 5, LONGEST_PATH + 20])
def test_a_longer_one_is_refused_with_the_numbers(folder: Path, tmp_path: Path, size: int) -> None:
    path = deep(folder, size)
    said = refused(path, tmp_path / "log")
    for part in (path, f"{size} bytes", LONGEST_FOLDER):
        assert str(part) in said


def test_a_folder_of_somebody_else(folder: Path, tmp_path: Path) -> None:
    """Another user's: as root without its powers, or as anybody."""
    path = folder if os.getuid() == 0 else Path("/usr")
    if path == folder:
        os.chown(folder, 65534, 65534)
    said = refused(path, tmp_path / "log", "-c", POWERLESS)
    assert said == (
        f"cannot make a socket in the device plugin folder {path} as uid {os.getuid()}:"
        " Permission denied"
    )
