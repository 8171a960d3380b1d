"""What holds for every object (design section 4, "Rules")."""

import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any

import jsonpatch
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import strategies
from tests.fuzz.changes import foreign
from tests.fuzz.trial import patched
from tests.unit.webhook.objects import (
    OUR_FLAG,
    TOLERATION,
    WHOLE,
    container,
    containers,
    copied,
    created,
    held,
    holding,
    pod,
    reapplied,
    review,
    sent,
    update,
)
from vgpu.names import is_reserved
from vgpu.quantity import parse
from webhook.admission import BadReview, answer
from webhook.config import Config
from webhook.findings import Denied
from webhook.mutate import desired
from webhook.patch import operations
from webhook.pod import Json
from webhook.review import Review

configs = st.builds(
    Config,
    cpus_per_gpu=st.fractions(min_value=Fraction(1, 2), max_value=64, max_denominator=7),
    cpu_limit_max=st.sampled_from([Fraction(1024), Fraction(3, 2), Fraction(1, 10)]),
    whole_cards=st.booleans(),
    tolerations=st.sampled_from([(), (TOLERATION,), (TOLERATION, {"key": "later"})]),
    runtime_class=st.sampled_from(["", "nvidia"]),
)
forms = st.sampled_from([copied, sent])


def wanted(obj: Json, config: Config, old: Json | None = None) -> Json | None:
    """Return the desired object, None where it is denied."""
    group = obj["apiVersion"].rpartition("/")[0]
    try:
        return desired(Review(group, obj["kind"], obj, old), config).object
    except Denied:
        return None


@given(strategies.good_objects, forms, configs)
def test_the_answer_is_a_fixed_point(obj: Json, form: Any, config: Config) -> None:
    """B17: desired(desired(x)) is desired(x), the very same object."""
    once = wanted(form(obj), config)
    assert once is not None
    assert wanted(once, config) is once
    assert wanted(once, config, old=once) is once


@given(strategies.objects, forms, configs)
def test_the_argument_is_not_changed_and_the_rest_is_shared(
    obj: Json, form: Any, config: Config
) -> None:
    """Whatever is equal before and after is the same object: nothing is copied in vain."""
    obj = form(obj)
    before = json.dumps(obj)
    after = wanted(obj, config)
    assert json.dumps(obj) == before
    if after is not None:
        assert list(_copies(obj, after)) == []


