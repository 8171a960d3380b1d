"""AdmissionReview in, AdmissionReview out."""

import json
from base64 import b64decode
from typing import Any

import pytest

from tests.unit.webhook.objects import (
    COUNT,
    KINDS,
    answered,
    container,
    copied,
    create,
    created,
    held,
    holding,
    pod,
    review,
    sent,
)
from webhook.admission import BadReview, answer
from webhook.config import Config
from webhook.pod import Json

SHARING = pod(container(limits={"gpu": "300m"}))


def changed(**request: Any) -> Json:
    """Return a review with other fields in its request; None takes one out."""
    document = review(sent(SHARING))
    for key, value in request.items():
        if value is None:
            del document["request"][key]
        else:
            document["request"][key] = value
    return document


def test_a_changed_object_is_answered_with_a_patch() -> None:
    """B26: group, version and uid come back; patch and patchType come together."""
    body = answer(review(sent(SHARING)), Config()).body
    assert (body["apiVersion"], body["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = body["response"]
    assert set(response) == {"uid", "allowed", "patch", "patchType", "warnings"}
    assert response["uid"] == "00000000-0000-0000-0000-000000000001"
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    assert json.loads(b64decode(response["patch"], validate=True))


def test_an_unchanged_object_is_answered_without_one() -> None:
    """B26."""
    response = answer(review(sent(pod(container()))), Config()).body["response"]
    assert response == {"uid": "00000000-0000-0000-0000-000000000001", "allowed": True}


def test_a_denial_is_an_answer() -> None:
    response = answer(review(pod(container(limits={"gpu": "-1"}))), Config()).body["response"]
    assert set(response) == {"uid", "allowed", "status"}
    assert response["allowed"] is False
    status = response["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert "limits[gpu]: -1" in status["message"]


@pytest.mark.parametrize(
    ("obj", "verdict", "operations"),
    [
        (pod(container()), "unchanged", 0),
        (pod(container(limits={"gpu": "-1"})), "denied", 0),
        (holding("Job", SHARING), "changed", 3),
    ],
)
def test_what_is_logged_of_an_answer(obj: Json, verdict: str, operations: int) -> None:
    found = answer(review(obj, dryRun=True), Config())
    assert (found.verdict, found.kind, found.operation) == (verdict, obj["kind"], "CREATE")
    assert (found.namespace, found.dry_run) == ("team-a", True)
    assert found.operations <= operations


def test_a_pod_that_has_no_name_yet_is_logged_by_its_prefix() -> None:
    """B34."""
    obj = sent(SHARING)
    obj["metadata"] = {"generateName": "web-7d9c-"}
    assert answer(review(obj), Config()).name == "web-7d9c-"
    assert answer(review(obj, name="web-1"), Config()).name == "web-1"
    obj["metadata"] = {}
    assert answer(review(obj), Config()).name == ""


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_other_operations_are_let_through(operation: str) -> None:
    for obj in (None, sent(pod(container(limits={"gpu": "-1"})))):
        document = changed(operation=operation)
        document["request"]["object"] = obj
        found = answer(document, Config())
        assert (found.verdict, found.operation) == ("unchanged", operation)


@pytest.mark.parametrize("subresource", ["resize", "ephemeralcontainers", "status", "scale"])
def test_subresources_are_let_through(subresource: str) -> None:
    """B64: a resize that lacks what we added is the API server's to answer."""
    obj = sent(pod(container(limits={"cpu": "3"})))
    document = review(obj, sent(SHARING), subResource=subresource)
    assert answer(document, Config()).verdict == "unchanged"


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("v1", "Service"),
        ("v1", "Deployment"),
        ("apps/v1", "Pod"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("kubeflow.org/v1", "PyTorchJob"),
    ],
)
def test_an_unknown_kind_is_let_through_with_a_warning(version: str, kind: str) -> None:
    obj = {**sent(SHARING), "apiVersion": version, "kind": kind}
    found = answer(review(obj), Config())
    assert found.verdict == "unchanged"
    assert found.warnings == (f"milligpu: kind {kind} is not one that is translated",)


@pytest.mark.parametrize("part", [{"metadata": []}, {"metadata": None}, {"spec": [1]}])
def test_an_unknown_kind_may_have_any_shape(part: Json) -> None:
    obj = {"apiVersion": "example.com/v1", "kind": "Thing", **part}
    assert answer(review(obj), Config()).verdict == "unchanged"


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v2"])
@pytest.mark.parametrize("kind", ["Deployment", "CronJob", "Pod"])
def test_the_version_of_a_kind_does_not_matter(kind: str, version: str) -> None:
    """The paths have been the same in every version that had them."""
    document = review(sent(holding(kind, SHARING)))
    document["request"]["kind"]["version"] = version
    assert answer(document, Config()).verdict == "changed"


# Requests that are no reviews.

NO_REVIEWS: dict[str, Any] = {
    "null": None,
    "a list": [],
    "a text": "AdmissionReview",
    "a number": 1,
    "an empty object": {},
    "an object": SHARING,
    "no request": {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"},
    "an answer": {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "1", "allowed": True},
    },
    "another kind": {**review(SHARING), "kind": "ConversionReview"},
    "no kind": {"apiVersion": "admission.k8s.io/v1", "request": review(SHARING)["request"]},
    "a null request": {**review(SHARING), "request": None},
    "a list as request": {**review(SHARING), "request": []},
}


@pytest.mark.parametrize("name", NO_REVIEWS)
def test_what_is_no_review_is_refused(name: str) -> None:
    """B26: malformed is a bad request, with a short text."""
    with pytest.raises(BadReview, match=r"not an AdmissionReview of admission\.k8s\.io/v1"):
        answer(NO_REVIEWS[name], Config())


@pytest.mark.parametrize("version", ["admission.k8s.io/v1beta1", "v1", "", None, 1])
def test_another_version_is_refused(version: Any) -> None:
    with pytest.raises(BadReview, match=r"apiVersion must be admission\.k8s\.io/v1"):
        answer({**review(SHARING), "apiVersion": version}, Config())


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"uid": None}, "request.uid"),
        ({"uid": ""}, "request.uid"),
        ({"uid": 1}, "request.uid"),
        ({"operation": None}, "request.operation"),
        ({"operation": ["CREATE"]}, "request.operation"),
        ({"kind": None}, "request.kind"),
        ({"kind": "Pod"}, "request.kind"),
        ({"kind": {}}, "request.kind"),
        ({"kind": {"group": ""}}, "request.kind"),
        ({"kind": {"group": 1, "kind": "Pod"}}, "request.kind"),
        ({"kind": {"group": "", "kind": []}}, "request.kind"),
        ({"object": None}, "request.object"),
        ({"object": []}, "request.object"),
        ({"object": "Pod"}, "request.object"),
        ({"operation": "UPDATE"}, "request.oldObject"),
        ({"operation": "UPDATE", "oldObject": []}, "request.oldObject"),
        ({"operation": "UPDATE", "oldObject": {}, "object": []}, "request.object"),
    ],
    ids=str,
)
def test_a_part_that_is_missing_is_named(request_: Json, message: str) -> None:
    with pytest.raises(BadReview, match=message):
        answer(changed(**request_), Config())


