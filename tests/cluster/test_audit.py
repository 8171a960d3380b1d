"""What an audit log says is read right, and who asks for more than it should is found."""

import json
from pathlib import Path

import pytest

from tests.cluster.audit import CERTS, TURN, Audit, Request, counted, telling, turns
from vgpu import names


def event(stage: str = "ResponseComplete", **fields: object) -> str:
    head = {"stage": stage, "verb": "get", "user": {"username": "somebody"}, "requestURI": "/x"}
    return json.dumps(head | fields) + "\n"


def test_requests_are_counted_once_and_watches_when_they_begin(tmp_path: Path) -> None:
    audit = Audit(tmp_path)
    audit.log.write_text(event())
    mark = audit.mark()
    pods = {"resource": "pods", "subresource": "status", "namespace": "a", "name": "b"}
    lines = [
        event(verb="patch", objectRef=pods, userAgent="kubelet/v1.36.3 (linux)"),
        event("ResponseStarted", verb="watch", objectRef={"resource": "nodes"}),
        event("ResponseComplete", verb="watch", objectRef={"resource": "nodes"}),
        event("ResponseStarted"),
        event()[:-5],  # is being written
    ]
    with audit.log.open("a") as log:
        log.write("".join(lines))
    found = audit.since(mark)
    assert counted(found) == {("patch", "pods/status"): 1, ("watch", "nodes"): 1}
    first = Request("somebody", "kubelet", "patch", "pods/status", "a", "b", {})
    assert found[0] == first
    assert counted(audit.since(0, mark)) == {("get", "/x"): 1}


def asked(*turn: tuple[str, str, str]) -> list[Request]:
    return [Request(CERTS, "", verb, what, "", name, {}) for verb, what, name in turn]


def test_looks_of_the_certificate_keeper_are_counted() -> None:
    assert turns([]) == 0
    assert turns(asked(*TURN * 3)) == 3
    assert turns(asked(*TURN[1:], *TURN, *TURN[:2])) == 1  # between two moments within a look


@pytest.mark.parametrize(
    "more", [("list", "nodes", ""), ("get", "secrets", "other"), TURN[0]], ids=lambda it: it[0]
)
def test_whatever_else_it_asks_for_is_found(more: tuple[str, str, str]) -> None:
    for extra in ([more, *TURN], [*TURN, more, *TURN], [TURN[0], more, *TURN[1:]]):
        with pytest.raises(AssertionError):
            turns(asked(*extra))


def test_a_node_tells_of_us_only_where_our_resources_stand() -> None:
    def status(**body: object) -> Request:
        return Request("n", "kubelet", "patch", "nodes/status", "", "n", {"status": body})

    ours = status(allocatable={names.WHOLE: "1"})
    others = [status(conditions=[]), status(allocatable={"cpu": "2"})]
    assert telling([*others, ours]) == [ours]
