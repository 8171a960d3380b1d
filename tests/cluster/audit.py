"""Who asked an API server for what, by its own audit log."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.api import Json

POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
# What a node tells of itself: whether it is of us shows in it alone.
- level: Request
  verbs: [patch]
  resources: [{group: "", resources: [nodes/status]}]
- level: Metadata
"""


@dataclass(frozen=True, slots=True)
class Request:
    """A request, once it was answered; a watch, once it began."""

    user: str
    program: str
    """The first word of the user agent, such as `kubelet/v1.36.3`, without the version."""
    verb: str
    resource: str
    """With its subresource, as `nodes/status`; the path for what is no resource."""
    namespace: str
    name: str
    body: Json = field(hash=False)
    """Of a change to a node's status; else empty."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit log of an API server that was started with `arguments`."""

    folder: Path

    @property
    def log(self) -> Path:
        """Where the API server writes it."""
        return self.folder / "audit.log"

    def arguments(self) -> tuple[str, ...]:
        """Write the policy, and return what an API server needs in its command."""
        policy = self.folder / "audit-policy.yaml"
        policy.write_text(POLICY)
        return (f"--audit-policy-file={policy}", f"--audit-log-path={self.log}")

    def mark(self) -> int:
        """Return the place where the log ends now."""
        return self.log.stat().st_size

    def since(self, mark: int, until: int | None = None) -> list[Request]:
        """Return the requests between two places."""
        with self.log.open("rb") as file:
            file.seek(mark)
            text = file.read(-1 if until is None else until - mark)
        events = (json.loads(line) for line in text.splitlines(keepends=True) if line[-1:] == b"\n")
        return [_request(event) for event in events if _counts(event)]


def _counts(event: Json) -> bool:
    """Whether an event stands for a request: a watch has one when it begins, and one at its end."""
    stage = "ResponseStarted" if event["verb"] == "watch" else "ResponseComplete"
    return bool(event["stage"] == stage)


def _request(event: Json) -> Request:
    ref = event.get("objectRef", {})
    parts = (ref.get("resource", event["requestURI"]), ref.get("subresource", ""))
    return Request(
        user=event["user"]["username"],
        program=event.get("userAgent", "").partition("/")[0],
        verb=event["verb"],
        resource="/".join(filter(None, parts)),
        namespace=ref.get("namespace", ""),
        name=ref.get("name", ""),
        body=event.get("requestObject", {}),
    )


def counted(requests: Iterable[Request]) -> Counter[tuple[str, str]]:
    """Return how many requests there were of each verb and resource."""
    return Counter((each.verb, each.resource) for each in requests)