# Objects of a wrong shape: null is empty, anything else is the user's fault, with its place.


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": None},
        {"metadata": {"annotations": None}},
        {"spec": None},
        {"spec": {}},
        {"spec": {"containers": None, "initContainers": None}},
        {"spec": {"containers": [{}]}},
        {"spec": {"containers": [{"name": None, "resources": None}]}},
        {"spec": {"containers": [{"name": "m", "resources": {"limits": None, "requests": None}}]}},
    ],
    ids=str,
)
def test_null_is_empty(change: Json) -> None:
    for kind in KINDS:
        obj = holding(kind, pod(container()))
        held(obj).update(copied(change))
        outcome = create(obj)
        assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], []), kind
        full = holding(kind, created(pod(container(limits={"gpu": "300m"}), container("b"))))
        for new, old in ((obj, full), (full, obj)):
            assert answer(review(new, old), Config()).verdict in ("unchanged", "changed", "denied")


def test_null_lists_of_a_container_with_a_share_are_filled() -> None:
    """B04."""
    body = container(limits={"gpu": "300m"}, env=None, args=None, command=None, envFrom=None)
    outcome = create(pod(body, tolerations=None, runtimeClassName=None, initContainers=None))
    assert outcome.allowed
    (made,) = outcome.object["spec"]["containers"]
    assert made["env"] == [{"name": "PER_PROCESS_GPU_MEMORY_FRACTION", "value": "0.3"}]
    assert made["args"] is None


