"""Who asked an API server for what, by its own audit log."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.api import Json
from vgpu import names

ACCOUNTS = f"system:serviceaccount:{names.NAMESPACE}"
"""How the user names of all our service accounts begin, those at the nodes too."""
CERTS = f"{ACCOUNTS}:certs"
TURN = [
    ("get", "secrets", names.SECRET_CA),
    ("get", "secrets", names.SECRET_SERVING),
    ("get", "mutatingwebhookconfigurations", names.WEBHOOK_CONFIGURATION),
]
"""What the certificate keeper asks for, each time that it looks."""
POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
# What a node tells of itself and of its pods: whether it is of us shows in it alone.
- level: Request
  verbs: [patch]
  resources: [{group: "", resources: [nodes/status, pods/status]}]
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
    """Of a change to the status of a node or a pod; else empty."""


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


def turns(requests: Iterable[Request]) -> int:
    """Return how often the certificate keeper looked; it must have asked for nothing else."""
    asked = [(it.verb, it.resource, it.name) for it in requests if it.user == CERTS]
    whole = asked[asked.index(TURN[0]) :] if TURN[0] in asked else []
    assert whole == (TURN * len(whole))[: len(whole)]
    assert asked == TURN[len(TURN) - (len(asked) - len(whole)) :] + whole
    return len(whole) // len(TURN)


def telling(requests: Iterable[Request]) -> list[Request]:
    """Return those by which a node told that it offers more or less of our resources."""
    return [
        each
        for each in requests
        if (each.verb, each.resource) == ("patch", "nodes/status")
        and not {*names.GRANT_KEYS}.isdisjoint(each.body["status"].get("allocatable", ()))
    ]


def counted(requests: Iterable[Request]) -> Counter[tuple[str, str]]:
    """Return how many requests there were of each verb and resource."""
    return Counter((each.verb, each.resource) for each in requests)
