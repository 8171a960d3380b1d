"""Many sharing pods at the same moment; `make burst` prints the times of five times as many."""

from pathlib import Path

import pytest

from tests.cluster import load
from tests.cluster.controlplane import ControlPlane
from tests.cluster.replicas import replicated
from vgpu import names

pytestmark = pytest.mark.apiserver


def test_a_burst_fails_no_admission(
    apiserver: ControlPlane, tmp_path: Path, namespace: str
) -> None:
    with replicated(apiserver, tmp_path):
        seen = load.burst(apiserver.api, namespace, load.sharing, 100)
    assert [failure.fault for failure in seen.failures] == []
    pods = apiserver.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    limits = [pod["spec"]["containers"][0]["resources"]["limits"] for pod in pods]
    assert [limit[names.COUNT] for limit in limits] == ["30"] * 100
