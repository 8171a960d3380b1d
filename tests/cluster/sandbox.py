"""Namespaces of the cluster's own: what happens on the node stays there and goes with it.

Mounts, network and processes are private. The first process inside waits for the end of its
standard input, so that even a killed test run takes everything inside along.
"""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.processes import WITH_US, ClusterError, children

LINK, HOST_ADDRESS, ADDRESS = "milligpu0", "198.18.77.1", "198.18.77.2"
"""The wire from the host to the node; from the range for tests of network devices (RFC 2544)."""
PODS = "10.88.0.0/16"
CGROUP = "milligpu-test"
HOME, PREFIX = Path("/var/tmp"), "milligpu-node-"  # noqa: S108 - mkdtemp makes a private one
"""A node's files lie on a disk: /tmp may be memory."""
UNDO = "undo.json"
LOCK = Path("/run/lock/milligpu-cluster")
PRIVATE = {
    "/var/lib/kubelet": "kubelet",
    "/var/lib/cni": "cni",
    "/var/log/pods": "logs/pods",
    "/var/log/containers": "logs/containers",
}
"""Paths that the node's programs have built in, and where below our folder they lead."""
SYSCTLS = [
    Path("/proc/sys") / name
    for name in (
        "vm/overcommit_memory",
        "vm/panic_on_oom",
        "kernel/panic",
        "kernel/panic_on_oops",
        "kernel/keys/root_maxkeys",
        "kernel/keys/root_maxbytes",
    )
]
"""What a kubelet sets for the whole machine."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A place that looks like a machine of its own."""

    folder: Path
    """On the host; removed at the end."""
    enter: tuple[str, ...]
    """Command that runs another one inside."""

    def run(self, *argv: str) -> str:
        """Run a command inside and return its output. Raises ClusterError when it fails."""
        done = subprocess.run([*self.enter, *argv], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ClusterError(f"{' '.join(argv)}: {done.stderr or done.stdout}")
        return done.stdout


@contextmanager
def sandbox(logs: Path, path: str) -> Iterator[Sandbox]:
    """Make the namespaces, and undo all of it: processes, mounts, links, cgroups, sysctls.

    `path` is the PATH of what runs inside; the pods' logs go below `logs`. Raises ClusterError
    where there is one already.
    """
    with ExitStack() as stack:
        stack.enter_context(_alone())
        for left_by_a_killed_run in HOME.glob(f"{PREFIX}*"):
            _undo(left_by_a_killed_run)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=HOME))
        stack.callback(_undo, folder)
        _remember(folder)
        _make_cgroups()
        (folder / "logs").symlink_to(logs)
        pid = stack.enter_context(_namespaces())
        namespaces = ("nsenter", "--target", str(pid), "--mount", "--net", "--pid", "--")
        inside = Sandbox(folder, (*namespaces, "env", "-i", f"PATH={path}", "HOME=/root"))
        inside.run("sh", "-euc", _mounts(folder))
        _connect(pid)
        inside.run("sh", "-euc", _network())
        yield inside


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the machine's one place for such a cluster. Raises ClusterError when it is taken."""
    with LOCK.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(
                "such a cluster is running already; `make cluster-down` ends that of `make cluster`"
            ) from None
        yield


def _remember(folder: Path) -> None:
    """Make the folders that are covered inside, and write down what is to be undone on the host."""
    places = {place for path in map(Path, PRIVATE) for place in (path, *path.parents)}
    new = sorted((str(place) for place in places if not place.exists()), reverse=True)
    sysctls = {str(path): path.read_text() for path in SYSCTLS if path.exists()}
    (folder / UNDO).write_text(json.dumps({"folders": new, "sysctls": sysctls}))
    for path in PRIVATE:
        Path(path).mkdir(parents=True, exist_ok=True)


def _undo(folder: Path) -> None:
    """Put the host back as it was before the sandbox of a folder, whose processes have ended."""
    _remove_cgroups()
    if (folder / UNDO).exists():
        before = json.loads((folder / UNDO).read_text())
        for path, value in before["sysctls"].items():
            Path(path).write_text(value)
        for place in before["folders"]:
            with suppress(OSError):  # somebody else uses it by now
                Path(place).rmdir()
    _remove(folder)


@contextmanager
def _namespaces() -> Iterator[int]:
    """Start the first process inside and yield its pid as the host sees it."""
    argv = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
    # bash takes in orphans as the first process of a machine has to; `read` ends with our pipe.
    argv += ["--propagation", "private", "bash", "-c", "echo ready; read"]
    with subprocess.Popen(
        [*WITH_US, *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        try:
            if process.stdout.readline() != b"ready\n":
                raise ClusterError(f"no namespaces: {process.stderr.read().decode()}")
            (pid,) = children(process.pid)
            yield pid
        finally:
            process.stdin.close()
            process.wait()


def _mounts(folder: Path) -> str:
    """Return the script that covers the host's paths inside."""
    binds = [
        f"mkdir -p {folder / target}; mount --bind {folder / target} {source}"
        for source, target in PRIVATE.items()
    ]
    # Shared among themselves, or no pod could follow a mount that comes later.
    return "\n".join(["mount --make-rshared /", "mount -t tmpfs run /run", *binds])


def _connect(pid: int) -> None:
    """Lay the wire. The far end goes with the namespace, and takes this one along."""
    subprocess.run(["ip", "link", "del", LINK], check=False, capture_output=True)
    pair = ["type", "veth", "peer", "name", "eth0", "netns", str(pid)]
    for argv in (
        ["link", "add", LINK, *pair],
        ["addr", "add", f"{HOST_ADDRESS}/30", "dev", LINK],
        ["link", "set", LINK, "up"],
    ):
        subprocess.run(["ip", *argv], check=True)


def _network() -> str:
    """Return the script for the near side; the default route leads nowhere beyond the host."""
    return f"""
    ip link set lo up
    ip addr add {ADDRESS}/30 dev eth0
    ip link set eth0 up
    ip route add default via {HOST_ADDRESS}
    echo 1 > /proc/sys/net/ipv4/ip_forward
    """


def hierarchies() -> list[Path]:
    """Return the mount points of the host's control groups, of either version."""
    lines = (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [Path(f[4]) for f in lines if f[f.index("-") + 1] in ("cgroup", "cgroup2")]


def _make_cgroups() -> None:
    for root in hierarchies():
        controllers = root / "cgroup.controllers"
        if controllers.exists():  # version 2: pass every controller on
            for name in controllers.read_text().split():
                with suppress(OSError):
                    (root / "cgroup.subtree_control").write_text(f"+{name}")
        (root / CGROUP).mkdir(exist_ok=True)


def _remove_cgroups() -> None:
    """Remove our control groups, leaves first, once the last process has left them."""
    deadline = time.monotonic() + 5
    tops = [root / CGROUP for root in hierarchies()]
    while any(top.exists() for top in tops) and time.monotonic() < deadline:
        for top in tops:
            for folder, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):
                    Path(folder).rmdir()
        time.sleep(0.05)


def _remove(folder: Path) -> None:
    """Remove the node's files; its mounts go a moment after its last process."""
    deadline = time.monotonic() + 10
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)
