"""One review before the product and before its second opinion."""

import json
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.changes import complaints, foreign
from tests.fuzz.oracle import Verdict, Wrong, judge
from tests.fuzz.pods import WAYS, Json, Pod, Settings, Silent, held
from tests.fuzz.reviews import Case
from tests.unit.webhook.objects import review
from webhook.admission import Answer, BadReview, answer
from webhook.config import Config

Decide = Callable[[object, Config], Answer]
_SPOILT = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError, Wrong)
"""What the oracle, which checks few types, meets in a review that no API server sends."""
_DEEP = 100
"""Levels of nesting that a review of a real object never has."""
_NOTHING = "W10="  # [] in base64


@dataclass
class Trial:
    """What came of a review."""

    outcome: str
    """changed, unchanged, denied, bad review or failed."""
    seconds: float
    complaints: list[str] = field(default_factory=list)
    judged: bool = True
    """Whether the oracle had an opinion on it."""
    why_silent: str = ""


def tried(case: Case, decide: Decide = answer) -> Trial:
    """Answer a review and judge the answer."""
    document = json.loads(case.text)
    start = time.perf_counter()
    try:
        result = decide(document, case.config)
    except (BadReview, RecursionError) as fault:
        seconds = time.perf_counter() - start
        excused = case.hostile and (isinstance(fault, BadReview) or _depth(case.text) > _DEEP)
        return Trial("bad review", seconds, [] if excused else [repr(fault)])
    except Exception as fault:  # noqa: BLE001 - whatever it is, it is a finding
        return Trial("failed", time.perf_counter() - start, [repr(fault)])
    response = result.body["response"]
    trial = Trial(_outcome(response), time.perf_counter() - start)
    if json.dumps(document) != json.dumps(json.loads(case.text)):
        trial.complaints.append("the argument was changed")
    trial.complaints += _form(response, document["request"]["uid"])
    try:
        trial.complaints += _judged(case, document["request"], response, decide)
    except Silent as silent:
        trial.judged, trial.why_silent = False, str(silent)
    except _SPOILT as fault:
        if not case.hostile:
            raise
        trial.judged, trial.why_silent = False, repr(fault)
    return trial


def settings(config: Config) -> Settings:
    """Return the settings as the oracle knows them."""
    return Settings(
        config.cpus_per_gpu,
        config.cpu_limit_max,
        config.whole_cards,
        config.tolerations,
        config.runtime_class,
    )


def stored(obj: Json, config: Config) -> Json | None:
    """Return what the product makes of a new object, None where it denies it."""
    response = answer(review(obj), config).body["response"]
    return patched(obj, response) if response["allowed"] else None


def _outcome(response: Json) -> str:
    if not response["allowed"]:
        return "denied"
    return "changed" if "patch" in response else "unchanged"


def _form(response: Json, uid: str) -> Iterator[str]:
    """Yield what the API server would not take of an answer."""
    if response["uid"] != uid:
        yield "another uid"
    if not all(0 < len(warning) <= 256 for warning in response.get("warnings", [])):
        yield "a warning that the API server cuts"
    if ("patch" in response) != (response.get("patchType") == "JSONPatch"):
        yield "a patch without its type, or the other way round"
    if response["allowed"]:
        return
    status = response.get("status", {})
    if "patch" in response or status.get("code") != 422:
        yield "a denial with a patch, or with another code"
    if not status.get("message"):
        yield "a denial without a reason"


def _judged(case: Case, request: Json, response: Json, decide: Decide) -> Iterator[str]:
    """Yield what the oracle says against an answer; raise Silent where it has no opinion."""
    if case.hostile and "must be " in response.get("status", {}).get("message", ""):
        raise Silent("denied for its JSON types")
    kind = request["kind"].get("group", ""), request["kind"]["kind"]
    is_update = request["operation"] == "UPDATE"
    if kind not in WAYS or request.get("subResource") or request["operation"] not in _OPERATIONS:
        if "patch" in response or not response["allowed"]:
            yield "changed or denied what is not ours"
        return
    sides = ("object", "oldObject") if is_update else ("object",)
    pods = [Pod(held(request[side], WAYS[kind])) for side in sides]
    if is_update and not all(pod.unique for pod in pods):
        raise Silent("an update of containers of one name")
    after = patched(request["object"], response)
    yield from foreign(request, after)
    verdict = judge(request, settings(case.config))
    yield from _compared(request, response, after, verdict, settings(case.config))
    # A hostile one may have lost the record that says who asked.
    fair = not (is_update and case.hostile) and None not in verdict.grants.values()
    if fair and "patch" in response:
        yield from _again(request, after, case.config, decide)


_OPERATIONS = ("CREATE", "UPDATE")


def _compared(
    request: Json, response: Json, after: Json, verdict: Verdict, settings: Settings
) -> Iterator[str]:
    if response["allowed"] != (not verdict.faults):
        yield f"allowed is {response['allowed']}, the oracle says {verdict.faults or 'good'}"
    elif response["allowed"]:
        yield from complaints(request, after, verdict, settings)


def _again(request: Json, after: Any, config: Config, decide: Decide) -> Iterator[str]:
    """Yield if the result is not left as it is when it comes again."""
    document = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {**request, "object": after},
    }
    response = decide(document, config).body["response"]
    if not response["allowed"] or "patch" in response:
        yield f"not the same again: {response}"


def patched(obj: Any, response: Json) -> Any:
    """Return an object with an answer's patch applied, by RFC 6902 and strictly."""
    holder = {"": json.loads(json.dumps(obj))}
    for operation in json.loads(b64decode(response.get("patch", _NOTHING))):
        steps = [s.replace("~1", "/").replace("~0", "~") for s in operation["path"].split("/")]
        parent: Any = holder
        for step in steps[:-1]:
            parent = parent[int(step) if isinstance(parent, list) else step]
        _apply(parent, steps[-1], operation)
    return holder[""]


def _apply(parent: Any, key: Any, operation: Json) -> None:
    name = operation["op"]
    if isinstance(parent, list):
        key = len(parent) if key == "-" and name == "add" else int(key)
        if not 0 <= key <= len(parent) - (name != "add"):
            raise IndexError(key)
    elif name != "add" and key not in parent:
        raise KeyError(key)
    if name == "remove":
        del parent[key]
    elif name == "add" and isinstance(parent, list):
        parent.insert(key, operation["value"])
    elif name in ("add", "replace"):
        parent[key] = operation["value"]
    else:
        raise ValueError(name)


def _depth(text: str) -> int:
    """Return how deep a text of JSON is nested, or more where strings hold brackets."""
    depth = most = 0
    for letter in text:
        if letter in "[{":
            depth += 1
            most = max(most, depth)
        elif letter in "]}":
            depth -= 1
    return most
