"""What a user may write in annotations (design sections 2 and 3)."""

from typing import Any

import pytest

from tests.unit.webhook.objects import (
    COUNT,
    FORMS,
    KINDS,
    TEMPLATES,
    WHOLE,
    container,
    create,
    created,
    denied,
    gpus,
    holding,
    named,
    pod,
    prefix,
    sent,
    update,
)
from webhook.pod import Json

ASK = "milligpu.io/gpu"
FRAMEWORK = "milligpu.io/framework"
THROTTLE = "milligpu.io/cpu-throttle"
SHARE = "milligpu.io/share"
DEFAULT = "kubectl.kubernetes.io/default-container"


def noted(note: Any, *containers: Json, key: str = ASK, **more: Any) -> Json:
    return pod(*(containers or (container(),)), annotations={key: note, **more})


ASKED: dict[str, dict[str, str]] = {
    "300m": {COUNT: "30"},
    "0.3": {COUNT: "30"},
    " 300m ": {COUNT: "30"},
    "30%": {COUNT: "30"},
    "30 %": {COUNT: "30"},
    "33.3%": {COUNT: "34"},
    "0.5%": {COUNT: "1"},
    "main=300m": {COUNT: "30"},
    "main=30%": {COUNT: "30"},
    " main = 300m ": {COUNT: "30"},
    "0": {},
    "0%": {},
    "main=0": {},
    "1": {WHOLE: "1"},
    "1.0": {WHOLE: "1"},
    "200%": {WHOLE: "2"},
    "main=2": {WHOLE: "2"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("note", ASKED)
def test_an_annotation_is_an_ask_of_a_pod(note: str, form: str) -> None:
    """B04: also where the container has no resources at all; B102: plain decimals."""
    made = created(FORMS[form](noted(note)))
    assert gpus(named(made)) == ASKED[note]
    assert made["metadata"]["annotations"][ASK] == note


@pytest.mark.parametrize("note", ASKED)
def test_a_template_with_the_annotation_is_not_changed(note: str) -> None:
    """Design section 4: no field differs; the pods get their share when they are made."""
    for kind in TEMPLATES:
        outcome = create(sent(holding(kind, noted(note))))
        assert (outcome.allowed, outcome.patch) == (True, []), kind


def test_an_annotation_by_name_reaches_each_container() -> None:
    obj = pod(
        container("trainer"),
        container("loader"),
        container("plain"),
        init=[container("warm"), container("side", restartPolicy="Always")],
        annotations={ASK: "trainer=500m, loader=10%,warm=0.05,side=1m"},
    )
    made = created(sent(obj))
    assert {
        name: gpus(named(made, name)) for name in ("trainer", "loader", "plain", "warm", "side")
    } == {
        "trainer": {COUNT: "50"},
        "loader": {COUNT: "10"},
        "plain": {},
        "warm": {COUNT: "5"},
        "side": {COUNT: "1"},
    }


def test_the_rest_of_the_annotations_survives() -> None:
    """B37: keys with `/` and `~`, and resources of others."""
    main = container(limits={"example.com/other": "1", "gpu": "300m"})
    obj = pod(main, annotations={"a/b": "keep", "c~d": "keep", "e~1f/g": "keep", ASK: "300m"})
    made = created(sent(obj))
    notes = made["metadata"]["annotations"]
    assert {key: notes[key] for key in ("a/b", "c~d", "e~1f/g", ASK)} == (
        obj["metadata"]["annotations"]
    )
    assert named(made)["resources"]["limits"]["example.com/other"] == "1"
    assert gpus(named(made)) == {COUNT: "30"}


@pytest.mark.parametrize("note", ["300m", "0.3", "30%", "main=300m"])
def test_an_equal_ask_in_limits_is_not_a_second_one(note: str) -> None:
    made = created(sent(noted(note, container(limits={"gpu": "300m"}))))
    assert gpus(named(made)) == {COUNT: "30"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("note", ["500m", "main=500m", "0", "301m"])
def test_limit_and_annotation_that_differ_are_denied(note: str, kind: str) -> None:
    message = denied(sent(holding(kind, noted(note, container(limits={"gpu": "300m"})))))
    assert message.startswith(prefix(kind, "spec", "containers[0]: "))
    assert "resources.limits[gpu]: 300m" in message
    assert f"annotations[{ASK}]: {note.removeprefix('main=')}" in message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limits", [{"nvidia.com/gpu": "1"}, {COUNT: "20"}, {"amd.com/gpu": 1}])
def test_an_annotation_beside_another_gpu_is_denied(limits: Json, kind: str) -> None:
    ((key, value),) = limits.items()
    message = denied(sent(holding(kind, noted("300m", container(limits=limits)))))
    assert message.startswith(prefix(kind, f"metadata.annotations[{ASK}]: 300m beside"))
    assert f"{key}: {value}" in message


# The main container: holder of this count or this ask, else kubectl's default, else the first.

MAIN: dict[str, tuple[list[Json], dict[str, str], str, bool]] = {
    "the only one": ([container("a")], {}, "a", False),
    "the first": ([container("a"), container("b")], {}, "a", True),
    "kubectl's default": ([container("a"), container("b")], {DEFAULT: "b"}, "b", False),
    "a default that is not there": ([container("a"), container("b")], {DEFAULT: "c"}, "a", True),
    "a holder of the count": (
        [container("a"), container("b", {COUNT: "30"})],
        {DEFAULT: "a"},
        "b",
        False,
    ),
    "a holder of the ask": ([container("a"), container("b", {"gpu": "0.3"})], {}, "b", False),
    "a holder of another ask is none": (
        [container("a"), container("b", {"gpu": "100m"})],
        {DEFAULT: "a"},
        "a",
        False,
    ),
}


@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
@pytest.mark.parametrize("case", MAIN)
def test_the_main_container(case: str, kind: str) -> None:
    containers, notes, wanted, guessed = MAIN[case]
    obj = sent(holding(kind, noted("300m", *containers, **notes)))
    outcome = create(obj)
    assert outcome.allowed
    assert any(f"goes to '{wanted}', the first of" in text for text in outcome.warnings) == guessed
    if kind == "Pod":
        assert gpus(named(outcome.object, wanted)) == {COUNT: "30"}
        others = [body["name"] for body in containers if body["name"] != wanted]
        assert all(gpus(named(outcome.object, name)) != {COUNT: "30"} for name in others)


def test_an_init_container_is_never_the_main_container() -> None:
    made = created(sent(pod(container("a"), init=[container("warm")], annotations={ASK: "300m"})))
    assert (gpus(named(made, "warm")), gpus(named(made, "a"))) == ({}, {COUNT: "30"})


def test_the_main_container_is_decided_once() -> None:
    """B54: a container that an injector puts first, after us, does not get the share."""
    obj = created(sent(noted("300m", container("a"), container("b"))))
    obj["spec"]["containers"].insert(0, container("injected"))
    made = created(obj)
    assert [gpus(body) for body in made["spec"]["containers"]] == [{}, {COUNT: "30"}, {}]


# What is denied.

BAD: dict[str, tuple[str, str, str, str]] = {
    "no number": (ASK, "lots", "'lots'", "a share above 0 and below 1"),
    "empty": (ASK, "", "''", "300m"),
    "blank": (ASK, "  ", "''", "300m"),
    "below zero": (ASK, "-1", "-1", "a share above 0 and below 1"),
    "percent below zero": (ASK, "-30%", "-30%", "a share above 0 and below 1"),
    "above one card": (ASK, "150%", "150%", "is not allowed; allowed: a share"),
    "no number before percent": (ASK, "lots%", "'lots%'", "30%"),
    "percent alone": (ASK, "%", "'%'", "30%"),
    "a suffix before percent": (ASK, "300m%", "'300m%'", "30%"),
    "too long": (ASK, "0." + "3" * 31, "0." + "3" * 31, "32 characters"),
    "too long a percentage": (ASK, "1" * 40 + "%", "1" * 36, "32 characters"),
    "a huge exponent": (ASK, "1e2147483648", "'1e2147483648'", "a share above 0"),
    "no such container": (ASK, "trainer=500m", "'trainer'", "there are main"),
    "a name alone": (ASK, "main=", "'main='", "container=value"),
    "a value alone": (ASK, "=300m", "'=300m'", "container=value"),
    "mixed forms": (ASK, "300m,main=300m", "'300m'", "container=value"),
    "a comma too many": (ASK, "main=300m,", "'main=300m,'", "container=value"),
    "one container twice": (ASK, "main=300m,main=300m", "'main' twice", "once"),
    "unknown framework": (FRAMEWORK, "caffe", "'caffe'", "tensorflow-serving, none"),
    "unknown framework by name": (FRAMEWORK, "main=caffe", "'caffe'", "tensorflow-serving, none"),
    "no framework": (FRAMEWORK, "", "''", "tensorflow-serving, none"),
    "a framework of no container": (FRAMEWORK, "x=none", "'x'", "there are main"),
    "another throttle": (THROTTLE, "on", "'on'", "off"),
    "no throttle": (THROTTLE, "", "''", "off"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_annotation_that_cannot_be_meant_is_denied_with_its_place(case: str) -> None:
    """Design section 4: asks in template annotations are validated there, and denied there."""
    key, note, value, allowed = BAD[case]
    for kind in KINDS:
        message = denied(sent(holding(kind, noted(note, key=key))))
        assert message.startswith(prefix(kind, f"metadata.annotations[{key}]: "))
        assert value in message
        assert allowed in message


@pytest.mark.parametrize("value", [0.3, 1, True, ["300m"], {"a": "b"}])
def test_a_value_that_is_not_text_is_denied_with_its_key(value: Any) -> None:
    """B52: an API server refuses these first; a command line may not."""
    for kind in KINDS:
        message = denied(holding(kind, noted(value)))
        assert message == prefix(kind, f"metadata.annotations[{ASK}]: must be a string; quote it")


@pytest.mark.parametrize("kind", KINDS)
def test_null_is_an_empty_text_as_for_the_api_server(kind: str) -> None:
    """Whoever leaves a value of a chart empty writes it; it counts on a command line only."""
    others = pod(container(limits={"gpu": "300m"}), annotations={"example.com/checksum": None})
    assert gpus(named(created(holding(kind, others)))) == {COUNT: "30"}
    empty, null = (denied(holding(kind, noted(value))) for value in ("", None))
    assert null == empty


def test_an_annotation_in_a_pod_without_containers_is_denied() -> None:
    obj = noted("300m")
    obj["spec"]["containers"] = []
    assert denied(obj) == f"metadata.annotations[{ASK}]: 300m: the pod has no containers"


def test_init_containers_alone_have_no_main_container() -> None:
    """The API server refuses such a pod."""
    obj = pod(init=[container("warm")], annotations={ASK: "300m"})
    assert create(obj).patch == []


# Annotations that we do not know, or that stand in the wrong place.


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_annotation_below_our_prefix_gets_a_warning(kind: str) -> None:
    notes = {"milligpu.io/gpus": "300m", "example.com/gpu": "1", SHARE: "{}", ASK: "300m"}
    outcome = create(sent(holding(kind, pod(container(), annotations=notes))))
    assert outcome.allowed
    said = [text for text in outcome.warnings if "unknown" in text]
    assert said == [
        "milligpu: annotation milligpu.io/gpus is unknown to this release and has no effect"
    ]


@pytest.mark.parametrize("key", [ASK, FRAMEWORK, THROTTLE])
@pytest.mark.parametrize("kind", TEMPLATES)
def test_an_annotation_on_the_workload_is_pointed_out(kind: str, key: str) -> None:
    """B57: not silence."""
    obj = sent(holding(kind, pod(container())))
    obj["metadata"]["annotations"] = {key: "300m"}
    outcome = create(obj)
    assert (outcome.allowed, outcome.patch) == (True, [])
    (warning,) = outcome.warnings
    assert f"annotation {key} on metadata has no effect" in warning
    assert warning.endswith(f"it belongs on {prefix(kind, 'metadata')}")


def test_an_annotation_on_a_cron_jobs_job_template_is_pointed_out() -> None:
    obj = sent(holding("CronJob", pod(container())))
    obj["spec"]["jobTemplate"]["metadata"] = {"annotations": {ASK: "300m"}}
    (warning,) = create(obj).warnings
    assert f"annotation {ASK} on spec.jobTemplate.metadata has no effect" in warning


@pytest.mark.parametrize("kind", TEMPLATES)
def test_an_unknown_annotation_on_the_workload_gets_a_warning(kind: str) -> None:
    obj = sent(holding(kind, pod(container())))
    obj["metadata"]["annotations"] = {"milligpu.io/gpus": "300m"}
    (warning,) = create(obj).warnings
    assert "annotation milligpu.io/gpus is unknown" in warning


def test_an_annotation_in_both_places_is_not_pointed_out() -> None:
    obj = sent(holding("Deployment", noted("300m")))
    obj["metadata"]["annotations"] = {ASK: "300m"}
    assert not any("belongs" in text for text in create(obj).warnings)


# The record of shares.


def test_the_record_says_what_each_container_has() -> None:
    obj = pod(
        container("a", {"gpu": "333m"}),
        container("b", {"gpu": 2}),
        container("c"),
        init=[container("warm", {COUNT: "5"})],
    )
    made = created(sent(obj))
    assert made["metadata"]["annotations"][SHARE] == (
        '{"warm":{"slots":5,"share":"0.05"},"a":{"slots":34,"share":"0.34"},"b":{"cards":2}}'
    )


@pytest.mark.parametrize("text", ["", "{}", "junk", '{"main":{"slots":90,"share":"0.9"}}'])
def test_the_record_is_never_read(text: str) -> None:
    """B62: a mark that a user wrote, or copied, counts for nothing."""
    main = container(limits={"gpu": "300m"})
    made = created(sent(noted(text, main, key=SHARE)))
    assert made == created(sent(pod(main, annotations={})))


def test_a_pod_without_a_grant_has_no_record() -> None:
    """The record is derived from the counts: a copied one would claim a share that is not there."""
    record = '{"main":{"slots":90,"share":"0.9"}}'
    made = created(sent(pod(container(), annotations={SHARE: record, "keep": "this"})))
    assert made["metadata"]["annotations"] == {"keep": "this"}


def test_warnings_fit_into_what_the_api_server_passes_on() -> None:
    notes = {f"milligpu.io/{'x' * 300}{index}": "" for index in range(3)}
    outcome = create(sent(pod(container(), annotations=notes)))
    assert len(outcome.warnings) == 3
    assert all(text.startswith("milligpu: ") for text in outcome.warnings)
    assert all(len(text) <= 256 for text in outcome.warnings)


def test_a_stored_objects_bad_annotation_is_no_fault_of_an_update() -> None:
    """Design section 3: only the faults that this request brings."""
    for kind in KINDS:
        stored = sent(holding(kind, noted("lots")))
        labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}
        outcome = update(labelled, stored)
        assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], [])
