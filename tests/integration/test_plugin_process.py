"""`python -m plugin` as a process: how it starts, what it refuses, how it ends."""

import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from milligpu.processes import Program, free_port, running
from plugin import checkpoint
from tests.integration.plugin_rig import (
    DEADLINE,
    LOOPBACK,
    Kubelet,
    in_loop,
    pod,
    pod_resources,
)
from vgpu import names
from vgpu.names import ENV_OURS

Settings = dict[str, object]


@pytest.fixture
def settings(folder: Path) -> Settings:
    return {
        "inventory": "simulated",
        "simulate_beside_gpus": "true",
        "settle_seconds": 0,
        "device_plugin_dir": folder,
        "pod_resources": pod_resources(folder),
        "host": LOOPBACK,
        "port": free_port(),
    }


@pytest.fixture
def program(settings: Settings, tmp_path: Path) -> Iterator[Program]:
    with running("-m", "plugin", output=tmp_path / "log", settings=settings) as program:
        yield program


def refused(settings: Settings, before: Callable[[], None] | None = None) -> tuple[int, str]:
    """Run a plugin that ends by itself; return its exit status and what it said."""
    environ = {ENV_OURS + name.upper(): str(value) for name, value in settings.items()}
    ended = subprocess.run(
        [sys.executable, "-m", "plugin"],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        preexec_fn=before,
    )
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stderr.strip()


@in_loop
async def test_a_share_runs_and_sigterm_leaves_nothing(folder: Path, program: Program) -> None:
    async with Kubelet(folder) as kubelet:
        await kubelet.listed(names.COUNT, 200, 2 * DEADLINE)
        await kubelet.listed(names.WHOLE, 2, DEADLINE)
        [grant] = await kubelet.admit(pod("p", 30))
        assert grant.env[names.ENV_MEMORY_FRACTION] == "0.2666"
        assert program.lines()[0]["event"] == "advertising 200 x milligpu.io/vgpu for 2 GPUs"
        program.process.terminate()
        await kubelet.listed(names.COUNT, 0, DEADLINE)
        await kubelet.listed(names.WHOLE, 0, DEADLINE)
        assert program.wait(DEADLINE) == 0
        assert {path.name for path in folder.iterdir()} == {"kubelet.sock", checkpoint.NAME}
    events = [line["event"] for line in program.lines()]
    assert events == [events[0], "serving", "registered", "registered", "allocated"]


@in_loop
async def test_a_killed_plugin_is_replaced(
    folder: Path, settings: Settings, tmp_path: Path
) -> None:
    async with Kubelet(folder) as kubelet:
        with running("-m", "plugin", output=tmp_path / "first", settings=settings) as first:
            ids = await kubelet.listed(names.COUNT, 200, 2 * DEADLINE)
            first.process.kill()
            await kubelet.listed(names.COUNT, 0, DEADLINE)
        with running("-m", "plugin", output=tmp_path / "second", settings=settings):
            assert await kubelet.listed(names.COUNT, 200, 2 * DEADLINE) == ids


def test_every_line_is_json(program: Program) -> None:
    program.wait_until(lambda: len(program.lines()) >= 3)
    program.stop()
    assert len(program.lines()) == len(program.output.read_text().splitlines())


def test_a_simulated_card_arrives(folder: Path, settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "inventory.json"
    file.write_text('{"gpus": []}')
    settings |= {"inventory_file": file, "probe_seconds": 0.1}

    @in_loop
    async def scene(program: Program) -> None:
        async with Kubelet(folder) as kubelet:
            program.wait_until(lambda: [line["event"] for line in program.lines()] == ["idle"])
            card = {"uuid": "SIM-late", "model": "late", "memory_total_mib": 1024}
            file.write_text(json.dumps({"gpus": [card]}))
            ids = await kubelet.listed(names.COUNT, 100, DEADLINE)
            assert "SIM-late::0" in ids

    with running("-m", "plugin", output=tmp_path / "log", settings=settings) as program:
        scene(program)


def test_bad_settings_are_all_named_and_end_it_with_2(settings: Settings) -> None:
    status, said = refused(settings | {"inventory": "amd", "colour": "red", "port": "x"})
    assert status == 2
    assert said.startswith("bad settings:")
    for name in ("MILLIGPU_INVENTORY='amd'", "MILLIGPU_COLOUR", "MILLIGPU_PORT='x'"):
        assert name in said


def test_a_broken_inventory_file(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "inventory.json"
    file.write_text('{"gpus": [{"uuid": "SIM-a"}]}')
    assert refused(settings | {"inventory_file": file}) == (
        1,
        f"inventory file {file}:\n  gpus[0].model: is missing\n"
        "  gpus[0].memory_total_mib: is missing",
    )


def test_a_list_that_the_kubelet_would_not_take(
    settings: Settings, folder: Path, tmp_path: Path
) -> None:
    card = {"model": "T4", "memory_total_mib": 16384}
    cards = [card | {"uuid": f"SIM-{n:036}"} for n in range(800)]
    file = tmp_path / "inventory.json"
    file.write_text(json.dumps({"gpus": cards}))
    (folder / "kubelet.sock").touch()
    status, said = refused(settings | {"inventory_file": file})
    assert (status, said) == (
        1,
        "the list of 80000 devices of 800 GPUs has 4552000 bytes; the kubelet takes 4194304,"
        " which is enough for 737 such GPUs",
    )


@pytest.mark.parametrize("kind", ["missing", "file", "no real folder", "long"])
def test_a_folder_that_cannot_be_used(settings: Settings, folder: Path, kind: str) -> None:
    path, reason = {
        "missing": (folder / "missing", "No such file or directory"),
        "file": (folder / "file", "Not a directory"),
        "no real folder": (Path("/proc/self"), ""),
        "long": (folder / ("x" * 100), " bytes, and sockets have room for 88"),
    }[kind]
    if kind == "file":
        path.touch()
    if kind == "long":
        path.mkdir()
    status, said = refused(settings | {"device_plugin_dir": path})
    assert status == 1
    assert said.count("\n") == 0
    assert said.startswith(
        f"cannot make a socket in the device plugin folder {path} as uid {os.getuid()}: "
    )
    assert reason in said


def powerless() -> None:
    """Drop root's right to write everywhere, as a container does (an ordinary user has none)."""
    PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1  # noqa: N806
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def test_a_folder_that_we_may_not_write_to(settings: Settings, folder: Path) -> None:
    folder.chmod(0o555)
    status, said = refused(settings, powerless)
    folder.chmod(0o755)
    assert (status, said) == (
        1,
        f"cannot make a socket in the device plugin folder {folder} as uid {os.getuid()}:"
        " Permission denied",
    )


def test_a_port_that_is_taken(settings: Settings) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        status, said = refused(settings | {"port": port})
    assert status == 1
    assert said.startswith("cannot listen for HTTP on 127.0.0.1, port ")
    assert f"{port}" in said
    assert said.endswith("address already in use")
