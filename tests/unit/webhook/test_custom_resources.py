"""Custom resources whose templates a setting names (B02, B51): what holds for a workload, holds."""

import json
from base64 import b64decode
from contextlib import suppress
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.unit.webhook.objects import (
    COUNT,
    answered,
    container,
    copied,
    holding,
    pod,
    review,
)
from tests.unit.webhook.test_laws import _copies, _places, _with, configs
from vgpu.settings import SettingsError, read
from webhook import templates
from webhook.admission import BadReview, answer
from webhook.config import Config
from webhook.findings import Denied
from webhook.mutate import desired
from webhook.pod import Json
from webhook.removal import removed
from webhook.review import Review
from webhook.templates import Item, guessed, patterns, places, spelled

ASK = "milligpu.io/gpu"
GROUP = "train.example.com"
KINDS = {
    "TorchJob": ["spec.replicaSpecs.*.template"],
    "GroupSet": ["spec.head.template", "spec.groups[*].template"],
    "JobGroup": ["spec.jobs[*].template.spec.template"],
    "Policy": ["templates[*]"],
}
RESOURCES = {
    "TorchJob": "torchjobs",
    "GroupSet": "groupsets",
    "JobGroup": "jobgroups",
    "Policy": "policies",
}


def entry(kind: str, path: str, **other: str) -> dict[str, str]:
    return {"group": GROUP, "version": "v1", "resource": RESOURCES[kind], "path": path, **other}


SETTING = json.dumps([entry(kind, path) for kind, paths in KINDS.items() for path in paths])
CUSTOM = read(Config, {"MILLIGPU_TEMPLATE_PATHS": SETTING}).template_paths
CONFIG = Config(template_paths=CUSTOM)


def template(made: Json) -> Json:
    """Return what of a pod stands in a template."""
    kept = {key: value for key, value in made["metadata"].items() if key != "name"}
    return {"metadata": {**kept, "labels": {"app": "x"}}, "spec": copied(made["spec"])}


def around(kind: str, *pods: Json) -> Json:
    """Return an object of a custom kind that makes pods like these."""
    made = [template(each) for each in pods]
    head: Json = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "model"}}
    match kind:
        case "TorchJob":
            specs = {f"r{number}": {"template": each} for number, each in enumerate(made)}
            return {**head, "spec": {"suspend": False, "replicaSpecs": specs}}
        case "GroupSet":
            groups = [{"groupName": "g", "template": each} for each in made[1:]]
            first = {"head": {"template": made[0]}} if made else {}
            return {**head, "spec": {**first, "groups": groups}}
        case "JobGroup":
            jobs = [
                {"name": f"j{number}", "template": {"spec": {"template": each}}}
                for number, each in enumerate(made)
            ]
            return {**head, "spec": {"jobs": jobs}}
    return {**head, "templates": made}


def inside(obj: Json) -> list[Json]:
    """Return the templates of an object, in their order."""
    match obj["kind"]:
        case "TorchJob":
            return [each["template"] for each in obj["spec"]["replicaSpecs"].values()]
        case "GroupSet":
            head = [obj["spec"]["head"]] if "head" in obj["spec"] else []
            return [each["template"] for each in (*head, *obj["spec"]["groups"])]
        case "JobGroup":
            return [each["template"]["spec"]["template"] for each in obj["spec"]["jobs"]]
    return list(obj["templates"])


def limits(obj: Json, number: int) -> Json:
    """Return the limits of a template's first container, with whose grants its requests agree."""
    resources = inside(obj)[number]["spec"]["containers"][0].get("resources") or {}
    found: Json = resources.get("limits") or {}
    grants = {key: value for key, value in found.items() if key.startswith("milligpu.io/")}
    requests = resources.get("requests") or {}
    assert {
        key: value for key, value in requests.items() if key.startswith("milligpu.io/")
    } == grants
    return found


def labelled(obj: Json) -> Json:
    """Return an object as an operator touches it all the time."""
    return {**obj, "metadata": {**obj["metadata"], "labels": {"a": "b"}}}


def asking(**amounts: Any) -> Json:
    return pod(container(limits=amounts))


def created(obj: Json, config: Config = CONFIG) -> Json:
    outcome = answered(review(obj), config)
    assert outcome.allowed, outcome.message
    return outcome.object


