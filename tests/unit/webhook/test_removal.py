"""Records of what a manifest declared, whole and broken: only a plain removal takes a grant."""

import json
from typing import Any

import pytest

from vgpu import names
from webhook.config import Config
from webhook.findings import Denied
from webhook.mutate import desired
from webhook.review import Review

STORED = {"limits": {names.COUNT: "30"}, "requests": {names.COUNT: "30"}}


def deployment(resources: Any, metadata: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": resources}
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": [container]}}}}


def applied(limits: dict[str, str]) -> dict[str, Any]:
    text = json.dumps(deployment({"limits": limits}, {}))
    return {"annotations": {names.ANNOTATION_LAST_APPLIED: text}}


def owning(manager: Any, *keys: str, operation: str = "Apply") -> dict[str, Any]:
    item: dict[str, Any] = {"f:resources": {"f:limits": {f"f:{key}": {} for key in keys}}}
    spec = {"f:containers": {'k:{"name":"main"}': item}}
    fields = {"f:spec": {"f:template": {"f:spec": spec}}}
    return {"manager": manager, "operation": operation, "fieldsV1": fields}


def managed(*entries: Any) -> dict[str, Any]:
    return {"managedFields": list(entries)}


def left(old: Any, new: Any, manager: str = "kubectl") -> Any:
    review = Review("apps", "Deployment", deployment(STORED, new), deployment(STORED, old), manager)
    made = desired(review, Config()).object
    return made["spec"]["template"]["spec"]["containers"][0]["resources"]


GONE: dict[str, Any] = {}
ASKS = (*names.ASK_KEYS, names.NVIDIA_GPU)
ASK, OTHER = {names.ASK: "300m"}, {"memory": "1Gi"}


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        (applied(ASK), applied(OTHER), GONE),
        (applied(ASK), applied(ASK), STORED),
        (applied(ASK), applied({names.COUNT: "30"}), STORED),
        (applied(ASK), {}, STORED),
        ({}, applied(OTHER), STORED),
        (managed(owning("kubectl", names.ASK)), managed(owning("kubectl", "memory")), GONE),
        (managed(owning("kubectl", names.ASK)), managed(), GONE),
        (managed(owning("other", names.ASK)), managed(), STORED),
        (managed(owning("kubectl", names.ASK)), managed(owning("other", names.ASK)), STORED),
        (managed(owning("kubectl", names.ASK)), managed(owning("other", names.COUNT)), STORED),
        (managed(owning("kubectl", names.ASK, operation="Update")), managed(), STORED),
        (managed(owning("kubectl", names.NVIDIA_GPU)), managed(), GONE),
    ],
)
def test_a_grant_goes_with_its_ask_and_only_then(old: Any, new: Any, want: Any) -> None:
    assert left(old, new) == want


BROKEN: list[Any] = [
    {"annotations": {names.ANNOTATION_LAST_APPLIED: text}}
    for text in ("", "{", "[]", "null", '{"spec": 3}', "[" * 5000, '{"spec":{"template":[]}}')
] + [
    managed(None),
    managed("Apply"),
    managed({"operation": "Apply", "manager": "kubectl", "fieldsV1": 3}),
    managed({"operation": "Apply", "manager": "kubectl", "fieldsV1": {"f:spec": []}}),
    managed(
        {
            **owning("kubectl"),
            "fieldsV1": {
                "f:spec": {
                    "f:template": {
                        "f:spec": {"f:containers": {"k:x": {}, "k:[]": 1, 'k:{"name":1}': {}}}
                    }
                }
            },
        }
    ),
    {"managedFields": 7},
]


@pytest.mark.parametrize("broken", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_record_proves_nothing(broken: Any) -> None:
    for old, new in ((broken, applied(OTHER)), (applied(ASK), broken), (broken, broken)):
        assert left(old, new) == STORED


def test_what_a_controller_made_follows_its_owner() -> None:
    owner = [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "x", "controller": True}]
    old, new = ({**applied(limits), "ownerReferences": owner} for limits in (ASK, OTHER))
    assert left(old, new) == STORED


