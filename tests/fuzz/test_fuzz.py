"""A short run of the fuzzer, and proof that its oracle can say no."""

import ast
import json
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.fuzz import trial
from tests.fuzz.reviews import case
from tests.fuzz.run import run
from tests.fuzz.trial import patched, stored
from tests.fuzz.wire import Wire
from tests.unit.webhook.objects import KINDS, TEMPLATES, containers, held
from webhook.admission import Answer, BadReview, answer
from webhook.config import Config
from webhook.pod import Json

REVIEWS = 3000
"""How many are tried, and among how many each wrong product is noticed."""


@pytest.fixture
def seed() -> int:
    """The same each time: what changed is the product. `make fuzz` looks for what is new."""
    return 187459782


@pytest.mark.timeout(180)
def test_every_answer_is_what_the_oracle_says(seed: int) -> None:
    for _, tally in run(seed, range(REVIEWS)):
        assert not tally.disagreements, str(tally.disagreements[0])
    judged = tally.judged["regular, judged"]
    assert judged > 10 * tally.judged["regular, no opinion"], "the oracle is too often silent"
    assert len(tally.kinds) == 2 * len(KINDS)
    for outcome in ("changed", "unchanged", "denied", "bad review"):
        assert tally.outcomes[outcome] > REVIEWS / 100


@pytest.mark.timeout(180)
def test_no_body_is_a_bug(seed: int) -> None:
    wire = Wire()
    for index in range(300):
        wire.send(case(seed, index, stored), Random(index))  # noqa: S311 - nothing secret
    assert not wire.faults, f"seed {seed}: {wire.faults[0]}"
    assert wire.statuses.keys() == {"200", "400"}


def test_a_seed_and_an_index_are_a_review() -> None:
    assert case(1, 2, stored) == case(1, 2, stored)
    assert case(1, 2, stored) != case(1, 3, stored) != case(2, 3, stored)


# Products that are wrong. Each changes the right answer, or gives another.

Mutant = Callable[[Json, Json], None]
"""Changes the object that an allowed review makes; it gets the request, too."""


def _sides(obj: Json) -> Iterator[Json]:
    for body in containers(obj):
        for side in (body.get("resources") or {}).values():
            if isinstance(side, dict):
                yield side


def rounds_down(obj: Json, _request: Json) -> None:
    for side in _sides(obj):
        if side.get("milligpu.io/vgpu") == "34":
            side["milligpu.io/vgpu"] = "33"


def forgets_requests(obj: Json, _request: Json) -> None:
    for body in containers(obj):
        ((body.get("resources") or {}).get("requests") or {}).pop("milligpu.io/vgpu", None)


def leaves_the_ask(obj: Json, request: Json) -> None:
    for side, was in zip(_sides(obj), _sides(request["object"]), strict=False):
        side |= {key: was[key] for key in ("gpu",) if key in was}


def forgets_init_containers(obj: Json, request: Json) -> None:
    if "initContainers" in held(obj)["spec"]:
        held(obj)["spec"]["initContainers"] = held(request["object"])["spec"]["initContainers"]


def moves_annotations_of_templates(obj: Json, _request: Json) -> None:
    if "milligpu.io/gpu" in (held(obj)["metadata"].get("annotations") or {}):
        limits = next(containers(obj)).setdefault("resources", {}).setdefault("limits", {})
        limits["milligpu.io/vgpu"] = "30"


def touches_a_foreign_field(obj: Json, _request: Json) -> None:
    held(obj)["spec"]["terminationGracePeriodSeconds"] = 3


def touches_the_workload(obj: Json, _request: Json) -> None:
    obj["metadata"].setdefault("labels", {})["milligpu.io/mutated"] = "true"


def loses_what_it_does_not_know(obj: Json, _request: Json) -> None:
    for body in containers(obj):
        body.pop("futureField", None)


def loses_what_is_empty(obj: Json, _request: Json) -> None:
    for body in containers(obj):
        if body.get("resizePolicy") == []:
            del body["resizePolicy"]


