"""The webhook is gone with its Service, on the real node: what was there lives and ends as ever,
and who asks is told by the API server itself. What goes on while it only has no pods for a while
is in test_node_webhook.py.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.cluster import shapes, spaces
from tests.cluster.api import ApiError, Json
from tests.cluster.devices import lives
from tests.cluster.eventually import eventually
from tests.cluster.node import Node
from tests.cluster.product import deploy, use_cards
from tests.cluster.shapes import holding
from tests.cluster.spaces import Space, asking, reporting
from tests.cluster.tools.say import say
from vgpu import names

pytestmark = [pytest.mark.node, pytest.mark.long]

OURS = ("-n", names.NAMESPACE)
CONFIGURATION = ("mutatingwebhookconfiguration", names.WEBHOOK_CONFIGURATION)
URL = '"https://webhook.milligpu.svc:443/mutate?timeout=5s"'
MODELS = ("stays", "owned", "left", "evicted", "undone")
CALL = "Internal error occurred: failed calling webhook"
FAILED = f'{CALL} "pods.milligpu.io": failed to call webhook: Post {URL}: '
NO_PODS = FAILED + "dial tcp {address}:443: connect: connection refused"
NO_SERVICE = FAILED + 'service "webhook" not found'


def refusal(space: Space) -> tuple[int, str]:
    """Return status and words of what the API server says to a pod with an ask."""
    try:
        pod = shapes.pod("asks", asking("main", "10m"))
        space.node.plane.api.create(pod, space.name, "?dryRun=All")
    except ApiError as error:
        return error.code, str(error.body["message"])
    return 201, ""


def refused(space: Space, message: str) -> None:
    """Wait until an ask is told a message: pods end and the news of it travels."""
    eventually(lambda: refusal(space) == (500, message), lambda: f"{message}, not {refusal(space)}")


def model(name: str) -> Json:
    """Return a deployment of two pods, in which every extra of the webhook shows."""
    pod = shapes.pod(name, asking("main", "20m", "--port=8500"), reporting("helper"))
    pod["metadata"]["annotations"] = {names.ANNOTATION_FRAMEWORK: "tensorflow-serving"}
    made = holding("Deployment", pod)
    made["spec"]["replicas"] = 2
    return made


def prepare(space: Space) -> None:
    """Have a workload with shares for each fate that a test has for them."""
    job = holding("Job", shapes.pod("job", asking("main", "10m")))
    job["spec"]["backoffLimit"] = 0
    space.create(job)
    for name in MODELS:
        space.create(model(name))
    space.kubectl("set", "env", "deployment/undone", "REVISION=2")
    space.kubectl("rollout", "status", "deployment/undone", "--timeout=60s")
    for name in MODELS:
        space.all_running(name, 2)
    space.all_running("job")


@pytest.fixture(scope="module")
def doomed(node: Node) -> Iterator[Space]:
    """A namespace with shares that a test deletes."""
    space, kubectl = Space(node, "doomed"), node.plane.kubectl
    kubectl("create", "namespace", space.name)
    try:
        space.create(model("model"))
        space.create(holding("Job", shapes.pod("job", asking("main", "10m"))))
        space.all_running("model", 2)
        space.all_running("job")
        yield space
    finally:
        kubectl("delete", "namespace", space.name, "--ignore-not-found", "--timeout=60s")


@pytest.fixture(scope="module")
def stranded(node: Node, doomed: Space) -> Iterator[Space]:
    """Workloads with shares; the webhook and its Service are gone, its configuration is there."""
    use_cards(node, "two-t4")
    kubectl = node.plane.kubectl
    with spaces.space(node) as space:
        prepare(space)
        where = ("service", "webhook", "-o", "jsonpath={.spec.clusterIP}")
        address = kubectl(*OURS, "get", *where).stdout
        try:
            kubectl(*OURS, "scale", "deployment/webhook", "--replicas=0")
            refused(space, NO_PODS.format(address=address))
            kubectl(*OURS, "delete", "deployment,service", "webhook")
            refused(space, NO_SERVICE)
            yield space
        finally:
            deploy(node)
        began = time.monotonic()
        for name in ("stays", "evicted"):
            # A controller that was refused tries again later each time.
            space.kubectl("wait", "--for=condition=available", f"deployment/{name}", "--timeout=2m")
            space.all_running(name, 2)
        say(f"pods that were refused are made {time.monotonic() - began:.0f} s after it is back")


def test_who_asks_is_told_by_the_api_server(stranded: Space) -> None:
    """docs/how-to/troubleshooting.md has these words."""
    created = stranded.node.plane.kubectl(
        "-n", stranded.name, "create", "-f", "-", stdin=json.dumps(model("new")), check=False
    )
    said = NO_SERVICE.replace("pods.", "templates.")
    assert created.stderr == (
        f'Error from server (InternalError): error when creating "STDIN": {said}\n'
    )
    applied = stranded.node.plane.kubectl(
        "-n", stranded.name, "apply", "-f", "-", stdin=json.dumps(model("stays")), check=False
    )
    assert applied.returncode == 1
    assert applied.stderr.endswith(f"{said}\n"), applied.stderr


def test_pods_without_an_ask_are_made_changed_and_ended(stranded: Space) -> None:
    stranded.create(holding("Deployment", shapes.pod("plain", reporting("main"))))
    stranded.all_running("plain")
    stranded.kubectl("set", "env", "deployment/plain", "REVISION=2")
    stranded.kubectl("rollout", "status", "deployment/plain", "--timeout=60s")
    stranded.kubectl("delete", "deployment", "plain", "--cascade=foreground", "--timeout=60s")


def test_what_shares_is_labelled_annotated_and_held_by_finalizers(stranded: Space) -> None:
    pods = stranded.all_running("stays", 2)
    objects = ["deployment/stays", f"pod/{pods[0]['metadata']['name']}"]
    for obj in objects:
        stranded.kubectl("label", obj, "a=b")
        stranded.kubectl("annotate", obj, "a=b")
        for finalizers in (["example.com/wait"], []):
            patch = json.dumps({"metadata": {"finalizers": finalizers}})
            stranded.kubectl("patch", obj, "--type=merge", "-p", patch)
    assert lives(stranded.all_running("stays", 2)) == lives(pods)


def test_owners_are_cleaned_up_after_or_leave_their_pods(stranded: Space) -> None:
    stranded.kubectl("delete", "deployment", "owned", "--cascade=background")
    eventually(lambda: not stranded.pods("owned"), "the end of the pods that were owned", 60)
    pods = stranded.all_running("left", 2)
    for kind in ("deployment/left", "replicaset"):
        names_of = [kind] if "/" in kind else [kind, "-l", "app=left"]
        stranded.kubectl("delete", *names_of, "--cascade=orphan", "--timeout=30s")
    left = stranded.all_running("left", 2)
    assert lives(left) == lives(pods)
    assert not any("ownerReferences" in pod["metadata"] for pod in left)


def test_a_pod_with_a_share_is_evicted_and_its_successor_waits(stranded: Space) -> None:
    pod = stranded.all_running("evicted", 2)[0]["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    place = f"/api/v1/namespaces/{stranded.name}/pods/{pod}/eviction"
    stranded.node.plane.api.request("POST", place, eviction)
    eventually(lambda: len(stranded.pods("evicted")) == 1, "the end of the evicted pod")
    eventually(lambda: NO_SERVICE in events(stranded, "evicted"), "the event that says why")


def events(space: Space, name: str) -> str:
    """Return what is told of an app's replica sets that cannot make pods."""
    found = space.node.plane.api.get(f"/api/v1/namespaces/{space.name}/events")["items"]
    told = [e for e in found if e["involvedObject"]["name"].startswith(f"{name}-")]
    return "; ".join(each["message"] for each in told if each["reason"] == "FailedCreate")


