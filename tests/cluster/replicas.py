"""Several replicas of the webhook as the shipped Deployment runs them, before the API server."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from flask import Flask

from milligpu import processes
from milligpu.processes import Program, Webhook
from tests.cluster import webhooks
from tests.cluster.balancer import Balancer, balancing
from tests.cluster.controlplane import ControlPlane
from tests.cluster.processes import children
from webhook import worker
from webhook.admission import Answer, answer
from webhook.app import create_app
from webhook.config import Config
from webhook.metrics import Metrics

LAG_SECONDS = 2.0
"""How long after SIGTERM an ending replica still gets new connections: news travels slowly."""
TAKES_SECONDS = 0.05
_GUNICORN = ("-m", "gunicorn", "-c", "python:webhook.gunicorn_conf")


@dataclass(slots=True)
class Replicas:
    """Replicas with one certificate, as from one Secret; those that are ready get connections."""

    folder: Path
    application: str
    ca: bytes
    balancer: Balancer
    stack: ExitStack
    settings: dict[str, object]
    """What is not as shipped."""
    programs: list[Program] = field(default_factory=list)

    def start(self) -> Webhook:
        """Start a replica; once ready it gets connections."""
        return self.admit(self.launch())

    def launch(self) -> Webhook:
        """Start a replica without waiting for it."""
        port, log = processes.free_port(), self.folder / f"replica-{len(self.programs)}.log"
        address = {"host": "127.0.0.1", "port": port, "tls_dir": self.folder / "tls"}
        settings = address | self.settings
        program = self.stack.enter_context(
            processes.running(*_GUNICORN, self.application, output=log, settings=settings)
        )
        self.programs.append(program)
        return Webhook(program, port, self.ca)

    def admit(self, replica: Webhook) -> Webhook:
        """Let a replica get connections once it is ready."""
        replica.program.wait_until(replica.ready)
        self.balancer.endpoints += (replica.port,)
        return replica

    def end(self, replica: Webhook) -> int:
        """End a replica as the kubelet does, and return its exit status.

        That it is no longer an endpoint is known only later; connections that it has stay with it.
        """
        replica.program.process.terminate()
        time.sleep(LAG_SECONDS)
        left = (port for port in self.balancer.endpoints if port != replica.port)
        self.balancer.endpoints = tuple(left)
        return replica.program.wait()

    def quit(self) -> None:
        """End them all at once: nobody is there any more for whom to drain."""
        for program in self.programs:
            program.process.send_signal(signal.SIGQUIT)


def unhurried() -> Flask:
    """Build a webhook, for gunicorn, whose reviews take a while, so that several run at a time.

    The API server takes the connection that it used last, as long as that is free: reviews that
    are done at once would all go to one replica.
    """

    def decide(document: object, config: Config) -> Answer:
        time.sleep(TAKES_SECONDS)
        return answer(document, config)

    return create_app(Config(), Metrics(), lambda: (not worker.draining.is_set(), "ending"), decide)


def workers(replica: Webhook) -> tuple[int, ...]:
    """Return the processes that answer for a replica."""
    return children(replica.program.process.pid)


def crash(replica: Webhook) -> tuple[float, float]:
    """Kill a replica's worker, as the kernel does when memory is short.

    Returns the time before, and the one when it was gone, by the monotonic clock.
    """
    (victim,) = workers(replica)
    before = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    while victim in workers(replica):
        time.sleep(0.001)
    return before, time.monotonic()


@contextmanager
def replicated(
    plane: ControlPlane, folder: Path, application: str = "webhook.wsgi:app", **settings: object
) -> Iterator[tuple[Replicas, Webhook, Webhook]]:
    """Run two replicas before the API server until the block is left."""
    authority, pair = processes.certificates()
    processes.write_pair(folder / "tls", pair)
    with balancing() as balancer, ExitStack() as stack:
        ca = authority.certificate
        replicas = Replicas(folder, application, ca, balancer, stack, settings)
        one, other = map(replicas.admit, (replicas.launch(), replicas.launch()))
        url = f"https://{processes.HOST}:{balancer.port}/mutate"
        try:
            with webhooks.installed(plane, url, replicas.ca):
                yield replicas, one, other
        finally:
            replicas.quit()
