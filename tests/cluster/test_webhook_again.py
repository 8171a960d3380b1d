"""What is applied again, changed or handled by others: nothing changes that nobody changed."""

import json
from pathlib import Path

import pytest

from milligpu.processes import Webhook
from tests.cluster import shapes
from tests.cluster.api import ApiError, Json
from tests.cluster.controlplane import ControlPlane
from tests.cluster.shapes import KINDS, holding, limited
from vgpu import names

pytestmark = pytest.mark.apiserver

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
APPLY = {
    "client-side": ("apply",),
    "server-side": ("apply", "--server-side"),
}


def text(obj: Json) -> str:
    return json.dumps(obj)


def applied(plane: ControlPlane, namespace: str, how: str, manifest: str) -> list[Json]:
    """Apply a manifest and return what is stored."""
    command = (*APPLY[how], "-n", namespace, "-f", "-", "-o", "json")
    answer = json.loads(plane.kubectl(*command, stdin=manifest).stdout)
    items: list[Json] = answer["items"] if answer["kind"] == "List" else [answer]
    return items


@pytest.mark.parametrize("how", APPLY)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_applied_twice_changes_nothing(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, example: Path, how: str
) -> None:
    manifest = example.read_text()
    first, second, third = (applied(apiserver, namespace, how, manifest) for _ in range(3))
    # The API server gives any Job, also one without a GPU, a new version at the second
    # server-side apply, with nothing else changed; from then on it is still.
    assert second == third
    for obj in (*first, *second):
        del obj["metadata"]["resourceVersion"]
    assert first == second
    diff = ("diff", *APPLY[how][1:], "-n", namespace, "-f", "-")
    assert apiserver.kubectl(*diff, stdin=manifest, check=False).returncode == 0


def bare_pods() -> dict[str, Json]:
    """Bare pods of every kind that we change: each must bear being applied again."""
    reserved = {**limited("main", gpu="300m"), "env": [{"name": "A", "value": "1"}]}
    reserved["env"].append({"name": names.ENV_VISIBLE_DEVICES, "value": "all"})
    others = {"name": "other", "env": [{"name": names.ENV_VISIBLE_DEVICES, "value": "all"}]}
    fraction = {**limited("main", gpu="300m")}
    fraction["env"] = [{"name": names.ENV_FRACTION, "value": "0.9"}, {"name": "B", "value": "2"}]
    tolerating = shapes.pod("tolerating", limited("main", gpu="300m"))
    tolerating["spec"]["tolerations"] = [{"key": "mine", "operator": "Exists"}]
    serving = {**limited("main", gpu="300m"), "image": "tensorflow/serving"}
    elsewhere = {**limited("main", gpu="300m")}
    source = {"fieldRef": {"fieldPath": "metadata.name"}}
    elsewhere["env"] = [{"name": names.ENV_FRACTION, "valueFrom": source}]
    init = shapes.pod("init", limited("main", gpu="300m"))
    init["spec"]["initContainers"] = [{"image": "none", **limited("warm", gpu="400m")}]
    note = {names.ANNOTATION_ASK: "300m"}
    pods = [
        shapes.pod("limits", limited("main", gpu="300m"), {"name": "other"}),
        shapes.pod("note", {"name": "main"}, annotations=note),
        shapes.pod("both", limited("main", gpu="300m"), annotations=note),
        shapes.pod("serving", {**serving, "args": ["--x=1"]}),
        shapes.pod("no-args", serving),
        shapes.pod("reserved", reserved, others),
        shapes.pod("fraction", fraction),
        shapes.pod("elsewhere", elsewhere),
        shapes.pod("zero", limited("main", gpu="0"), limited("other", gpu="300m")),
        shapes.pod("count", {"name": "main", "resources": {"limits": {names.COUNT: "30"}}}),
        tolerating,
        init,
    ]
    return {pod["metadata"]["name"]: pod for pod in pods}


@pytest.mark.parametrize("how", APPLY)
@pytest.mark.parametrize("name", bare_pods())
def test_a_bare_pod_applied_again_changes_nothing(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, name: str, how: str
) -> None:
    manifest = text(bare_pods()[name])
    first = applied(apiserver, namespace, how, manifest)
    assert applied(apiserver, namespace, how, manifest) == first
    diff = ("diff", *APPLY[how][1:], "-n", namespace, "-f", "-")
    assert apiserver.kubectl(*diff, stdin=manifest, check=False).returncode == 0


