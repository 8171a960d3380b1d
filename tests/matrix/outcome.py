"""Whether an answer is what a row of the table says, of the handler or of the API server."""

import json
from dataclasses import dataclass
from typing import assert_never

from tests.matrix.table import (
    ASK_KEYS,
    Denied,
    Gone,
    Outcome,
    Row,
    Share,
    Untouched,
    Whole,
    is_ask,
)
from tests.unit.webhook.objects import (
    COUNT,
    WHOLE,
    container,
    containers,
    env,
    held,
    holding,
    named,
    prefix,
    sent,
)
from webhook.pod import Json

FRACTION, VISIBLE = "PER_PROCESS_GPU_MEMORY_FRACTION", "NVIDIA_VISIBLE_DEVICES"
RECORD = "milligpu.io/share"
AT = {
    "container": "containers[0]",
    "init container": "initContainers[0]",
    "sidecar": "initContainers[0]",
}


@dataclass(frozen=True)
class Case:
    """One row in one kind, at one place of its pod."""

    row: Row
    kind: str
    place: str
    whole: bool
    """Whether whole cards are served."""
    instead: Outcome | None = None
    """Another outcome than the row's."""

    def __str__(self) -> str:
        return f"{self.kind}, {self.place}, whole cards {'on' if self.whole else 'off'}"

    @property
    def expected(self) -> Outcome:
        return self.instead or self.row.expected(whole=self.whole)

    @property
    def manifest(self) -> Json:
        """The object as a user writes it."""
        obj = holding(self.kind, self.row.pod(self.place))
        if "workload" in self.row.fields:
            obj["metadata"]["annotations"] = self.row.fields["workload"]
        return obj

    @property
    def plain_pod(self) -> Json:
        """The pod before anything of the row was written: its containers."""
        pod = Row("", Untouched()).pod(self.place)
        beside = self.row.fields.get("beside", ())
        pod["spec"]["containers"] += [container(body["name"]) for body in beside]
        return pod

    @property
    def plain(self) -> Json:
        """The object around it."""
        return holding(self.kind, self.plain_pod)

    @property
    def it(self) -> str:
        """The container that the ask is for: an annotation without a name is for no init one."""
        nameless = self.row.note is not None and "=" not in str(self.row.note)
        return "app" if nameless and self.place != "container" else "it"

    def words(self, text: str) -> str:
        """Fill in the places."""
        at = prefix(self.kind, "spec", AT[self.place])
        return text.format(it=at, pod=prefix(self.kind, "metadata"))

    def grants(self) -> dict[str, dict[str, str]]:
        """Return what containers get, by name; a template's annotation is not moved into it."""
        match self.expected:
            case Share(it, other):
                found = {self.it: {COUNT: it}, "other": {COUNT: other}}
            case Whole(it):
                found = {self.it: {WHOLE: it}}
            case _:
                return {}
        return {
            name: {key: str(number) for key, number in grant.items()}
            for name, grant in found.items()
            if any(grant.values())
        }


def check_denied(case: Case, message: str) -> None:
    """Check the message of what the table says is denied."""
    assert isinstance(case.expected, Denied)
    first, *others = map(case.words, case.expected.words)
    assert message.startswith(first)
    assert all(word in message for word in others), message


def check_made(case: Case, obj: Json) -> None:
    """Check an object that was let through."""
    before = sent(case.manifest)
    names = [[body["name"] for body in containers(each)] for each in (obj, before)]
    assert names[0] == names[1]
    for body in containers(obj):
        _check_resources(case, body, named(before, body["name"]))
        _check_env(case, body, named(before, body["name"]))
    notes: dict[str, str] = held(obj)["metadata"].get("annotations") or {}
    if case.kind == "Pod" and case.grants():
        assert set(json.loads(notes[RECORD])) == set(case.grants())
    else:
        assert RECORD not in notes


def _check_resources(case: Case, body: Json, before: Json) -> None:
    found, written = (
        [_gpus(each, side) for side in ("limits", "requests")] for each in (body, before)
    )
    grant = case.grants().get(body["name"])
    asked = any(is_ask(key, side[key]) for side in written for key in side)
    if grant and (asked or case.kind == "Pod"):
        assert found == [grant, grant]
    else:
        kept = [
            {key: value for key, value in side.items() if key not in ASK_KEYS} for side in written
        ]
        assert [_texts(side) for side in found] == [_texts(side) for side in kept]


def _gpus(body: Json, side: str) -> Json:
    values = (body.get("resources") or {}).get(side) or {}
    return {key: value for key, value in values.items() if key != "cpu"}


def _texts(side: Json) -> dict[str, str]:
    return {key: str(value) for key, value in side.items()}


def _check_env(case: Case, body: Json, before: Json) -> None:
    wanted, grant = env(before), case.grants().get(body["name"])
    if case.kind == "Pod" and grant:
        if isinstance(case.expected, Share):
            wanted.pop(case.expected.removes, None)
        if COUNT in grant:
            slots = int(grant[COUNT])
            wanted[FRACTION] = f"{slots / 100:.2f}".rstrip("0").rstrip(".")
    elif case.kind == "Pod" and case.grants() and not _gpus(before, "limits"):
        wanted[VISIBLE] = "void"
    assert env(body) == wanted
    for field in ("envFrom", "restartPolicy"):
        assert body.get(field) == before.get(field)


def check_warnings(case: Case, warnings: list[str]) -> None:
    """Check that everything that is to be said is said, once, and nothing else."""
    outcome, wanted = case.expected, []
    match outcome:
        case Share() | Untouched():
            wanted += [case.words(outcome.says)] if outcome.says else []
            if isinstance(outcome, Share) and outcome.removes:
                wanted.append(f"container it: {outcome.removes} removed")
        case Whole() | Gone() | Denied():
            pass
        case _:
            assert_never(outcome)
    shares = [name for name, grant in case.grants().items() if COUNT in grant]
    wanted += [f"container {name}: gets a CPU limit of " for name in shares]
    assert len(warnings) == len(wanted), warnings
    for words in wanted:
        assert sum(words in text for text in warnings) == 1, (words, warnings)
