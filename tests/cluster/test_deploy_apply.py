"""The shipped manifest on a real API server: applied, and applied again."""

import json
from random import Random

import pytest
from ruamel.yaml import YAML

from tests.cluster.api import ApiError
from tests.cluster.controlplane import ControlPlane
from tests.cluster.shapes import pod
from tests.cluster.webhooks import SHIPPED
from tests.contract.test_deploy import identity
from vgpu import names

pytestmark = pytest.mark.apiserver

HOW = {"client-side": ("apply",), "server-side": ("apply", "--server-side")}


def versions(plane: ControlPlane) -> dict[str, str]:
    """Return the stored version of everything that the manifest makes."""
    answer = plane.kubectl("get", "-f", str(SHIPPED), "-o", "json").stdout
    found = {}
    for each in json.loads(answer)["items"]:
        metadata = each["metadata"]
        place = f"{each['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"
        found[place] = metadata["resourceVersion"]
    return found


@pytest.mark.parametrize("how", HOW)
def test_applied_twice_it_changes_nothing(plane: ControlPlane, how: str) -> None:
    apply, manifest = HOW[how], ("-f", str(SHIPPED))
    assert plane.kubectl(*apply, *manifest).stderr == ""  # no warning, such as Pod Security's
    first = versions(plane)
    assert f"MutatingWebhookConfiguration//{names.WEBHOOK_CONFIGURATION}" in first
    plane.kubectl(*apply, *manifest)
    assert versions(plane) == first
    assert plane.kubectl("diff", *apply[1:], *manifest, check=False).returncode == 0


@pytest.mark.parametrize("seed", range(2))
def test_in_whatever_order_it_arrives_nobody_else_waits(plane: ControlPlane, seed: int) -> None:
    plane.kubectl("create", "serviceaccount", "default", check=False)
    waiting = [each for each in YAML(typ="safe").load_all(SHIPPED) if each]
    Random(seed).shuffle(waiting)  # noqa: S311
    names_of = {identity(each) for each in waiting}
    first = f"MutatingWebhookConfiguration//{names.WEBHOOK_CONFIGURATION}"
    waiting.sort(key=lambda each: identity(each) != first)  # before all that could answer it
    while waiting:
        left = []
        for each in waiting:
            done = plane.kubectl("apply", "-f", "-", stdin=json.dumps(each), check=False)
            if done.returncode:
                assert "not found" in done.stderr  # its namespace
                left.append(each)
            plane.api.create(pod("plain", {"name": "main"}), query="?dryRun=All")
        assert len(left) < len(waiting)
        waiting = left
    assert set(versions(plane)) == names_of


def test_pod_security_admits_our_pods(plane: ControlPlane) -> None:
    plane.kubectl("apply", "-f", str(SHIPPED))
    answer = plane.kubectl("get", "deployment,daemonset", "-A", "-o", "json").stdout
    pods = {}
    for each in json.loads(answer)["items"]:
        name, namespace = each["metadata"]["name"], each["metadata"]["namespace"]
        pods[name] = {"apiVersion": "v1", "kind": "Pod", **each["spec"]["template"]}
        pods[name]["metadata"] |= {"name": name, "namespace": namespace}
        plane.api.create(pods[name], query="?dryRun=All")
    assert set(pods) == {"certs", "webhook", "plugin"}
    # The same in the other namespace shows that somebody looks.
    pods["plugin"]["metadata"]["namespace"] = names.NAMESPACE
    with pytest.raises(ApiError, match='violates PodSecurity "restricted:latest"'):
        plane.api.create(pods["plugin"], query="?dryRun=All")
