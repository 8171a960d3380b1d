"""Processes that a cluster is made of: started with a log each, ended by pid whatever happens."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

WITH_US = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
"""Runs a command that the kernel ends when we die without having ended it."""


class ClusterError(Exception):
    """The cluster does not come up, or lost a part; the message says which and shows its log."""


@dataclass(slots=True)
class Processes:
    """A group of processes; the end of a `with` ends those that still run, the latest first."""

    logs: Path
    enter: tuple[str, ...] = ()
    """Command that runs the others as its child: nsenter with its options."""
    running: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)
    commands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """How each was started last."""

    def start(self, name: str, argv: Sequence[str]) -> None:
        """Start a process; what it prints is added to `<logs>/<name>.log`."""
        self.logs.mkdir(parents=True, exist_ok=True)
        self.commands[name] = tuple(argv)
        with self.log(name).open("a") as log:
            self.running[name] = subprocess.Popen(
                [*WITH_US, *self.enter, *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us: we end them in order
            )

    def again(self, name: str) -> None:
        """Start a process that has ended as it was started before."""
        self.start(name, self.commands[name])

    def log(self, name: str) -> Path:
        """Return the file with what a process printed."""
        return self.logs / f"{name}.log"

    def stop(self, name: str, patience: float = 5) -> None:
        """End a process: ask it, and after `patience` seconds make it."""
        process = self.running.pop(name)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is not None:
                return
            os.kill(self._pid(process), number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience)

    def kill(self, *names: str) -> None:
        """End processes all at once, without asking; they have ended afterwards."""
        victims = [self.running.pop(name) for name in names]
        for process in victims:
            os.kill(self._pid(process), signal.SIGKILL)
        for process in victims:
            process.wait()

    def _pid(self, process: "subprocess.Popen[bytes]") -> int:
        entered = children(process.pid) if self.enter else ()
        return entered[0] if entered else process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self.running)):
            self.stop(name)

    def wait(self, what: str, ready: Callable[[], bool], timeout: float) -> None:
        """Wait until something is ready; ClusterError when a process ends or time is up."""
        deadline = time.monotonic() + timeout
        while not ready():
            for name, process in self.running.items():
                if process.poll() is not None:
                    raise ClusterError(f"{name} ended with {process.returncode}{self._tail(name)}")
            if time.monotonic() > deadline:
                last = list(self.running)[-1]
                raise ClusterError(f"{what}: not ready after {timeout:g} s{self._tail(last)}")
            time.sleep(0.1)

    def _tail(self, name: str) -> str:
        lines = self.log(name).read_text(errors="replace").splitlines()[-15:]
        return "\n".join([f"; the end of {self.log(name)}:", *lines])


def children(pid: int) -> tuple[int, ...]:
    """Return the child processes of a process's main thread."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except FileNotFoundError:
        return ()
    return tuple(int(child) for child in text.split())
