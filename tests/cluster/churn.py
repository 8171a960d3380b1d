"""A load that makes slots change hands all the time: pods, jobs and replicas come and go."""

import http.client
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.cluster import images, shapes
from tests.cluster.api import ApiError, Json, collection
from tests.cluster.shapes import holding
from tests.cluster.spaces import Space

FAULTS = (ApiError, OSError, http.client.HTTPException)
"""How a request of the load can fail."""
TICK = 0.5
"""Seconds from one change to the next."""
KINDS = {
    "small": (3, ("20m", "70m", "120m")),
    "large": (1, ("600m", "1")),
    "job": (1, ("50m",)),
    "plain": (2, ("",)),
}
"""Of each kind: how many there are at a time, and what they ask for in turn.

All small ones fit on one card, so the large ones can have the other, as a whole or in part.
"""
REPLICAS, EACH = 2, "80m"
"""Most replicas of the one deployment, which is scaled up and down, and what each asks for."""
NOW = {"gracePeriodSeconds": 1, "propagationPolicy": "Background"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that was not answered, or not with yes."""

    kind: str
    message: str


@dataclass(slots=True)
class Churn:
    """The load, and what became of it."""

    space: Space
    dice: random.Random
    refused: list[Refusal] = field(default_factory=list)
    """Since the last `told`."""
    failed: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Kind and message of pods that failed, by uid."""
    created: Counter[str] = field(default_factory=Counter)
    """How many of each kind were created since the last `told`."""
    alive: dict[str, list[Json]] = field(default_factory=dict)
    """Of each kind what was created and is not deleted yet, the oldest first."""
    calm: threading.Lock = field(default_factory=threading.Lock)
    """Held during a change, and by who wants none."""
    _numbers: int = 0

    def step(self) -> None:
        """Make one change."""
        kind = self.dice.choice([*KINDS, "replicas"])
        if kind == "replicas":
            self._scale(self.dice.randint(0, REPLICAS))
            return
        there, (most, asks) = self.alive.setdefault(kind, []), KINDS[kind]
        while len(there) >= most and self._tried(kind, lambda: self._delete(there[0])):
            there.pop(0)
        self._numbers += 1
        made = shaped(kind, f"{kind}-{self._numbers}", asks[self._numbers % len(asks)])
        there.append(made)  # also where it is refused: it may have been made all the same
        if self._tried(kind, lambda: self.space.create(made)):
            self.created[kind] += 1

    def _tried(self, kind: str, change: Callable[[], object]) -> bool:
        """Make a change; whether it was made. What was said instead is noted."""
        try:
            change()
        except FAULTS as fault:
            self.refused.append(Refusal(kind, _sentence(fault)))
            return False
        return True

    def _scale(self, replicas: int) -> None:
        api, change = self.space.node.plane.api, {"spec": {"replicas": replicas}}
        self._tried("replicas", lambda: api.patch(deployment(), change, self.space.name))

    def _delete(self, obj: Json) -> None:
        """Delete an object as kubectl does, if it is there."""
        path = f"{collection(obj, self.space.name)}/{obj['metadata']['name']}"
        try:
            self.space.node.plane.api.request("DELETE", path, NOW)
        except ApiError as fault:
            if fault.code != http.HTTPStatus.NOT_FOUND:
                raise

    def sweep(self) -> None:
        """Note the pods that have failed, before they are deleted."""
        try:
            pods = self.space.pods()
        except FAULTS:
            return
        for pod in pods:
            if pod["status"]["phase"] == "Failed":
                kind = str(pod["metadata"]["name"]).partition("-")[0]
                status = pod["status"]
                said = f"{status.get('reason')}: {status.get('message')}"
                self.failed[pod["metadata"]["uid"]] = (kind, _numberless(said))

    def told(self) -> tuple[Counter[str], list[Refusal], list[tuple[str, str]]]:
        """Return what was created, refused, and failed since the last time."""
        self.sweep()
        found = self.created, self.refused, list(self.failed.values())
        self.created, self.refused, self.failed = Counter(), [], {}
        return found

    def work(self, stop: threading.Event) -> None:
        """Make changes until told to stop."""
        while not stop.wait(TICK):
            with self.calm:
                self.sweep()
                self.step()


@contextmanager
def churn(space: Space, seed: str) -> Iterator[Churn]:
    """Have things come and go in a space while the block runs."""
    made = Churn(space, random.Random(seed))  # noqa: S311 - nothing secret
    space.create(deployment())
    stop = threading.Event()
    thread = threading.Thread(target=made.work, args=[stop])
    thread.start()
    try:
        yield made
    finally:
        stop.set()
        thread.join()


def deployment() -> Json:
    """Return the deployment that is scaled."""
    made = holding("Deployment", shapes.pod("replicas", _container("main", EACH)))
    made["spec"]["replicas"] = 0
    return made


def shaped(kind: str, name: str, ask: str) -> Json:
    """Return an object of a kind of the load; a job's pod ends by itself."""
    job = kind == "job"
    pod = shapes.pod(name, _container("main", ask, image=images.ONCE if job else images.WORKLOAD))
    return holding("Job", pod) if job else pod


def _container(name: str, ask: str, image: str = images.WORKLOAD) -> Json:
    limits = {"limits": {"gpu": ask}} if ask else {}
    # What a share gets as its CPU limit would book out so small a node.
    return {"name": name, "image": image, "resources": {"requests": {"cpu": "1m"}, **limits}}


def _sentence(fault: Exception) -> str:
    return _numberless(str(fault) or type(fault).__name__)


def _numberless(message: str) -> str:
    """Return a message without what differs from one time to the next, to count them by it."""
    return re.sub(r"\d[\da-f-]*", "N", message)


def settled(space: Space) -> bool:
    """Whether every pod of a space runs, has ended, or waits for a place."""
    path = f"/api/v1/namespaces/{space.name}/pods"
    return all(_settled(pod) for pod in space.node.plane.api.get(path)["items"])


def _settled(pod: Json) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    conditions = [(each["type"], each["status"]) for each in pod["status"].get("conditions", ())]
    match pod["status"]["phase"]:
        case "Running":
            return ("Ready", "True") in conditions
        case "Pending":
            return ("PodScheduled", "False") in conditions
    return True