WRONG: dict[str, tuple[Json, str]] = {
    "metadata": ({"metadata": []}, "metadata: must be an object"),
    "annotations": ({"metadata": {"annotations": []}}, "metadata.annotations: must be an object"),
    "spec": ({"spec": "x"}, "spec: must be an object"),
    "containers": ({"spec": {"containers": {}}}, "spec.containers: must be a list"),
    "init containers": ({"spec": {"initContainers": 1}}, "spec.initContainers: must be a list"),
    "a container": ({"spec": {"containers": [1]}}, "spec.containers[0]: must be an object"),
    "a null container": ({"spec": {"containers": [None]}}, "spec.containers[0]: must be an object"),
}
WRONG_IN_CONTAINER: dict[str, tuple[Json, str]] = {
    "resources": ({"resources": []}, "resources: must be an object"),
    "limits": ({"resources": {"limits": [1]}}, "resources.limits: must be an object"),
    "requests": ({"resources": {"requests": "x"}}, "resources.requests: must be an object"),
    "env": ({"env": {"A": "1"}}, "env: must be a list"),
    "an entry": ({"env": ["A=1"]}, "env[0]: must be an object"),
    "args": ({"image": "tensorflow/serving", "args": "--x"}, "args: must be a list"),
    "a word": ({"image": "tensorflow/serving", "args": ["a", 1]}, "args[1]: must be a string"),
    "command": ({"command": [None]}, "command[0]: must be a string"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_type_is_denied_with_its_place(name: str) -> None:
    change, message = WRONG[name]
    outcome = create({**SHARING, **change})
    assert not outcome.allowed
    assert outcome.message == message


@pytest.mark.parametrize("name", WRONG_IN_CONTAINER)
def test_a_wrong_type_in_a_container_is_denied_with_its_place(name: str) -> None:
    change, message = WRONG_IN_CONTAINER[name]
    outcome = create(pod({**container(limits={COUNT: "30"}), **change}, container("b", {COUNT: 1})))
    assert outcome.message == f"spec.containers[0].{message}"


@pytest.mark.parametrize("name", [*WRONG, *WRONG_IN_CONTAINER])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", [True, False])
def test_an_update_with_a_wrong_type_is_answered(kind: str, name: str, stored: bool) -> None:
    good = holding(kind, pod(container(limits={COUNT: "30"})))
    wrong = copied(good)
    if name in WRONG:
        held(wrong).update(copied(WRONG[name][0]))
    else:
        held(wrong)["spec"]["containers"][0].update(copied(WRONG_IN_CONTAINER[name][0]))
    new, old = (good, wrong) if stored else (wrong, good)
    assert answer(review(new, old), Config()).verdict in ("unchanged", "changed", "denied")


def test_tolerations_of_a_wrong_type_are_denied_with_their_place() -> None:
    assert create(pod(SHARING["spec"]["containers"][0], tolerations={})).message == (
        "spec.tolerations: must be a list"
    )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "Pod"])
@pytest.mark.parametrize("template", [None, [], "x", {}])
def test_a_workload_without_a_template_is_the_api_servers_to_refuse(
    kind: str, template: Any
) -> None:
    version, path = KINDS[kind]
    value = template
    for key in reversed(path):
        value = {key: value}
    outcome = create({"apiVersion": version, "kind": kind, "metadata": {"name": "m"}, **value})
    assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], [])


@pytest.mark.parametrize("stored", [None, [], [1], "x", 1, {}])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "Pod"])
def test_a_stored_template_of_any_shape_is_as_none(kind: str, stored: Any) -> None:
    new = sent(holding(kind, SHARING))
    version, path = KINDS[kind]
    old: Any = stored
    for key in reversed(path):
        old = {key: old}
    old = {"apiVersion": version, "kind": kind, "metadata": {"name": "m"}, **old}
    assert answer(review(new, old), Config()).body == answer(review(new), Config()).body


def test_what_came_is_what_is_answered_again() -> None:
    """B27: no state, so that a dry run and the real one are the same."""
    document = review(sent(SHARING))
    first = answered(document)
    assert answered(document) == first == answered({**document, "extra": 1})
