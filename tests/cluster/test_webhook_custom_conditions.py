"""Which requests of custom resources the rendered webhook configuration sends, and by which entry.

The webhook here only counts, as in test_deploy_conditions.
"""

import copy
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import custom, pki, shapes, webhooks
from tests.cluster.api import ApiError, Json, collection
from tests.cluster.controlplane import ControlPlane
from tests.cluster.custom import KINDS, asking, held, holding, plain
from tests.cluster.test_deploy_conditions import (
    CONTROLLERS,
    NOBODY,
    PODS,
    Change,
    Counter,
    create,
    finalizer,
    label,
    listening,
    note,
    noting,
    owned,
    owner,
    update_as,
)
from vgpu import names

pytestmark = pytest.mark.apiserver

BRINGS, STORED = ["custom-templates.milligpu.io"], ["stored-custom-templates.milligpu.io"]
each_kind = pytest.mark.parametrize("kind", KINDS)
GRANT = asking(**{names.COUNT: "30"})


@pytest.fixture(scope="module")
def counter(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    counter, ca = Counter(), pki.authority()
    pair, folder = pki.issue(ca, "127.0.0.1"), tmp_path_factory.mktemp("counter")
    custom.define(apiserver, *KINDS)
    with listening(counter, pair, folder) as url:
        config = webhooks.configuration(url, ca.certificate, custom.rendered(folder))
        for entry in config["webhooks"]:
            entry["clientConfig"]["url"] = f"{url}/{entry['name']}"
        apiserver.api.create(config)
        try:
            asked(apiserver, counter)
            yield counter
        finally:
            apiserver.api.delete(config)


def asked(plane: ControlPlane, counter: Counter) -> None:
    deadline = time.monotonic() + 15
    probe = holding("FreeForm", asking(gpu="1"), plain())
    while counter.during(lambda: create(plane, probe, "default")) != BRINGS:
        assert time.monotonic() < deadline, "the API server does not call the webhook"
        time.sleep(0.1)


def open_kind(*containers: Any, where: int = 0) -> Json:
    """Return a FreeForm, which may have whatever no schema forbids, in one of its templates."""
    obj = holding("FreeForm", plain(), plain())
    held(obj)[where]["spec"]["containers"] = list(containers)
    return obj


def put(plane: ControlPlane, counter: Counter, obj: Json, namespace: str) -> list[str]:
    """Return the entries that a replacement calls, which is not stored."""
    path = f"{collection(obj, namespace)}/{obj['metadata']['name']}?dryRun=All"
    return counter.during(lambda: plane.api.request("PUT", path, obj))


# New objects.

ASKS: list[Json] = [
    {names.ASK: "300m"},
    {names.ASK: 0.3},
    {names.ASK: None},
    {names.ASK_QUALIFIED: "1"},
    {names.NVIDIA_GPU: "300m"},
    {names.NVIDIA_GPU: 0.3},
    {names.NVIDIA_GPU: None},
    {names.NVIDIA_GPU: {}},
    {names.NVIDIA_GPU: "1e2147483648"},
]
OTHERS: list[Json] = [
    {},
    {"cpu": "300m"},
    {names.NVIDIA_GPU: "1"},
    {names.NVIDIA_GPU: 8},
    {"nvidia.com/mig-1g.5gb": "1"},
    {names.COUNT: "30"},  # its pods are sent, and judged
]


@each_kind
@pytest.mark.parametrize("where", [0, 1])
def test_an_ask_in_any_template_is_sent(
    apiserver: ControlPlane, counter: Counter, namespace: str, kind: str, where: int
) -> None:
    ask = shapes.pod("x", {"name": "idle"}, *asking(gpu="300m")["spec"]["containers"])
    obj = holding(kind, ask, plain()) if where == 0 else holding(kind, plain(), ask)
    assert counter.during(lambda: create(apiserver, obj, namespace)) == BRINGS


@pytest.mark.parametrize("side", ["limits", "requests"])
@pytest.mark.parametrize("amount", [*ASKS, *OTHERS], ids=str)
def test_what_is_an_ask(
    apiserver: ControlPlane, counter: Counter, namespace: str, amount: Json, side: str
) -> None:
    body = {"name": "main", "resources": {side: amount}}
    expected = BRINGS if amount in ASKS else NOBODY
    for obj in (open_kind(body), open_kind({"name": "idle"}, body, where=1)):
        assert counter.during(lambda obj=obj: create(apiserver, obj, namespace)) == expected  # type: ignore[misc]
    obj = open_kind({"name": "main"})
    held(obj)[0]["spec"]["initContainers"] = [body]
    assert counter.during(lambda: create(apiserver, obj, namespace)) == expected


@each_kind
def test_annotations_of_ours_are_sent(
    apiserver: ControlPlane, counter: Counter, namespace: str, kind: str
) -> None:
    for key in (*sorted(names.ANNOTATIONS_KNOWN), names.PREFIX + "gpus"):
        for pods in ((noting(plain(), key), plain()), (plain(), noting(plain(), key))):
            obj = holding(kind, *pods)
            assert counter.during(lambda obj=obj: create(apiserver, obj, namespace)) == BRINGS  # type: ignore[misc]
        obj = noting(holding(kind, plain(), plain()), key)
        assert counter.during(lambda obj=obj: create(apiserver, obj, namespace)) == BRINGS  # type: ignore[misc]
    obj = noting(holding(kind, noting(plain(), "example.com/gpu"), plain()), "example.com/gpu")
    assert counter.during(lambda: create(apiserver, obj, namespace)) == NOBODY


@each_kind
def test_what_a_controller_owns_is_sent_for_its_ask_only(
    apiserver: ControlPlane, counter: Counter, namespace: str, kind: str
) -> None:
    obj = owned(holding(kind, asking(gpu="300m"), plain()), "TrainJob")
    assert counter.during(lambda: create(apiserver, obj, namespace)) == BRINGS
    obj = owned(noting(holding(kind, noting(GRANT), plain())), "TrainJob")
    assert counter.during(lambda: create(apiserver, obj, namespace)) == NOBODY
    stored = apiserver.api.create(obj, namespace)
    for change in (label, another_image, another_note):
        assert put_changed(apiserver, counter, stored, change, namespace) == NOBODY
    assert put_changed(apiserver, counter, stored, asks, namespace) == BRINGS


ODD: list[Any] = [
    None,
    1,
    "x",
    [],
    {},
    [None],
    ["x"],
    [[]],
    [{"resources": None}],
    [{"resources": "x"}],
    [{"resources": {"limits": None}}],
    [{"resources": {"limits": ["gpu"]}}],
    [{"resources": {"limits": "gpu"}}],
    {"gpu": "300m"},
]


@pytest.mark.parametrize("value", ODD, ids=str)
def test_no_shape_is_an_error(
    apiserver: ControlPlane, counter: Counter, namespace: str, value: Any
) -> None:
    """An error in a condition would refuse the object, and every update of it."""
    head = holding("FreeForm", plain(), plain())
    specs: list[Any] = [
        {"items": value, "named": value},
        {"items": [value], "named": {"a": value}},
        {"items": [{"template": value}]},
        {"items": [{"template": {"metadata": value, "spec": value}}]},
        {"items": [{"template": {"metadata": {"annotations": value}}}]},
        {"items": [{"template": {"spec": {"containers": value, "initContainers": value}}}]},
        {"sets": value},
        {"sets": [{"parts": value}, value]},
        {"named": {"a": {"metadata": {"annotations": value}, "spec": {"containers": value}}}},
    ]
    for number, spec in enumerate(specs):
        obj = {**head, "metadata": {"name": f"odd-{number}"}, "spec": spec}
        assert counter.during(lambda obj=obj: apiserver.api.create(obj, namespace)) == NOBODY  # type: ignore[misc]
        stored = apiserver.api.read(obj, namespace)
        assert put_changed(apiserver, counter, stored, label, namespace) == NOBODY
        stored["spec"]["suspend"] = True
        assert put(apiserver, counter, stored, namespace) == NOBODY


# Updates.


def put_changed(
    plane: ControlPlane, counter: Counter, stored: Json, change: Change, namespace: str
) -> list[str]:
    obj = copy.deepcopy(stored)
    change(obj)
    return put(plane, counter, obj, namespace)


def suspended(obj: Json) -> None:
    obj["spec"]["suspend"] = True


def another_image(obj: Json) -> None:
    held(obj)[0]["spec"]["containers"][0]["image"] = "other"


def restarted(obj: Json) -> None:
    noting(held(obj)[0], "kubectl.kubernetes.io/restartedAt", "now")


def asks(obj: Json) -> None:
    """What applying the manifest of an ask again brings."""
    held(obj)[1]["spec"]["containers"][0]["resources"] = {"limits": {names.ASK: "300m"}}


def without_grant(obj: Json) -> None:
    held(obj)[0]["spec"]["containers"][0]["resources"] = {}


def another_note(obj: Json) -> None:
    noting(held(obj)[1], text="400m")


def another_note_on_it(obj: Json) -> None:
    noting(obj, text="500m")


OPERATORS: list[Change] = [label, note, finalizer, suspended, another_image, restarted]
"""What operators change in their objects all the time."""
UPDATES: dict[str, tuple[Json, Json, list[Change], list[str]]] = {
    "plain, anything": (plain(), plain(), [*OPERATORS, owner], NOBODY),
    "plain, a share": (plain(), plain(), [asks, another_note, another_note_on_it], BRINGS),
    "a grant, anything": (GRANT, plain(), [*OPERATORS, without_grant], STORED),
    "another's grant, anything": (plain(), GRANT, OPERATORS, STORED),
    "a grant, a share": (GRANT, GRANT, [asks, another_note, another_note_on_it], BRINGS),
    "a grant, owner": (GRANT, plain(), [owner], NOBODY),
    "an annotation, anything": (noting(plain()), plain(), OPERATORS, STORED),
    "an annotation, another": (
        noting(plain()),
        plain(),
        [another_note, another_note_on_it],
        BRINGS,
    ),
    "an annotation, owner": (noting(plain()), plain(), [owner], NOBODY),
}


@each_kind
@pytest.mark.parametrize("case", UPDATES)
def test_an_update(
    apiserver: ControlPlane, counter: Counter, namespace: str, case: str, kind: str
) -> None:
    first, second, changes, expected = UPDATES[case]
    stored = apiserver.api.create(holding(kind, first, second), namespace)
    for change in changes:
        found = put_changed(apiserver, counter, stored, change, namespace)
        assert found == expected, change.__name__


def test_an_ask_that_was_stored_before_stops_nobody(
    apiserver: ControlPlane, counter: Counter, namespace: str
) -> None:
    """Only a template that changes with an ask in it, or is new, brings it."""
    stored = apiserver.api.create(holding("FreeForm", plain(), asking(gpu="300m")), namespace)
    for change in (*OPERATORS, owner):
        assert put_changed(apiserver, counter, stored, change, namespace) == NOBODY
    for moved in ([{"template": held(stored)[1]}, *stored["spec"]["items"]], []):
        obj = copy.deepcopy(stored)
        obj["spec"]["items"] = moved
        assert put(apiserver, counter, obj, namespace) == NOBODY
    held(stored)[1]["spec"]["containers"][0]["image"] = "other"
    assert put(apiserver, counter, stored, namespace) == BRINGS


def test_what_a_template_below_two_wildcards_brings(
    apiserver: ControlPlane, counter: Counter, namespace: str
) -> None:
    def sets(*pods: Json) -> Json:
        obj = holding("FreeForm", plain(), plain())
        parts = [held(holding("FreeForm", each, plain()))[0] for each in pods]
        obj["spec"]["sets"] = [{"parts": {}}, *({"parts": {"a": {}, "b": each}} for each in parts)]
        return obj

    for kept, expected in (
        (asking(gpu="300m"), NOBODY),
        (GRANT, STORED),
        (noting(plain()), STORED),
    ):
        namespaced = sets(plain(), kept)
        namespaced["metadata"]["name"] = f"sets-{len(str(kept))}"
        apiserver.api.create(namespaced, namespace)
        stored = apiserver.api.read(namespaced, namespace)
        assert put_changed(apiserver, counter, stored, label, namespace) == expected
        stored["spec"]["sets"].reverse()
        assert put(apiserver, counter, stored, namespace) == expected
        stored["spec"] = sets(asking(gpu="200m"), kept)["spec"]
        assert put(apiserver, counter, stored, namespace) == BRINGS


@each_kind
def test_what_is_being_deleted_is_nobodys(
    apiserver: ControlPlane, counter: Counter, namespace: str, kind: str
) -> None:
    obj = noting(holding(kind, GRANT, plain()))
    finalizer(obj)
    apiserver.api.create(obj, namespace)
    apiserver.api.delete(obj, namespace)
    stored = apiserver.api.read(obj, namespace)
    assert stored["metadata"]["deletionTimestamp"]
    for change in (*OPERATORS, asks, lambda each: each["metadata"].pop("finalizers")):
        assert put_changed(apiserver, counter, stored, change, namespace) == NOBODY


@each_kind
def test_the_status_is_nobodys(
    apiserver: ControlPlane, counter: Counter, namespace: str, kind: str
) -> None:
    stored = apiserver.api.create(holding(kind, GRANT, plain()), namespace)
    path = f"{collection(stored, namespace)}/model/status"
    change = {"status": {"phase": "Running"}}
    patch = "application/merge-patch+json"
    assert counter.during(lambda: apiserver.api.request("PATCH", path, change, patch)) == NOBODY


# The condition is the one that is tested with all of them.
@pytest.mark.parametrize("user", CONTROLLERS[:2])
def test_kubernetes_controllers_wait_for_nobody(
    apiserver: ControlPlane, counter: Counter, namespace: str, user: str
) -> None:
    stored = apiserver.api.create(holding("TorchJob", noting(GRANT), plain()), namespace)
    for change in (label, another_note_on_it):
        assert update_as(user, apiserver, counter, stored, change) == NOBODY
    assert update_as(user, apiserver, counter, stored, asks) == BRINGS
    assert update_as("system:serviceaccount:train:operator", apiserver, counter, stored, label) == (
        STORED
    )


def test_our_own_and_opted_out_namespaces_are_left_alone(
    apiserver: ControlPlane, counter: Counter
) -> None:
    metadata = {"name": "custom-off", "labels": {names.LABEL_ADMISSION: names.ADMISSION_DISABLED}}
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    apiserver.kubectl("apply", "-f", "-", stdin=json.dumps(made))
    obj = holding("FreeForm", asking(gpu="300m"), plain())
    for name in ("custom-off", "kube-system"):
        assert counter.during(lambda name=name: create(apiserver, obj, name)) == NOBODY  # type: ignore[misc]


def test_the_entries_for_built_in_kinds_are_as_they_were(
    apiserver: ControlPlane, counter: Counter, namespace: str
) -> None:
    assert counter.during(lambda: create(apiserver, asking(gpu="300m"), namespace)) == PODS


def test_an_empty_setting_takes_the_entries_away_again(
    apiserver: ControlPlane, tmp_path: Path
) -> None:
    def apply(setting: str) -> list[str]:
        config = webhooks.configuration(
            "https://127.0.0.1:1", b"", custom.rendered(tmp_path, setting)
        )
        config["metadata"]["name"] = "milligpu-applied"
        for entry in config["webhooks"]:
            del entry["clientConfig"]["caBundle"]
            entry["namespaceSelector"] = {"matchLabels": {"nobody": "has-this"}}
        text = json.dumps(config)
        apiserver.kubectl("apply", "-f", "-", stdin=text)
        return [each["name"] for each in apiserver.api.read(config)["webhooks"]]

    try:
        shipped = apply("[]")
        assert apply(custom.SETTING) == [*shipped, *BRINGS, *STORED]
        assert apply("[]") == shipped
    finally:
        apiserver.kubectl("delete", webhooks.KIND, "milligpu-applied")


# The webhook is away.


@each_kind
def test_without_the_webhook_operators_go_on(
    apiserver: ControlPlane,
    counter: Counter,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    stored = apiserver.api.create(holding(kind, noting(GRANT), GRANT), namespace)
    monkeypatch.setattr(counter, "away", True)
    refused = f'failed calling webhook "{BRINGS[0]}"'
    with pytest.raises(ApiError, match=refused):
        create(apiserver, holding(kind, asking(gpu="300m"), plain()), namespace)
    with pytest.raises(ApiError, match=refused):
        apiserver.api.update(_changed(stored, asks), namespace)
    create(apiserver, holding(kind, plain(), plain(), name="plain"), namespace)
    for change in (*OPERATORS, without_grant, owner):
        stored = apiserver.api.update(_changed(stored, change), namespace)
    apiserver.api.delete(stored, namespace, policy="Foreground")
    apiserver.api.patch(stored, {"metadata": {"finalizers": None}}, namespace)
    with pytest.raises(ApiError, match="not found"):
        apiserver.api.read(stored, namespace)


def _changed(stored: Json, change: Callable[[Json], object]) -> Json:
    obj = copy.deepcopy(stored)
    change(obj)
    return obj


# Large objects: a condition has a budget, and one that is spent is an error.


def large(items: int, bodies: int = 1, **last: str) -> Json:
    """Return an object of many templates with many containers; `last` are the last one's limits."""
    plenty = {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}}}
    containers = [{"name": f"c{number}", **plenty} for number in range(bodies)]
    obj = holding("FreeForm", plain(), plain())
    obj["spec"] = {
        "items": [
            {"number": number, "template": {"spec": {"containers": containers}}}
            for number in range(items)
        ]
    }
    ending = {"name": "last", "resources": {"limits": last}}
    obj["spec"]["items"][-1]["template"] = {"spec": {"containers": [*containers, ending]}}
    return obj


