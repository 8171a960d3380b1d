"""The chart on a real API server, by Helm 3 and 4: installed, changed, taken back, taken away."""

import json
import re
from collections.abc import Iterator

import pytest

from tests import chart
from tests.chart import CHART
from tests.cluster.api import ApiError, Json
from tests.cluster.controlplane import ControlPlane, control_plane
from tests.cluster.helm import Helm
from tests.cluster.shapes import limited, pod
from tests.cluster.webhooks import CONFIGURATION, SHIPPED
from tests.contract.test_chart import FOREIGN, VARIANTS, changed, pods
from tests.contract.test_deploy import identity
from tests.documents import ROOT
from vgpu import names

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(900)]  # the first run builds Helm

CLUSTER_WIDE = "mutatingwebhookconfigurations,clusterroles,clusterrolebindings"
PAGE = ROOT / "docs/how-to/helm.md"
LABEL = ("-l", "app.kubernetes.io/name=milligpu")


@pytest.fixture(scope="module")
def installed() -> Iterator[ControlPlane]:
    """One to which what the defaults make was applied."""
    with control_plane() as started:
        started.kubectl("apply", "--server-side", "-f", "-", stdin=chart.text())
        yield started


@pytest.fixture(params=["helm", "helm3"])
def helm(request: pytest.FixtureRequest, plane: ControlPlane) -> Helm:
    """Helm before that API server."""
    return Helm(plane, request.param)


def workloads(plane: ControlPlane) -> dict[str, Json]:
    answer = plane.kubectl("get", "deployment,daemonset", "-A", *LABEL, "-o", "json").stdout
    return {identity(each): each for each in json.loads(answer)["items"]}


def generations(plane: ControlPlane) -> dict[str, int]:
    """Return how often what a workload is to be has changed."""
    return {name: each["metadata"]["generation"] for name, each in workloads(plane).items()}


def templates(plane: ControlPlane) -> dict[str, Json]:
    return {name: each["spec"]["template"] for name, each in workloads(plane).items()}


def bundles(plane: ControlPlane) -> set[str]:
    """Return the caBundles of the entries."""
    entries = plane.api.read(CONFIGURATION)["webhooks"]
    return {each["clientConfig"].get("caBundle", "") for each in entries}


def test_a_release_lives_and_ends(plane: ControlPlane, helm: Helm) -> None:
    said = helm("install", "milligpu", str(CHART))
    assert "milligpu is on its way" in said
    first = generations(plane)
    assert len(first) == 3

    bundle = "Y2VydHM="  # as the keeper writes it: what a release changes must leave it alone
    entries = plane.api.read(CONFIGURATION)["webhooks"]
    written = [{"name": each["name"], "clientConfig": {"caBundle": bundle}} for each in entries]
    patch = json.dumps({"webhooks": written})
    kind = ("mutatingwebhookconfiguration", names.WEBHOOK_CONFIGURATION)
    plane.kubectl("patch", *kind, "-p", patch)

    helm("upgrade", "milligpu", str(CHART))
    assert generations(plane) == first  # the same again changes nothing
    more = ("webhook.replicas=3", "certs.settings.MILLIGPU_INTERVAL=2m")
    helm("upgrade", "milligpu", str(CHART), "--set", ",".join(more))
    assert {name for name, each in generations(plane).items() if each > first[name]} == {
        f"Deployment/{names.NAMESPACE}/{name}" for name in ("webhook", "certs")
    }
    assert bundles(plane) == {bundle}
    helm("rollback", "milligpu", "1")
    assert bundles(plane) == {bundle}

    helm("uninstall", "milligpu")
    assert plane.kubectl("get", CLUSTER_WIDE, *LABEL, "-o", "name").stdout == ""
    for name in (names.NAMESPACE, names.NODE_NAMESPACE):
        left = plane.api.get(f"/api/v1/namespaces/{name}")
        assert "deletionTimestamp" in left["metadata"]
        for kinds in ("deployment,daemonset,service,configmap", "role,rolebinding"):
            assert plane.kubectl("get", kinds, "-n", name, *LABEL, "-o", "name").stdout == ""
    refuses_nothing(plane)


