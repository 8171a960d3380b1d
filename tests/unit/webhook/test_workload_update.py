"""The update of what holds a pod's template (design sections 3 and 4; facts M5, M6, M13)."""

from typing import Any

import pytest

from tests.unit.webhook.objects import (
    COUNT,
    KINDS,
    OFFICIAL,
    TEMPLATES,
    WHOLE,
    container,
    copied,
    create,
    created,
    gpus,
    held,
    holding,
    named,
    pod,
    reapplied,
    sent,
    update,
)
from webhook.config import Config
from webhook.pod import Json

ASK = "milligpu.io/gpu"
WITHOUT_WHOLE = Config(whole_cards=False)
MANIFESTS: dict[str, Json] = {
    "limits": pod(container(limits={"gpu": "300m"})),
    "qualified": pod(container(limits={"milligpu.io/gpu": 0.3})),
    "nvidia": pod(container(limits={"nvidia.com/gpu": "300m"}, requests={"nvidia.com/gpu": "0.3"})),
    "rounded": pod(container(limits={"gpu": "333m", "memory": "1Gi"})),
    "zero": pod(container(limits={"gpu": 0})),
    "whole": pod(container(limits={"gpu": 2})),
    "count": pod(container(limits={COUNT: "30"})),
    "annotation": pod(container(), container("b"), annotations={ASK: "300m"}),
    "annotation and limits": pod(
        container("a"), container(limits={"gpu": "300m"}), annotations={ASK: "0.3"}
    ),
    "several": pod(
        container(limits={"gpu": "300m"}),
        container("b", {"gpu": "200m"}, image=OFFICIAL, args=["--x=1"]),
        init=[container("warm", {"gpu": "500m"}), container("plain")],
    ),
}


def stored(kind: str, manifest: Json) -> Json:
    """Return a workload as it is in the cluster."""
    made = created(sent(holding(kind, manifest)))
    made["metadata"] |= {"uid": "1", "generation": 1, "creationTimestamp": "2026-11-01"}
    made["status"] = {"replicas": 3}
    return made


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_manifest_applied_again_gives_the_stored_template(kind: str) -> None:
    """M5, M6, B77: no new generation, no field of a Job that is immutable.

    Client-side apply, server-side apply, and `kubectl replace`, which sends nothing of what we
    wrote.
    """
    for name, manifest in MANIFESTS.items():
        old, obj = stored(kind, manifest), holding(kind, manifest)
        for again in (reapplied(old, obj, "Update"), reapplied(old, obj, "Apply"), sent(obj)):
            outcome = update(again, old)
            assert outcome.allowed, outcome.message
            assert held(outcome.object) == held(old), name


@pytest.mark.parametrize("name", MANIFESTS)
@pytest.mark.parametrize("kind", ["Deployment", "CronJob", "PodTemplate"])
def test_others_updates_leave_the_template(name: str, kind: str) -> None:
    """Scale, label, edit, rollout undo, suspend: no patch, no warning."""
    old = stored(kind, MANIFESTS[name])
    for key, value in {
        "replicas": 5,
        "suspend": True,
        "paused": True,
        "minReadySeconds": 9,
    }.items():
        new = {**old, "spec": {**old.get("spec", {}), key: value}}
        new["metadata"] = {**old["metadata"], "labels": {"a": "b"}}
        outcome = update(new, old)
        assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], [])


@pytest.mark.parametrize("kind", TEMPLATES)
def test_another_field_of_the_template_can_change_beside_a_stored_grant(kind: str) -> None:
    old = stored(kind, MANIFESTS["limits"])
    new = copied(old)
    named(new)["image"] = "registry.example/model:2"
    held(new)["spec"]["serviceAccountName"] = "other"
    outcome = update(new, old)
    assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], [])


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize(
    ("ask", "wanted"),
    [
        ({"gpu": "500m"}, {COUNT: "50"}),
        ({"gpu": "333m"}, {COUNT: "34"}),
        ({"nvidia.com/gpu": "100m"}, {COUNT: "10"}),
        ({"gpu": "2"}, {WHOLE: "2"}),
    ],
    ids=str,
)
def test_a_changed_ask_wins_over_the_stored_grant(ask: Json, wanted: Json, kind: str) -> None:
    old = stored(kind, MANIFESTS["limits"])
    changed = holding(kind, pod(container(limits=ask)))
    for new in (reapplied(old, changed), sent(changed)):
        outcome = update(new, old)
        assert outcome.allowed, outcome.message
        assert gpus(named(outcome.object)) == wanted
    assert gpus(named(old)) == {COUNT: "30"}


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_whole_ask_can_become_a_share(kind: str) -> None:
    old = stored(kind, MANIFESTS["whole"])
    new = reapplied(old, holding(kind, MANIFESTS["limits"]))
    assert gpus(named(update(new, old).object)) == {COUNT: "30"}