@pytest.mark.parametrize(("items", "bodies"), [(200, 5), (1, 1000)], ids=str)
def test_large_objects_are_within_the_budget(
    apiserver: ControlPlane, counter: Counter, namespace: str, items: int, bodies: int
) -> None:
    obj = large(items, bodies, memory="1Gi")
    assert counter.during(lambda: apiserver.api.create(obj, namespace)) == NOBODY
    stored = apiserver.api.read(obj, namespace)
    assert put_changed(apiserver, counter, stored, label, namespace) == NOBODY
    for limits, expected in (({names.ASK: "300m"}, BRINGS), ({names.COUNT: "30"}, NOBODY)):
        stored["spec"] = large(items, bodies, **limits)["spec"]
        assert put(apiserver, counter, stored, namespace) == expected
    stored = apiserver.api.update(stored, namespace)
    assert put_changed(apiserver, counter, stored, label, namespace) == STORED


def test_asks_in_all_of_many_templates_are_within_the_budget(
    apiserver: ControlPlane, counter: Counter, namespace: str
) -> None:
    obj = large(1)
    body = {"name": "main", "resources": {"limits": {names.ASK: "300m"}}}
    obj["spec"]["items"] = [
        {"template": {"spec": {"containers": [body], "number": number}}} for number in range(200)
    ]
    assert counter.during(lambda: apiserver.api.create(obj, namespace)) == BRINGS
    stored = apiserver.api.read(obj, namespace)
    assert put_changed(apiserver, counter, stored, label, namespace) == NOBODY


def test_what_has_too_many_templates_is_nobodys(
    apiserver: ControlPlane, counter: Counter, namespace: str
) -> None:
    """The webhook would translate none of them."""
    for items, expected in ((200, BRINGS), (201, NOBODY)):
        obj = large(items, gpu="300m")
        assert counter.during(lambda obj=obj: create(apiserver, obj, namespace)) == expected  # type: ignore[misc]
        obj["spec"] = {
            "named": {
                str(number): each["template"] for number, each in enumerate(obj["spec"]["items"])
            }
        }
        assert counter.during(lambda obj=obj: create(apiserver, obj, namespace)) == expected  # type: ignore[misc]
