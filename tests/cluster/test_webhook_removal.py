"""An ask that is taken out of a manifest takes its grant along; every other update leaves it."""

import json
from typing import Any

import pytest

from milligpu.processes import Webhook
from tests.cluster import shapes
from tests.cluster.api import Json
from tests.cluster.controlplane import ControlPlane
from tests.cluster.shapes import KINDS, holding, limited
from vgpu import names

pytestmark = pytest.mark.apiserver

# A Job's template cannot change, whoever asks.
TEMPLATES = [kind for kind in KINDS if kind not in ("Pod", "Job")]
SHARE = {"limits": {names.COUNT: "30"}, "requests": {names.COUNT: "30"}}


class Applied:
    """One object that is applied again and again."""

    def __init__(self, plane: ControlPlane, namespace: str, kind: str = "Deployment") -> None:
        self.plane, self.namespace, self.kind = plane, namespace, kind

    def manifest(self, **limits: str) -> Json:
        container = limited("main", **limits) if limits else {"name": "main"}
        return holding(self.kind, shapes.pod("model", container, {"name": "other"}))

    def apply(self, manifest: Json, *options: str) -> None:
        command = ("apply", "-n", self.namespace, "-f", "-", *options)
        self.plane.kubectl(*command, stdin=json.dumps(manifest))

    def read(self) -> Json:
        return self.plane.api.read(self.manifest(), self.namespace)

    def resources(self) -> Any:
        return shapes.held(self.read())["spec"]["containers"][0].get("resources") or {}

    def amounts(self) -> Json:
        """All that the container is given, whichever side says so."""
        return {key: value for side in self.resources().values() for key, value in side.items()}

    def kubectl(self, *command: str) -> None:
        self.plane.kubectl(*command, "-n", self.namespace)


@pytest.mark.parametrize("how", [(), ("--server-side",)], ids=["client-side", "server-side"])
@pytest.mark.parametrize("kind", TEMPLATES)
def test_an_ask_taken_out_takes_its_grant_along(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, kind: str, how: tuple[str, ...]
) -> None:
    obj = Applied(apiserver, namespace, kind)
    obj.apply(obj.manifest(gpu="300m", memory="1Gi"), *how)
    assert obj.resources()["limits"] == {names.COUNT: "30", "memory": "1Gi"}
    obj.apply(obj.manifest(memory="1Gi"), *how)
    assert obj.resources().get("limits") == {"memory": "1Gi"}
    assert names.COUNT not in (obj.resources().get("requests") or {})
    obj.apply(obj.manifest(gpu="200m", memory="1Gi"), *how)
    assert obj.resources()["limits"] == {names.COUNT: "20", "memory": "1Gi"}
    obj.apply(obj.manifest(), *how)
    assert obj.amounts() == {}


@pytest.mark.parametrize("how", [(), ("--server-side",)], ids=["client-side", "server-side"])
@pytest.mark.parametrize("asked", [names.ASK, names.NVIDIA_GPU])
@pytest.mark.parametrize("zero", [names.ASK, names.NVIDIA_GPU])
def test_zero_takes_the_grant_along(
    apiserver: ControlPlane,
    webhook: Webhook,
    namespace: str,
    how: tuple[str, ...],
    asked: str,
    zero: str,
) -> None:
    obj = Applied(apiserver, namespace)
    obj.apply(obj.manifest(**{asked: "300m"}), *how)
    assert obj.amounts() == {names.COUNT: "30"}
    obj.apply(obj.manifest(**{zero: "0"}), *how)
    assert obj.amounts() == ({} if zero == names.ASK else {zero: "0"})


