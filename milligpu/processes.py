"""Starts the project's programs as processes of their own: for the demo, tests and benchmarks."""

import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from certs import issue
from certs.model import KeyPair
from vgpu import names

HOST = "localhost"
_LOOPBACK = "127.0.0.1"
START_SECONDS = 30
"""How long a program may take until it is ready."""
STOP_SECONDS = 40
"""How long a program may take to end after SIGTERM before it is killed."""


class ProgramError(Exception):
    """A program did not start, or did not answer; the message holds what it said."""


@dataclass(frozen=True, slots=True)
class Program:
    """A running process and the file that gets its output."""

    command: tuple[str, ...]
    process: subprocess.Popen[bytes]
    output: Path

    def lines(self) -> list[dict[str, Any]]:
        """Return what the program has logged; lines that are not JSON objects are left out."""
        complete = self.output.read_text(errors="replace").rpartition("\n")[0]
        return [json.loads(line) for line in complete.splitlines() if line.startswith("{")]

    def wait_until(self, ready: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        """Return once `ready()`. Raises ProgramError when the program ends or time is up."""
        limit = time.monotonic() + seconds
        while not ready():
            status = self.process.poll()
            if status is not None or time.monotonic() > limit:
                what = f"not ready in {seconds} s" if status is None else f"ended, status {status}"
                said = self.output.read_text(errors="replace")[-2000:]
                raise ProgramError(f"{' '.join(self.command)}: {what}\n{said}")
            time.sleep(0.05)

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """Return the exit status of a program that ends by itself; kill it if it does not."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def stop(self) -> int:
        """Send SIGTERM and return the exit status."""
        self.process.terminate()
        return self.wait()


@contextmanager
def running(*command: str, output: Path, settings: dict[str, object]) -> Iterator[Program]:
    """Run Python with these arguments until the block is left; a setting is `MILLIGPU_<NAME>`."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(names.ENV_OURS)}
    env |= {names.ENV_OURS + name.upper(): str(value) for name, value in settings.items()}
    argv, said = [sys.executable, *command], subprocess.STDOUT
    with output.open("wb") as sink:
        process = subprocess.Popen(argv, stdout=sink, stderr=said, env=env)  # noqa: S603 - ours
    program = Program(command, process, output)
    try:
        yield program
    finally:
        program.stop()


def certificates() -> tuple[KeyPair, KeyPair]:
    """Make a CA and a serving pair for `HOST`, good for a day."""
    now, day = datetime.now(UTC), timedelta(days=1)
    authority = issue.ca(issue.fresh(now), day)
    return authority, issue.leaf(issue.fresh(now), day, authority, [HOST])


def write_pair(folder: Path, pair: KeyPair) -> None:
    """Put a pair where the webhook looks for it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names.TLS_CERTIFICATE).write_bytes(pair.certificate)
    (folder / names.TLS_KEY).write_bytes(pair.key)


@dataclass(frozen=True, slots=True)
class Webhook:
    """A running webhook and how to reach it."""

    program: Program
    port: int
    ca: bytes
    """What to trust: PEM, as in a webhook configuration's caBundle."""

    @property
    def url(self) -> str:
        """Where reviews go."""
        return f"https://{HOST}:{self.port}/mutate"

    def connect(self, timeout: float = 10) -> http.client.HTTPSConnection:
        """Return a new connection that trusts the webhook's certificate and no other."""
        context = ssl.create_default_context(cadata=self.ca.decode())
        return http.client.HTTPSConnection(HOST, self.port, timeout=timeout, context=context)

    def get(self, path: str) -> tuple[int, str]:
        """Return status and text of a page such as /metrics."""
        return self._request("GET", path)

    def review(self, document: Any) -> dict[str, Any]:
        """Send an AdmissionReview and return the one that comes back, or raise ProgramError."""
        status, text = self._request("POST", "/mutate", json.dumps(document))
        if status != http.HTTPStatus.OK:
            raise ProgramError(f"the webhook answered {status}: {text}")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def _request(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        with closing(self.connect()) as connection:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read().decode()

    def ready(self) -> bool:
        """Whether it says that it is."""
        try:
            return self.get("/readyz")[0] == http.HTTPStatus.OK
        except OSError:
            return False


def free_port() -> int:
    """Return a loopback TCP port that nobody has right now."""
    with socket.create_server((_LOOPBACK, 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def webhook(
    folder: Path, application: str = "webhook.wsgi:app", *, wait: bool = True, **settings: object
) -> Iterator[Webhook]:
    """Run the webhook until the block is left, with a new certificate; all is in `folder`.

    Without `wait` it may not be ready yet.
    """
    (ca, pair), port = certificates(), free_port()
    write_pair(folder / "tls", pair)
    defaults = {"host": _LOOPBACK, "port": port, "tls_dir": folder / "tls", "drain_seconds": 0}
    command = ("-m", "gunicorn", "-c", "python:webhook.gunicorn_conf", *application.split())
    with running(*command, output=folder / "webhook.log", settings=defaults | settings) as program:
        started = Webhook(program, port, ca.certificate)
        if wait:
            program.wait_until(started.ready)
        yield started