def test_namespaces_are_left_as_the_page_says(plane: ControlPlane, helm: Helm) -> None:
    """Helm deletes what it no longer renders, but not what says that it is to be kept."""
    (command,) = re.findall(r"^kubectl (annotate namespace .*)$", PAGE.read_text(), re.MULTILINE)
    own = ("--set", "namespaces.create=false")
    helm("install", "milligpu", str(CHART))
    plane.kubectl(*command.split())
    helm("upgrade", "milligpu", str(CHART), *own)
    assert phases(plane) == {"Active"}
    helm("upgrade", "milligpu", str(CHART), "--reset-values")  # takes them back
    plane.kubectl(*command.replace("=keep", "-").split())
    helm("upgrade", "milligpu", str(CHART), *own)
    assert phases(plane) == {"Terminating"}


def phases(plane: ControlPlane) -> set[str]:
    """Return the states of both namespaces."""
    both = (names.NAMESPACE, names.NODE_NAMESPACE)
    return {plane.api.get(f"/api/v1/namespaces/{name}")["status"]["phase"] for name in both}


def refuses_nothing(plane: ControlPlane) -> None:
    """Pods are made as on a cluster that never knew us."""
    plane.kubectl("create", "serviceaccount", "default", check=False)
    plane.api.create(pod("plain", {"name": "main"}), query="?dryRun=All")
    with pytest.raises(ApiError, match="must be a standard resource") as refused:
        plane.api.create(pod("asking", limited("main", gpu="300m")), query="?dryRun=All")
    assert "webhook" not in str(refused.value)


def test_what_was_applied_as_a_file_is_taken_over(plane: ControlPlane, helm: Helm) -> None:
    plane.kubectl("apply", "-f", str(SHIPPED))
    before = templates(plane)
    helm("install", "milligpu", str(CHART), "--take-ownership", "--set", "restartOnChange=false")
    assert templates(plane) == before  # no pod is replaced
    helm("uninstall", "milligpu")
    assert plane.kubectl("get", CLUSTER_WIDE, *LABEL, "-o", "name").stdout == ""


def test_what_was_applied_with_other_settings_is_taken_over_as_the_page_says(
    plane: ControlPlane,
) -> None:
    """Of Helm 4 only: the other one does not look who has set a field."""
    helm, setting = Helm(plane), 'MILLIGPU_SETTLE_SECONDS: "10"'
    assert setting in SHIPPED.read_text()
    plane.kubectl(
        "apply", "-f", "-", stdin=SHIPPED.read_text().replace(setting, f'{setting[:-3]}0"')
    )
    taking = ("upgrade", "--install", "milligpu", str(CHART), "--take-ownership")
    with pytest.raises(AssertionError, match=r"conflict with .*kubectl-client-side-apply"):
        helm(*taking)
    helm(*taking, "--force-conflicts")
    assert "MILLIGPU_SETTLE_SECONDS: 10" in helm("get", "values", "milligpu", "--all")
    helm("uninstall", "milligpu")
    for namespace in (names.NAMESPACE, names.NODE_NAMESPACE):
        left = plane.kubectl("get", "deployment,daemonset,configmap", "-n", namespace, *LABEL)
        assert left.stdout == ""


def known(objects: list[Json]) -> list[Json]:
    """Return those whose kinds a bare cluster has."""
    return [each for each in objects if each["apiVersion"].partition("/")[0] not in FOREIGN]


def test_the_api_server_takes_whatever_values_make(installed: ControlPlane) -> None:
    stream = [each for values in VARIANTS.values() for each in known([*changed(values).values()])]
    assert len(stream) > len(VARIANTS)
    command = ("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-")
    documents = "\n---\n".join(json.dumps(each) for each in stream)
    done = installed.kubectl(*command, "--validate=strict", stdin=documents)
    assert done.stderr == ""  # no warning: nothing of it is old or in vain
    assert done.stdout.count("serverside-applied") == len(stream)


def test_pod_security_admits_our_pods_whatever_the_values(installed: ControlPlane) -> None:
    installed.kubectl("create", "priorityclass", "high")
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "nvidia"}
    installed.kubectl(
        "create", "-f", "-", stdin=json.dumps({**runtime, "metadata": {"name": "nvidia"}})
    )
    tried = 0
    for values in VARIANTS.values():
        for name, template in pods(list(changed(values).values())).items():
            namespace = names.NODE_NAMESPACE if name == "plugin" else names.NAMESPACE
            made = {"apiVersion": "v1", "kind": "Pod", **template}
            metadata = {**template["metadata"], "name": name, "namespace": namespace}
            installed.api.create({**made, "metadata": metadata}, query="?dryRun=All")
            tried += 1
    assert tried > len(VARIANTS) / 2
