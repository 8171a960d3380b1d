"""The policy that the page on threats shows does what is said of it, on a real API server."""

from collections.abc import Iterator
from typing import Any

import pytest

from milligpu.processes import Webhook
from tests.cluster import shapes
from tests.cluster.api import ApiError, Json
from tests.cluster.controlplane import ControlPlane
from tests.cluster.eventually import eventually
from tests.documents import ROOT, blocks
from vgpu import names

pytestmark = pytest.mark.apiserver

PAGE = (ROOT / "docs/explanation/threat-model.md").read_text()
REFUSAL = "NVIDIA_VISIBLE_DEVICES is for containers with a GPU; write gpu in limits"
ALL: Json = {"name": names.ENV_VISIBLE_DEVICES, "value": "all"}
SECRET: Json = {
    "name": names.ENV_VISIBLE_DEVICES,
    "valueFrom": {"secretKeyRef": {"name": "cards", "key": "all"}},
}
OTHER: Json = {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "all"}


def body(*env: Json, **limits: str) -> Json:
    """Return a container with variables; `_` in a limit's name stands for `nvidia.com/gpu`."""
    named = {names.NVIDIA_GPU if name == "_" else name: value for name, value in limits.items()}
    return {"name": "main", "env": list(env), "resources": {"limits": named}}


@pytest.fixture(scope="module", autouse=True)
def _policy(apiserver: ControlPlane, webhook: Webhook) -> Iterator[None]:
    """The page's policy, in force."""
    [objects] = blocks(PAGE, "yaml")
    apiserver.kubectl("create", "-f", "-", stdin=objects)
    assert REFUSAL in objects

    def in_force() -> bool:
        try:
            apiserver.api.create(shapes.pod("probe", body(ALL)), query="?dryRun=All")
        except ApiError as error:
            return REFUSAL in str(error)
        return False

    try:
        eventually(in_force, "the policy")
        yield
    finally:
        apiserver.kubectl("delete", "-f", "-", stdin=objects)


@pytest.mark.parametrize("variable", [ALL, SECRET], ids=["value", "from a Secret"])
@pytest.mark.parametrize("section", ["containers", "initContainers"])
def test_a_container_without_a_gpu_may_not_name_cards(
    apiserver: ControlPlane, namespace: str, section: str, variable: Json
) -> None:
    pod = shapes.pod("model", {"name": "other"})
    pod["spec"].setdefault(section, []).append({**body(OTHER, variable), "image": "none"})
    with pytest.raises(ApiError, match=REFUSAL):
        apiserver.api.create(pod, namespace)


@pytest.mark.parametrize("amount", ["0", "0m", "0e3"])
@pytest.mark.parametrize("name", ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", names.COUNT])
def test_a_limit_of_none_is_no_gpu(
    apiserver: ControlPlane, namespace: str, name: str, amount: str
) -> None:
    container = body(ALL, **{name: amount})
    with pytest.raises(ApiError, match=REFUSAL):
        apiserver.api.create(shapes.pod("model", container), namespace)


def test_a_device_that_is_no_gpu_is_none(apiserver: ControlPlane, namespace: str) -> None:
    with pytest.raises(ApiError, match=REFUSAL):
        apiserver.api.create(shapes.pod("m", body(ALL, **{"nvidia.com/hostdev": "1"})), namespace)


@pytest.mark.parametrize(
    "container",
    [
        {"name": "main"},
        body(OTHER),
        body({**ALL, "value": names.VOID}),
        body(ALL, _="1"),
        body(ALL, **{"nvidia.com/mig-1g.5gb": "2"}),
        body(ALL, gpu="300m"),
        body(ALL, gpu="1"),
    ],
    ids=[
        "plain",
        "another variable",
        "void",
        "NVIDIA's card",
        "a MIG slice",
        "a share",
        "a whole card",
    ],
)
def test_others_are_left_alone(apiserver: ControlPlane, namespace: str, container: Json) -> None:
    apiserver.api.create(shapes.pod("model", container), namespace)


def test_a_neighbour_of_a_share_is_made_void_and_passes(
    apiserver: ControlPlane, namespace: str
) -> None:
    pod = shapes.pod("model", body(gpu="300m"), {**body(ALL), "name": "loader"})
    made = apiserver.api.create(pod, namespace)
    assert made["spec"]["containers"][1]["env"] == [{**ALL, "value": names.VOID}]


def debug(plane: ControlPlane, namespace: str, *env: Json) -> Any:
    """Add an ephemeral container to the pod, as `kubectl debug` does."""
    added = [{"name": "debugger", "image": "none", "env": list(env)}]
    path = f"/api/v1/namespaces/{namespace}/pods/model/ephemeralcontainers"
    change = {"spec": {"ephemeralContainers": added}}
    return plane.api.request("PATCH", path, change, "application/strategic-merge-patch+json")


def test_an_ephemeral_container_may_not_either(apiserver: ControlPlane, namespace: str) -> None:
    apiserver.api.create(shapes.pod("model", body(gpu="300m")), namespace)
    with pytest.raises(ApiError, match=REFUSAL):
        debug(apiserver, namespace, ALL)
    debug(apiserver, namespace, OTHER)


def test_a_pod_from_before_can_still_be_changed(apiserver: ControlPlane, namespace: str) -> None:
    """The policy is not asked about updates: labels, finalizers and ends go on."""
    made = apiserver.api.create(shapes.pod("model", body(ALL, _="1")), namespace)
    apiserver.api.patch(made, {"metadata": {"labels": {"a": "b"}}}, namespace)
    apiserver.api.delete(made, namespace)


def test_the_plugin_may(apiserver: ControlPlane) -> None:
    """Its own pods ask for all cards, to look at them."""
    # Others use this API server too, and may have made the namespace.
    apiserver.kubectl("create", "namespace", names.NODE_NAMESPACE, check=False)
    apiserver.api.create(shapes.pod("plugin", body(ALL)), names.NODE_NAMESPACE)
