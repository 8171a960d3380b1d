"""What the cluster leaves behind on the machine: nothing, however it ends."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster import sandbox
from tests.cluster.eventually import eventually
from tests.cluster.node import SYSTEM_PATH
from tests.cluster.processes import ClusterError, Processes

pytestmark = pytest.mark.node

# Holds a sandbox in which a process runs, until it is ended from outside.
HOLD = """
import signal, sys, time
from pathlib import Path
from tests.cluster import sandbox
from tests.cluster.processes import Processes
logs, path, seconds = sys.argv[1:]
# What a shell starts in the background inherits that Ctrl-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
with sandbox.sandbox(Path(logs), path) as inside:
    Processes(Path(logs), inside.enter).start("sleeper", ["sleep", seconds])
    print("ready", flush=True)
    time.sleep(60)
"""
SECONDS = "98765.4321"  # by which the process inside is found


def sleepers() -> list[str]:
    """Return the processes of the test that live."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", SECONDS.encode()]:
            found.append(path.parent.name)
    return found


def link() -> bool:
    return Path("/sys/class/net", sandbox.LINK).exists()


def traces() -> list[Path]:
    """Return what a sandbox has on the host beside processes and links."""
    groups = [root / sandbox.CGROUP for root in sandbox.hierarchies()]
    mount_points = [Path(path) for path in sandbox.PRIVATE]
    folders = sandbox.HOME.glob(f"{sandbox.PREFIX}*")
    return [path for path in (*groups, *mount_points, *folders) if path.exists()]


@contextmanager
def held(logs: Path) -> Iterator["subprocess.Popen[bytes]"]:
    argv = [sys.executable, "-c", HOLD, str(logs), SYSTEM_PATH, SECONDS]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout
            assert holder.stdout.readline() == b"ready\n"
            eventually(sleepers, "a process inside")
            yield holder
        finally:
            holder.kill()


@pytest.fixture
def before(tmp_path: Path) -> list[Path]:
    """What is there without us: a first sandbox removes the rests of runs that were killed."""
    with sandbox.sandbox(tmp_path, SYSTEM_PATH):
        pass
    return traces()


def test_an_interrupted_run_leaves_nothing(tmp_path: Path, before: list[Path]) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    with held(tmp_path) as holder:
        assert link()
        assert Path("/proc/self/mountinfo").read_text() == mounts  # even while it runs
        holder.send_signal(signal.SIGINT)
        holder.wait(30)
    assert sleepers() == []
    assert not link()
    assert traces() == before


def test_a_killed_run_takes_its_processes_along_and_the_next_one_tidies_up(
    tmp_path: Path, before: list[Path]
) -> None:
    with held(tmp_path) as holder:
        holder.kill()
        holder.wait(30)
    eventually(lambda: not sleepers(), "the end of all processes inside")
    eventually(lambda: not link(), "the end of the wire")
    with sandbox.sandbox(tmp_path, SYSTEM_PATH):
        pass
    assert traces() == before


def test_a_failure_inside_is_told_and_leaves_nothing(tmp_path: Path, before: list[Path]) -> None:
    def fail() -> None:
        with (
            sandbox.sandbox(tmp_path, SYSTEM_PATH) as inside,
            Processes(tmp_path / "logs", inside.enter) as processes,
        ):
            processes.start("sleeper", ["sleep", SECONDS])
            processes.start("etcd", ["false"])
            processes.wait("etcd", lambda: False, timeout=30)

    with pytest.raises(ClusterError, match="etcd ended with 1"):
        fail()
    assert sleepers() == []
    assert traces() == before


def test_a_process_inside_can_be_stopped_and_started_again(tmp_path: Path) -> None:
    with (
        sandbox.sandbox(tmp_path, SYSTEM_PATH) as inside,
        Processes(tmp_path / "logs", inside.enter) as processes,
    ):
        processes.start("sleeper", ["sleep", SECONDS])
        (first,) = eventually(sleepers, "a process inside")
        processes.stop("sleeper")
        assert sleepers() == []
        processes.start("sleeper", ["sleep", SECONDS])
        assert eventually(sleepers, "another process inside") != [first]


def test_there_is_one_at_a_time(tmp_path: Path) -> None:
    with sandbox.sandbox(tmp_path, SYSTEM_PATH):
        second = sandbox.sandbox(tmp_path, SYSTEM_PATH)
        with pytest.raises(ClusterError, match="running already"):
            second.__enter__()


def test_the_machines_settings_stay(tmp_path: Path) -> None:
    setting = Path("/proc/sys/vm/overcommit_memory")
    value = setting.read_text()
    with sandbox.sandbox(tmp_path, SYSTEM_PATH) as inside:
        inside.run("sh", "-c", f"echo 1 > {setting}")
        assert setting.read_text() == "1\n"
    assert setting.read_text() == value