def test_whole_cards_that_are_stored_stay_where_they_are_switched_off() -> None:
    stored = {"limits": {names.WHOLE: "1"}, "requests": {names.WHOLE: "1"}}
    new = deployment({**stored, "limits": {**stored["limits"], names.ASK: "1"}}, {})
    review = Review("apps", "Deployment", new, deployment(stored, {}))
    made = desired(review, Config(whole_cards=False))
    assert made.object == deployment(stored, {})


RECORDS = {
    "client-side": applied,
    "server-side": lambda limits: managed(owning("kubectl", *limits)),
}


@pytest.mark.parametrize("declare", RECORDS.values(), ids=RECORDS)
@pytest.mark.parametrize(
    ("asked", "declared"), [(ASK, {names.WHOLE: "2"}), ({names.ASK: "2"}, {names.COUNT: "30"})]
)
def test_a_manifest_may_declare_what_its_ask_did_not_make(
    declare: Any, asked: dict[str, str], declared: dict[str, str]
) -> None:
    """The ask is gone and takes its grant along; the other one is the manifest's."""
    made = {names.COUNT: "30"} if asked is ASK else {names.WHOLE: "2"}
    old = deployment({"limits": made, "requests": made}, declare(asked))
    new = deployment({"limits": {**made, **declared}, "requests": made}, declare(declared))
    review = Review("apps", "Deployment", new, old, "kubectl")
    spec = desired(review, Config()).object["spec"]["template"]["spec"]
    assert spec["containers"][0]["resources"]["limits"] == declared


@pytest.mark.parametrize("declare", RECORDS.values(), ids=RECORDS)
@pytest.mark.parametrize("asked", ASKS)
@pytest.mark.parametrize("zero", [*ASKS, names.COUNT])
def test_an_ask_for_nothing_takes_the_grant_along(declare: Any, asked: str, zero: str) -> None:
    """Whatever it is called: what is owned has no value where server-side apply notes it."""
    sent = {"memory": "1Gi", **STORED["limits"], zero: "0"}
    old = deployment(STORED, declare({asked: "300m"}))
    new = deployment({**STORED, "limits": sent}, declare({"memory": "1Gi", zero: "0"}))
    made = desired(Review("apps", "Deployment", new, old, "kubectl"), Config()).object
    item = made["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert {*item.get("limits", {}).values(), *item.get("requests", {}).values()} <= {"1Gi", "0"}


@pytest.mark.parametrize("declare", RECORDS.values(), ids=RECORDS)
def test_an_ask_does_not_replace_a_count_that_its_manifest_declares(declare: Any) -> None:
    """At creation the two are denied, too; a second time they would be, as well."""
    both = {names.ASK: "500m", names.COUNT: "30"}
    old = deployment(STORED, declare({names.COUNT: "30"}))
    new = deployment({**STORED, "limits": both}, declare(both))
    with pytest.raises(Denied, match=r"500m beside milligpu.io/vgpu: 30"):
        desired(Review("apps", "Deployment", new, old, "kubectl"), Config())
    same = deployment({**STORED, "limits": {**both, names.ASK: "300m"}}, declare(both))
    made = desired(Review("apps", "Deployment", same, old, "kubectl"), Config())
    assert made.object["spec"] == old["spec"]


def test_none_of_another_gpu_resource_takes_no_grant() -> None:
    """Also when the webhook is called again, and the ask is a grant already."""
    for side in ("limits", "requests"):
        both = {**STORED, side: {**STORED[side], names.NVIDIA_GPU: "0"}}
        asking = {**both, "limits": {**both["limits"], names.ASK: "300m"}}
        for resources in (asking, both):
            new = deployment(resources, {})
            made = desired(Review("apps", "Deployment", new, deployment(STORED, {})), Config())
            assert made.object == deployment(both, {})


def test_what_an_entry_owns_has_no_value() -> None:
    """Not even null, which as a quantity would be 0, and no ask."""
    owned = owning("kubectl", names.ASK)
    item = owned["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    item['k:{"name":"main"}']["f:resources"]["f:limits"][f"f:{names.ASK}"] = None
    assert left(managed(owned), managed(owning("kubectl"))) == GONE