@pytest.mark.parametrize("how", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_from_the_limits_form_to_the_annotation_form(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, how: tuple[str, ...]
) -> None:
    obj = Applied(apiserver, namespace)
    obj.apply(obj.manifest(gpu="300m"), *how)
    manifest = obj.manifest()
    manifest["spec"]["template"]["metadata"]["annotations"] = {names.ANNOTATION_ASK: "main=500m"}
    obj.apply(manifest, *how)
    assert obj.amounts() == {}


@pytest.mark.parametrize("how", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_a_count_in_place_of_the_ask_is_the_manifests_own(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, how: tuple[str, ...]
) -> None:
    obj = Applied(apiserver, namespace)
    obj.apply(obj.manifest(gpu="300m"), *how)
    obj.apply(obj.manifest(**{names.COUNT: "30"}), *how)
    assert obj.resources()["limits"] == {names.COUNT: "30"}
    obj.apply(obj.manifest(**{names.COUNT: "50"}), *how)
    assert obj.resources()["limits"] == {names.COUNT: "50"}
    assert obj.resources().get("requests", {}).get(names.COUNT, "50") == "50"


def test_of_two_managers_the_last_that_asks_decides(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    obj = Applied(apiserver, namespace)
    one, two = ("--server-side", "--field-manager=one"), ("--server-side", "--field-manager=two")
    obj.apply(obj.manifest(gpu="300m"), *one)
    # The first one's ask is not stored as it was sent, so the second has to insist.
    obj.apply(obj.manifest(gpu="300m"), *two, "--force-conflicts")
    obj.apply(obj.manifest(), *one)
    assert obj.resources() == SHARE
    obj.apply(obj.manifest(), *two)
    assert obj.amounts() == {}


def test_without_its_records_nothing_is_known_to_be_removed(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    obj = Applied(apiserver, namespace)
    obj.apply(obj.manifest(gpu="300m"), "--server-side")
    apiserver.api.patch(obj.manifest(), {"metadata": {"managedFields": [{}]}}, namespace)
    obj.apply(obj.manifest(), "--server-side")
    assert obj.resources() == SHARE


def test_without_last_applied_nothing_is_known_to_be_removed(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    obj = Applied(apiserver, namespace)
    obj.apply(obj.manifest(gpu="300m"))
    obj.kubectl("annotate", "deployment/model", f"{names.ANNOTATION_LAST_APPLIED}-")
    obj.apply(obj.manifest())
    assert obj.resources() == SHARE


def test_helms_way_to_another_resource_replaces_the_grant(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    """Helm sends the difference of its two manifests as a patch, and keeps no record there."""
    obj = Applied(apiserver, namespace)
    apiserver.api.create(obj.manifest(gpu="300m"), namespace)
    container = {"name": "main", "resources": {"limits": {names.NVIDIA_GPU: "1", "gpu": None}}}
    change = {"spec": {"template": {"spec": {"containers": [container]}}}}
    obj.kubectl("patch", "deployment/model", "-p", json.dumps(change))
    assert obj.resources()["limits"] == {names.NVIDIA_GPU: "1"}
    assert names.COUNT not in (obj.resources().get("requests") or {})


@pytest.mark.parametrize("how", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_every_other_update_leaves_the_grant(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, how: tuple[str, ...]
) -> None:
    obj = Applied(apiserver, namespace)
    obj.apply(obj.manifest(gpu="300m"), *how)
    obj.kubectl("scale", "deployment/model", "--replicas=2")
    obj.kubectl("set", "image", "deployment/model", "main=other")
    obj.kubectl("set", "env", "deployment/model", "A=b")
    obj.kubectl("label", "deployment/model", "a=b")
    obj.kubectl("rollout", "restart", "deployment/model")
    apiserver.api.update(obj.read(), namespace)
    assert obj.resources() == SHARE


def test_what_is_left_in_requests_follows_the_limit(
    apiserver: ControlPlane, webhook: Webhook, namespace: str
) -> None:
    """A person edits the limit that is stored; the request beside it is ours, not theirs."""
    obj = Applied(apiserver, namespace)
    apiserver.api.create(obj.manifest(gpu="300m"), namespace)
    stored = obj.read()
    limits = shapes.held(stored)["spec"]["containers"][0]["resources"]["limits"]
    del limits[names.COUNT]
    limits[names.ASK] = "500m"
    apiserver.api.update(stored, namespace)
    assert obj.resources()["limits"] == {names.COUNT: "50"}
    stored = obj.read()
    del shapes.held(stored)["spec"]["containers"][0]["resources"]["limits"]
    apiserver.api.update(stored, namespace)
    assert obj.amounts() == {}