@pytest.mark.parametrize("name", bare_pods())
def test_a_bare_pod_may_go_over_to_server_side_apply(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, name: str
) -> None:
    """It takes the manifest's `requests` along, which API defaulting wrote at the creation."""
    manifest = text(bare_pods()[name])
    (first,) = applied(apiserver, namespace, "client-side", manifest)
    command = ("apply", "--server-side", "--force-conflicts", "-n", namespace, "-f", "-")
    for _ in range(3):
        apiserver.kubectl(*command, stdin=manifest)
    assert apiserver.api.read(first, namespace)["spec"] == first["spec"]


@pytest.mark.parametrize("how", APPLY)
@pytest.mark.parametrize("form", ["limits", "annotation"])
def test_a_pods_share_cannot_change(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, form: str, how: str
) -> None:
    def asking(ask: str) -> str:
        if form == "limits":
            return text(shapes.pod("model", limited("main", gpu=ask)))
        note = {names.ANNOTATION_ASK: ask}
        return text(shapes.pod("model", {"name": "main"}, annotations=note))

    applied(apiserver, namespace, how, asking("300m"))
    again = apiserver.kubectl(
        *APPLY[how], "-n", namespace, "-f", "-", stdin=asking("500m"), check=False
    )
    assert again.returncode != 0
    assert "500m: a pod's share cannot change (it has milligpu.io/vgpu: 30)" in again.stderr
    assert "delete the pod and create it again" in again.stderr


def test_a_sharing_pod_may_be_labelled_and_get_another_image(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    made = apiserver.api.create(shapes.pod("model", limited("main", gpu="300m")), namespace)
    apiserver.kubectl("label", "pod", "model", "a=b", "-n", namespace)
    # A new pod of this image would get arguments; a stored one cannot.
    image = "tensorflow/serving"
    apiserver.kubectl("set", "image", "pod/model", f"main={image}", "-n", namespace)
    toleration = {"key": "more", "operator": "Exists"}
    change = {"spec": {"tolerations": [*made["spec"]["tolerations"], toleration]}}
    changed = apiserver.api.patch(made, change, namespace)
    assert changed["spec"]["containers"][0]["image"] == image
    assert toleration in changed["spec"]["tolerations"]


@pytest.mark.parametrize("how", APPLY)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("Pod", "Job")])
def test_a_changed_ask_on_a_template_wins(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, kind: str, how: str
) -> None:
    def asking(ask: str) -> str:
        return text(holding(kind, shapes.pod("model", limited("main", gpu=ask))))

    applied(apiserver, namespace, how, asking("300m"))
    (changed,) = applied(apiserver, namespace, how, asking("500m"))
    (container,) = shapes.held(changed)["spec"]["containers"]
    assert container["resources"] == {
        "limits": {names.COUNT: "50"},
        "requests": {names.COUNT: "50"},
    }


def test_only_the_faults_of_this_update_are_held_against_it(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    obj = holding("Deployment", shapes.pod("model", limited("main", gpu="300m")))
    made = apiserver.api.create(obj, namespace)
    made["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["gpu"] = "1500m"
    with pytest.raises(ApiError, match="1500m is not allowed"):
        apiserver.api.update(made, namespace)


def test_scaling_and_labelling_a_workload_leave_its_template(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    obj = holding("Deployment", shapes.pod("model", limited("main", gpu="300m")))
    before = apiserver.api.create(obj, namespace)["spec"]["template"]
    apiserver.kubectl("scale", "deployment/model", "--replicas=3", "-n", namespace)
    apiserver.kubectl("label", "deployment/model", "a=b", "-n", namespace)
    apiserver.kubectl("rollout", "pause", "deployment/model", "-n", namespace)
    after = apiserver.api.read(obj, namespace)
    assert after["spec"]["template"] == before
    assert after["spec"]["replicas"] == 3


def test_what_comes_back_from_the_cluster_can_be_created_again(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    made = apiserver.api.create(shapes.pod("model", limited("main", gpu="300m")), namespace)
    copy = {**made, "metadata": {"name": "copy", "annotations": made["metadata"]["annotations"]}}
    copy["spec"].pop("nodeName", None)
    again = apiserver.api.create(copy, namespace)
    assert again["spec"]["containers"] == made["spec"]["containers"]
