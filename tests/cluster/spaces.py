"""A namespace of a test's own on the real node, and what its pods say of themselves."""

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.cluster import images
from tests.cluster.api import Json
from tests.cluster.eventually import eventually
from tests.cluster.node import Node

_numbers = itertools.count(1)
WORKLOADS = "cronjobs,jobs,deployments,statefulsets,daemonsets,replicasets,rc,pods"


@dataclass(frozen=True, slots=True)
class Report:
    """What a container was given, by its own account."""

    argv: list[str]
    env: dict[str, str]
    cpu: str
    """Quota and period of its control group, in microseconds."""


@dataclass(frozen=True, slots=True)
class Space:
    """A namespace on the node."""

    node: Node
    name: str

    def create(self, obj: Json) -> Json:
        """Create an object in the namespace."""
        return self.node.plane.api.create(obj, self.name)

    def kubectl(self, *args: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl in the namespace and return its standard output."""
        done = self.node.plane.kubectl("-n", self.name, *args, stdin=stdin, check=check)
        return done.stdout

    def pods(self, app: str | None = None) -> list[Json]:
        """Return the pods that are not being deleted, all or those of an app, by name."""
        path = f"/api/v1/namespaces/{self.name}/pods"
        found = self.node.plane.api.get(path + (f"?labelSelector=app%3D{app}" if app else ""))
        alive = [p for p in found["items"] if "deletionTimestamp" not in p["metadata"]]
        return sorted(alive, key=lambda pod: str(pod["metadata"]["name"]))

    def pod(self, name: str) -> Json:
        """Return a pod."""
        return self.node.plane.api.get(f"/api/v1/namespaces/{self.name}/pods/{name}")

    def running(self, name: str) -> Json:
        """Wait until a pod runs, and return it."""
        return eventually(lambda: _runs(self.pod(name)), f"pod {name} runs", 45)

    def all_running(self, app: str, count: int = 1) -> list[Json]:
        """Wait until an app has exactly so many pods and all of them run; return them."""

        def look() -> list[Json] | None:
            pods = self.pods(app)
            assert len(pods) == count, [pod["metadata"]["name"] for pod in pods]
            return pods if all(_runs(pod) for pod in pods) else None

        return eventually(look, f"{count} pods of {app} run", 45)

    def reports(self, pod: Json) -> dict[str, Report]:
        """Wait for the reports of a pod's containers, and return them by container."""
        spec = pod["spec"]
        names = [each["name"] for each in (*spec.get("initContainers", []), *spec["containers"])]
        return {name: self.report(pod["metadata"]["name"], name) for name in names}

    def report(self, pod: str, container: str) -> Report:
        """Wait for a container's report, and return it."""
        path = f"/api/v1/namespaces/{self.name}/pods/{pod}/log?container={container}"
        look = lambda: self.node.plane.api.raw("GET", path)  # noqa: E731
        text = eventually(look, f"a report of {pod}/{container}")
        report: dict[str, Any] = json.loads(text.splitlines()[0])
        return Report(**report)


@contextmanager
def space(node: Node) -> Iterator[Space]:
    """Give a new namespace; afterwards its pods are gone and their slots are free."""
    made = Space(node, f"test-{next(_numbers)}")
    obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.name}}
    node.plane.api.create(obj)
    account = f"/api/v1/namespaces/{made.name}/serviceaccounts/default"
    eventually(lambda: node.plane.api.get(account), "the namespace's service account")
    try:
        yield made
    finally:
        # One by one: the namespace's controller would wait for five seconds first.
        made.kubectl("delete", WORKLOADS, "--all", "--now", "--wait=false")
        node.plane.api.delete(obj)
        eventually(lambda: not _all_pods(made), f"the end of all pods of {made.name}", 60)


def _all_pods(made: Space) -> list[Json]:
    items: list[Json] = made.node.plane.api.get(f"/api/v1/namespaces/{made.name}/pods")["items"]
    return items


def _runs(pod: Json) -> Json | None:
    """Return a pod that runs, None while it may yet; fails at once when it cannot any more."""
    status = pod["status"]
    if status["phase"] == "Failed":
        raise RuntimeError(f"pod {pod['metadata']['name']} failed: {status.get('message')}")
    ready = all(each["ready"] for each in status.get("containerStatuses", [{"ready": False}]))
    assert status["phase"] == "Running" and ready, _why(status)  # noqa: PT018
    return pod


def _why(status: Json) -> str:
    parts = [each.get("message", "") for each in status.get("conditions", [])]
    each_of = (*status.get("initContainerStatuses", []), *status.get("containerStatuses", []))
    parts.extend(json.dumps(each["state"]) for each in each_of)
    return f"{status['phase']}: {'; '.join(filter(None, parts))}"


def reporting(name: str, *args: str, **more: Any) -> Json:
    """Return a container that reports what it was given; limits as for `shapes.limited`."""
    return {"name": name, "image": images.WORKLOAD, "args": list(args), **more}


def asking(name: str, ask: str, *args: str, **more: Any) -> Json:
    """Return a reporting container with an ask in its limits."""
    return reporting(name, *args, resources={"limits": {"gpu": ask}}, **more)