each_kind = pytest.mark.parametrize("kind", KINDS)
kinds = st.sampled_from(list(KINDS))
settings = configs.map(
    lambda each: Config(
        cpus_per_gpu=each.cpus_per_gpu,
        whole_cards=each.whole_cards,
        tolerations=each.tolerations,
        runtime_class=each.runtime_class,
        template_paths=CUSTOM,
    )
)


def objects(pods: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """Objects of all custom kinds with up to three templates."""
    return st.builds(lambda kind, held: around(kind, *held), kinds, st.lists(pods, max_size=3))


any_objects, good_objects = objects(strategies.pods), objects(strategies.meant)


def wanted(obj: Json, config: Config, old: Json | None = None) -> Json | None:
    """Return the desired object, None where it is denied."""
    try:
        return desired(Review(GROUP, obj["kind"], obj, old), config).object
    except Denied:
        return None


# The setting.


def test_by_default_there_is_none() -> None:
    assert (
        read(Config, {}).template_paths
        == read(Config, {"MILLIGPU_TEMPLATE_PATHS": "[]"}).template_paths
        == ()
    )


def test_a_path_leads_through_fields_values_and_items() -> None:
    [found] = read(
        Config, {"MILLIGPU_TEMPLATE_PATHS": json.dumps([entry("TorchJob", "a.*.b-c[*].d_E")])}
    ).template_paths
    assert found.pattern == ("a", "*", "b-c", "[*]", "d_E")
    assert (found.group, found.version, found.resource) == (GROUP, "v1", "torchjobs")


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("x", "JSON"),
        ("{}", "JSON list"),
        ("null", "JSON list"),
        ("[1]", "1 must be an object of group, version, resource, path"),
        ("[{}]", "{} must be an object of group"),
        ([entry("TorchJob", "a", also="x")], "must be an object of group"),
        ([entry("TorchJob", "a"), entry("TorchJob", "a")], "each of them once"),
        *(
            ([entry("TorchJob", path)], "path of ")
            for path in (
                "",
                ".",
                "a.",
                ".a",
                "a..b",
                "a[0]",
                "*",
                "[*]",
                "a[*]b",
                "a.[*]",
                "a b",
                "a[*].*.b[*]",
            )
        ),
        ([entry("TorchJob", "a'].b")], "path of "),
        *(
            ([entry("TorchJob", "a", group=group)], "group of ")
            for group in ("", "apps", "batch", "Train.example.com", "a.b/c", "*")
        ),
        *(([entry("TorchJob", "a", version=text)], "version of ") for text in ("", "*", "1", "V1")),
        *(
            ([entry("TorchJob", "a", resource=text)], "resource of ")
            for text in ("", "*", "TorchJobs", "torchjobs/status")
        ),
        ([{**entry("TorchJob", "a"), "path": 1}], "path of "),
    ],
)
def test_a_bad_setting_is_named(value: Any, named: str) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    with pytest.raises(SettingsError) as fault:
        read(Config, {"MILLIGPU_TEMPLATE_PATHS": text})
    assert "MILLIGPU_TEMPLATE_PATHS=" in str(fault.value)
    assert named in str(fault.value)


# Places.


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("TorchJob", "torchjobs"),
        ("Policy", "policies"),
        ("Ingress", "ingresses"),
        ("", "s"),
    ],
)
def test_the_resource_of_a_kind_is_guessed_as_apimachinery_does(kind: str, name: str) -> None:
    assert guessed(kind) == name


def test_places_are_spelled_as_people_write_them() -> None:
    document = {
        "spec": {
            "m": {"a": {"t": {}}, "b.c/d": {"t": {}}, "0": {"t": {}}, "none": {}, "null": None},
            "l": [{"t": {}}, 1, {"t": {}, "name": "x"}, {"t": []}],
        }
    }
    found = places(document, [("spec", "m", "*", "t"), ("spec", "l", "[*]", "t"), ("no", "t")])
    assert list(map(spelled, found)) == [
        "spec.m.a.t",
        "spec.m[b.c/d].t",
        "spec.m[0].t",
        "spec.l[0].t",
        "spec.l[2].t",
    ]
    assert spelled(("spec", "m", "*", "l", "[*]", "t")) == "spec.m.*.l[*].t"


def test_a_place_that_two_paths_lead_to_is_one() -> None:
    assert len(places({"a": {"b": {}}}, [("a", "b"), ("a", "*")])) == 1


