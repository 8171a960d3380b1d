"""A namespace's LimitRange and ResourceQuota, and a pod's own resources and class (B22, B44, B66).

The rows of docs/how-to/quotas-and-limits.md are what is tested, word by word.
"""

import json

import pytest

from milligpu.processes import Webhook
from tests.cluster import policies, shapes
from tests.cluster.api import Json
from tests.cluster.controlplane import ControlPlane
from tests.cluster.policies import PAGE, judge, table, written
from tests.cluster.shapes import holding, limited
from vgpu import names

pytestmark = pytest.mark.apiserver

HOW = {"client-side": ("apply",), "server-side": ("apply", "--server-side", "--force-conflicts")}
TIMES = {"one": 1, "two": 2}
QUOTAS = ("Limit what a namespace may have of the cards", "Quotas on CPUs", "QoS classes")
MAX_2 = {"type": "Pod", "max": {"cpu": "2"}}
REFUSAL = "is forbidden: maximum cpu usage per Pod is 2, but limit is 2400m"


@pytest.mark.parametrize(
    ("policy", "pods", "outcome"), [row for heading in QUOTAS for row in table(heading, 3)]
)
def test_a_quota_counts_what_a_share_takes(
    apiserver: ControlPlane,
    webhook: Webhook,
    namespace: str,
    policy: str,
    pods: str,
    outcome: str,
) -> None:
    api = apiserver.api

    def attempt() -> Json:
        policies.quota(api, namespace, written(policy))
        for _ in range(TIMES[pods.split()[0]] - 1):
            api.create(policies.pod(pods), namespace)
        return api.create(policies.pod(pods), namespace)

    judge(outcome, attempt, lambda: policies.used(api, namespace))


@pytest.mark.parametrize(("policy", "pod", "outcome"), table("LimitRange", 3))
def test_a_limit_range_first_fills_in_and_then_judges(
    apiserver: ControlPlane,
    webhook: Webhook,
    namespace: str,
    policy: str,
    pod: str,
    outcome: str,
) -> None:
    policies.limit_range(apiserver.api, namespace, written(policy))
    made = policies.pod(pod)
    judge(outcome, lambda: apiserver.api.create(made, namespace))


@pytest.mark.parametrize(
    ("pod", "outcome"), [*table("QoS classes", 2), *table("Resources of a whole pod", 2)]
)
def test_a_pods_class_and_own_resources(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, pod: str, outcome: str
) -> None:
    made = policies.pod(pod)
    judge(outcome, lambda: apiserver.api.create(made, namespace))


def test_a_container_without_an_ask_may_get_the_slots_of_a_limit_range(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    """Why the page insists on a default of 0."""
    policies.limit_range(apiserver.api, namespace, {"max": {names.COUNT: "20"}})
    made = apiserver.api.create(shapes.pod("plain", {"name": "main"}), namespace)
    assert made["spec"]["containers"][0]["resources"]["limits"][names.COUNT] == "20"


def test_with_a_default_of_0_it_stays_without(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    item = {"max": {names.COUNT: "20"}, "default": {names.COUNT: "0"}}
    policies.limit_range(apiserver.api, namespace, item)
    made = apiserver.api.create(shapes.pod("plain", {"name": "main"}), namespace)
    (container,) = made["spec"]["containers"]
    assert container["resources"] == {"limits": {names.COUNT: "0"}, "requests": {names.COUNT: "0"}}
    assert "env" not in container
    assert names.ANNOTATION_SHARE not in made["metadata"]["annotations"]


def test_what_refuses_a_bare_pod_is_said_with_its_reason(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    policies.limit_range(apiserver.api, namespace, MAX_2)
    manifest = json.dumps(shapes.pod("model", limited("main", gpu="300m")))
    done = apiserver.kubectl("apply", "-n", namespace, "-f", "-", stdin=manifest, check=False)
    assert done.returncode == 1
    warning, refusal = done.stderr.splitlines()
    assert f"\n{warning}\n{refusal.replace('STDIN', 'pod.yaml')}\n" in PAGE
    assert refusal.endswith(REFUSAL)


def test_what_refuses_a_controllers_pod_is_said_to_the_controller(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    """The workload is stored with the warning; the controller makes an event of the refusal."""
    policies.limit_range(apiserver.api, namespace, MAX_2)
    workload = holding("ReplicaSet", shapes.pod("model", limited("main", gpu="300m")))
    create = ("create", "-n", namespace, "-f", "-")
    done = apiserver.kubectl(*create, stdin=json.dumps(workload))
    assert f"\n{done.stderr}" in PAGE
    pod = json.dumps(child(apiserver.api.read(workload, namespace)))
    user = "--as=system:serviceaccount:kube-system:replicaset-controller"
    done = apiserver.kubectl(*create, user, stdin=pod, check=False)
    (refusal,) = done.stderr.splitlines()  # no warning, which nobody would read
    assert refusal.endswith(REFUSAL)


def child(owner: Json) -> Json:
    """Return the pod that a controller makes of its template."""
    reference = {**{key: owner[key] for key in ("apiVersion", "kind")}, "controller": True}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    template = owner["spec"]["template"]
    metadata = {**template["metadata"], "generateName": "model-", "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    "item", [{"max": {"cpu": "1"}}, {"defaultRequest": {"cpu": "1"}}], ids=["limit", "request"]
)
def test_a_pod_with_the_defaults_of_a_limit_range_may_be_applied_again(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, item: Json, how: str
) -> None:
    policies.limit_range(apiserver.api, namespace, item)
    manifest = json.dumps(shapes.pod("model", limited("main", gpu="300m")))

    def apply(command: tuple[str, ...]) -> Json:
        apiserver.kubectl(*command, "-n", namespace, "-f", "-", stdin=manifest)
        found = apiserver.api.get(f"/api/v1/namespaces/{namespace}/pods/model")
        spec: Json = found["spec"]
        return spec

    first = apply(HOW["client-side"])
    assert [apply(HOW[how]) for _ in range(3)] == [first] * 3


def test_a_limit_range_that_comes_later_leaves_a_pod_alone(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    manifest = json.dumps(shapes.pod("model", limited("main", gpu="300m")))
    apply = ("apply", "-n", namespace, "-f", "-")
    apiserver.kubectl(*apply, stdin=manifest)
    policies.limit_range(apiserver.api, namespace, MAX_2)
    # A new pod is refused, so the LimitRange is in force.
    other = manifest.replace('"model"', '"other"')
    assert REFUSAL in apiserver.kubectl(*apply, stdin=other, check=False).stderr
    apiserver.kubectl(*apply, stdin=manifest)
    apiserver.kubectl("label", "pod/model", "a=b", "-n", namespace)


def test_a_limit_range_is_not_asked_about_templates(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    """So a workload's warning names a limit that its pods may not get, and says so."""
    policies.limit_range(apiserver.api, namespace, {"max": {"cpu": "1"}})
    workload = holding("ReplicaSet", shapes.pod("model", limited("main", gpu="300m")))
    said = apiserver.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(workload))
    assert "a CPU limit of 2400m" in said.stderr
    assert "unless a LimitRange sets one" in said.stderr
    made = apiserver.api.create(child(apiserver.api.read(workload, namespace)), namespace)
    (container,) = made["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "1", names.COUNT: "30"}
    filled_in = made["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    assert "cpu limit for container main" in filled_in
