"""Which requests the shipped webhook configuration sends, and by which of its entries.

The webhook here only counts. What it is asked is what the real API server's matchConditions let
through; most asks are then refused by the API server itself, since nobody translates them.
"""

import copy
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.cluster import pki, shapes, webhooks
from tests.cluster.api import ApiError, Json, collection
from tests.cluster.controlplane import ControlPlane
from tests.cluster.https import serving
from tests.cluster.shapes import KINDS, held, holding
from vgpu import names

pytestmark = pytest.mark.apiserver

PODS, TEMPLATES = ["pods.milligpu.io"], ["templates.milligpu.io"]
"""The entries with failurePolicy Fail; a list, since exactly one is to be called."""
STORED_PODS, STORED_TEMPLATES = ["stored-pods.milligpu.io"], ["stored-templates.milligpu.io"]
"""The entries with failurePolicy Ignore."""
NOBODY: list[str] = []

WORKLOADS = [kind for kind in KINDS if kind != "Pod"]
ASKS: list[Json] = [
    {names.ASK: "300m"},
    {names.ASK: "2"},
    {names.ASK: "0"},
    {names.ASK_QUALIFIED: "0.3"},
    {names.ASK_QUALIFIED: "1"},
    {names.NVIDIA_GPU: "300m"},
    {names.NVIDIA_GPU: "1500m"},
]
GRANTS: list[Json] = [{names.COUNT: "30"}, {names.WHOLE: "1"}]
OTHERS: list[Json] = [
    {"cpu": "300m"},
    {names.NVIDIA_GPU: "1"},
    {names.NVIDIA_GPU: "1000m"},
    {names.NVIDIA_GPU: "3e0"},
    {"nvidia.com/gpu.shared": "1"},
    {"nvidia.com/mig-1g.5gb": "1"},
    {"example.com/gpu": "1"},
]
CONTROLLERS = ["system:kube-controller-manager"] + [
    f"system:serviceaccount:kube-system:{name}"
    for name in (
        "cronjob-controller",
        "daemon-set-controller",
        "deployment-controller",
        "generic-garbage-collector",
        "job-controller",
        "replicaset-controller",
        "replication-controller",
        "statefulset-controller",
        "storage-version-migrator-controller",
    )
]
Change = Callable[[Json], object]


@dataclass(slots=True)
class Counter:
    """A webhook that allows everything and remembers which entry called it."""

    called: list[str] = field(default_factory=list)
    away: bool = False
    """Whether it hangs up instead, as a webhook does that is not there."""

    def during(self, request: Callable[[], object]) -> list[str]:
        """Return the entries that a request calls; what becomes of the request does not matter."""
        self.called.clear()
        try:
            request()
        except ApiError as refusal:
            if "webhook" in str(refusal):  # so says a condition that cannot be evaluated
                raise
        return list(self.called)


