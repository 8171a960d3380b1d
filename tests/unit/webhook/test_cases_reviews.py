"""Reviews as API servers and other clients send them (B34, B49, B77)."""

import json
from base64 import b64decode
from fractions import Fraction
from typing import Any

import jsonpatch
import pytest
from flask.testing import FlaskClient

from tests.unit.webhook.objects import (
    COUNT,
    FORMS,
    KINDS,
    TEMPLATES,
    container,
    create,
    created,
    gpus,
    held,
    holding,
    named,
    pod,
    reapplied,
    review,
    sent,
    update,
)
from webhook.admission import answer
from webhook.app import create_app
from webhook.config import Config
from webhook.metrics import Metrics
from webhook.pod import Json

SHARING = pod(container(limits={"gpu": "300m"}))


@pytest.fixture
def client() -> FlaskClient:
    return create_app(Config(), Metrics()).test_client()


def posted(client: FlaskClient, text: str) -> Json:
    """Return the response to a review that is sent as text."""
    response = client.post("/mutate", data=text, content_type="application/json")
    assert response.status_code == 200, response.text
    found: Json = json.loads(response.text)["response"]
    return found


# Metadata that is not there yet.

METADATA: dict[str, Any] = {
    "a prefix": {"generateName": "web-7d9c-", "ownerReferences": [{"kind": "ReplicaSet"}]},
    "nothing in it": {},
    "null": None,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metadata", [*METADATA, "absent"])
def test_a_name_and_a_namespace_need_not_be_in_the_object(metadata: str, kind: str) -> None:
    """B34: a controller's pod has neither; the request has the namespace."""
    obj = holding(kind, SHARING)
    del obj["metadata"]
    if metadata in METADATA:
        obj["metadata"] = METADATA[metadata]
    document = review(obj)
    found = answer(document, Config())
    assert found.verdict == "changed"
    assert (found.namespace, found.name) == (
        "team-a",
        "web-7d9c-" if metadata == "a prefix" else "",
    )
    del document["request"]["namespace"]
    assert answer(document, Config()).namespace == ""


# JSON that says something twice: the last one counts, as it does in Go.


@pytest.mark.parametrize("last", ["300m", "500m"])
def test_of_limits_that_are_there_twice_the_last_count(client: FlaskClient, last: str) -> None:
    """B49: the patch fits the object that the API server has read."""
    obj = pod(container(limits={"gpu": last}))
    first = '"limits": {"gpu": "900m", "nvidia.com/gpu": "1"}, "limits":'
    response = posted(client, json.dumps(review(obj)).replace('"limits":', first))
    patch = json.loads(b64decode(response["patch"]))
    made = jsonpatch.apply_patch(obj, patch)
    assert gpus(named(made)) == {COUNT: {"300m": "30", "500m": "50"}[last]}


def test_a_big_legal_pod_is_answered(client: FlaskClient) -> None:
    """B49: 900 KiB of annotations and 500 variables; the answer is small."""
    variables = [{"name": f"V{index}", "value": str(index)} for index in range(500)]
    notes = {f"example.com/{index}": "x" * 1024 for index in range(900)}
    obj = pod(container(limits={"gpu": "300m"}, env=variables), annotations=notes)
    response = posted(client, json.dumps(review(sent(obj))))
    assert response["allowed"]
    assert len(json.dumps(response)) < 4_000


# Settings that changed since an object was stored.

SETTINGS = {
    "cpus": Config(cpus_per_gpu=Fraction(64)),
    "no whole cards": Config(whole_cards=False),
    "scheduling": Config(runtime_class="nvidia", tolerations=({"operator": "Exists"},)),
}


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("later", SETTINGS)
def test_a_template_is_what_it_was_under_other_settings(later: str, kind: str) -> None:
    """B77: suspend, label, apply again; a Job's template could not change at all."""
    for form in FORMS.values():
        manifest = holding(kind, pod(container(limits={"gpu": "333m"}), container("b")))
        stored = created(form(manifest))
        suspended = {**stored, "spec": {**stored.get("spec", {}), "suspend": True}}
        labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}
        for new in (suspended, labelled):
            outcome = update(new, stored, SETTINGS[later])
            assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], [])
        again = update(reapplied(stored, manifest), sent(stored), SETTINGS[later])
        assert again.allowed, again.message
        assert held(again.object) == held(sent(stored))
        assert gpus(named(create(stored, SETTINGS[later]).object)) == {COUNT: "34"}