@pytest.mark.parametrize("kind", TEMPLATES)
def test_zero_takes_the_grant_along(kind: str) -> None:
    """Design section 3: on a template's update `gpu: 0` takes the grant that an ask once made."""
    old = stored(kind, MANIFESTS["limits"])
    for manifest in (MANIFESTS["zero"], pod(container(limits={"milligpu.io/gpu": "0"}))):
        outcome = update(reapplied(old, holding(kind, manifest)), old)
        assert outcome.allowed, outcome.message
        assert gpus(named(outcome.object)) == {}


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_changed_annotation_is_checked_and_stays_where_it_is(kind: str) -> None:
    old = stored(kind, MANIFESTS["annotation"])
    new = copied(old)
    held(new)["metadata"]["annotations"][ASK] = "500m"
    assert (update(new, old).allowed, update(new, old).patch) == (True, [])
    held(new)["metadata"]["annotations"][ASK] = "1500m"
    assert "1500m is not allowed" in update(new, old).message


@pytest.mark.parametrize("kind", TEMPLATES)
def test_an_annotation_that_differs_from_the_templates_own_grant_is_denied(kind: str) -> None:
    """It is not moved into the template, so the pods would be denied, one by one."""
    old = stored(kind, MANIFESTS["limits"])
    new = copied(old)
    held(new)["metadata"]["annotations"] = {ASK: "500m"}
    assert "500m beside milligpu.io/vgpu: 30" in update(new, old).message
    held(new)["metadata"]["annotations"] = {ASK: "300m"}
    assert update(new, old).allowed


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"gpu": "-1"}, "-1 is not allowed"),
        ({"gpu": "500m", "nvidia.com/gpu": "1"}, "500m beside nvidia.com/gpu: 1"),
        ({"gpu": "500m", COUNT: "40"}, "500m beside milligpu.io/vgpu: 40"),
        ({COUNT: "150"}, "150 is not allowed"),
    ],
    ids=str,
)
def test_a_new_fault_is_denied(limits: Json, message: str, kind: str) -> None:
    old = stored(kind, MANIFESTS["limits"])
    new = reapplied(old, holding(kind, pod(container(limits=limits, requests=limits))))
    assert message in update(new, old).message


# Only what this request brings.

FAULTY: dict[str, Json] = {
    "too large a count": pod(container(limits={COUNT: "150"})),
    "a count beside a whole card": pod(container(limits={COUNT: "30", "nvidia.com/gpu": "1"})),
    "an annotation of no container": pod(container(), annotations={ASK: "other=300m"}),
    "an unknown framework": pod(container(), annotations={"milligpu.io/framework": "later"}),
    "a whole ask": pod(container(limits={ASK: "1"})),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FAULTY)
def test_an_old_fault_is_not_held_against_an_update(name: str, kind: str) -> None:
    old = sent(holding(kind, FAULTY[name]))
    assert not create(old, WITHOUT_WHOLE).allowed
    new = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    outcome = update(new, old, WITHOUT_WHOLE)
    assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], [])


@pytest.mark.parametrize("kind", TEMPLATES)
def test_an_old_fault_does_not_excuse_a_new_one(kind: str) -> None:
    old = sent(holding(kind, pod(container(limits={COUNT: "150"}), container("b"))))
    new = copied(old)
    named(new, "b")["resources"] = {"limits": {"gpu": "1500m"}}
    message = update(new, old).message
    assert "1500m" in message
    assert "150 " not in message


def test_a_fault_moves_with_its_container() -> None:
    """B76: a container that is put in front is not a new fault of the one behind it."""
    old = sent(holding("Deployment", pod(container(limits={COUNT: "150"}))))
    new = copied(old)
    held(new)["spec"]["containers"].insert(0, container("first"))
    assert update(new, old).allowed