def _copies(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """Yield the places of what is equal in both, but not the same object."""
    if before is after or not isinstance(after, dict | list):
        return
    if before == after:
        yield at
    elif isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() & after.keys():
            yield from _copies(before[key], after[key], f"{at}/{key}")
    elif isinstance(before, list) and isinstance(after, list):
        for index, item in enumerate(after):
            if item in before and all(item is not each for each in before):  # some may be equal
                yield f"{at}/{index}"


@given(strategies.objects, forms, configs)
def test_the_patch_makes_the_desired_object_under_strict_rfc_6902(
    obj: Json, form: Any, config: Config
) -> None:
    """B04, B37, B76: no parent is missing, keys are escaped, indices are this request's."""
    obj = form(obj)
    after = wanted(obj, config)
    body = copied(answer(review(obj), config).body)["response"]
    assert body["allowed"] == (after is not None)
    patch = json.loads(b64decode(body["patch"])) if "patch" in body else []
    assert bool(patch) == (after not in (None, obj))
    assert jsonpatch.apply_patch(obj, patch) == (obj if after is None else after)
    for operation in patch:
        assert set(operation) <= {"op", "path", "value"}
        if "/env/" in operation["path"] or "/resources/" in operation["path"]:
            assert all(isinstance(leaf, str) for leaf in _leaves(operation.get("value", "")))


def _leaves(value: Any) -> Iterator[Any]:
    """Yield what a patch writes below resources and env (B87: text, never a number)."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value


@pytest.mark.parametrize("ask", ["100", "0.1k", "1e2", "100000m"])
def test_the_largest_ask_can_be_read_again(ask: str) -> None:
    obj, config = sent(pod(container(limits={"gpu": ask}))), Config()
    once = wanted(obj, config)
    assert once is not None
    assert wanted(once, config) is once


@pytest.mark.parametrize("ask", ["1001", "1Ki", "300M", "9223372036854775808", "8Ei", "1e99"])
@pytest.mark.parametrize("whole_cards", [True, False])
def test_no_ask_is_larger_than_any_node(ask: str, whole_cards: bool) -> None:
    obj = sent(pod(container(limits={"gpu": ask})))
    assert wanted(obj, Config(whole_cards=whole_cards)) is None


OURS = {"gpu", "milligpu.io/gpu", "milligpu.io/vgpu", "milligpu.io/pgpu"}


@given(strategies.good_objects, forms, configs)
def test_only_what_is_ours_changes_and_unknown_fields_survive(
    obj: Json, form: Any, config: Config
) -> None:
    """B32: fields that no release knows come through; B41: so does all that the user wrote."""
    obj = form(obj)
    after = wanted(obj, config)
    assert after is not None
    assert _rest(after, before=obj) == _rest(obj, before=obj)


def _rest(obj: Json, before: Json) -> Json:
    """Return an object without what may be added to, or removed from, what was before."""
    obj, is_pod = copied(obj), obj["kind"] == "Pod"
    for body, was in zip(containers(obj), containers(before), strict=True):
        limits, requests = (_side(was, side) for side in ("limits", "requests"))
        free = {"cpu"} - limits.keys() if is_pod else set()
        resources = {
            **(body.get("resources") or {}),
            "limits": _kept(_side(body, "limits"), OURS | free),
            "requests": _kept(_side(body, "requests"), OURS | (free - requests.keys())),
        }
        body["resources"] = {key: value for key, value in resources.items() if value}
        if is_pod:
            body["env"] = [each for each in body.get("env") or [] if not _is_ours(each["name"])]
            body["args"] = [word for word in body.get("args") or [] if word != OUR_FLAG]
    if is_pod:
        spec, notes = obj["spec"], (obj["metadata"].get("annotations") or {})
        spec["tolerations"] = (spec.get("tolerations") or [])[
            : len(before["spec"].get("tolerations") or [])
        ]
        spec.pop("runtimeClassName", None)
        obj["metadata"]["annotations"] = _kept(notes, {"milligpu.io/share"})
    return obj


def _side(body: Json, side: str) -> Json:
    return (body.get("resources") or {}).get(side) or {}


def _kept(values: Json, ours: set[str]) -> Json:
    return {key: value for key, value in values.items() if key not in ours}


def _is_ours(variable: str) -> bool:
    return is_reserved(variable) or variable == "PER_PROCESS_GPU_MEMORY_FRACTION"


@given(strategies.template_kinds, strategies.pods, configs, configs)
def test_a_templates_translation_depends_on_no_setting(
    kind: str, pod: Json, one: Config, other: Config
) -> None:
    """Design section 4: a setting that changes later does not change a stored template."""
    obj = holding(kind, pod)
    first, second = wanted(obj, one), wanted(obj, other)
    if one.whole_cards == other.whole_cards:
        assert (first is None) == (second is None)
    if first is not None and second is not None:
        assert first == second


@given(strategies.good_objects, configs, st.booleans())
def test_what_is_applied_again_is_what_is_stored(
    manifest: Json, config: Config, merges: bool
) -> None:
    """B77: no new generation, and no update of a pod that the API server would refuse."""
    stored = created(sent(manifest), config)
    is_pod = manifest["kind"] == "Pod"
    again = reapplied(stored, manifest) if merges or is_pod else sent(manifest)
    outcome = update(again, stored, config)
    assert outcome.allowed, outcome.message
    assert held(outcome.object)["spec"] == held(stored)["spec"]


@given(strategies.stored_objects, configs)
@example(
    pod(
        container(limits={"milligpu.io/gpu": "1", WHOLE: "1"}),
        annotations={"milligpu.io/gpu": "0.3"},
    ),
    Config(whole_cards=False),
)
def test_an_update_of_something_else_changes_nothing(obj: Json, config: Config) -> None:
    """Scale, label, garbage collection: whatever the stored object is, from whenever."""
    stored = sent(obj)
    new = {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}
    outcome = update(new, stored, config)
    assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], [])


@given(strategies.objects)
def test_a_dry_run_is_answered_as_any_other(obj: Json) -> None:
    """B27."""
    dry, real = (answer(review(obj, dryRun=flag), Config()) for flag in (True, False))
    assert dry.body == real.body
    assert (dry.dry_run, real.dry_run) == (True, False)


@given(strategies.good_objects, configs)
def test_what_is_made_is_what_the_api_server_accepts(manifest: Json, config: Config) -> None:
    """B03, B22: no ask is left, requests are as limits, no CPU request is above its limit."""
    obj = sent(manifest)
    for body, was in zip(containers(created(obj, config)), containers(obj), strict=True):
        limits, requests = _side(body, "limits"), _side(body, "requests")
        assert not {"gpu", "milligpu.io/gpu"} & {*limits, *requests}
        if manifest["kind"] == "Pod" or "milligpu.io/vgpu" in requests:
            assert limits.get("milligpu.io/vgpu") == requests.get("milligpu.io/vgpu")
        if "cpu" in limits and "cpu" not in _side(was, "limits"):
            assert parse(str(requests["cpu"])) <= parse(str(limits["cpu"]))
        names = [entry["name"] for entry in body.get("env") or []]
        assert len(names) == len(set(names))


# Updates: what was admitted once, then changed in any way.


def changed(
    kind: str, before: Json, after: Json, merges: bool, config: Config
) -> tuple[Json, Json]:
    """Return what the API server sends when one manifest becomes another: the old and the new."""
    old = created(sent(holding(kind, before)), config)
    manifest = holding(kind, after)
    return old, reapplied(old, manifest) if merges else sent(manifest)


updates = given(strategies.kinds, strategies.meant, strategies.pods, st.booleans(), configs)


@updates
def test_an_updates_answer_is_a_fixed_point(
    kind: str, before: Json, after: Json, merges: bool, config: Config
) -> None:
    """B17: another webhook's change has us called again, with the same old object."""
    old, new = changed(kind, before, after, merges, config)
    once = wanted(new, config, old)
    if once is not None:
        assert wanted(once, config, old) == once


@updates
def test_an_update_changes_no_argument_and_shares_the_rest(
    kind: str, before: Json, after: Json, merges: bool, config: Config
) -> None:
    old, new = changed(kind, before, after, merges, config)
    text = json.dumps([old, new])
    made = wanted(new, config, old)
    assert json.dumps([old, new]) == text
    if made is not None and kind != "Pod":  # a pod's may share with the old one instead
        assert list(_copies(new, made)) == []


@updates
def test_an_updates_patch_makes_the_desired_object(
    kind: str, before: Json, after: Json, merges: bool, config: Config
) -> None:
    old, new = changed(kind, before, after, merges, config)
    made, response = wanted(new, config, old), answer(review(new, old), config).body["response"]
    assert response["allowed"] == (made is not None)
    assert patched(new, response) == (new if made is None else made)


@updates
def test_an_update_changes_a_template_by_what_is_ours_and_a_pod_back_to_what_is_stored(
    kind: str, before: Json, after: Json, merges: bool, config: Config
) -> None:
    old, new = changed(kind, before, after, merges, config)
    made = wanted(new, config, old)
    if made is not None:
        group, _, version = new["apiVersion"].rpartition("/")
        gvk = {"group": group, "version": version, "kind": kind}
        request = {"kind": gvk, "operation": "UPDATE", "object": new, "oldObject": old}
        assert list(foreign(request, made)) == []


@given(
    strategies.template_kinds, strategies.meant, strategies.pods, st.booleans(), configs, configs
)
def test_a_changed_templates_translation_depends_on_no_setting(
    kind: str, before: Json, after: Json, merges: bool, one: Config, other: Config
) -> None:
    """But for whole cards, which may be denied by one."""
    old, new = changed(kind, before, after, merges, one)
    first, second = (wanted(new, config, old) for config in (one, other))
    if one.whole_cards == other.whole_cards or None not in (first, second):
        assert first == second


@given(st.data(), strategies.good_objects, forms, configs)
def test_an_unknown_field_survives_wherever_it_is(
    data: st.DataObject, obj: Json, form: Any, config: Config
) -> None:
    """B32, in every object of the object; a variable that is removed takes its own along."""
    obj = form(obj)
    places = [at for at in _places(obj) if isinstance(_value(obj, at), dict) and "env" not in at]
    at = data.draw(st.sampled_from([at for at in places if at[-1:] not in MAPS]))
    field = data.draw(strategies.unknown_fields.filter(bool))
    obj = _with(obj, at, {**_value(obj, at), **field})
    made = wanted(obj, config)
    assert made is not None
    assert _value(made, at).items() >= field.items()


MAPS = [("limits",), ("requests",), ("annotations",)]
"""What has no fields, but entries: of one kind each."""


def _value(document: Any, at: tuple[Any, ...]) -> Any:
    for key in at:
        document = document[key]
    return document


# What is no object at all: Denied or BadReview, never another exception.


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _places(inner, (*at, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _places(inner, (*at, index))


def _with(document: Any, at: tuple[Any, ...], value: Any) -> Any:
    if not at:
        return value
    document = copied(document)
    parent = document
    for key in at[:-1]:
        parent = parent[key]
    parent[at[-1]] = value
    return document


@given(st.data(), strategies.objects, configs, st.booleans())
def test_no_json_of_a_wrong_shape_is_more_than_a_fault(
    data: st.DataObject, obj: Json, config: Config, stored: bool
) -> None:
    old = sent(obj) if stored else None
    document = review(sent(obj), old)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(list(_places(document))))
        document = _with(document, place, data.draw(strategies.json_values))
    with suppress(BadReview):
        body = copied(answer(document, config).body)
        assert body["response"]["allowed"] in (True, False)


@given(strategies.json_values)
def test_no_json_at_all_is_more_than_a_bad_review(document: Any) -> None:
    with pytest.raises(BadReview):
        answer(document, Config())


@given(strategies.json_values, strategies.json_values)
def test_a_patch_makes_one_value_of_another(before: Any, after: Any) -> None:
    patch = operations(before, after)
    assert jsonpatch.apply_patch(copied(before), patch) == after
