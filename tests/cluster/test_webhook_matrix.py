"""The table of what users may write (tests/matrix/table.py), before the real API server.

Every row in all of its kinds; the places in a pod take turns. An object is created, brought to a
plain one by an update, and applied again unchanged. What the table says is not sent to us, is not.
"""

import http.client
import itertools
import json
import re
import time
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import urlsplit

import pytest

from milligpu.processes import Webhook
from tests.cluster import shapes, webhooks
from tests.cluster.api import collection
from tests.cluster.controlplane import ControlPlane
from tests.matrix.outcome import Case, check_denied, check_made, check_warnings
from tests.matrix.table import ASK_KEYS, ROWS, Denied, Refused, Row, Share, Unsent, Untouched, Whole
from webhook.pod import Json

pytestmark = pytest.mark.apiserver

DRY = "dryRun=All"
Sent: TypeAlias = tuple[str, str, str]
"""Operation, kind and name."""
LAST: Sent = ("CREATE", "Pod", "is-the-webhook-asked")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Answer:
    """What the API server says."""

    status: int
    body: Json
    warnings: list[str]
    """Ours."""

    @property
    def message(self) -> str:
        return str(self.body["message"])


@dataclass
class Desk:
    """One connection to the API server, one namespace, and the webhook before it."""

    plane: ControlPlane
    link: http.client.HTTPSConnection
    namespace: str
    webhook: Webhook
    plain: dict[tuple[str, str], Json] = field(default_factory=dict)
    """What is stored of objects without anything of a row, by kind and name."""

    def apply(self, obj: Json, *query: str) -> Answer:
        """Apply on the server's side, as one manager."""
        path = f"{collection(obj, self.namespace)}/{obj['metadata']['name']}"
        headers = {
            "Authorization": f"Bearer {self.plane.api.token}",
            "Content-Type": "application/apply-patch+yaml",
        }
        options = "&".join(("fieldManager=matrix", "force=true", *query))
        self.link.request("PATCH", f"{path}?{options}", json.dumps(obj), headers)
        response = self.link.getresponse()
        body = json.loads(response.read())
        said = [_said(text) for text in response.headers.get_all("Warning") or []]
        return Answer(response.status, body, [text for text in said if text.startswith("milligpu")])

    def logged(self) -> int:
        """Return how long the webhook's log is, in bytes."""
        return self.webhook.program.output.stat().st_size

    def reviews(self, after: int, names: Collection[str], number: int) -> set[Sent]:
        """Return what was sent to the webhook of these names; lines come after the answers."""
        webhooks.ask(self.plane)  # whatever else was sent, was sent before this
        deadline = time.monotonic() + 5
        while True:
            text = self.webhook.program.output.read_bytes()[after:]
            lines = [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]
            seen = {(each["operation"], each["kind"], each["name"]) for each in lines}
            found = {each for each in seen if each[2] in names}
            if (LAST in seen and len(found) >= number) or time.monotonic() > deadline:
                return found
            time.sleep(0.01)


def _said(header: str) -> str:
    """Return the text of a Warning header (RFC 7234: a code, an agent, a quoted text)."""
    return re.sub(r"\\(.)", r"\1", header.partition('"')[2].rpartition('"')[0])


@pytest.fixture(scope="module")
def desk(
    request: pytest.FixtureRequest,
    apiserver: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Desk]:
    """The webhook with whole cards on or off, before the API server."""
    name = f"matrix-{next(_numbers)}"
    apiserver.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    place = urlsplit(apiserver.api.url)
    assert place.hostname
    link = http.client.HTTPSConnection(place.hostname, place.port, context=apiserver.api.tls)
    folder, served = tmp_path_factory.mktemp(name), str(request.param).lower()
    with webhooks.before(apiserver, folder, whole_cards=served) as started, closing(link):
        yield Desk(apiserver, link, name, started)


def complete(case: Case, pod: Json, name: str) -> Json:
    """Return the case's object around a pod, as the API server wants it."""
    return shapes.holding(case.kind, {**pod, "metadata": {**pod["metadata"], "name": name}})


def manifest(case: Case, name: str) -> Json:
    obj = complete(case, case.row.pod(case.place), name)
    if "workload" in case.row.fields:
        obj["metadata"]["annotations"] = case.row.fields["workload"]
    return obj


def stored_plain(desk: Desk, case: Case) -> Json:
    """Return what is stored of an object to which the row is to be brought."""
    beside = [body["name"] for body in case.row.fields.get("beside", ())]
    name = "-".join(["plain", case.place.replace(" ", "-"), *beside])
    if (case.kind, name) not in desk.plain:
        answer = desk.apply(complete(case, case.plain_pod, name))
        assert answer.status == 201, answer.message
        desk.plain[case.kind, name] = answer.body
    return desk.plain[case.kind, name]


def cases(row: Row, *, whole: bool) -> list[Case]:
    """Return the row in each kind, with places that take turns from row to row."""
    turn, listed = ROWS.index(row), []
    for index, kind in enumerate(row.kinds):
        difference = row.difference(kind)
        instead = Untouched() if isinstance(difference, Refused | Unsent) else difference
        place = row.places[(turn + index) % len(row.places)]
        listed.append(Case(row, kind, place, whole, instead))
    return listed


