"""The harness itself: a real API server that judges as users' clusters do."""

import pytest

from tests.cluster.api import ApiError, Json
from tests.cluster.controlplane import ControlPlane
from vgpu.names import ASK

pytestmark = pytest.mark.apiserver


def pod(name: str, limits: dict[str, str]) -> Json:
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    metadata = {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container]},
    }


def test_a_plain_pod_is_stored_and_read_back(apiserver: ControlPlane, namespace: str) -> None:
    made = apiserver.api.create(pod("plain", {"cpu": "1"}), namespace)
    assert apiserver.api.read(made)["metadata"]["uid"] == made["metadata"]["uid"]
    assert apiserver.kubectl("get", "pod", "-n", namespace, "-o", "name").stdout == "pod/plain\n"


def test_without_our_webhook_an_ask_is_refused(apiserver: ControlPlane, namespace: str) -> None:
    with pytest.raises(ApiError, match="must be a standard resource for containers") as refusal:
        apiserver.api.create(pod("asks", {ASK: "300m"}), namespace)
    assert refusal.value.code == 422