def test_steps_into_something_else_lead_nowhere() -> None:
    odd: list[Any] = [None, 1, "x", [], {}, [[{}]], {"a": {}}]
    for value in odd:
        assert places({"a": value}, [("a", "[*]", "b")]) == []
        assert places({"a": value}, [("a", "*", "b")]) == []


def test_an_item_is_known_by_its_name_where_it_has_one_of_its_own() -> None:
    first, second = {"name": "a", "t": {"n": 1}}, {"name": "b", "t": {"n": 2}}
    found = places({"l": [first, second]}, [("l", "[*]", "t")])
    assert found == [("l", Item(0, "a"), "t"), ("l", Item(1, "b"), "t")]
    moved = {"l": [{"name": "new"}, second, first]}
    assert [templates.get(moved, each) for each in found] == [{"n": 1}, {"n": 2}]
    assert templates.get({"l": [second]}, found[0]) is None
    twins = {"l": [first, first]}
    assert [each[1] for each in places(twins, [("l", "[*]", "t")])] == [
        Item(0, None),
        Item(1, None),
    ]
    assert templates.get({"l": [second]}, ("l", Item(0, None), "t")) == {"n": 2}
    assert templates.get({"l": {}}, ("l", Item(0, None))) is None
    assert templates.get({"l": []}, ("l", Item(0, None))) is None


def test_too_many_templates_are_left_as_they_are() -> None:
    """Not denied: an operator may have stored them."""
    some = around("Policy", *[asking(gpu="300m")] * 200)
    assert limits(created(some), 199) == {COUNT: "30"}
    outcome = answered(review({**some, "templates": [*some["templates"], {}]}), CONFIG)
    assert (outcome.allowed, outcome.patch) == (True, [])
    warning = "milligpu: Policy: over 200 templates; none is translated"
    assert outcome.warnings == [warning]


def test_a_resource_is_known_by_group_version_and_name() -> None:
    def found(group: str, version: str, kind: str, resource: str = "") -> list[Any]:
        obj = {"apiVersion": f"{group}/{version}"}
        return patterns(Review(group, kind, obj, None, "", resource), CUSTOM)

    assert found(GROUP, "v1", "TorchJob") == [("spec", "replicaSpecs", "*", "template")]
    assert found(GROUP, "v1", "Irregular", "torchjobs") == found(GROUP, "v1", "TorchJob")
    assert found(GROUP, "v1", "TorchJob", "irregulars") == []
    assert found(GROUP, "v1beta1", "TorchJob") == []
    assert found("other.example.com", "v1", "TorchJob") == []


def test_the_review_says_which_resource_it_is() -> None:
    obj = {**around("TorchJob", asking(gpu="300m")), "kind": "Irregular"}
    resource = {"group": GROUP, "version": "v1", "resource": "torchjobs"}
    document = review(obj, resource=resource)
    assert COUNT in limits({**answered(document, CONFIG).object, "kind": "TorchJob"}, 0)
    others: list[Any] = [None, [], {"resource": None}, {"resource": 1}]
    for odd in others:
        [warning] = answered(review(obj, resource=odd), CONFIG).warnings
        assert "is not one that is translated" in warning


@each_kind
def test_what_is_not_in_the_setting_is_left_alone_with_a_warning(kind: str) -> None:
    outcome = answered(review(around(kind, asking(gpu="300m"))), Config())
    assert (outcome.allowed, outcome.patch) == (True, [])
    assert outcome.warnings == [f"milligpu: kind {kind} is not one that is translated"]


# What becomes of them.


@each_kind
@pytest.mark.parametrize("value", [0.3, "300m", "0.3"], ids=repr)
def test_every_template_is_translated(kind: str, value: Any) -> None:
    """B51: numbers and texts alike; a text is written."""
    obj = around(kind, asking(gpu=value, memory="1Gi"), asking(cpu=1), asking(gpu="200m"))
    made = created(obj)
    assert limits(made, 0) == {"memory": "1Gi", COUNT: "30"}
    assert limits(made, 2) == {COUNT: "20"}
    assert inside(made)[1] == inside(obj)[1]
    for each, was in zip(inside(made), inside(obj), strict=True):
        assert each["metadata"] == was["metadata"]


