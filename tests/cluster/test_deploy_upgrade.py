"""The manifest and the chart of an earlier state and of this one, one over the other on a real API
server: nothing of the former stays, and a user's settings are kept, replaced, or asked about.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.cluster import earlier
from tests.cluster.api import Json
from tests.cluster.controlplane import ControlPlane, control_plane
from tests.cluster.helm import Helm
from tests.cluster.processes import ClusterError
from tests.cluster.webhooks import SHIPPED
from tests.contract.test_deploy import identity
from vgpu import names

# The first run builds Helm.
pytestmark = [pytest.mark.apiserver, pytest.mark.long, pytest.mark.timeout(900)]

KINDS = (
    "resourcequotas,configmaps,networkpolicies,serviceaccounts,roles,rolebindings,services,"
    "poddisruptionbudgets,deployments,daemonsets,"
    "namespaces,clusterroles,clusterrolebindings,mutatingwebhookconfigurations"
)
LABEL = "app.kubernetes.io/name=milligpu"
KNOB, OTHER = "MILLIGPU_CPUS_PER_GPU", "MILLIGPU_THREADS"
"""A setting that stands in the manifest, and one that does not."""
Put: TypeAlias = Callable[[ControlPlane, Path], object]
"""Puts the state of a checkout into a cluster, whatever is there."""


def client_side(plane: ControlPlane, files: Path) -> None:
    plane.kubectl("apply", "-f", str(files / "deploy/webhook.yaml"))


def server_side(plane: ControlPlane, files: Path) -> None:
    plane.kubectl("apply", "--server-side", "-f", str(files / "deploy/webhook.yaml"))


def helm4(plane: ControlPlane, files: Path) -> None:
    Helm(plane)("upgrade", "--install", "milligpu", str(files / "deploy/chart"))


def helm3(plane: ControlPlane, files: Path) -> None:
    Helm(plane, "helm3")("upgrade", "--install", "milligpu", str(files / "deploy/chart"))


WAYS = {client_side: client_side, server_side: client_side, helm4: helm4, helm3: helm4}
"""Each with the one that stores the same."""


@pytest.fixture(scope="module")
def before() -> Iterator[Path]:
    """The files of the earlier state."""
    with earlier.checkout() as files:
        yield files


NOW = SHIPPED.parents[1]


def test_a_clone_that_lacks_the_earlier_state_is_told_what_to_fetch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(earlier, "COMMIT", "0" * 40)
    with pytest.raises(ClusterError, match=f"git fetch origin {'0' * 40}"), earlier.checkout():
        pass


def state(plane: ControlPlane) -> dict[str, Json]:
    """Return all that is ours, less what tells how it came there."""
    text = plane.kubectl("get", KINDS, "-A", "-l", LABEL, "-o", "json").stdout
    return {identity(each): _bare(each) for each in json.loads(text)["items"]}


def _bare(obj: Json) -> Json:
    metadata = {key: obj["metadata"].get(key) for key in ("name", "namespace", "labels")}
    own = {k: v for k, v in obj.items() if k not in ("metadata", "status")}
    if obj["kind"] == "Service":
        own["spec"] = {k: v for k, v in own["spec"].items() if "clusterIP" not in k}
    return {**own, "metadata": metadata}


@cache
def fresh(put: Put) -> dict[str, Json]:
    """Return what a first installation of this state stores."""
    with control_plane() as alone:
        put(alone, NOW)
        return state(alone)


@pytest.mark.parametrize(("put", "first"), WAYS.items())
def test_nothing_of_the_former_state_stays(
    plane: ControlPlane, put: Put, first: Put, before: Path
) -> None:
    """There and back, what is stored is what a first installation would have stored."""
    put(plane, before)
    then = state(plane)
    put(plane, NOW)
    assert state(plane) == fresh(first)
    assert len(then) > 20
    assert state(plane) != then
    put(plane, before)
    assert state(plane) == then


def settings(plane: ControlPlane) -> dict[str, str]:
    data: dict[str, str] = plane.api.read(CONFIGMAP)["data"]
    return data


CONFIGMAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "webhook", "namespace": names.NAMESPACE},
}


def by_hand(plane: ControlPlane, **data: str) -> None:
    """Change settings as people do in a hurry."""
    patch = json.dumps({"data": data})
    place = ("-n", names.NAMESPACE, "configmap", "webhook")
    plane.kubectl("patch", *place, "--type=merge", "-p", patch)


@pytest.mark.parametrize("put", [client_side, helm3])
def test_a_setting_changed_by_hand_is_put_back_and_one_added_stays(
    plane: ControlPlane, put: Put
) -> None:
    put(plane, NOW)
    by_hand(plane, **{KNOB: "12", OTHER: "4"})
    put(plane, NOW)
    assert settings(plane)[KNOB] == "8"
    assert settings(plane)[OTHER] == "4"


@pytest.mark.parametrize("put", [server_side, helm4])
def test_applied_server_side_a_setting_changed_by_hand_is_asked_about(
    plane: ControlPlane, put: Put
) -> None:
    put(plane, NOW)
    by_hand(plane, **{OTHER: "4"})
    put(plane, NOW)
    assert settings(plane)[OTHER] == "4"
    by_hand(plane, **{KNOB: "12"})
    with pytest.raises(AssertionError, match=rf'conflict with "kubectl-patch".*\.data\.{KNOB}'):
        put(plane, NOW)
    assert settings(plane)[KNOB] == "12"


@pytest.mark.parametrize("put", [client_side, server_side])
def test_a_setting_that_only_a_newer_manifest_has_goes_with_it(
    plane: ControlPlane, put: Put, tmp_path: Path
) -> None:
    """One that a program does not know would keep it from starting."""
    newer = tmp_path / "deploy/webhook.yaml"
    newer.parent.mkdir()
    line = f'  {KNOB}: "8"\n'
    text = SHIPPED.read_text()
    assert text.count(line) == 1
    newer.write_text(text.replace(line, f'{line}  {OTHER}: "4"\n'))
    put(plane, tmp_path)
    assert settings(plane)[OTHER] == "4"
    put(plane, NOW)
    assert OTHER not in settings(plane)
