"""Called again for the same pod, or for a copy of it (B17, B54, B62): content counts, not marks."""

import pytest

from tests.unit.webhook.objects import (
    COUNT,
    OFFICIAL,
    OUR_FLAG,
    container,
    copied,
    create,
    created,
    denied,
    env,
    gpus,
    named,
    pod,
    sent,
)
from webhook.pod import Json

FRACTION = "PER_PROCESS_GPU_MEMORY_FRACTION"
SHARE = "milligpu.io/share"
MARKS = {SHARE: '{"main":{"slots":30,"share":"0.3"}}', "milligpu.io/gpu-mutated": "true"}


def live(manifest: Json) -> Json:
    """Return a pod as `kubectl get -o yaml` prints it, ready to be created under another name."""
    made = created(sent(manifest))
    made["metadata"] = {"name": "copy", "annotations": made["metadata"]["annotations"]}
    made["spec"]["nodeName"] = "node-1"
    return made


SHARING = pod(
    container(limits={"gpu": "300m"}, image=OFFICIAL, args=["--x=1"]),
    container("helper"),
    init=[container("warm", {"gpu": "100m"})],
)


def test_a_copy_of_a_live_pod_needs_nothing() -> None:
    """B17."""
    outcome = create(live(SHARING))
    assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], [])


def test_a_container_that_came_after_us_gets_its_share_and_the_others_are_left() -> None:
    """B54: the handler must not leave early because the pod bears a mark."""
    obj = created(sent(SHARING))
    obj["spec"]["containers"].append(container("late", {"gpu": "200m"}, {"gpu": "200m"}))
    obj["spec"]["containers"].append(container("plain"))
    outcome = create(obj)
    assert gpus(named(outcome.object, "late")) == {COUNT: "20"}
    assert env(named(outcome.object, "plain")) == {"NVIDIA_VISIBLE_DEVICES": "void"}
    for name in ("main", "helper", "warm"):
        assert named(outcome.object, name) == named(obj, name)


def test_what_another_webhook_put_into_our_container_is_seen() -> None:
    obj = created(sent(SHARING))
    named(obj)["env"].append({"name": "CUDA_VISIBLE_DEVICES", "value": "0"})
    named(obj)["args"].append("--per_process_gpu_memory_fraction=0.9")
    made = named(create(obj).object)
    assert env(made) == {FRACTION: "0.3"}
    assert made["args"][-1] == OUR_FLAG


@pytest.mark.parametrize("marks", [{}, MARKS])
def test_a_mark_changes_nothing(marks: dict[str, str]) -> None:
    """B62."""
    obj = pod(container(limits={"gpu": "100m"}), annotations=marks)
    made = created(sent(obj))
    assert gpus(named(made)) == {COUNT: "10"}
    assert made["metadata"]["annotations"][SHARE] == '{"main":{"slots":10,"share":"0.1"}}'


def test_a_fraction_that_disagrees_with_the_count_is_made_to_agree() -> None:
    """B62: else ninety percent of the memory for one slot."""
    obj = pod(
        container(limits={COUNT: "1"}, env=[{"name": FRACTION, "value": "0.9"}]), annotations=MARKS
    )
    assert env(named(created(sent(obj)))) == {FRACTION: "0.01"}


def test_a_copy_with_another_ask_is_denied_until_the_count_is_gone() -> None:
    """B62: it asks for one thing and holds another."""
    obj = live(SHARING)
    named(obj)["resources"]["limits"]["gpu"] = "500m"
    assert "500m beside milligpu.io/vgpu: 30" in denied(sent(obj))
    for side in ("limits", "requests"):
        del named(obj)["resources"][side][COUNT]
    made = created(sent(copied(obj)))
    assert gpus(named(made)) == {COUNT: "50"}
    assert env(named(made)) == {FRACTION: "0.3"}, "a smaller fraction is the user's right"