@each_kind
def test_all_faults_of_all_templates_are_told_with_their_places(kind: str) -> None:
    outcome = answered(review(around(kind, asking(gpu=-1), asking(gpu="x"))), CONFIG)
    assert not outcome.allowed
    first, second = {
        "TorchJob": ("spec.replicaSpecs.r0.template", "spec.replicaSpecs.r1.template"),
        "GroupSet": ("spec.head.template", "spec.groups[0].template"),
        "JobGroup": (
            "spec.jobs[0].template.spec.template",
            "spec.jobs[1].template.spec.template",
        ),
        "Policy": ("templates[0]", "templates[1]"),
    }[kind]
    field = "spec.containers[0].resources.limits[gpu]"
    assert f"{first}.{field}: -1 is not allowed" in outcome.message
    assert f"; {second}.{field}: 'x'" in outcome.message


@each_kind
def test_a_part_of_a_wrong_type_does_not_hide_other_faults(kind: str) -> None:
    obj = around(kind, asking(gpu=1), asking(gpu=-1))
    inside(obj)[0]["spec"]["containers"] = "x"
    message = answered(review(obj), CONFIG).message
    assert "spec.containers: must be a list; " in message
    assert "-1 is not allowed" in message


@each_kind
def test_an_annotation_on_the_object_is_warned_about_once(kind: str) -> None:
    obj = around(kind, asking(cpu=1), asking(cpu=1))
    obj["metadata"]["annotations"] = {ASK: "300m", "milligpu.io/later": "x"}
    outcome = answered(review(obj), CONFIG)
    where = " or ".join(f"{path}.metadata" for path in KINDS[kind])
    assert outcome.warnings == [
        "milligpu: annotation milligpu.io/later is unknown to this release and has no effect",
        f"milligpu: annotation {ASK} on metadata has no effect; it belongs on {where}",
    ]
    assert outcome.patch == []
    again = answered(review(labelled(obj), obj), CONFIG)
    assert again.warnings == []


@each_kind
def test_an_annotation_that_a_template_has_is_not_misplaced(kind: str) -> None:
    obj = around(kind, pod(container()), pod(container(), annotations={ASK: "300m"}))
    obj["metadata"]["annotations"] = {ASK: "300m"}
    assert not any("belongs" in text for text in answered(review(obj), CONFIG).warnings)


@each_kind
def test_a_templates_annotation_is_checked_and_stays(kind: str) -> None:
    obj = around(kind, pod(container(), annotations={ASK: "300m"}))
    assert created(obj) == obj
    bad = around(kind, pod(container(), annotations={ASK: "x"}))
    assert not answered(review(bad), CONFIG).allowed


def test_what_stands_between_may_be_anything() -> None:
    """Only the object's own metadata is known to have annotations that are texts."""
    obj = around("JobGroup", asking(gpu="300m"))
    [job] = obj["spec"]["jobs"]
    others: list[Any] = [1, "x", [], {"annotations": 1}, {"annotations": {"a": 1}}]
    for odd in others:
        obj["spec"]["metadata"] = job["metadata"] = job["template"]["metadata"] = odd
        assert limits(created(obj), 0) == {COUNT: "30"}


@each_kind
def test_what_a_controller_owns_is_translated_only_for_its_ask(kind: str) -> None:
    obj = around(kind, asking(gpu="333m"), asking(**{COUNT: 150}))
    obj["metadata"]["ownerReferences"] = [{"kind": "TrainJob", "controller": True}]
    outcome = answered(review(obj), CONFIG)
    assert (limits(outcome.object, 0), outcome.warnings) == ({COUNT: "34"}, [])
    assert inside(outcome.object)[1] == inside(obj)[1]


# Updates.


@each_kind
def test_a_changed_ask_changes_its_own_template(kind: str) -> None:
    old = created(around(kind, asking(gpu="300m"), asking(gpu="200m")))
    new = around(kind, asking(gpu="500m"), asking(**{COUNT: "20"}))
    inside(new)[1]["spec"]["containers"][0]["resources"] = copied(
        inside(old)[1]["spec"]["containers"][0]["resources"]
    )
    outcome = answered(review(new, old), CONFIG)
    assert (limits(outcome.object, 0), limits(outcome.object, 1)) == (
        {COUNT: "50"},
        {COUNT: "20"},
    )


def test_an_item_that_moved_keeps_what_it_had() -> None:
    """What server-side apply makes of a list by name: the grant stands beside the changed ask."""
    old = created(around("JobGroup", asking(gpu="300m")))
    new = around("JobGroup", asking(gpu="100m"), asking(**{"gpu": "200m", COUNT: "30"}))
    new["spec"]["jobs"][0]["name"], new["spec"]["jobs"][1]["name"] = "first", "j0"
    inside(new)[1]["spec"]["containers"][0]["resources"]["requests"] = {COUNT: "30"}
    outcome = answered(review(new, old), CONFIG)
    assert outcome.allowed, outcome.message
    assert (limits(outcome.object, 0), limits(outcome.object, 1)) == (
        {COUNT: "10"},
        {COUNT: "20"},
    )


