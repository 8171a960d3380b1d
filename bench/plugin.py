"""Calls of the device plugin API over its unix socket, as the kubelet makes them."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from bench.measured import Measured
from milligpu import processes
from milligpu.kubelet import CHANNEL
from plugin.resources import SHARES
from plugin.v1beta1 import deviceplugin_pb2 as api
from plugin.v1beta1 import deviceplugin_pb2_grpc as rpc
from tests.integration.plugin_rig import Kubelet, pod_resources
from vgpu import names, slots

CARDS = 8
SIZE = 30
WARM_UP, ROUNDS, EACH = 50, 20, 50
IDLE_SECONDS = 30

Call = Callable[[], Awaitable[Any]]


@dataclass(frozen=True)
class Plugin:
    """What was seen of a plugin's process."""

    calls: dict[str, Measured]
    idle: float
    """Part of a core that it takes while nothing happens but its own looks."""
    resident: float
    """MiB of memory after all that."""


async def measure(folder: Path) -> Plugin:
    """Run the plugin with eight made-up cards, let it rest, and time its calls, in turns."""
    settings = {
        "inventory": "simulated",
        "inventory_file": _inventory(folder / "cards.json"),
        "simulate_beside_gpus": "true",
        "device_plugin_dir": folder,
        "pod_resources": pod_resources(folder),
        "settle_seconds": 0,
        "host": processes.HOST,
        "port": processes.free_port(),
    }
    async with Kubelet(folder) as kubelet:
        log = folder / "plugin.log"
        with processes.running("-m", "plugin", output=log, settings=settings) as plugin:
            for resource, count in ((names.COUNT, slots.PER_CARD), (names.WHOLE, 1)):
                await kubelet.listed(resource, CARDS * count, processes.START_SECONDS)
            idle = await _idle(plugin.process.pid)
            target = f"unix:{folder / SHARES.endpoint}"
            async with grpc.aio.insecure_channel(target, options=CHANNEL) as channel:
                calls = await _timed(_calls(rpc.DevicePluginStub(channel), kubelet))
            return Plugin(calls, idle, _resident(plugin.process.pid))


async def _idle(process: int) -> float:
    def seconds() -> float:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    await asyncio.sleep(1)  # what its start leaves to be done
    before, begin = seconds(), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    return (seconds() - before) / (time.monotonic() - begin)


def _resident(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _inventory(path: Path) -> Path:
    card = {"model": "Tesla T4", "memory_total_mib": 16384, "memory_reserved_mib": 1024}
    cards = [
        {"uuid": f"SIM-00000000-0000-4000-8000-{number:012}", **card} for number in range(CARDS)
    ]
    path.write_text(json.dumps({"gpus": cards}))
    return path


def _calls(plugin: rpc.DevicePluginStub, kubelet: Kubelet) -> dict[str, Call]:
    """Return the calls, each of which checks its answer; the first is the cheapest there is."""
    every = list(kubelet.devices[names.COUNT])
    assert len(every) == CARDS * slots.PER_CARD
    card = slots.parse(every[0]).card
    some = [str(slot) for slot in slots.of_card(card)[:SIZE]]
    container = api.ContainerAllocateRequest(devices_ids=some)
    allocate = api.AllocateRequest(container_requests=[container])
    choice = api.ContainerPreferredAllocationRequest(
        available_deviceIDs=every, allocation_size=SIZE
    )
    prefer = api.PreferredAllocationRequest(container_requests=[choice])

    async def options() -> None:
        answer = await plugin.GetDevicePluginOptions(api.Empty())
        assert answer.get_preferred_allocation_available

    async def allocated() -> None:
        (answer,) = (await plugin.Allocate(allocate)).container_responses
        assert answer.envs[names.ENV_GPU_UUID] == card

    async def preferred() -> None:
        (answer,) = (await plugin.GetPreferredAllocation(prefer)).container_responses
        assert len({slots.parse(one).card for one in answer.deviceIDs}) == 1
        assert len(answer.deviceIDs) == SIZE

    return {
        "floor: GetDevicePluginOptions": options,
        f"Allocate, {SIZE} slots": allocated,
        f"GetPreferredAllocation, {SIZE} of {len(every)}": preferred,
    }


async def _timed(calls: dict[str, Call]) -> dict[str, Measured]:
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(-1, ROUNDS):
        for name, call in calls.items():
            for _ in range(WARM_UP if turn < 0 else EACH):
                begin = time.perf_counter()
                await call()
                if turn >= 0:
                    seconds[name].append(time.perf_counter() - begin)
    return {name: Measured(times, sum(times)) for name, times in seconds.items()}
