"""What GitOps tools compare: dry runs of server-side apply, and manifests with what is stored."""

import json
from copy import deepcopy
from typing import Any

import pytest
from ruamel.yaml import YAML

from milligpu.processes import Webhook
from tests.cluster import shapes, webhooks
from tests.cluster.api import Json
from tests.cluster.controlplane import ControlPlane
from tests.cluster.shapes import KINDS, holding, limited
from tests.documents import ROOT, blocks
from vgpu import names

pytestmark = pytest.mark.apiserver

PAGE = (ROOT / "docs/how-to/gitops.md").read_text()
TOOLS = {"Argo CD": "argocd-controller", "Flux": "kustomize-controller"}
"""As whom the tools apply."""
FIRST = {
    "client-side": ("apply",),
    "server-side": ("apply", "--server-side", "--force-conflicts", "--field-manager"),
}
BUNDLE = {"caBundle": "Y2VydHM="}
TEMPLATES = [kind for kind in KINDS if kind != "Pod"]


def rules() -> dict[str, list[str]]:
    """Return the page's ignoreDifferences for workloads: paths by kind, without jq's guards."""
    documents = [YAML(typ="safe").load(each) for each in blocks(PAGE, "yaml")]
    found = [
        rule for each in documents for rule in each.get("spec", {}).get("ignoreDifferences", ())
    ]
    paths = {
        each["kind"]: [path.replace("?", "") for path in each["jqPathExpressions"]]
        for each in found
    }
    del paths[webhooks.KIND]
    return paths


RULES = rules()


def test_the_page_has_rules_for_kinds_that_there_are() -> None:
    assert {"Deployment", "StatefulSet", "CronJob"} == RULES.keys() <= set(TEMPLATES)


def manifest(kind: str, form: str, ask: str = "300m") -> Json:
    """Return a workload that asks for a share in its limits or in its template's annotation."""
    if form == "limits":
        return holding(kind, shapes.pod("model", limited("main", gpu=ask)))
    note = {names.ANNOTATION_ASK: ask}
    return holding(kind, shapes.pod("model", {"name": "main"}, annotations=note))


def apply(plane: ControlPlane, namespace: str, how: tuple[str, ...], obj: Json) -> Json:
    command = (*how, "-n", namespace, "-f", "-", "-o", "json")
    answer: Json = json.loads(plane.kubectl(*command, stdin=json.dumps(obj)).stdout)
    return compared(answer)


def compared(obj: Json) -> Json:
    """Return what a tool compares: all but who owns what, and the version."""
    rest = deepcopy(obj)
    for key in ("managedFields", "resourceVersion"):
        rest["metadata"].pop(key, None)
    return rest


def predicted(plane: ControlPlane, namespace: str, manager: str, obj: Json) -> Json:
    """Return what the object would be after a server-side apply, as the tools ask."""
    how = (*FIRST["server-side"], manager, "--dry-run=server")
    return apply(plane, namespace, how, obj)


@pytest.mark.parametrize("form", ["limits", "annotation"])
@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("first", FIRST)
def test_a_dry_run_predicts_what_is_stored(
    apiserver: ControlPlane,
    webhook: Webhook,
    namespace: str,
    first: str,
    tool: str,
    kind: str,
    form: str,
) -> None:
    obj, manager = manifest(kind, form), TOOLS[tool]
    how = (*FIRST[first], manager) if first == "server-side" else FIRST[first]
    apply(apiserver, namespace, how, obj)
    stored = compared(apiserver.api.read(obj, namespace))
    assert predicted(apiserver, namespace, manager, obj) == stored


def ours(obj: Json) -> Json:
    """Return the template's container."""
    container: Json = shapes.held(obj)["spec"]["containers"][0]
    return container


@pytest.mark.parametrize("kind", [kind for kind in TEMPLATES if kind != "Job"])
def test_a_changed_ask_shows_in_a_dry_run(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, kind: str
) -> None:
    manager = TOOLS["Argo CD"]
    apply(apiserver, namespace, (*FIRST["server-side"], manager), manifest(kind, "limits"))
    stored = apiserver.api.read(manifest(kind, "limits"), namespace)
    new = predicted(apiserver, namespace, manager, manifest(kind, "limits", "500m"))
    assert ours(stored)["resources"]["limits"] == {names.COUNT: "30"}
    assert ours(new)["resources"]["limits"] == {names.COUNT: "50"}
    # Nobody owns the count. Argo CD without IncludeMutationWebhook looks only at what it owns.
    owned = json.dumps(stored["metadata"]["managedFields"])
    assert '"f:gpu"' in owned
    assert names.COUNT not in owned


def missing(wanted: Any, stored: Any, path: str = "") -> list[str]:
    """Return where a manifest says something that is not stored: the difference of three ways."""
    if isinstance(wanted, dict) and isinstance(stored, dict):
        pairs = [(f"{path}.{key}", value, stored.get(key)) for key, value in wanted.items()]
    elif isinstance(wanted, list) and isinstance(stored, list) and len(wanted) == len(stored):
        pairs = [(f"{path}[]", *each) for each in zip(wanted, stored, strict=True)]
    else:
        return [] if wanted == stored else [path]
    return [each for below, here, there in pairs for each in missing(here, there, below)]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_all_that_a_comparison_of_three_ways_misses_is_the_ask(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, kind: str
) -> None:
    obj = manifest(kind, "limits")
    apiserver.api.create(obj, namespace)
    (path,) = missing(obj, apiserver.api.read(obj, namespace))
    assert path.endswith(".containers[].resources.limits.gpu")
    assert RULES.get(kind, [path]) == [path]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_with_an_annotation_it_sees_nothing(
    apiserver: ControlPlane, webhook: Webhook, namespace: str, kind: str
) -> None:
    obj = manifest(kind, "annotation")
    apiserver.api.create(obj, namespace)
    assert missing(obj, apiserver.api.read(obj, namespace)) == []


def test_a_dry_run_leaves_the_bundle_alone(apiserver: ControlPlane) -> None:
    (config,) = [
        each
        for each in YAML(typ="safe").load_all(webhooks.SHIPPED)
        if each["kind"] == webhooks.KIND
    ]
    config["metadata"]["name"] = "of-gitops"
    for each in config["webhooks"]:  # it must not have a part in other tests
        each["namespaceSelector"] = {"matchLabels": {"no": "namespace"}}
    manager = TOOLS["Argo CD"]
    apply(apiserver, "default", (*FIRST["server-side"], manager), config)
    try:
        filled = [{"name": each["name"], "clientConfig": BUNDLE} for each in config["webhooks"]]
        patch = ("patch", webhooks.KIND, "of-gitops", "--field-manager=milligpu-certs", "-p")
        apiserver.kubectl(*patch, json.dumps({"webhooks": filled}))
        stored = compared(apiserver.api.read(config))
        assert all(each["clientConfig"].items() >= BUNDLE.items() for each in stored["webhooks"])
        assert predicted(apiserver, "default", manager, config) == stored
        again = apply(apiserver, "default", (*FIRST["server-side"], manager), config)
        assert again == stored
    finally:
        apiserver.api.delete(config)
