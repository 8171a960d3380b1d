"""A second mutating webhook, called before ours and after it, and marks that mean nothing.

The API server calls webhooks in the order of their configurations' names, and then, once, those
again (reinvocationPolicy IfNeeded) that were called before another one changed the object.
"""

import copy
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from milligpu.processes import Webhook
from tests.cluster import neighbour, shapes
from tests.cluster.api import Api, ApiError, Json, containers
from tests.cluster.controlplane import ControlPlane
from tests.cluster.eventually import eventually
from tests.cluster.neighbour import AFTER, BEFORE, INIT, SAMPLER, SIDECAR
from tests.cluster.shapes import KINDS, holding, limited
from vgpu import names
from webhook import serving

pytestmark = pytest.mark.apiserver

_numbers = itertools.count(1)
ORDERS = (BEFORE, AFTER)
WORKLOADS = [kind for kind in KINDS if kind != "Pod"]
OFFICIAL = "tensorflow/serving"
APPLY = {"client-side": ("apply",), "server-side": ("apply", "--server-side")}
HIDDEN = {names.ENV_VISIBLE_DEVICES: names.VOID}
FOREIGN = {key: value for key, value in neighbour.VARIABLES.items() if not names.is_reserved(key)}


@pytest.fixture(scope="module", autouse=True)
def neighbours(
    apiserver: ControlPlane, webhook: Webhook, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    with neighbour.installed(apiserver.api, tmp_path_factory.mktemp("neighbour")):
        yield


@dataclass(frozen=True)
class Place:
    """A namespace that has one of the neighbours."""

    plane: ControlPlane
    webhook: Webhook
    namespace: str

    @property
    def api(self) -> Api:
        return self.plane.api

    def create(self, obj: Json) -> Json:
        return self.api.create(obj, self.namespace)

    def apply(self, obj: Json, *how: str) -> Json:
        command = (*how, "-n", self.namespace, "-f", "-", "-o", "json")
        answer: Json = json.loads(self.plane.kubectl(*command, stdin=json.dumps(obj)).stdout)
        return answer

    def reviews(self) -> list[tuple[str, str]]:
        """Return what our webhook decided in this namespace: kind and verdict."""
        lines = self.webhook.program.lines()
        mine = (line for line in lines if line.get("namespace") == self.namespace)
        return [(line["kind"], line["verdict"]) for line in mine]

    def reviewed(self, wanted: list[tuple[str, str]]) -> None:
        """Check that these were the reviews; their lines are written after the answers."""
        eventually(lambda: self.reviews() == wanted, f"reviews: {wanted}", seconds=5)


class Places:
    def __init__(self, plane: ControlPlane, webhook: Webhook) -> None:
        self.plane, self.webhook = plane, webhook

    def __call__(self, order: str, who: str) -> Place:
        name = neighbour.space(self.plane.api, f"{order}-{who}-{next(_numbers)}", f"{order}-{who}")
        return Place(self.plane, self.webhook, name)


@pytest.fixture
def beside(apiserver: ControlPlane, webhook: Webhook) -> Places:
    """Make a namespace: `beside(AFTER, "usual")`."""
    return Places(apiserver, webhook)


def env(container: Json) -> dict[str, Any]:
    """Return a container's variables, each of which is there once."""
    found = [(entry["name"], entry.get("value")) for entry in container.get("env", [])]
    assert len({name for name, _ in found}) == len(found), found
    return dict(found)


def by_name(pod: Json) -> dict[str, Json]:
    """Return a pod's containers, each of which is there once."""
    found = [(container["name"], container) for container in containers(pod)]
    assert len({name for name, _ in found}) == len(found), [name for name, _ in found]
    return dict(found)


def slots(pod: Json) -> dict[str, str | None]:
    """Return every container's count; limits and requests agree, and no ask is left."""
    found = {}
    for name, container in by_name(pod).items():
        resources = container.get("resources", {})
        sides = [resources.get(side, {}) for side in ("limits", "requests")]
        for side in sides:
            assert not {*names.ASK_KEYS, names.NVIDIA_GPU} & side.keys()
        limit, request = (side.get(names.COUNT) for side in sides)
        assert limit == request
        found[name] = limit
    return found


def record(pod: Json) -> Json:
    found: Json = json.loads(pod["metadata"]["annotations"][names.ANNOTATION_SHARE])
    return found


def sharing(name: str = "model") -> Json:
    """Return a pod that a user writes: a server with an ask, a helper, and a warm-up."""
    main = {**limited("main", gpu="300m"), "image": OFFICIAL, "args": ["--x=1"]}
    main["env"] = [{"name": "MINE", "value": "1"}]
    pod = shapes.pod(name, main, {"name": "helper"})
    pod["spec"]["initContainers"] = [{"image": "none", **limited("warm", gpu="400m")}]
    return pod


COUNTS = {"warm": "40", "main": "30", "helper": None, INIT: None, SIDECAR: None, SAMPLER: "10"}
"""What the containers of `sharing` have when the usual neighbour was there too."""


def with_the_usual(pod: Json) -> None:
    """Check the pod of `sharing` for that, and for all that is not in a template."""
    assert slots(pod) == COUNTS
    found = by_name(pod)
    for name, fraction in (("warm", "0.4"), ("sampler", "0.1"), ("main", "0.3")):
        mine = {"MINE": "1"} if name == "main" else {}
        assert env(found[name]) == mine | FOREIGN | {names.ENV_FRACTION: fraction}
    for name in ("helper", INIT, SIDECAR):
        unread = {names.ENV_CUDA_DEVICES, names.ENV_SLOTS}
        kept = {key: text for key, text in neighbour.VARIABLES.items() if key in unread}
        assert env(found[name]) == FOREIGN | kept | HIDDEN
    assert found["main"]["args"] == ["--x=1", serving.OURS]
    assert {each["resources"]["limits"][names.CPU] for each in found.values()} == {neighbour.CPU}
    assert {name: str(each["slots"]) for name, each in record(pod).items()} == {
        name: count for name, count in COUNTS.items() if count
    }
    tolerations = [each for each in pod["spec"]["tolerations"] if each["key"] == names.NVIDIA_GPU]
    assert len(tolerations) == 1
    assert pod["metadata"]["labels"].items() >= neighbour.LABELS.items()


# Whatever the order


@pytest.mark.parametrize("order", ORDERS)
def test_a_bare_pod_gets_the_same_in_both_orders(beside: Places, order: str) -> None:
    """B17, B54, B76."""
    place = beside(order, "usual")
    with_the_usual(place.create(sharing()))
    # Before us it is called once and we are; after us it changes what we made, so we come again.
    place.reviewed([("Pod", "changed")] * (1 if order == BEFORE else 2))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", WORKLOADS)
def test_templates_and_their_pods_get_the_same_in_both_orders(
    beside: Places, kind: str, order: str
) -> None:
    place = beside(order, "usual")
    obj = place.create(holding(kind, sharing()))
    template = shapes.held(obj)
    assert slots(template) == COUNTS
    # Of the rest a template keeps what others write, and gets nothing from us.
    found = by_name(template)
    for name in found:
        mine = {"MINE": "1"} if name == "main" else {}
        assert env(found[name]) == mine | neighbour.VARIABLES
    assert found["main"]["args"] == ["--x=1"]
    assert template["metadata"]["annotations"].items() >= neighbour.CLAIMS.items()
    with_the_usual(place.create(controlled(template, obj)))


def controlled(template: Json, owner: Json) -> Json:
    """Return the pod that a controller makes from a template."""
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    metadata = {**template["metadata"], "generateName": "made-", "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@pytest.mark.parametrize("how", APPLY)
@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
@pytest.mark.parametrize("order", ORDERS)
def test_what_is_applied_again_stays_as_it_is(
    beside: Places, order: str, kind: str, how: str
) -> None:
    place, manifest = beside(order, "usual"), holding(kind, sharing())
    first, second = (place.apply(manifest, *APPLY[how]) for _ in range(2))
    assert second["spec"] == first["spec"]
    assert second["metadata"].get("generation") == first["metadata"].get("generation")


@pytest.mark.parametrize("order", ORDERS)
def test_a_flag_that_comes_later_does_not_win(beside: Places, order: str) -> None:
    made = beside(order, "flagging").create(sharing())
    assert by_name(made)["main"]["args"][-1] == serving.OURS
    assert len(by_name(made)["main"]["args"]) == (3 if order == BEFORE else 4)


@pytest.mark.parametrize("form", ["limits", "annotation"])
def test_our_second_call_changes_nothing_when_nothing_of_ours_was_changed(
    beside: Places, form: str
) -> None:
    """The neighbour only labels, after us."""
    place = beside(AFTER, "labelling")
    pod = sharing()
    if form == "annotation":
        del pod["spec"]["containers"][0]["resources"]
        pod["metadata"]["annotations"] = {names.ANNOTATION_ASK: "main=300m"}
    made = place.create(pod)
    place.reviewed([("Pod", "changed"), ("Pod", "unchanged")])
    alone = place.api.create(pod, "default", query="?dryRun=All")
    for name, container in by_name(made).items():
        assert container == by_name(alone)[name]


# Asks of the neighbour's own


def test_an_ask_for_a_plain_pod_is_seen_when_it_comes_before_us(beside: Places) -> None:
    made = beside(BEFORE, "asking").create(shapes.pod("plain", {"name": "main"}))
    assert slots(made) == {SAMPLER: "10", "main": None}
    assert env(by_name(made)["main"]) == HIDDEN


def test_one_that_comes_after_us_is_refused_by_name(beside: Places) -> None:
    """Who was not called before is not called again: the API server judges the ask itself."""
    place = beside(AFTER, "asking")
    with pytest.raises(ApiError, match=r"limits\[gpu\].*must be a standard resource"):
        place.create(shapes.pod("plain", {"name": "main"}))
    assert place.reviews() == []


# The annotation without a name is for the main container


NOTE = {names.ANNOTATION_ASK: "300m"}


@pytest.fixture
def noted() -> Json:
    """Return a pod of one container whose ask is an annotation without a name."""
    return shapes.pod("noted", {"name": "main"}, annotations=NOTE)


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "CronJob"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_neighbour_that_notes_which_came_first_takes_no_share_away(
    beside: Places, noted: Json, order: str, kind: str
) -> None:
    place = beside(order, "usual")
    made = place.create(holding(kind, noted))
    if kind != "Pod":
        assert slots(shapes.held(made)) == {SAMPLER: "10", SIDECAR: None, "main": None, INIT: None}
        made = place.create(controlled(shapes.held(made), made))
    assert slots(made) == {SAMPLER: "10", SIDECAR: None, "main": "30", INIT: None}
    assert env(by_name(made)["main"]) == FOREIGN | {names.ENV_FRACTION: "0.3"}


@pytest.mark.parametrize("who", ["forgetful", "promoting", "rival"])
def test_what_was_decided_at_the_first_call_stays_decided(
    beside: Places, noted: Json, who: str
) -> None:
    """Also where the neighbour then puts another container first, names it, or gives it an ask."""
    made = beside(AFTER, who).create(noted)
    assert slots(made) == {SIDECAR: "30" if who == "rival" else None, "main": "30"}
    assert env(by_name(made)["main"]) == {names.ENV_FRACTION: "0.3"}
    if who != "rival":
        assert env(by_name(made)[SIDECAR]) == HIDDEN


def test_before_us_a_container_put_first_is_the_first_and_we_say_so(
    beside: Places, noted: Json
) -> None:
    """Nobody can know better: the pod came to us with two containers, and no note."""
    place = beside(BEFORE, "forgetful")
    create = ("create", "-n", place.namespace, "-f", "-", "-o", "json")
    said = place.plane.kubectl(*create, stdin=json.dumps(noted))
    assert slots(json.loads(said.stdout)) == {SIDECAR: "30", "main": None}
    assert f"300m goes to '{SIDECAR}', the first of 2 containers" in said.stderr


# Marks


MARKED: Json = {
    "labels": {names.PREFIX + "mutated": "true", names.PREFIX + "admission": "disabled"},
    "annotations": {**neighbour.CLAIMS, names.PREFIX + "admission": "disabled"},
}


@pytest.mark.parametrize("form", ["limits", "annotation"])
@pytest.mark.parametrize("kind", KINDS)
def test_marks_of_having_been_here_change_nothing(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, kind: str, form: str
) -> None:
    """B62: on the object and on its template, in labels and in annotations."""
    pod = sharing()
    if form == "annotation":
        del pod["spec"]["containers"][0]["resources"]
        pod["metadata"]["annotations"] = {names.ANNOTATION_ASK: "main=300m"}
    plain = holding(kind, pod)
    marked = copy.deepcopy(plain)
    for holder in (marked, shapes.held(marked)):
        for field, marks in MARKED.items():
            holder["metadata"][field] = {**holder["metadata"].get(field, {}), **marks}
    marked["metadata"]["name"] = "marked"
    one, other = (apiserver.api.create(each, namespace) for each in (plain, marked))
    assert by_name(shapes.held(other)) == by_name(shapes.held(one))
    if kind == "Pod":
        assert record(other) == record(one)


@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_a_record_without_a_share_counts_for_nothing(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, kind: str
) -> None:
    """B62: a claim is no ask, and in a pod it does not even stay."""
    pod = shapes.pod("claims", {"name": "main"}, annotations=neighbour.CLAIMS)
    made = shapes.held(apiserver.api.create(holding(kind, pod), namespace))
    assert slots(made) == {"main": None}
    assert env(by_name(made)["main"]) == {}
    assert (names.ANNOTATION_SHARE in made["metadata"]["annotations"]) == (kind != "Pod")


def test_a_count_with_another_fraction_and_a_mark_is_made_to_agree(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    """B62: else nine tenths of the memory for one slot."""
    cheat: Json = {"name": "main", "resources": {"limits": {names.COUNT: "1"}}}
    cheat["env"] = [{"name": names.ENV_FRACTION, "value": "0.9"}]
    pod = shapes.pod("cheat", cheat, annotations=neighbour.CLAIMS)
    made = apiserver.api.create(pod, namespace)
    assert env(by_name(made)["main"]) == {names.ENV_FRACTION: "0.01"}
    assert record(made) == {"main": {"slots": 1, "share": "0.01"}}


# What cannot be helped


@pytest.mark.parametrize("order", ORDERS)
def test_who_insists_after_us_has_the_last_word(beside: Places, order: str) -> None:
    """The API server calls nobody a third time.

    A neighbour that asks to be called again, sorts after us, and puts a reserved variable back
    that we took out, gets its way. Only an administrator can install one.
    """
    made = by_name(beside(order, "insisting").create(sharing()))
    seen = env(made["main"]).get(names.ENV_VISIBLE_DEVICES)
    assert seen == (None if order == BEFORE else "all")