def completes_templates(obj: Json, _request: Json) -> None:
    if obj["kind"] in TEMPLATES:
        next(containers(obj))["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]


def _without_variable(obj: Json, name: str) -> None:
    for body in containers(obj):
        if body.get("env"):
            body["env"] = [entry for entry in body["env"] if entry["name"] != name]


def forgets_the_fraction(obj: Json, _request: Json) -> None:
    _without_variable(obj, "PER_PROCESS_GPU_MEMORY_FRACTION")


def forgets_void(obj: Json, _request: Json) -> None:
    _without_variable(obj, "NVIDIA_VISIBLE_DEVICES")


def loses_a_variable(obj: Json, _request: Json) -> None:
    _without_variable(obj, "A")


def keeps_reserved_variables(obj: Json, request: Json) -> None:
    for body, was in zip(containers(obj), containers(request["object"]), strict=True):
        kept = [e for e in was.get("env") or [] if e["name"].startswith("MILLIGPU_")]
        if kept and "env" in body:
            body["env"] = [e for e in body["env"] or [] if e not in kept] + kept


def throttles_too_much(obj: Json, request: Json) -> None:
    for body, was in zip(containers(obj), containers(request["object"]), strict=True):
        limits = (body.get("resources") or {}).get("limits") or {}
        if limits.get("cpu") == "2400m" and body != was:
            limits["cpu"] = "1200m"


OUR_WORD = "--per_process_gpu_memory_fraction=$(MILLIGPU_MEMORY_FRACTION)"


def forgets_the_argument(obj: Json, request: Json) -> None:
    for body, was in zip(containers(obj), containers(request["object"]), strict=True):
        if OUR_WORD in (body.get("args") or []) and OUR_WORD not in (was.get("args") or []):
            body["args"].remove(OUR_WORD)


def gives_everybody_the_argument(obj: Json, request: Json) -> None:
    if obj["kind"] == "Pod" and request["operation"] == "CREATE":
        for body in containers(obj):
            body["args"] = [*(body.get("args") or []), OUR_WORD]


def lowers_the_fraction(obj: Json, _request: Json) -> None:
    for body in containers(obj):
        for entry in body.get("env") or []:
            if entry["name"] == "PER_PROCESS_GPU_MEMORY_FRACTION" and entry.get("value") == "0.3":
                entry["value"] = "0.2"


def replaces_arguments(obj: Json, _request: Json) -> None:
    for body in containers(obj):
        if body.get("args"):
            body["args"] = body["args"][-1:]


def drops_a_toleration(obj: Json, _request: Json) -> None:
    if held(obj)["spec"].get("tolerations"):
        del held(obj)["spec"]["tolerations"][0]


def forgets_the_runtime_class(obj: Json, request: Json) -> None:
    if "runtimeClassName" not in request["object"].get("spec", {}):
        obj.get("spec", {}).pop("runtimeClassName", None)


def says_another_share(obj: Json, _request: Json) -> None:
    notes = obj["metadata"].get("annotations") or {}
    if "milligpu.io/share" in notes:
        notes["milligpu.io/share"] = notes["milligpu.io/share"].replace('"slots":30', '"slots":3')


def leaves_removed_asks(obj: Json, request: Json) -> None:
    before = request["object"]
    asked = any(key == "gpu" or "gpu" in key for side in _sides(before) for key in side)
    if request["operation"] == "UPDATE" and obj["kind"] != "Pod" and asked:
        kept = [
            side
            for side in _sides(before)
            if {"gpu", "milligpu.io/gpu", "nvidia.com/gpu"} & side.keys()
        ]
        obj |= {} if kept else json.loads(json.dumps(before))


def completes_stored_pods_anew(obj: Json, request: Json) -> None:
    if request["operation"] == "UPDATE" and obj["kind"] == "Pod":
        next(containers(obj)).setdefault("args", []).append("--x=1")


MUTANTS: dict[Mutant, str] = {
    rounds_down: "limits are",
    forgets_requests: "requests are",
    leaves_the_ask: "'gpu'} stays",
    forgets_init_containers: "('initContainers', 0)",
    moves_annotations_of_templates: "and nobody asked",
    touches_a_foreign_field: "terminationGracePeriodSeconds: '(absent)' became 3",
    touches_the_workload: "metadata.labels.milligpu.io/mutated",
    loses_what_it_does_not_know: "futureField: [{",
    loses_what_is_empty: "resizePolicy: [] became",
    completes_templates: "env",
    forgets_the_argument: "args",
    gives_everybody_the_argument: "args",
    forgets_the_fraction: "env: None, not",
    lowers_the_fraction: "env: 0.2, not 3/10",
    forgets_void: "not void",
    loses_a_variable: "env",
    keeps_reserved_variables: "a reserved name",
    throttles_too_much: "cpu 1200m, not 12/5",
    replaces_arguments: "args",
    drops_a_toleration: "tolerations",
    forgets_the_runtime_class: "runtime class",
    says_another_share: "milligpu.io/share",
    leaves_removed_asks: "limits are",
    completes_stored_pods_anew: "args: ",
}
"""Wrong products, each with what has to be said of it."""


@pytest.mark.parametrize("name", ["pods.py", "oracle.py", "changes.py"])
def test_the_oracle_does_not_ask_the_product(name: str) -> None:
    tree = ast.parse(Path(__file__).with_name(name).read_text())
    names = [each.module or "" for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
    names += [
        each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names
    ]
    ours = {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names}
    assert ours <= {"tests.fuzz.pods", "tests.fuzz.oracle"}


def _name(value: Any) -> str:
    return getattr(value, "__name__", "")


def _with(result: Answer, **response: Any) -> Answer:
    kept = {k: v for k, v in result.body["response"].items() if k in ("uid", "allowed")}
    return replace(result, body={**result.body, "response": {**kept, **response}})


def _mutated(mutant: Mutant) -> trial.Decide:
    def decide(document: Any, config: Config) -> Answer:
        result = answer(document, config)
        response, request = result.body["response"], document["request"]
        if not response["allowed"] or not isinstance(request.get("object"), dict):
            return result
        made = patched(request["object"], response)
        try:
            mutant(made, request)
        except (AttributeError, KeyError, TypeError, StopIteration):
            return result  # it is a hostile one
        if made == request["object"]:
            return _with(result)
        patch = [{"op": "replace", "path": "", "value": made}]
        encoded = b64encode(json.dumps(patch).encode()).decode()
        return _with(result, patch=encoded, patchType="JSONPatch")

    return decide


def _caught(decide: trial.Decide, seed: int, words: str, reviews: int = REVIEWS) -> bool:
    """Return whether the oracle says this of an answer, before there are too many."""
    for _, tally in run(seed, range(reviews), decide):
        if any(words in text for each in tally.disagreements for text in each.trial.complaints):
            return True
    return False


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("mutant", "words"), MUTANTS.items(), ids=_name)
def test_a_wrong_object_is_noticed(mutant: Mutant, words: str, seed: int) -> None:
    assert _caught(_mutated(mutant), seed, words), f"seed {seed}"


def test_a_right_object_is_no_mutant(seed: int) -> None:
    """What is noticed above is the mutants' doing."""
    assert not _caught(_mutated(lambda _obj, _request: None), seed, "", 500), f"seed {seed}"


def allows_everything(document: object, config: Config) -> Answer:
    result = answer(document, config)
    return result if result.body["response"]["allowed"] else _with(result, allowed=True)


def denies_everything(document: object, config: Config) -> Answer:
    status = {"code": 422, "message": "no"}
    return _with(answer(document, config), allowed=False, status=status)


def fails(document: Any, config: Config) -> Answer:
    if document["request"]["operation"] == "UPDATE":
        raise KeyError("oldObject")
    return answer(document, config)


def refuses(_document: object, _config: Config) -> Answer:
    raise BadReview("no")


def says_too_much(document: object, config: Config) -> Answer:
    result = answer(document, config)
    return _with(result, **{**result.body["response"], "warnings": ["x" * 257]})


def answers_another(document: object, config: Config) -> Answer:
    result = answer(document, config)
    return _with(result, **{**result.body["response"], "uid": "x"})


def gives_no_reason(document: object, config: Config) -> Answer:
    result = answer(document, config)
    return result if result.body["response"]["allowed"] else _with(result)


def changes_its_argument(document: Any, config: Config) -> Answer:
    result = answer(document, config)
    document["request"]["seen"] = True
    return result


def grants_more_each_time(document: Any, config: Config) -> Answer:
    result = answer(document, config)
    counts = {"milligpu.io/vgpu", "milligpu.io/pgpu"}
    held_already = any(counts & side.keys() for side in _sides(document["request"]["object"]))
    if document["request"]["operation"] == "CREATE" and held_already:
        return _mutated(lambda obj, _: touches_a_foreign_field(obj, {}))(document, config)
    return result


DECIDERS: dict[trial.Decide, str] = {
    allows_everything: "allowed is True",
    denies_everything: "allowed is False",
    fails: "KeyError",
    refuses: "BadReview",
    says_too_much: "a warning that the API server cuts",
    answers_another: "another uid",
    gives_no_reason: "a denial without a reason",
    changes_its_argument: "the argument was changed",
    grants_more_each_time: "not the same again",
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("decide", "words"), DECIDERS.items(), ids=_name)
def test_a_wrong_answer_is_noticed(decide: trial.Decide, words: str, seed: int) -> None:
    assert _caught(decide, seed, words), f"seed {seed}"