def rows(*, whole: bool) -> pytest.MarkDecorator:
    """Run a test for every row, or for those that have another outcome with whole cards off."""
    chosen = [row for row in ROWS if whole in row.settings]
    return pytest.mark.parametrize("row", chosen, ids=[row.written for row in chosen])


@pytest.mark.parametrize("desk", [True], indirect=True, ids=["on"])
@rows(whole=True)
def test_a_row(desk: Desk, row: Row) -> None:
    check_row(desk, row, cases(row, whole=True))


@pytest.mark.parametrize("desk", [False], indirect=True, ids=["off"])
@rows(whole=False)
def test_a_row_where_no_whole_cards_are_served(desk: Desk, row: Row) -> None:
    check_row(desk, row, cases(row, whole=False))


def check_row(desk: Desk, row: Row, listed: list[Case]) -> None:
    name = f"row-{ROWS.index(row)}"
    plain = [stored_plain(desk, case) for case in listed]
    before = desk.logged()
    created = [desk.apply(manifest(case, name)) for case in listed]
    updated = [
        desk.apply(manifest(case, old["metadata"]["name"]), DRY)
        for case, old in zip(listed, plain, strict=True)
    ]
    old_names = [old["metadata"]["name"] for old in plain]
    wanted = {("CREATE", case.kind, name) for case in listed if is_sent(case)}
    wanted |= {
        ("UPDATE", case.kind, old_name)
        for case, old_name in zip(listed, old_names, strict=True)
        if is_sent(case) and (case.kind != "Pod" or row.asks)
    }
    assert desk.reviews(before, {name, *old_names}, len(wanted)) == wanted
    for case, old, creation, update in zip(listed, plain, created, updated, strict=True):
        check(case, creation)
        match case.kind:
            case "Pod":
                check_update_of_a_pod(case, update, old)
            case "Job" if changes_a_template(case):
                check_refused(update, "field is immutable")
            case _:
                check(case, update)
        if creation.status < 300:
            check_again(desk.apply(manifest(case, name), DRY), creation)


def is_sent(case: Case) -> bool:
    """Whether it reaches us at its creation; a pod's update does only where an ask is new."""
    return not isinstance(case.row.difference(case.kind), Refused | Unsent)


def check(case: Case, answer: Answer) -> None:
    match case.row.difference(case.kind), case.expected:
        case Refused(words), _:
            check_refused(answer, words)
        case _, Denied():
            check_denied(case, denial(answer))
        case _:
            assert answer.status < 300, (case, answer.message)
            check_made(case, answer.body)
            check_warnings(case, answer.warnings)


def check_update_of_a_pod(case: Case, answer: Answer, old: Json) -> None:
    """A pod's share cannot change; what is no ask, the API server judges alone."""
    difference, asks = case.row.difference("Pod"), case.row.asks
    if isinstance(difference, Refused):
        check_refused(answer, difference.words)
    elif asks and isinstance(case.expected, Denied):
        check_denied(case, denial(answer))
    elif asks and isinstance(case.expected, Share | Whole):
        assert "a pod's share cannot change (it has none); delete the pod" in denial(answer)
    elif changes_the_spec(case.row):
        check_refused(answer, "pod updates may not change fields")
    else:
        assert answer.status < 300, (case, answer.message)
        assert answer.body["spec"] == old["spec"]


def changes_a_template(case: Case) -> bool:
    """Whether the row comes to the template, and something of it is left there."""
    if isinstance(case.row.difference(case.kind), Refused) or isinstance(case.expected, Denied):
        return False
    return changes_the_spec(case.row) or bool(case.grants() or case.row.fields.get("annotations"))


def changes_the_spec(row: Row) -> bool:
    """Whether something is left when the asks are gone."""
    limits, requests = (row.fields.get(side) or {} for side in ("limits", "requests"))
    kept = [key for key in {**limits, **requests} if key not in ASK_KEYS]
    return bool(kept or {"env", "envFrom"} & row.fields.keys())


def check_again(again: Answer, first: Answer) -> None:
    assert again.status == 200, again.message
    assert (
        again.body["spec" if "spec" in first.body else "template"]
        == (first.body["spec" if "spec" in first.body else "template"])
    )
    for key in ("generation", "annotations"):
        assert again.body["metadata"].get(key) == first.body["metadata"].get(key)
    assert set(again.warnings) <= set(first.warnings)


def check_refused(answer: Answer, words: str) -> None:
    """Check a refusal of the API server's own."""
    assert answer.status >= 400
    assert words in answer.message
    assert "denied the request" not in answer.message


def denial(answer: Answer) -> str:
    """Return the message of our own denial."""
    entry, denied, message = answer.message.partition(" denied the request: ")
    assert (answer.status, bool(denied)) == (422, True), answer.message
    assert entry.startswith('admission webhook "')
    return message
