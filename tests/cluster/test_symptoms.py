"""What people see when a manifest is refused: each message of the page, from a real API server."""

import json
import re

import pytest

from milligpu.processes import Webhook
from tests.cluster import policies, shapes
from tests.cluster.api import Json
from tests.cluster.controlplane import ControlPlane
from tests.cluster.eventually import eventually
from tests.cluster.shapes import holding
from tests.cluster.symptoms import annotated, model, said, symptom
from vgpu import names

pytestmark = pytest.mark.apiserver

# An annotation without quotes is refused before anybody is asked, webhook or not (B52).

NUMBER = symptom(
    "cannot unmarshal number into Go struct field ObjectMeta...annotations of type string"
)
BOOL = symptom("cannot unmarshal bool into Go struct field ObjectMeta...annotations of type string")
TYPED = symptom("...annotations.milligpu.io/gpu: expected string, got")


@pytest.mark.parametrize("kind", shapes.KINDS)
def test_an_annotation_that_is_a_number(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, kind: str
) -> None:
    obj = holding(kind, annotated(0.3))
    assert NUMBER.search(said(apiserver, namespace, obj))
    server_side = said(apiserver, namespace, obj, "apply", "--server-side")
    assert (NUMBER if kind == "Pod" else TYPED).search(server_side)
    quoted = holding(kind, annotated("0.3"))
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(quoted))


@pytest.mark.parametrize("written", [False, True])
def test_an_annotation_that_is_yes_or_no(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, written: bool
) -> None:
    """`off` without quotes is false to YAML 1.1, as kubectl reads it."""
    obj = annotated(written, names.ANNOTATION_THROTTLE)
    assert BOOL.search(said(apiserver, namespace, obj))
    text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations: {a: off}\n"
    done = apiserver.kubectl("create", "-n", namespace, "-f", "-", stdin=text, check=False)
    assert BOOL.search(done.stderr)


def test_percent_is_for_annotations(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    message = symptom("quantities must match the regular expression")
    assert message.search(said(apiserver, namespace, model(gpu="30%")))


# The webhook refuses.


def test_our_own_refusals_say_who_speaks(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    pods = symptom('admission webhook "pods.milligpu.io" denied the request: ')
    templates = symptom('admission webhook "templates.milligpu.io" denied the request: ')
    wrong = model(gpu="1500m")
    assert pods.search(said(apiserver, namespace, wrong))
    assert templates.search(said(apiserver, namespace, holding("Deployment", wrong)))
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(model()))
    changed = symptom("a pod's share cannot change")
    assert changed.search(said(apiserver, namespace, model(gpu="500m")))


def test_what_kubernetes_does_not_let_anybody_change(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    job = holding("Job", model())
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(job))
    immutable = symptom("field is immutable")
    assert immutable.search(said(apiserver, namespace, holding("Job", model(gpu="500m"))))
    conflict = symptom('conflict with "kubectl-client-side-apply" using ...resources.limits.gpu')
    assert conflict.search(said(apiserver, namespace, job, "apply", "--server-side"))


def test_a_manifest_applied_again_where_the_webhook_is_not_asked_any_more(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(model()))
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    label = {"labels": {names.LABEL_ADMISSION: names.ADMISSION_DISABLED}}
    apiserver.api.patch(space, {"metadata": label})
    message = symptom("pod updates may not change fields other than")
    refused = lambda: message.search(said(apiserver, namespace, model()))  # noqa: E731
    eventually(refused, "the API server's refusal", 10)


# Policies of the namespace judge last.

EXCEEDED = symptom(
    "exceeded quota: ..., requested: requests.milligpu.io/vgpu=30,"
    " used: requests.milligpu.io/vgpu=0, limited: requests.milligpu.io/vgpu=20"
)
UNLIMITED = symptom("failed quota: ...: must specify limits.cpu for: ")
LARGE = symptom("maximum cpu usage per Pod is 2, but limit is 2400m")
RATIO = symptom(
    "cpu max limit to request ratio per Container is 4, but provided ratio is 10.000000"
)
BESIDE = symptom("300m beside milligpu.io/vgpu: 20; a container gets one GPU resource, keep one")
UNTHROTTLED = {names.ANNOTATION_THROTTLE: "off"}


@pytest.mark.parametrize(
    ("hard", "annotations", "message"),
    [
        ({f"requests.{names.COUNT}": "20"}, {}, EXCEEDED),
        ({"limits.cpu": "3"}, UNTHROTTLED, UNLIMITED),
    ],
)
def test_a_quota_refuses(
    apiserver: ControlPlane,
    webhook: Webhook,
    namespace: str,
    hard: Json,
    annotations: dict[str, str],
    message: re.Pattern[str],
) -> None:
    policies.quota(apiserver.api, namespace, {"hard": hard})
    pod = model()
    pod["metadata"]["annotations"] = annotations
    assert message.search(said(apiserver, namespace, pod))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"type": "Pod", "max": {"cpu": "2"}}, LARGE),
        ({"maxLimitRequestRatio": {"cpu": "4"}}, RATIO),
        ({"max": {names.COUNT: "20"}}, BESIDE),
    ],
)
def test_a_limit_range_refuses(
    apiserver: ControlPlane,
    webhook: Webhook,
    namespace: str,
    item: Json,
    message: re.Pattern[str],
) -> None:
    policies.limit_range(apiserver.api, namespace, item)
    assert message.search(said(apiserver, namespace, model()))