@each_kind
def test_a_stored_ask_never_changes_by_itself(kind: str) -> None:
    """Stored before the setting was there: an operator's updates leave it as it is."""
    stored = around(kind, asking(gpu="300m"), asking(gpu="-1"))
    outcome = answered(review(labelled(stored), stored), CONFIG)
    assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], [])
    changed = labelled(copied(stored))
    inside(changed)[1]["spec"]["containers"][0]["image"] = "other"
    outcome = answered(review(changed, stored), CONFIG)
    assert (outcome.allowed, outcome.patch) == (True, [])


@each_kind
def test_only_faults_that_an_update_brings_are_held_against_it(kind: str) -> None:
    """The same fault in another template is a new one."""
    stored = around(kind, asking(**{COUNT: "150"}), asking(cpu=1))
    changed = copied(stored)
    inside(changed)[0]["spec"]["containers"][0]["image"] = "other"
    assert answered(review(changed, stored), CONFIG).allowed
    inside(changed)[1]["spec"]["containers"][0]["resources"] = {"limits": {COUNT: "150"}}
    message = answered(review(changed, stored), CONFIG).message
    assert message.count("150 is not allowed") == 1


@each_kind
def test_a_stored_part_of_a_wrong_type_stops_nobody(kind: str) -> None:
    stored = around(kind, asking(cpu=1), asking(cpu=1))
    inside(stored)[0]["spec"]["containers"] = "x"
    changed = copied(stored)
    inside(changed)[0]["spec"]["image"] = "other"
    assert answered(review(changed, stored), CONFIG).allowed


# Removal: who declared what, by the two kinds of apply.


def applied(kind: str, *keys: str) -> list[Json]:
    """Return managedFields by which `me` declares resources of the first template's container."""
    fields: Json = {"f:limits": {f"f:{key}": {} for key in keys}} if keys else {}
    held: Json = {'k:{"name":"main"}': {"f:resources": fields}}
    value: Json = {"f:spec": {"f:containers": held}}
    match kind:
        case "TorchJob":
            value = {"f:spec": {"f:replicaSpecs": {"f:r0": {"f:template": value}}}}
        case "GroupSet":
            value = {"f:spec": {"f:head": {"f:template": value}}}
        case "JobGroup":
            job = {"f:template": {"f:spec": {"f:template": value}}}
            value = {"f:spec": {"f:jobs": {'k:{"name":"j0"}': job}}}
        case _:
            value = {"f:templates": {}}  # a list without a key is owned whole
    return [{"manager": "me", "operation": "Apply", "fieldsV1": value}]


def gone(kind: str, before: list[Json], after: list[Json]) -> Json:
    """Return the limits after an update by `me` that keeps the stored grant."""
    old = created(around(kind, asking(gpu="300m")))
    new = copied(old)
    old["metadata"]["managedFields"], new["metadata"]["managedFields"] = before, after
    document = review(new, old, options={"fieldManager": "me"})
    return limits(answered(document, CONFIG).object, 0)


@pytest.mark.parametrize("kind", ["TorchJob", "GroupSet", "JobGroup"])
def test_an_ask_that_its_applier_drops_takes_the_grant_along(kind: str) -> None:
    asked = applied(kind, "gpu")
    assert gone(kind, asked, applied(kind)) == {}
    assert gone(kind, asked, asked) == {COUNT: "30"}
    assert gone(kind, asked, applied(kind, COUNT)) == {COUNT: "30"}
    assert gone(kind, [], []) == {COUNT: "30"}


def test_nothing_can_be_read_of_a_list_that_is_owned_whole() -> None:
    """Whoever applies it again replaces it, its grants too; any other update leaves them."""
    whole = applied("Policy")
    assert gone("Policy", whole, whole) == {COUNT: "30"}
    old = created(around("Policy", asking(gpu="300m")))
    new = around("Policy", asking(memory="1Gi"))
    for each in (old, new):
        each["metadata"]["managedFields"] = whole
    outcome = answered(review(new, old, options={"fieldManager": "me"}), CONFIG)
    assert (outcome.object, outcome.patch) == (new, [])


