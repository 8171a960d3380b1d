"""Custom resources whose templates a setting names, before a real API server (B02, B51)."""

import json
from collections.abc import Iterator

import pytest

from milligpu.processes import Webhook
from tests.cluster import custom, shapes, webhooks
from tests.cluster.api import ApiError, Json
from tests.cluster.controlplane import ControlPlane
from tests.cluster.custom import KINDS, asking, held, holding, plain
from tests.cluster.eventually import eventually
from vgpu import names

pytestmark = [pytest.mark.apiserver, pytest.mark.usefixtures("told")]

CHECKED = [kind for kind in KINDS if kind != "FreeForm"]
"""Kinds whose schema refuses `gpu: 300m`."""
UNTOLD = "Untold"
"""A kind that the setting does not name."""
each_kind = pytest.mark.parametrize("kind", KINDS)
both_applies = pytest.mark.parametrize(
    "how", [(), ("--server-side",)], ids=["client-side", "server-side"]
)


@pytest.fixture(scope="module")
def told(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """The real webhook with the setting, by the configuration that is rendered from it."""
    folder = tmp_path_factory.mktemp("told")
    custom.define(apiserver, *KINDS, UNTOLD)
    manifest = custom.rendered(folder)
    with webhooks.before(apiserver, folder, manifest, template_paths=custom.SETTING) as started:
        yield started


def amounts(obj: Json) -> list[Json]:
    """Return the limits of each template's first container, with whose grants requests agree."""
    found = []
    for template in held(obj):
        resources = template["spec"]["containers"][0].get("resources") or {}
        limits, requests = resources.get("limits", {}), resources.get("requests", {})
        assert requests == {key: text for key, text in limits.items() if key == names.COUNT}
        found.append(limits)
    return found


class Applied:
    """One object that is applied again and again."""

    def __init__(
        self, plane: ControlPlane, namespace: str, kind: str, how: tuple[str, ...] = ()
    ) -> None:
        self.plane, self.namespace, self.kind, self.how = plane, namespace, kind, how

    def apply(self, first: Json, second: Json) -> str:
        """Apply, and return what kubectl has to say beside its answer."""
        text = json.dumps(holding(self.kind, first, second))
        command = ("apply", *self.how, "-n", self.namespace, "-f", "-")
        return self.plane.kubectl(*command, stdin=text).stderr

    def read(self) -> Json:
        return self.plane.api.read(holding(self.kind, plain(), plain()), self.namespace)

    def amounts(self) -> list[Json]:
        return amounts(self.read())


def left_alone(plane: ControlPlane, beside: str) -> Json:
    """Make another namespace, which the webhook leaves alone."""
    labels = {names.LABEL_ADMISSION: names.ADMISSION_DISABLED}
    metadata = {"name": f"{beside}-off", "labels": labels}
    return plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def watched(plane: ControlPlane, made: Json) -> None:
    """Have the webhook look after a namespace again, and wait until the API server knows."""
    plane.api.patch(made, {"metadata": {"labels": {names.LABEL_ADMISSION: None}}})
    probe, name = holding("FreeForm", asking(gpu="300m"), plain(), name="probe"), namespace_of(made)

    def translated() -> bool:
        return amounts(plane.api.create(probe, name, "?dryRun=All"))[0] == {names.COUNT: "30"}

    eventually(translated, f"the webhook to be asked about {name}")


def namespace_of(made: Json) -> str:
    name: str = made["metadata"]["name"]
    return name


@pytest.mark.parametrize("kind", CHECKED)
def test_without_the_webhook_the_kind_itself_refuses_an_ask(
    apiserver: ControlPlane, namespace: str, kind: str
) -> None:
    alone = namespace_of(left_alone(apiserver, namespace))
    for pods in ((asking(gpu="300m"), plain()), (plain(), asking(gpu="300m"))):
        with pytest.raises(ApiError, match="must be a standard resource"):
            apiserver.api.create(holding(kind, *pods), alone)


@each_kind
def test_every_template_is_translated(apiserver: ControlPlane, namespace: str, kind: str) -> None:
    obj = holding(kind, asking(gpu="300m", memory="1Gi"), asking(**{names.ASK_QUALIFIED: "0.2"}))
    made = apiserver.api.create(obj, namespace)
    assert amounts(made) == [{names.COUNT: "30", "memory": "1Gi"}, {names.COUNT: "20"}]
    untouched = holding(kind, plain(), asking(**{names.NVIDIA_GPU: "1"}), name="plain")
    made = apiserver.api.create(untouched, namespace)
    assert amounts(made) == [{}, {names.NVIDIA_GPU: "1"}]


@each_kind
def test_another_version_of_the_kind_is_the_same_kind(
    apiserver: ControlPlane, namespace: str, kind: str
) -> None:
    """The setting names v1; the API server converts, since the entries' matchPolicy says so."""
    obj = holding(kind, asking(gpu="300m"), asking(gpu="1500m"))
    obj["apiVersion"] = f"{custom.GROUP}/v1beta1"
    with pytest.raises(ApiError, match="1500m is not allowed"):
        apiserver.api.create(obj, namespace)
    made = apiserver.api.create(
        {**holding(kind, asking(gpu="300m"), plain()), "apiVersion": obj["apiVersion"]}, namespace
    )
    assert made["apiVersion"] == obj["apiVersion"]
    assert amounts(made) == [{names.COUNT: "30"}, {}]


def test_templates_below_two_wildcards_are_translated(
    apiserver: ControlPlane, namespace: str
) -> None:
    obj = holding("FreeForm", plain(), plain())
    template = held(holding("FreeForm", asking(gpu="300m"), plain()))[0]
    obj["spec"]["sets"] = [{"parts": {"a": template}}, {}, {"parts": {"b": {}, "c": template}}]
    made = apiserver.api.create(obj, namespace)["spec"]["sets"]
    for each in (made[0]["parts"]["a"], made[2]["parts"]["c"]):
        limits = each["spec"]["containers"][0]["resources"]["limits"]
        assert limits == {names.COUNT: "30"}


@each_kind
def test_what_is_wrong_in_any_template_is_said_at_once(
    apiserver: ControlPlane, namespace: str, kind: str
) -> None:
    with pytest.raises(ApiError) as refusal:
        apiserver.api.create(holding(kind, asking(gpu="1500m"), asking(gpu="-1")), namespace)
    message = str(refusal.value)
    assert "1500m is not allowed" in message
    assert "-1 is not allowed" in message
    assert message.count("template.spec.containers[0].resources.limits[gpu]: ") >= 1


@each_kind
def test_warnings_reach_whoever_applies_it(
    apiserver: ControlPlane, namespace: str, kind: str
) -> None:
    obj = Applied(apiserver, namespace, kind)
    said = obj.apply(asking(gpu="333m"), plain())
    assert said.count("333m is rounded up to 34 slots") == 1
    manifest = holding(kind, plain(), plain(), name="noted")
    manifest["metadata"]["annotations"] = {names.ANNOTATION_ASK: "300m"}
    command = ("apply", "-n", namespace, "-f", "-")
    said = apiserver.kubectl(*command, stdin=json.dumps(manifest)).stderr
    assert said.count("has no effect; it belongs on") == 1


@each_kind
def test_an_annotation_is_checked_where_it_is_and_stays(
    apiserver: ControlPlane, namespace: str, kind: str
) -> None:
    noted = {**plain(), "metadata": {"annotations": {names.ANNOTATION_ASK: "300m"}}}
    made = apiserver.api.create(holding(kind, noted, plain()), namespace)
    assert amounts(made) == [{}, {}]
    noted["metadata"]["annotations"][names.ANNOTATION_ASK] = "all"
    with pytest.raises(ApiError, match=r"annotations\[milligpu.io/gpu\]: 'all'"):
        apiserver.api.create(holding(kind, noted, plain(), name="bad"), namespace)


@both_applies
@each_kind
def test_what_is_applied_again_changes_nothing(
    apiserver: ControlPlane, namespace: str, kind: str, how: tuple[str, ...]
) -> None:
    obj = Applied(apiserver, namespace, kind, how)
    obj.apply(asking(gpu="300m"), asking(gpu="200m", memory="1Gi"))
    before = obj.read()
    obj.apply(asking(gpu="300m"), asking(gpu="200m", memory="1Gi"))
    after = obj.read()
    assert after["metadata"]["generation"] == 1
    assert after["spec"] == before["spec"]


@both_applies
@each_kind
def test_a_changed_ask_changes_its_grant_and_a_removed_one_takes_it_along(
    apiserver: ControlPlane, namespace: str, kind: str, how: tuple[str, ...]
) -> None:
    obj = Applied(apiserver, namespace, kind, how)
    obj.apply(asking(gpu="300m", memory="1Gi"), asking(gpu="200m"))
    obj.apply(asking(gpu="500m", memory="1Gi"), asking(gpu="200m"))
    assert obj.amounts() == [{names.COUNT: "50", "memory": "1Gi"}, {names.COUNT: "20"}]
    obj.apply(asking(memory="1Gi"), asking(gpu="200m"))
    assert obj.amounts() == [{"memory": "1Gi"}, {names.COUNT: "20"}]
    obj.apply(asking(memory="1Gi"), asking(gpu="0"))
    assert obj.amounts() == [{"memory": "1Gi"}, {}]


@each_kind
def test_a_count_that_the_manifest_declares_stays(
    apiserver: ControlPlane, namespace: str, kind: str
) -> None:
    obj = Applied(apiserver, namespace, kind, ("--server-side",))
    share = {"limits": {names.COUNT: "30"}, "requests": {names.COUNT: "30"}}
    declaring = shapes.pod("x", {"name": "main", "resources": share})
    obj.apply(asking(gpu="300m"), plain())
    obj.apply(declaring, plain())
    obj.apply(declaring, plain())
    assert obj.amounts() == [{names.COUNT: "30"}, {}]


@each_kind
def test_other_hands_leave_the_grant(apiserver: ControlPlane, namespace: str, kind: str) -> None:
    """What operators and people do to a stored object."""
    obj = Applied(apiserver, namespace, kind, ("--server-side",))
    obj.apply(asking(gpu="300m"), asking(gpu="200m"))
    grants = [{names.COUNT: "30"}, {names.COUNT: "20"}]
    stored = obj.read()
    changes: list[Json] = [
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.com/wait"]}},
        {"spec": {"suspend": True}},
        {"metadata": {"finalizers": None}},
        {"metadata": {"managedFields": [{}]}},
    ]
    for change in changes:
        apiserver.api.patch(stored, change, namespace)
        assert obj.amounts() == grants, change
    stored = obj.read()
    held(stored)[0]["spec"]["containers"][0]["image"] = "other"
    assert amounts(apiserver.api.update(stored, namespace)) == grants


@each_kind
def test_a_new_item_in_front_takes_nothing_from_its_neighbour(
    apiserver: ControlPlane, namespace: str, kind: str
) -> None:
    """Where lists merge by name, a changed ask then comes beside the grant of the old one."""
    obj = Applied(apiserver, namespace, kind, ("--server-side",))
    obj.apply(asking(gpu="300m"), asking(gpu="200m"))
    manifest = holding(kind, asking(gpu="300m"), asking(gpu="400m"))
    new = holding(kind, asking(gpu="100m"), asking(gpu="100m"), name="new")
    match kind:
        case "GroupSet":
            manifest["spec"]["groups"].insert(0, new["spec"]["groups"][0])
        case "JobGroup":
            manifest["spec"]["jobs"].insert(0, {**new["spec"]["jobs"][0], "name": "first"})
        case "FreeForm":
            manifest["spec"]["items"].insert(0, new["spec"]["items"][0])
    command = ("apply", *obj.how, "-n", namespace, "-f", "-")
    apiserver.kubectl(*command, stdin=json.dumps(manifest))
    assert obj.amounts() == [{names.COUNT: "30"}, {names.COUNT: "40"}]


@pytest.mark.parametrize("kind", ["FreeForm"])
def test_what_was_stored_before_never_changes_by_itself(
    apiserver: ControlPlane, namespace: str, kind: str
) -> None:
    made = left_alone(apiserver, namespace)
    stored = apiserver.api.create(holding(kind, asking(gpu="300m"), plain()), namespace_of(made))
    watched(apiserver, made)
    changes: list[Json] = [{"metadata": {"labels": {"a": "b"}}}, {"spec": {"suspend": True}}]
    for change in changes:
        stored = apiserver.api.patch(stored, change)
        assert held(stored)[0]["spec"]["containers"][0]["resources"] == {"limits": {"gpu": "300m"}}
    stored["spec"]["items"][0]["template"]["spec"]["containers"][0]["image"] = "other"
    assert amounts(apiserver.api.update(stored)) == [{names.COUNT: "30"}, {}]


# A kind that the setting does not name: its children are handled when they are created.


def child(owner: Json, obj: Json) -> Json:
    """Return an object as an operator makes it for its custom resource."""
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    metadata = owner["metadata"]
    obj["metadata"]["ownerReferences"] = [
        {**reference, "name": metadata["name"], "uid": metadata["uid"]}
    ]
    return obj


def test_children_of_a_kind_without_the_setting_are_handled_when_they_are_made(
    apiserver: ControlPlane, namespace: str
) -> None:
    written = holding(UNTOLD, asking(gpu="300m"), plain())
    owner = apiserver.api.create(written, namespace)
    assert owner["spec"] == written["spec"]

    noted = shapes.pod("noted", {"name": "main"}, annotations={names.ANNOTATION_ASK: "300m"})
    limited = shapes.pod("limited", shapes.limited("main", gpu="300m"))
    for pod in (noted, limited):
        made = apiserver.api.create(child(owner, pod), namespace)
        [container] = made["spec"]["containers"]
        assert container["resources"]["limits"][names.COUNT] == "30"
        assert container["resources"]["requests"][names.COUNT] == "30"
        assert {"name": names.ENV_FRACTION, "value": "0.3"} in container["env"]

    job = shapes.holding("Job", shapes.pod("job", shapes.limited("main", gpu="300m")))
    made = apiserver.api.create(child(owner, job), namespace)
    limits = made["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {names.COUNT: "30"}