def test_an_old_fault_that_changes_is_a_new_one() -> None:
    old = sent(holding("Deployment", pod(container(limits={COUNT: "150"}))))
    new = copied(old)
    named(new)["resources"]["limits"][COUNT] = "160"
    assert "160 is not allowed" in update(new, old).message


@pytest.mark.parametrize("kind", TEMPLATES)
def test_old_warnings_are_not_repeated(kind: str) -> None:
    notes = {"milligpu.io/unknown": "x"}
    old = stored(kind, pod(container(limits={"gpu": "300m"}), annotations=notes))
    old["metadata"]["annotations"] = {ASK: "300m"}
    new = copied(old)
    new["metadata"]["labels"] = {"a": "b"}
    assert update(new, old).warnings == []
    named(new)["envFrom"] = [{"secretRef": {"name": "s"}}]
    (warning,) = update(new, old).warnings
    assert "envFrom cannot be seen into" in warning


# Objects that a controller owns.


def owned(kind: str, manifest: Json, owner: str, version: str = "example.com/v1") -> Json:
    obj = sent(holding(kind, manifest))
    reference = {"apiVersion": version, "kind": owner, "name": "x", "controller": True}
    other = {"apiVersion": version, "kind": "Other", "name": "y"}
    obj["metadata"]["ownerReferences"] = [other, reference]
    return obj


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_child_of_a_custom_resource_is_translated_where_it_asks(kind: str) -> None:
    obj = owned(kind, MANIFESTS["rounded"], "PyTorchJob")
    outcome = create(obj)
    assert gpus(named(outcome.object)) == {COUNT: "34"}
    assert outcome.warnings == []
    assert gpus(named(update(obj, outcome.object).object)) == {COUNT: "34"}


@pytest.mark.parametrize("name", ["count", "annotation"])
@pytest.mark.parametrize("kind", TEMPLATES)
def test_without_an_ask_key_it_is_left_alone(kind: str, name: str) -> None:
    obj = owned(kind, MANIFESTS[name], "PyTorchJob")
    assert create(obj).patch == update(obj, obj).patch == []


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_deployments_replica_set_never_changes(name: str) -> None:
    """M13: else the Deployment makes another one, without end."""
    obj = owned("ReplicaSet", MANIFESTS[name], "Deployment", "apps/v1")
    for outcome in (create(obj), update(obj, obj)):
        assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], [])


@pytest.mark.parametrize("limits", [{"gpu": "-1"}, {COUNT: "150"}])
def test_a_deployments_replica_set_is_never_denied(limits: Json) -> None:
    obj = owned("ReplicaSet", pod(container(limits=limits)), "Deployment", "apps/v1")
    assert create(obj).allowed


def test_a_replica_set_of_its_own_is_translated() -> None:
    made = created(sent(holding("ReplicaSet", MANIFESTS["limits"])))
    assert gpus(named(made)) == {COUNT: "30"}


def test_a_job_of_a_custom_resource_called_deployment_is_translated() -> None:
    """Only the Deployment of `apps` compares templates."""
    obj = owned("Job", MANIFESTS["limits"], "Deployment")
    assert gpus(named(create(obj).object)) == {COUNT: "30"}


@pytest.mark.parametrize(
    "references",
    [None, [], [{}], [{"kind": "X"}], [{"kind": "X", "controller": False}], "x", [1], {"a": 1}],
    ids=str,
)
def test_an_object_without_a_controller_is_a_persons(references: Any) -> None:
    obj = sent(holding("ReplicaSet", MANIFESTS["rounded"]))
    obj["metadata"]["ownerReferences"] = references
    outcome = create(obj)
    assert gpus(named(outcome.object)) == {COUNT: "34"}
    assert any("rounded" in text for text in outcome.warnings)


def test_a_job_from_before_keeps_its_template() -> None:
    """B77: a Job's template is immutable, so a translation now would refuse its every update."""
    old = sent(holding("Job", FAULTY["a whole ask"]))
    new = {**old, "spec": {**old["spec"], "suspend": True}}
    outcome = update(new, old)
    assert (outcome.allowed, outcome.patch) == (True, [])