def test_a_rollout_is_undone_while_the_old_pods_serve_on(stranded: Space) -> None:
    pods = stranded.all_running("undone", 2)
    stranded.kubectl("rollout", "undo", "deployment/undone")
    stored = stranded.kubectl("get", "deployment", "undone", "-o", "json")
    container = json.loads(stored)["spec"]["template"]["spec"]["containers"][0]
    assert "env" not in container
    assert container["resources"]["limits"] == {names.COUNT: "2"}
    eventually(lambda: NO_SERVICE in events(stranded, "undone"), "the event that says why")
    assert lives(stranded.all_running("undone", 2)) == lives(pods)


def test_a_job_ends_and_lets_its_pod_go(stranded: Space) -> None:
    [pod] = stranded.all_running("job")
    stranded.node.kill(pod["status"]["containerStatuses"][0]["containerID"])
    stranded.kubectl("wait", "--for=condition=failed", "job/job", "--timeout=30s")
    ended = stranded.pod(pod["metadata"]["name"])
    assert "finalizers" not in ended["metadata"]  # the controller's own, by which it counts
    stranded.kubectl("delete", "job", "job", "--cascade=foreground", "--timeout=30s")


def test_a_namespace_ends_with_all_that_shares_in_it(stranded: Space, doomed: Space) -> None:
    kubectl = stranded.node.plane.kubectl
    kubectl("delete", "namespace", doomed.name, "--timeout=60s")
    assert not doomed.pods()