def listening(counter: Counter, pair: pki.Pair, folder: Path) -> AbstractContextManager[str]:
    """Serve the counter over TLS and give its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if counter.away:
                self.close_connection = True
                return
            counter.called.append(self.path.strip("/").partition("?")[0])
            review["response"] = {"uid": review.pop("request")["uid"], "allowed": True}
            body = json.dumps(review).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return serving(Handler, pair, folder)


@contextmanager
def installed(plane: ControlPlane, counter: Counter, url: str, ca: bytes) -> Iterator[None]:
    """Have every entry of the shipped configuration call a path that is its name."""
    config = webhooks.configuration(url, ca)
    for entry in config["webhooks"]:
        entry["clientConfig"]["url"] = f"{url}/{entry['name']}"
    plane.api.create(config)
    try:
        deadline = time.monotonic() + 15
        while not counter.during(lambda: create(plane, pod(ASKS[0]), "default")):
            assert time.monotonic() < deadline, "the API server does not call the webhook"
            time.sleep(0.1)
        yield
    finally:
        plane.api.delete(config)


@pytest.fixture(scope="module")
def counter(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    counter, ca = Counter(), pki.authority()
    pair, folder = pki.issue(ca, "127.0.0.1"), tmp_path_factory.mktemp("counter")
    with (
        listening(counter, pair, folder) as url,
        installed(apiserver, counter, url, ca.certificate),
    ):
        yield counter


# Objects.


def pod(limits: Json | None = None, annotations: dict[str, str] | None = None) -> Json:
    """Return a pod with a container of these limits, and one before it that has none."""
    main = {"name": "main", "resources": {"limits": limits or {}}}
    return shapes.pod("x", {"name": "idle"}, main, annotations=annotations)


def requesting(requests: Json) -> Json:
    return shapes.pod("x", {"name": "main", "resources": {"requests": requests}})


def initial(limits: Json) -> Json:
    made = shapes.pod("x", {"name": "main"})
    made["spec"]["initContainers"] = [
        {"name": "warm", "image": "none", "resources": {"limits": limits}}
    ]
    return made


def owned(obj: Json, kind: str, controller: bool = True) -> Json:
    """Give an object an owner."""
    owner = {"apiVersion": "example.com/v1", "kind": kind, "name": "owner", "uid": "1-2-3"}
    obj["metadata"]["ownerReferences"] = [{**owner, "controller": controller}]
    return obj


def noting(obj: Json, key: str = names.ANNOTATION_ASK, text: str = "300m") -> Json:
    """Annotate a thing that has metadata."""
    obj.setdefault("metadata", {}).setdefault("annotations", {})[key] = text
    return obj


# Changes of a stored object. `held` is what has a pod's metadata and spec.


def label(obj: Json) -> None:
    obj["metadata"].setdefault("labels", {})["a"] = "b"


def note(obj: Json) -> None:
    noting(obj, "example.com/note")


def finalizer(obj: Json) -> None:
    obj["metadata"]["finalizers"] = ["example.com/wait"]


def owner(obj: Json) -> None:
    owned(obj, "Deployment", controller=False)


def controller(obj: Json) -> None:
    owned(obj, "PyTorchJob")


def image(obj: Json) -> None:
    held(obj)["spec"]["containers"][0]["image"] = "other"


def restart(obj: Json) -> None:
    noting(held(obj), "kubectl.kubernetes.io/restartedAt", "now")


def asking(obj: Json) -> None:
    """What applying the manifest of an ask again brings."""
    resources = held(obj)["spec"]["containers"][-1].setdefault("resources", {})
    for part in ("limits", "requests"):
        resources[part] = {**resources.get(part, {}), names.ASK: "300m"}


def without_grant(obj: Json) -> None:
    held(obj)["spec"]["containers"][-1]["resources"] = {}


def annotated_ask(obj: Json) -> None:
    noting(held(obj), text="400m")


def annotated_throttle(obj: Json) -> None:
    noting(held(obj), names.ANNOTATION_THROTTLE, "off")


def annotated_object(obj: Json) -> None:
    noting(obj, text="400m")


def without_annotations(obj: Json) -> None:
    held(obj)["metadata"].pop("annotations")


# Requests, all of them dry runs, so that nothing that is stored changes.


def create(plane: ControlPlane, obj: Json, namespace: str) -> Json:
    return plane.api.create(obj, namespace, query="?dryRun=All")


def update(plane: ControlPlane, counter: Counter, stored: Json, change: Change) -> list[str]:
    obj = copy.deepcopy(stored)
    change(obj)
    path = f"{collection(obj, 'default')}/{obj['metadata']['name']}?dryRun=All"
    return counter.during(lambda: plane.api.request("PUT", path, obj))


def update_as(
    user: str, plane: ControlPlane, counter: Counter, stored: Json, change: Change
) -> list[str]:
    obj = copy.deepcopy(stored)
    change(obj)
    identity = ("--as", user, "--as-group", "system:masters")
    return kubectl(plane, counter, "replace", *identity, "--dry-run=server", "-f", "-", obj=obj)


def kubectl(
    plane: ControlPlane, counter: Counter, *args: str, obj: Json | None = None
) -> list[str]:
    counter.called.clear()
    done = plane.kubectl(*args, stdin=json.dumps(obj), check=False)
    assert "webhook" not in done.stderr
    return list(counter.called)


# New pods.

NEW_PODS = {
    **{f"ask {ask}": (pod(ask), PODS) for ask in ASKS},
    **{f"requested {ask}": (requesting(ask), PODS) for ask in ASKS},
    **{f"initial {ask}": (initial(ask), PODS) for ask in ASKS},
    **{f"grant {grant}": (pod(grant), PODS) for grant in GRANTS},
    **{f"initial {grant}": (initial(grant), PODS) for grant in GRANTS},
    **{f"other {other}": (pod(other), NOBODY) for other in OTHERS},
    **{
        f"annotated {key}": (noting(pod(), key), PODS)
        for key in (*sorted(names.ANNOTATIONS_KNOWN), names.PREFIX + "gpus")
    },
    "plain": (pod(), NOBODY),
    "annotated by others": (noting(pod(), "example.com/gpu"), NOBODY),
    "of a controller": (owned(pod(GRANTS[0]), "ReplicaSet"), PODS),
}


@pytest.mark.parametrize("case", NEW_PODS)
def test_a_new_pod(apiserver: ControlPlane, counter: Counter, namespace: str, case: str) -> None:
    obj, expected = NEW_PODS[case]
    assert counter.during(lambda: create(apiserver, obj, namespace)) == expected


def test_a_mirror_pod_is_nobodys(apiserver: ControlPlane, counter: Counter, namespace: str) -> None:
    mirror = noting(pod(GRANTS[0]), "kubernetes.io/config.mirror", "hash")
    mirror["spec"] |= {"nodeName": "node", "automountServiceAccountToken": False}
    assert counter.during(lambda: apiserver.api.create(mirror, namespace)) == NOBODY
    stored = apiserver.api.read(mirror, namespace)
    assert update(apiserver, counter, stored, image) == NOBODY


@pytest.mark.parametrize("excluded", ["kube-system", "kube-public", "kube-node-lease"])
def test_system_namespaces_are_left_alone(
    apiserver: ControlPlane, counter: Counter, excluded: str
) -> None:
    assert counter.during(lambda: create(apiserver, pod(ASKS[0]), excluded)) == NOBODY


@pytest.mark.parametrize("name", [names.NAMESPACE, names.NODE_NAMESPACE, "opted-out"])
def test_our_own_and_opted_out_namespaces_are_left_alone(
    apiserver: ControlPlane, counter: Counter, name: str
) -> None:
    metadata: Json = {"name": name}
    if name == "opted-out":
        metadata["labels"] = {names.LABEL_ADMISSION: names.ADMISSION_DISABLED}
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    apiserver.kubectl("apply", "-f", "-", stdin=json.dumps(made))  # others may have made it
    assert counter.during(lambda: create(apiserver, pod(ASKS[0]), name)) == NOBODY


# New workloads.


NEW_WORKLOADS: dict[str, tuple[Json, list[Change], list[str]]] = {
    **{f"ask {ask}": (pod(ask), [], TEMPLATES) for ask in ASKS},
    "requested": (requesting(ASKS[0]), [], TEMPLATES),
    "initial": (initial(ASKS[0]), [], TEMPLATES),
    "annotated object": (pod(), [annotated_object], TEMPLATES),
    "annotated template": (pod(), [annotated_ask], TEMPLATES),
    "grant": (pod(GRANTS[0]), [], NOBODY),  # its pods are sent, and judged
    "plain": (pod(), [], NOBODY),
    "whole card of others": (pod(OTHERS[1]), [], NOBODY),
    "annotated by others": (pod(), [note, restart], NOBODY),
    "ask, of a controller": (pod(ASKS[0]), [controller], TEMPLATES),
    "annotated, of a controller": (pod(), [annotated_ask, annotated_object, controller], NOBODY),
    "annotated, of an owner that is no controller": (pod(), [annotated_object, owner], TEMPLATES),
}


@pytest.mark.parametrize("kind", WORKLOADS)
@pytest.mark.parametrize("case", NEW_WORKLOADS)
def test_a_new_workload(
    apiserver: ControlPlane, counter: Counter, namespace: str, case: str, kind: str
) -> None:
    template, changes, expected = NEW_WORKLOADS[case]
    obj = holding(kind, template)
    for change in changes:
        change(obj)
    assert counter.during(lambda: create(apiserver, obj, namespace)) == expected


def test_the_annotation_of_a_cronjobs_jobs_counts(
    apiserver: ControlPlane, counter: Counter, namespace: str
) -> None:
    obj = holding("CronJob", pod())
    noting(obj["spec"]["jobTemplate"])
    assert counter.during(lambda: create(apiserver, obj, namespace)) == TEMPLATES


def test_a_deployments_replicaset_is_nobodys(
    apiserver: ControlPlane, counter: Counter, namespace: str
) -> None:
    obj = owned(noting(holding("ReplicaSet", pod({names.ASK_QUALIFIED: "1"}))), "Deployment")
    assert counter.during(lambda: apiserver.api.create(obj, namespace)) == NOBODY
    stored = apiserver.api.read(obj, namespace)
    for change in (label, image, asking, annotated_ask, annotated_object, owner):
        assert update(apiserver, counter, stored, change) == NOBODY, change.__name__


ODD: dict[str, Json] = {
    "no containers": {"containers": None},
    "null lists": {"containers": [{"name": "a", "image": "a"}], "initContainers": None},
    "null resources": {"containers": [{"name": "a", "image": "a", "resources": None}]},
    "null limits": {"containers": [{"name": "a", "image": "a", "resources": {"limits": None}}]},
    "nothing": {},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ODD)
def test_what_is_oddly_shaped_is_left_to_the_api_server(
    apiserver: ControlPlane, counter: Counter, namespace: str, case: str, kind: str
) -> None:
    obj = holding(kind, pod())
    held(obj)["spec"] = ODD[case]
    assert counter.during(lambda: create(apiserver, obj, namespace)) == NOBODY


# Stored pods.

PLAIN, WHOLE, BEFORE = pod(), pod({names.NVIDIA_GPU: "1"}), pod({names.ASK_QUALIFIED: "1"})
"""The last: stored with a whole ask before we were installed, when nobody translated it."""
COUNTED, PHYSICAL = pod(GRANTS[0]), pod(GRANTS[1])
NOTED = noting(pod(GRANTS[0]))

POD_UPDATES: dict[str, tuple[Json, list[Change], list[str]]] = {
    "metadata of a grant": (COUNTED, [label, note, finalizer, owner, annotated_throttle], NOBODY),
    "metadata of an annotated grant": (NOTED, [label, note, finalizer, owner], NOBODY),
    "spec of a grant": (COUNTED, [image, without_grant], STORED_PODS),
    "spec of whole cards": (PHYSICAL, [image], STORED_PODS),
    "spec of an annotated grant": (NOTED, [image], STORED_PODS),
    "ask applied again": (COUNTED, [asking], PODS),
    "ask where none was": (PLAIN, [asking, annotated_ask], PODS),
    "another ask annotation": (NOTED, [annotated_ask, without_annotations], PODS),
    "anything of a pod without a share": (PLAIN, [label, image, annotated_throttle], NOBODY),
    "anything of others' whole card": (WHOLE, [label, image], NOBODY),
    "anything of an ask of before": (BEFORE, [label, note, finalizer, image], NOBODY),
    "an ask annotation beside an ask of before": (BEFORE, [annotated_ask], PODS),
}


@pytest.mark.parametrize("case", POD_UPDATES)
def test_a_pods_update(
    apiserver: ControlPlane, counter: Counter, namespace: str, case: str
) -> None:
    obj, changes, expected = POD_UPDATES[case]
    stored = apiserver.api.create(obj, namespace)
    for change in changes:
        assert update(apiserver, counter, stored, change) == expected, change


def deleting(plane: ControlPlane, obj: Json, namespace: str) -> Json:
    """Return a stored object that waits for its finalizer."""
    obj = copy.deepcopy(obj)
    finalizer(obj)
    plane.api.delete(plane.api.create(obj, namespace), namespace)
    stored = plane.api.read(obj, namespace)
    assert stored["metadata"]["deletionTimestamp"]
    return stored


def test_a_pod_that_is_being_deleted_is_nobodys(
    apiserver: ControlPlane, counter: Counter, namespace: str
) -> None:
    stored = deleting(apiserver, COUNTED, namespace)
    for change in (
        label,
        image,
        asking,
        annotated_ask,
        lambda obj: obj["metadata"].pop("finalizers"),
    ):
        assert update(apiserver, counter, stored, change) == NOBODY


@pytest.mark.parametrize(
    ("subresource", "change"),
    [
        ("status", {"status": {"phase": "Running"}}),
        ("resize", {"spec": {"containers": [{"name": "main", "resources": {}}]}}),
        ("ephemeralcontainers", {"spec": {"ephemeralContainers": [{"name": "e", "image": "e"}]}}),
    ],
)
def test_a_pods_subresources_are_nobodys(
    apiserver: ControlPlane, counter: Counter, namespace: str, subresource: str, change: Json
) -> None:
    stored = apiserver.api.create(COUNTED, namespace)
    path = f"{collection(stored, namespace)}/x/{subresource}"
    patch = "application/strategic-merge-patch+json"
    assert counter.during(lambda: apiserver.api.request("PATCH", path, change, patch)) == NOBODY


@pytest.mark.parametrize("user", CONTROLLERS)
def test_kubernetes_controllers_wait_for_nobody(
    apiserver: ControlPlane, counter: Counter, namespace: str, user: str
) -> None:
    bare = apiserver.api.create(NOTED, namespace)
    job = apiserver.api.create(holding("CronJob", COUNTED), namespace)
    assert update_as(user, apiserver, counter, bare, image) == NOBODY
    assert update_as(user, apiserver, counter, bare, annotated_ask) == NOBODY
    assert update_as(user, apiserver, counter, job, label) == NOBODY
    assert update_as(user, apiserver, counter, job, annotated_object) == NOBODY


def test_an_ask_is_an_ask_whoever_brings_it(
    apiserver: ControlPlane, counter: Counter, namespace: str
) -> None:
    bare = apiserver.api.create(NOTED, namespace)
    job = apiserver.api.create(holding("CronJob", COUNTED), namespace)
    assert update_as(CONTROLLERS[0], apiserver, counter, bare, asking) == PODS
    assert update_as(CONTROLLERS[0], apiserver, counter, job, asking) == TEMPLATES


@pytest.mark.parametrize(
    "user", ["somebody", "system:serviceaccount:kube-system:helm", CONTROLLERS[1] + "-of-mine"]
)
def test_everybody_else_is_somebody(
    apiserver: ControlPlane, counter: Counter, namespace: str, user: str
) -> None:
    bare = apiserver.api.create(NOTED, namespace)
    assert update_as(user, apiserver, counter, bare, image) == STORED_PODS
    assert update_as(user, apiserver, counter, bare, annotated_ask) == PODS


# Stored workloads.

WORKLOAD_UPDATES: dict[str, tuple[Json, list[Change], list[str]]] = {
    # A removed ask may show in the managed fields alone, so any update may be its removal.
    "a grant, anything": (
        COUNTED,
        [label, note, finalizer, image, restart, without_grant],
        STORED_TEMPLATES,
    ),
    "whole cards, anything": (PHYSICAL, [label], STORED_TEMPLATES),
    "a grant, ask applied again": (COUNTED, [asking], TEMPLATES),
    "a grant, annotation": (
        COUNTED,
        [annotated_ask, annotated_throttle, annotated_object],
        TEMPLATES,
    ),
    "a grant, owner": (COUNTED, [owner], NOBODY),
    "an annotation, anything": (
        noting(pod()),
        [label, note, finalizer, image, restart],
        STORED_TEMPLATES,
    ),
    "an annotation, another": (
        noting(pod()),
        [annotated_ask, annotated_throttle, annotated_object],
        TEMPLATES,
    ),
    "an annotation, none": (noting(pod()), [without_annotations], NOBODY),
    "an annotation, owner": (noting(pod()), [owner], NOBODY),
    "plain, anything": (PLAIN, [label, image, restart, owner], NOBODY),
    "plain, ask": (PLAIN, [asking, annotated_ask, annotated_object], TEMPLATES),
    "others' whole card, anything": (WHOLE, [label, image, restart], NOBODY),
    # A stored template never changes by itself.
    "an ask of before, its metadata": (BEFORE, [label, note, finalizer, owner], NOBODY),
    "an ask of before, its template": (BEFORE, [image, restart, asking], TEMPLATES),
}


@pytest.mark.parametrize("kind", WORKLOADS)
@pytest.mark.parametrize("case", WORKLOAD_UPDATES)
def test_a_workloads_update(
    apiserver: ControlPlane, counter: Counter, namespace: str, case: str, kind: str
) -> None:
    template, changes, expected = WORKLOAD_UPDATES[case]
    stored = apiserver.api.create(holding(kind, template), namespace)
    for change in changes:
        assert update(apiserver, counter, stored, change) == expected, change


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_workload_that_a_controller_owns_is_sent_for_its_ask_only(
    apiserver: ControlPlane, counter: Counter, namespace: str, kind: str
) -> None:
    stored = apiserver.api.create(owned(holding(kind, COUNTED), "PyTorchJob"), namespace)
    for change in (label, image, annotated_ask, annotated_object, without_grant):
        assert update(apiserver, counter, stored, change) == NOBODY, change.__name__
    assert update(apiserver, counter, stored, asking) == TEMPLATES


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_workload_that_is_being_deleted_is_nobodys(
    apiserver: ControlPlane, counter: Counter, namespace: str, kind: str
) -> None:
    stored = deleting(apiserver, holding(kind, COUNTED), namespace)
    for change in (label, asking, lambda obj: obj["metadata"].pop("finalizers")):
        assert update(apiserver, counter, stored, change) == NOBODY


# As people do it.


def test_what_kubectl_sends(apiserver: ControlPlane, counter: Counter, namespace: str) -> None:
    apiserver.api.create(holding("Deployment", COUNTED), namespace)
    apiserver.api.create(COUNTED, namespace)
    manifest = holding("Deployment", pod(ASKS[0]))
    server_side = ("apply", "--server-side", "--force-conflicts", "-f", "-")

    def calls(*args: str, obj: Json | None = None) -> list[str]:
        return kubectl(apiserver, counter, *args, "-n", namespace, obj=obj)

    assert calls("scale", "deployment/x", "--replicas=2") == NOBODY
    assert calls("label", "deployment/x", "a=b") == STORED_TEMPLATES
    assert calls("annotate", "deployment/x", "a=b") == STORED_TEMPLATES
    assert calls("set", "image", "deployment/x", "main=other") == STORED_TEMPLATES
    assert calls("rollout", "restart", "deployment/x") == STORED_TEMPLATES
    assert calls("rollout", "pause", "deployment/x") == STORED_TEMPLATES
    assert calls(*server_side, obj=manifest) == TEMPLATES
    assert calls(*server_side, "--dry-run=server", obj=manifest) == TEMPLATES
    assert calls("apply", "-f", "-", obj=manifest) == TEMPLATES
    assert calls("label", "pod/x", "a=b") == NOBODY
    assert calls("annotate", "pod/x", "a=b") == NOBODY
    assert calls("set", "image", "pod/x", "main=other") == STORED_PODS
    assert calls("annotate", "pod/x", f"{names.ANNOTATION_ASK}=300m") == PODS
    assert calls("delete", "deployment/x", "pod/x", "--wait=false") == NOBODY


def test_without_the_webhook_only_new_shares_wait(
    apiserver: ControlPlane, counter: Counter, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = apiserver.api.create(COUNTED, namespace)
    workload = apiserver.api.create(holding("Deployment", COUNTED), namespace)
    monkeypatch.setattr(counter, "away", True)
    for obj, entry in ((pod(ASKS[0]), PODS), (holding("Job", pod(ASKS[0])), TEMPLATES)):
        with pytest.raises(ApiError, match=f'failed calling webhook "{entry[0]}"'):
            create(apiserver, obj, namespace)
    for obj in (stored, workload):
        image(obj)
        label(obj)
        apiserver.api.update(obj, namespace)
    assert create(apiserver, shapes.pod("plain", {"name": "main"}), namespace)
