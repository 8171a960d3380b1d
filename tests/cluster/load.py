"""Many admissions: clients of the API server that create objects, and what became of each."""

import http.client
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.cluster import shapes
from tests.cluster.api import Api, Json, collection
from vgpu import names

PATIENCE = 60
"""Seconds that a client waits for the API server; longer than that one lets a request run."""


CROWDED = "one-of-a-crowd"
"""The name of every pod that a crowd asks for; they are to be judged only."""


@dataclass(frozen=True, slots=True)
class Admission:
    """One creation of a pod or a workload; times by the monotonic clock."""

    name: str
    began: float
    ended: float
    fault: str
    """What the API server said instead; empty for an object that was made."""
    grant: str = ""
    """The slots of the first container in the answer; empty for none."""


@dataclass(slots=True)
class Load:
    """What the clients have seen so far."""

    admissions: list[Admission] = field(default_factory=list)

    @property
    def failures(self) -> list[Admission]:
        """Those that failed."""
        return [each for each in self.admissions if each.fault]

    @property
    def slowest(self) -> float:
        """Seconds that the longest one took."""
        return max(each.ended - each.began for each in self.admissions)

    @property
    def seconds(self) -> float:
        """Seconds from the first one's begin to the last one's end."""
        begin = min(each.began for each in self.admissions)
        return max(each.ended for each in self.admissions) - begin


def sharing(name: str) -> Json:
    """Return a pod with a share."""
    return shapes.pod(name, shapes.limited("main", gpu="300m"))


def plain(name: str) -> Json:
    """Return the same pod without one, which no webhook sees."""
    return shapes.pod(name, {"name": "main", "resources": {"limits": {names.CPU: "2400m"}}})


class Client:
    """One kept connection to the API server."""

    def __init__(self, api: Api, namespace: str, query: str = "") -> None:
        place = urlsplit(api.url)
        assert place.hostname
        self.link = http.client.HTTPSConnection(
            place.hostname, place.port, context=api.tls, timeout=PATIENCE
        )
        self.link.connect()
        self.headers = {"Authorization": f"Bearer {api.token}", "Content-Type": "application/json"}
        self.namespace, self.query, self.last = namespace, query, b""

    def create(self, obj: Json) -> Admission:
        """Create a pod or a workload."""
        self.prepare(obj)
        began = self.begin()
        return self.finish(obj, began)

    def prepare(self, obj: Json) -> None:
        """Send all of a request but its last byte."""
        text = json.dumps(obj).encode()
        self.link.putrequest("POST", collection(obj, self.namespace) + self.query)
        for name, value in {**self.headers, "Content-Length": str(len(text))}.items():
            self.link.putheader(name, value)
        self.link.endheaders(text[:-1])
        self.last = text[-1:]

    def begin(self) -> float:
        """Send the last byte, and return when that was."""
        began = time.monotonic()
        self.link.send(self.last)
        return began

    def finish(self, obj: Json, began: float) -> Admission:
        """Read the answer."""
        answer = self.link.getresponse()
        said, ended = json.loads(answer.read()), time.monotonic()
        made = answer.status == http.HTTPStatus.CREATED
        fault, grant = ("", _grant(said)) if made else (said["message"], "")
        return Admission(obj["metadata"]["name"], began, ended, fault, grant)

    def close(self) -> None:
        """End the connection."""
        self.link.close()


def _grant(obj: Json) -> str:
    limits = shapes.held(obj)["spec"]["containers"][0]["resources"].get("limits", {})
    return str(limits.get(names.COUNT, ""))


@contextmanager
def steady(
    api: Api,
    namespace: str,
    clients: int = 8,
    tick: float = 0.2,
    query: str = "",
    make: Callable[[str], Json] = sharing,
) -> Iterator[Load]:
    """Have clients create an object each, all of them at once in every tick, for a while."""
    load, stop, origin = Load(), threading.Event(), time.monotonic()

    def work(number: int) -> None:
        with closing(Client(api, namespace, query)) as client:
            for turn in itertools.count():
                load.admissions.append(client.create(make(f"steady-{number}-{turn}")))
                if stop.wait(tick - (time.monotonic() - origin) % tick):
                    return

    with ThreadPoolExecutor(clients) as pool:
        working = [pool.submit(work, number) for number in range(clients)]
        try:
            yield load
        finally:
            stop.set()
    for each in working:
        each.result()


def burst(api: Api, namespace: str, make: Callable[[str], Json], pods: int) -> Load:
    """Create so many pods at once, each by a client of its own that is connected already."""
    load, ready = Load(), threading.Barrier(pods, timeout=PATIENCE)

    def work(number: int) -> None:
        with closing(Client(api, namespace)) as client:
            ready.wait()
            load.admissions.append(client.create(make(f"burst-{number}")))

    with ThreadPoolExecutor(pods) as pool:
        for done in [pool.submit(work, number) for number in range(pods)]:
            done.result()
    return load


@contextmanager
def clients(api: Api, namespace: str, count: int, query: str = "") -> Iterator[list[Client]]:
    """Give so many clients, connected already."""
    with ExitStack() as stack:
        made = (Client(api, namespace, query) for _ in range(count))
        yield [stack.enter_context(closing(each)) for each in made]


def crowd(clients: list[Client]) -> list[Admission]:
    """Have each client create a sharing pod, all of them in the same few milliseconds.

    More at once than the API server keeps connections to the webhook for: it opens new ones.
    """
    pod = sharing(CROWDED)
    for each in clients:
        each.prepare(pod)
    began = [each.begin() for each in clients]
    return [each.finish(pod, at) for each, at in zip(clients, began, strict=True)]
