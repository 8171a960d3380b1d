"""The update of a pod (design section 4, first rule; cluster facts M4, M6, M13)."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.webhook.objects import (
    COUNT,
    OFFICIAL,
    OUR_FLAG,
    TOLERATION,
    Outcome,
    container,
    containers,
    copied,
    created,
    env,
    named,
    pod,
    reapplied,
    sent,
    update,
)
from webhook.config import Config
from webhook.pod import Json

ASK = "milligpu.io/gpu"
SHARE = "milligpu.io/share"
VISIBLE = "NVIDIA_VISIBLE_DEVICES"


def stored(manifest: Json, config: Config | None = None) -> Json:
    """Return a pod as it is in the cluster, bound and running."""
    made = created(sent(manifest), config)
    made["metadata"] |= {"uid": "1", "resourceVersion": "7", "creationTimestamp": "2026-11-01"}
    made["spec"]["nodeName"] = "node-1"
    made["status"] = {"phase": "Running"}
    for body in containers(made):  # nothing empty is stored
        body["resources"] = {key: value for key, value in body["resources"].items() if value}
    return made


def value(name: str, text: str) -> Json:
    return {"name": name, "value": text}


SHARING = container(limits={"gpu": "300m"})
MINE = {"key": "mine", "operator": "Exists"}
LATER = Config(
    cpus_per_gpu=Config().cpus_per_gpu * 2,
    tolerations=({"key": "later", "operator": "Exists"},),
    runtime_class="nvidia",
)
BARE: dict[str, Json] = {
    "limits": pod(SHARING),
    "qualified": pod(container(limits={"milligpu.io/gpu": 0.3})),
    "nvidia": pod(container(limits={"nvidia.com/gpu": "300m"})),
    "limits and requests": pod(container(limits={"gpu": "0.3"}, requests={"gpu": "300m"})),
    "rounded": pod(container(limits={"gpu": "333m"})),
    "zero": pod(container(limits={"gpu": "0"})),
    "whole": pod(container(limits={"gpu": "2"})),
    "count": pod(container(limits={COUNT: "30"})),
    "annotation": pod(container(), annotations={ASK: "300m"}),
    "annotation by name": pod(container("a"), container(), annotations={ASK: "main=30%"}),
    "annotation of several": pod(container(), container("b"), annotations={ASK: "300m"}),
    "annotation and limits": pod(SHARING, container("b"), annotations={ASK: "300m"}),
    "own cpu": pod(container(limits={"gpu": "300m", "cpu": "2"}, requests={"cpu": "1"})),
    "init and sidecar": pod(
        SHARING,
        init=[
            container("warm", {"gpu": "500m"}),
            container("side", {"gpu": "100m"}, restartPolicy="Always"),
            container("plain"),
        ],
    ),
    "reserved variables": pod(
        container(
            limits={"gpu": "300m"},
            env=[value("A", "1"), value(VISIBLE, "all"), value("MILLIGPU_SLOTS", "99")],
        )
    ),
    "all of them reserved": pod(container(limits={"gpu": "300m"}, env=[value(VISIBLE, "all")])),
    "a fraction too large": pod(
        container(
            limits={"gpu": "300m"},
            env=[value("PER_PROCESS_GPU_MEMORY_FRACTION", "0.9"), value("Z", "1")],
        )
    ),
    "a fraction from elsewhere": pod(
        container(
            limits={"gpu": "300m"},
            env=[{"name": "PER_PROCESS_GPU_MEMORY_FRACTION", "valueFrom": {"fieldRef": {}}}],
        )
    ),
    "a helper that sees all": pod(
        SHARING, container("helper", env=[value(VISIBLE, "all"), value("A", "1")])
    ),
    "serving": pod(container(limits={"gpu": "300m"}, image=OFFICIAL)),
    "serving with args": pod(container(limits={"gpu": "300m"}, image=OFFICIAL, args=["--x=1"])),
    "serving with a flag too large": pod(
        container(
            limits={"gpu": "300m"},
            command=["tensorflow_model_server"],
            args=["--per_process_gpu_memory_fraction=0.9"],
        )
    ),
    "tolerations": pod(SHARING, tolerations=[MINE]),
    "a runtime class": pod(SHARING, runtimeClassName="kata"),
}


@pytest.mark.parametrize("operation", ["Update", "Apply"])
@pytest.mark.parametrize("name", BARE)
def test_a_bare_pod_applied_again_is_the_stored_one(name: str, operation: str) -> None:
    """M4, M6: client-side and server-side apply send the asks, own args and what we removed."""
    old = stored(BARE[name])
    outcome = update(reapplied(old, BARE[name], operation), old)
    assert outcome.allowed, outcome.message
    assert outcome.object["spec"] == old["spec"]
    assert outcome.object["metadata"].get("annotations") == old["metadata"].get("annotations")


@pytest.mark.parametrize("config", [Config(), LATER], ids=["same settings", "others"])
@pytest.mark.parametrize("name", [name for name in BARE if name != "own cpu"])
def test_resources_that_were_taken_back_are_the_stored_ones(name: str, config: Config) -> None:
    """Server-side apply after client-side apply removes maps that it recorded at creation.

    What the manifest has comes again, and API defaulting copies limits that are left.
    """
    old = stored(BARE[name])
    new = reapplied(old, BARE[name])
    for body, written in zip(containers(new), containers(BARE[name]), strict=True):
        body["resources"].pop("requests", None)
        if "resources" not in written:
            body["resources"].clear()
    outcome = update(sent(new), old, config)
    assert outcome.allowed, outcome.message
    assert outcome.object["spec"] == old["spec"]


def test_cpus_that_a_person_changes_are_left_to_the_api_server() -> None:
    old = stored(BARE["own cpu"])
    for limit, request in (("4", "4"), ("4", "1"), ("2", "500m")):
        changed = container(limits={"gpu": "300m", "cpu": limit}, requests={"cpu": request})
        new = reapplied(old, pod(changed))
        found = named(update(new, old).object)["resources"]
        assert (found["limits"]["cpu"], found["requests"]["cpu"]) == (limit, request)


def reapplied_and_changed(old: Json, manifest: Json, change: Callable[[Json], None]) -> Json:
    changed = copied(manifest)
    change(changed)
    return reapplied(old, changed)


@pytest.mark.parametrize("name", BARE)
def test_another_image_applied_with_it_is_all_that_changes(name: str) -> None:
    """What may change in a pod, changes; the rest of the manifest is not held against it."""

    def another_image(manifest: Json) -> None:
        manifest["spec"]["containers"][-1]["image"] += "-2"

    old = stored(BARE[name])
    outcome = update(reapplied_and_changed(old, BARE[name], another_image), old)
    assert outcome.allowed, outcome.message
    wanted = copied(old["spec"])
    wanted["containers"][-1]["image"] += "-2"
    assert outcome.object["spec"] == wanted


@pytest.mark.parametrize("name", BARE)
def test_labels_images_and_tolerations_of_a_stored_pod_pass(name: str) -> None:
    old = stored(BARE[name])
    new = copied(old)
    new["metadata"]["labels"] = {"a": "b"}
    new["spec"]["containers"][0]["image"] = "registry.example/other"
    new["spec"].setdefault("tolerations", []).append({"key": "more", "operator": "Exists"})
    new["spec"]["activeDeadlineSeconds"] = 60
    outcome = update(new, old)
    assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], [])


@pytest.mark.parametrize("image", [OFFICIAL, "registry.example/tensorflow/serving:3"])
def test_set_image_to_a_server_adds_no_argument(image: str) -> None:
    """Arguments of a stored pod cannot change: the API server would refuse the whole update."""
    old = stored(pod(SHARING))
    new = copied(old)
    named(new)["image"] = image
    outcome = update(new, old)
    assert (outcome.allowed, outcome.patch) == (True, [])


@pytest.mark.parametrize("name", BARE)
def test_a_settings_change_does_not_reach_stored_pods(name: str) -> None:
    """Design section 4: a setting that changes later touches new pods only."""
    old = stored(BARE[name])
    outcome = update(reapplied(old, BARE[name]), old, LATER)
    assert outcome.allowed
    assert outcome.object["spec"] == old["spec"]
    labelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert update(labelled, old, LATER).patch == []


def test_a_toleration_added_to_the_manifest_is_added() -> None:
    more = {"key": "more", "operator": "Exists"}
    manifest = pod(SHARING, tolerations=[MINE])
    old = stored(manifest)
    again = pod(SHARING, tolerations=[MINE, more])
    outcome = update(reapplied(old, again), old)
    found = outcome.object["spec"]["tolerations"]
    assert outcome.allowed
    assert all(toleration in found for toleration in (*old["spec"]["tolerations"], more))
    assert len(found) == len(old["spec"]["tolerations"]) + 1


def test_no_stored_toleration_is_taken_back_and_its_time_may_change() -> None:
    """The API server lets tolerations only be added, but for how long they hold."""
    for_a_while = {"key": "mine", "effect": "NoExecute", "operator": "Exists"}
    old = stored(pod(SHARING, tolerations=[{**for_a_while, "tolerationSeconds": 60}]))
    everything, longer = {"operator": "Exists"}, {**for_a_while, "tolerationSeconds": 90}
    again = pod(SHARING, tolerations=[everything, longer])
    found = update(reapplied(old, again), old).object["spec"]["tolerations"]
    assert len(found) == len(old["spec"]["tolerations"]) + 1
    assert everything in found
    assert [each for each in found if each.get("key") == "mine"] == [longer]
    assert TOLERATION in found


def test_the_record_cannot_be_changed_or_removed() -> None:
    old = stored(pod(SHARING))
    for note in ('{"main":{"slots":1}}', None):
        new = copied(old)
        new["metadata"]["annotations"][SHARE] = note
        if note is None:
            del new["metadata"]["annotations"][SHARE]
        assert update(new, old).object == old


# A pod's share cannot change.

CHANGED: dict[str, tuple[str, str, str]] = {
    "more in limits": ("limits", "500m", "it has milligpu.io/vgpu: 30"),
    "less in limits": ("limits", "100m", "it has milligpu.io/vgpu: 30"),
    "rounded to another": ("limits", "0.301", "it has milligpu.io/vgpu: 30"),
    "nothing": ("limits", "0", "it has milligpu.io/vgpu: 30"),
    "a whole card": ("limits", "1", "it has milligpu.io/vgpu: 30"),
    "more in the annotation": ("annotation", "50%", "it has milligpu.io/vgpu: 30"),
    "nothing in the annotation": ("annotation", "0", "it has milligpu.io/vgpu: 30"),
    "more by name": ("annotation", "main=500m", "it has milligpu.io/vgpu: 30"),
    "a second container's": ("annotation", "main=300m,b=100m", "it has none"),
}


def asking(form: str, ask: str) -> Json:
    if form == "limits":
        return pod(container(limits={"gpu": ask}), container("b"))
    return pod(container(), container("b"), annotations={ASK: ask})


@pytest.mark.parametrize("case", CHANGED)
def test_a_changed_ask_is_denied(case: str) -> None:
    form, ask, has = CHANGED[case]
    old = stored(asking(form, "300m" if form == "limits" else "main=300m"))
    outcome = update(reapplied(old, asking(form, ask)), old)
    assert not outcome.allowed
    place = {
        "limits": "spec.containers[0].resources.limits[gpu]",
        "annotation": f"metadata.annotations[{ASK}]",
    }[form]
    assert outcome.message.startswith(f"{place}: ")
    assert f"a pod's share cannot change ({has})" in outcome.message
    assert "delete the pod and create it again" in outcome.message


def test_an_ask_that_is_new_on_a_plain_pod_is_denied() -> None:
    old = stored(pod(container()))
    for manifest in (pod(SHARING), pod(container(), annotations={ASK: "300m"})):
        outcome = update(reapplied(old, manifest), old)
        assert "300m: a pod's share cannot change (it has none)" in outcome.message


def test_an_ask_that_equals_the_grant_is_no_change() -> None:
    """Another spelling, another form, or one that is rounded to what the pod has."""
    old = stored(pod(container(limits={"gpu": "333m"})))
    for manifest in (
        pod(container(limits={"milligpu.io/gpu": "0.34"})),
        pod(container(limits={"gpu": "335e-3"})),
        pod(container(), annotations={ASK: "34%"}),
        pod(container(), annotations={ASK: "main=0.3333"}),
    ):
        outcome = update(reapplied(old, manifest), old)
        assert outcome.allowed, outcome.message
        assert outcome.object["spec"] == old["spec"]


def test_an_ask_that_cannot_be_read_is_a_fault_of_the_update() -> None:
    old = stored(pod(SHARING))
    outcome = update(reapplied(old, pod(container(limits={"gpu": "-1"}))), old)
    assert outcome.message.startswith("spec.containers[0].resources.limits[gpu]: -1 is not allowed")


def test_a_fault_in_one_container_is_not_a_second_one() -> None:
    old = stored(pod(SHARING))
    outcome = update(reapplied(old, pod(container(limits={"gpu": "1500m"}))), old)
    assert outcome.message.count("spec.") == 1


# Pods from before the webhook was there.

BEFORE: dict[str, Json] = {
    "a whole ask": pod(container(limits={"milligpu.io/gpu": "1"})),
    "an annotation": pod(container(), annotations={ASK: "300m"}),
    "a bad annotation": pod(container(), annotations={ASK: "lots"}),
    "a share and a helper": pod(container(limits={COUNT: "30"}), container("b")),
    "a count and a whole card": pod(container(limits={COUNT: "30", "nvidia.com/gpu": "1"})),
    "too large a count": pod(container(limits={COUNT: "150"})),
    "unknown annotations": pod(container(), annotations={"milligpu.io/x": "y"}),
}


def untouched(outcome: Outcome) -> None:
    assert outcome.allowed, outcome.message
    assert (outcome.patch, outcome.warnings) == ([], [])


@pytest.mark.parametrize(
    "config", [Config(), Config(whole_cards=False)], ids=["whole cards", "none"]
)
@pytest.mark.parametrize("name", BEFORE)
def test_a_pod_from_before_can_be_labelled_and_finished(name: str, config: Config) -> None:
    """M13: else its every label is refused, and its Job never loses a finalizer."""
    old = sent(BEFORE[name])
    old["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    for change in ("label", "image", "finalizer", "annotation"):
        new: Any = copied(old)
        match change:
            case "label":
                new["metadata"]["labels"] = {"a": "b"}
            case "image":
                new["spec"]["containers"][0]["image"] = "registry.example/other"
            case "finalizer":
                del new["metadata"]["finalizers"]
            case "annotation":
                new["metadata"].setdefault("annotations", {})["a"] = "b"
        untouched(update(new, old, config))


def test_warnings_come_with_what_brings_them() -> None:
    old = stored(pod(container(), annotations={"milligpu.io/old": ""}))
    new = copied(old)
    new["metadata"]["annotations"]["milligpu.io/new"] = ""
    (warning,) = update(new, old).warnings
    assert "milligpu.io/new is unknown" in warning


def test_what_a_controller_made_gets_no_warnings() -> None:
    """Nobody reads them there."""
    made = sent(pod(container(limits={COUNT: "30"}), container("b", envFrom=[{"x": {}}])))
    del made["metadata"]["name"]
    made["metadata"] |= {
        "generateName": "model-",
        "ownerReferences": [{"kind": "ReplicaSet", "name": "model", "controller": True}],
    }
    assert "CPU" not in str(created(made))
    outcome = update({**made, "spec": {**made["spec"], "x": 1}}, created(made))
    assert outcome.warnings == []


def test_the_new_pod_of_a_controller_gets_everything_all_the_same() -> None:
    """B34: no name yet, perhaps no metadata to speak of."""
    for metadata in ({"generateName": "web-7d9c-"}, {}, None):
        obj = pod(container(limits={COUNT: "30"}, image=OFFICIAL), container("b"))
        obj["metadata"] = metadata
        made = created(obj)
        assert named(made)["args"] == [OUR_FLAG]
        assert env(named(made, "b")) == {VISIBLE: "void"}
        assert made["spec"]["tolerations"] == [TOLERATION]
        assert made["metadata"]["annotations"] == {SHARE: '{"main":{"slots":30,"share":"0.3"}}'}