@each_kind
def test_what_was_last_applied_tells_too(kind: str) -> None:
    """kubectl's own record, where the update leaves the grant behind."""
    key = "kubectl.kubernetes.io/last-applied-configuration"
    before, after = (
        around(kind, asking(gpu="300m"), asking(gpu="300m")),
        around(kind, asking(cpu=1), asking(gpu="300m")),
    )
    old = created(before)
    new = copied(old)
    old["metadata"]["annotations"] = {key: json.dumps(before)}
    new["metadata"]["annotations"] = {key: json.dumps(after)}
    outcome = answered(review(new, old), CONFIG)
    assert (limits(outcome.object, 0), limits(outcome.object, 1)) == ({}, {COUNT: "30"})


def test_records_are_read_once_however_many_templates_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}
    obj = {**around("Policy", *[asking(gpu="300m")] * 9), "metadata": record}
    texts: list[str] = []
    loads = json.loads

    def counted(text: str) -> Any:
        texts.append(text)
        return loads(text)

    monkeypatch.setattr(json, "loads", counted)
    found = list(removed(Review(GROUP, "Policy", obj, obj), places(obj, [("templates", "[*]")])))
    assert (len(found), texts) == (9, ["{}", "{}"])


# Laws, as for the nine kinds.


@given(good_objects, settings)
def test_the_answer_is_a_fixed_point(obj: Json, config: Config) -> None:
    """B17."""
    once = wanted(obj, config)
    assert once is not None
    assert wanted(once, config) is once
    assert wanted(once, config, old=once) is once


@given(any_objects, settings)
def test_the_argument_is_not_changed_and_the_rest_is_shared(obj: Json, config: Config) -> None:
    before = json.dumps(obj)
    after = wanted(obj, config)
    assert json.dumps(obj) == before
    if after is not None:
        assert list(_copies(obj, after)) == []


@given(any_objects, settings)
def test_the_patch_makes_the_desired_object(obj: Json, config: Config) -> None:
    after = wanted(obj, config)
    body = copied(answer(review(obj), config).body)["response"]
    assert body["allowed"] == (after is not None)
    patch = json.loads(b64decode(body["patch"])) if "patch" in body else []
    assert bool(patch) == (after not in (None, obj))
    assert jsonpatch.apply_patch(obj, patch) == (obj if after is None else after)


@given(strategies.pods, st.lists(strategies.meant, max_size=2), kinds, settings)
def test_a_template_becomes_what_it_becomes_in_a_deployment(
    one: Json, others: list[Json], kind: str, config: Config
) -> None:
    """Wherever it stands, and whatever stands beside it."""
    alone = holding("Deployment", one)
    try:
        expected = desired(Review("apps", "Deployment", alone, None), config).object
    except Denied:
        expected = None
    made = wanted(around(kind, *others, one), config)
    assert (made is None) == (expected is None)
    if made and expected:
        assert inside(made)[-1]["spec"] == expected["spec"]["template"]["spec"]


@given(good_objects, settings, settings)
def test_a_templates_translation_depends_on_no_setting(
    obj: Json, one: Config, other: Config
) -> None:
    first, second = wanted(obj, one), wanted(obj, other)
    if first is not None and second is not None:
        assert first == second


@given(good_objects, settings)
def test_what_is_applied_again_is_what_is_stored(manifest: Json, config: Config) -> None:
    """B77: lists without a key are replaced whole, so every ask comes again."""
    stored = created(manifest, config)
    outcome = answered(review(manifest, stored), config)
    assert outcome.allowed, outcome.message
    assert outcome.object == stored


@given(objects(strategies.pods), settings)
def test_an_update_of_something_else_changes_nothing(stored: Json, config: Config) -> None:
    """Finalizers, labels, replicas: whatever is stored, and from whenever."""
    outcome = answered(review(labelled(stored), stored), config)
    assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], [])


@given(st.data(), any_objects, settings, st.booleans())
def test_no_json_of_a_wrong_shape_is_more_than_a_fault(
    data: st.DataObject, obj: Json, config: Config, stored: bool
) -> None:
    document = review(obj, copied(obj) if stored else None)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(list(_places(document))))
        document = _with(document, place, data.draw(strategies.json_values))
    with suppress(BadReview):
        body = copied(answer(document, config).body)
        assert body["response"]["allowed"] in (True, False)