@contextmanager
def unconfigured(node: Node) -> Iterator[None]:
    """Take the webhook's configuration away as well."""
    stored = json.loads(node.plane.kubectl("get", *CONFIGURATION, "-o", "json").stdout)
    node.plane.kubectl("delete", *CONFIGURATION)
    try:
        yield
    finally:
        for key in ("resourceVersion", "uid", "creationTimestamp"):
            del stored["metadata"][key]
        node.plane.kubectl("create", "-f", "-", stdin=json.dumps(stored))


def test_without_its_configuration_a_stored_count_makes_pods_that_lack_what_only_it_adds(
    stranded: Space,
) -> None:
    """docs/how-to/upgrade.md says what they lack."""
    old = stranded.all_running("stays", 2)
    with unconfigured(stranded.node):
        stranded.kubectl("delete", "pod", old[0]["metadata"]["name"], "--now")
        both = stranded.all_running("stays", 2)
        noted = shapes.pod("noted", reporting("main"), annotations={names.ANNOTATION_ASK: "20m"})
        stranded.create(noted)
        assert names.ENV_GPU_UUID not in stranded.reports(stranded.running("noted"))["main"].env
        code, message = refusal(stranded)
        assert code == 422
        assert "must be a standard resource type or fully qualified" in message
    [new] = [
        pod for pod in both if pod["metadata"]["uid"] not in {p["metadata"]["uid"] for p in old}
    ]
    added, kept = extras(stranded, old[1]), extras(stranded, new)
    assert added == Extras(
        limits={names.COUNT: "2", names.CPU: "160m"},
        fraction="0.02",
        arguments=["--port=8500", "--per_process_gpu_memory_fraction=0.0149"],
        annotated=True,
        tolerates=True,
        helper="void",
        card=True,
    )
    assert kept == Extras(
        limits={names.COUNT: "2"},
        fraction=None,
        arguments=["--port=8500"],
        annotated=False,
        tolerates=False,
        helper=None,
        card=True,
    )


@dataclass(frozen=True, slots=True)
class Extras:
    """What a pod with a share has of what the webhook and the plugin add."""

    limits: dict[str, str]
    fraction: str | None
    arguments: list[str]
    annotated: bool
    tolerates: bool
    helper: str | None
    """What the container without a share may see."""
    card: bool
    """By the plugin, whoever made the pod."""


def extras(space: Space, pod: Json) -> Extras:
    reports = space.reports(pod)
    main, tolerations = reports["main"], pod["spec"].get("tolerations", ())
    return Extras(
        pod["spec"]["containers"][0]["resources"]["limits"],
        main.env.get(names.ENV_FRACTION),
        main.argv[1:],
        names.ANNOTATION_SHARE in pod["metadata"].get("annotations", {}),
        names.NVIDIA_GPU in {each.get("key") for each in tolerations},
        reports["helper"].env.get(names.ENV_VISIBLE_DEVICES),
        main.env[names.ENV_GPU_UUID] == main.env[names.ENV_VISIBLE_DEVICES],
    )
