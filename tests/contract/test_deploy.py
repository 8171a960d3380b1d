"""The shipped manifest says what the programs mean, and no more rights than they need."""

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from certs.config import Config as Certs
from plugin.config import Config as Plugin
from vgpu import names, settings
from webhook.config import Config as Webhook

MANIFEST = Path(__file__).parents[2] / "deploy/webhook.yaml"
TEXT = MANIFEST.read_text()
OBJECTS: list[Any] = list(YAML(typ="safe").load_all(TEXT))
CONFIGS: dict[str, type] = {"certs": Certs, "plugin": Plugin, "webhook": Webhook}
VERSIONS = [f"1.{minor}" for minor in range(30, 38)]


def of(kind: str) -> list[Any]:
    return [each for each in OBJECTS if each["kind"] == kind]


def named(kind: str, name: str) -> Any:
    (found,) = [each for each in of(kind) if each["metadata"]["name"] == name]
    return found


WORKLOADS: dict[str, Any] = {
    each["metadata"]["name"]: each for each in of("Deployment") + of("DaemonSet")
}
PODS: dict[str, Any] = {name: each["spec"]["template"]["spec"] for name, each in WORKLOADS.items()}
CONTAINERS: dict[str, Any] = {name: pod["containers"][0] for name, pod in PODS.items()}
ENTRIES: list[Any] = named("MutatingWebhookConfiguration", names.WEBHOOK_CONFIGURATION)["webhooks"]


def identity(obj: Any) -> str:
    metadata = obj["metadata"]
    return f"{obj['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_has_its_kinds_schema(version: str) -> None:
    for obj in OBJECTS:
        assert kubernetes_validate.validate(obj, version, strict=True) == version


def test_the_schemas_are_strict() -> None:
    newest = kubernetes_validate.latest_version()
    assert newest.startswith(VERSIONS[-1]), "a newer Kubernetes is known: add it"
    misspelt = {**OBJECTS[0], "specc": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(misspelt, VERSIONS[0], strict=True)


def test_every_object_is_there_once_and_is_labelled() -> None:
    assert len({identity(each) for each in OBJECTS}) == len(OBJECTS)
    for each in OBJECTS:
        assert each["metadata"]["labels"]["app.kubernetes.io/name"] == "milligpu", identity(each)


def test_the_programs_are_these() -> None:
    assert set(CONTAINERS) == set(CONFIGS)
    assert all(len(pod["containers"]) == 1 and "initContainers" not in pod for pod in PODS.values())
    assert CONTAINERS["certs"]["args"] == ["certs"]
    assert CONTAINERS["plugin"]["args"] == ["plugin"]
    gunicorn = ["gunicorn", "-c", "python:webhook.gunicorn_conf", "webhook.wsgi:app"]
    assert CONTAINERS["webhook"]["args"] == gunicorn


def test_one_image_name_is_all_that_one_has_to_replace() -> None:
    assert {each["image"] for each in CONTAINERS.values()} == {"milligpu:dev"}
    assert TEXT.count("image: milligpu:dev\n") == len(CONTAINERS)


# Names.


def test_names_of_places() -> None:
    assert {each["metadata"]["name"] for each in of("Namespace")} == {
        names.NAMESPACE,
        names.NODE_NAMESPACE,
    }
    for each in OBJECTS:
        if "namespace" in each["metadata"]:
            assert each["metadata"]["namespace"] in {names.NAMESPACE, names.NODE_NAMESPACE}
    assert WORKLOADS["plugin"]["metadata"]["namespace"] == names.NODE_NAMESPACE
    assert named("Service", names.SERVICE)["metadata"]["namespace"] == names.NAMESPACE
    tls, _ = PODS["webhook"]["volumes"]
    assert tls["secret"]["secretName"] == names.SECRET_SERVING


def test_conditions_spell_our_names() -> None:
    quoted = {
        text
        for entry in ENTRIES
        for condition in entry["matchConditions"]
        for text in re.findall(r"'([^']+)'", condition["expression"])
    }
    ours = {text for text in quoted if "gpu" in text}
    assert ours == {
        *names.ASK_KEYS,
        *names.GRANT_KEYS,
        names.NVIDIA_GPU,
        names.ANNOTATION_ASK,
        names.PREFIX,
    }


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_every_entry_calls_us_in_the_same_way(entry: Any) -> None:
    first = ENTRIES[0]
    for key in ("admissionReviewVersions", "clientConfig", "namespaceSelector", "timeoutSeconds"):
        assert entry[key] == first[key]
    service = {"namespace": names.NAMESPACE, "name": names.SERVICE, "path": "/mutate", "port": 443}
    assert entry["clientConfig"] == {"service": service}
    assert entry["sideEffects"] == "None"
    assert entry["reinvocationPolicy"] == "IfNeeded"
    assert entry["matchPolicy"] == "Equivalent"
    excluded, label = entry["namespaceSelector"]["matchExpressions"]
    assert {names.NAMESPACE, names.NODE_NAMESPACE, "kube-system"} <= set(excluded["values"])
    assert (label["key"], label["operator"], label["values"]) == (
        names.LABEL_ADMISSION,
        "NotIn",
        [names.ADMISSION_DISABLED],
    )


def test_only_what_a_request_brings_may_fail_it() -> None:
    failing = {entry["name"]: entry for entry in ENTRIES if entry["failurePolicy"] == "Fail"}
    ignoring = [entry for entry in ENTRIES if entry["failurePolicy"] == "Ignore"]
    assert len(failing) == len(ignoring) == 2
    for entry in ignoring:
        twin = failing[entry["name"].removeprefix("stored-")]
        assert entry["rules"] == [{**rule, "operations": ["UPDATE"]} for rule in twin["rules"]]


# Settings.


@pytest.mark.parametrize("name", CONFIGS)
def test_settings_are_known_and_show_the_defaults(name: str) -> None:
    data = named("ConfigMap", name)["data"]
    assert data
    assert settings.read(CONFIGS[name], data) == CONFIGS[name]()
    assert CONTAINERS[name]["envFrom"] == [{"configMapRef": {"name": name}}]


def test_ports_and_folders_are_those_of_the_programs() -> None:
    (port,) = CONTAINERS["webhook"]["ports"]
    assert port == {"name": "https", "containerPort": Webhook().port}
    (port,) = CONTAINERS["plugin"]["ports"]
    assert port == {"name": "metrics", "containerPort": Plugin().port}
    for name in ("webhook", "plugin"):
        notes = WORKLOADS[name]["spec"]["template"]["metadata"]["annotations"]
        assert notes["prometheus.io/port"] == str(CONFIGS[name]().port)
    mounts = {each["name"]: each for each in CONTAINERS["webhook"]["volumeMounts"]}
    assert mounts["tls"]["mountPath"] == str(Webhook().tls_dir)
    mounts = {each["name"]: each for each in CONTAINERS["plugin"]["volumeMounts"]}
    assert mounts["device-plugins"]["mountPath"] == str(Plugin().device_plugin_dir)
    assert mounts["pod-resources"]["mountPath"] == str(Plugin().pod_resources.parent)


def test_the_webhook_has_time_to_end() -> None:
    assert PODS["webhook"]["terminationGracePeriodSeconds"] > Webhook().drain_seconds + 15


@pytest.mark.parametrize("name", ["webhook", "plugin"])
def test_probes_ask_the_program_and_not_only_its_port(name: str) -> None:
    scheme = "HTTPS" if name == "webhook" else "HTTP"
    for kind in ("readinessProbe", "livenessProbe"):
        probe = CONTAINERS[name][kind]["httpGet"]
        assert probe.get("scheme", "HTTP") == scheme
        assert probe["port"] == CONTAINERS[name]["ports"][0]["name"]


# Rights.


def test_no_key_and_no_certificate_is_in_the_file() -> None:
    assert not of("Secret")
    assert not any("caBundle" in entry["clientConfig"] for entry in ENTRIES)
    assert "BEGIN" not in TEXT
    assert not re.search(r"[A-Za-z0-9+/]{60,}", TEXT)


def test_rights_are_named_and_only_certs_has_any() -> None:
    rules = [rule for each in of("Role") + of("ClusterRole") for rule in each["rules"]]
    assert rules
    for rule in rules:
        assert "*" not in str(rule)
        assert rule.get("resourceNames") or rule["verbs"] == ["create"]
        assert set(rule["verbs"]) <= {"get", "patch", "create"}
    known = {names.SECRET_CA, names.SECRET_SERVING, names.WEBHOOK_CONFIGURATION}
    assert {name for rule in rules for name in rule.get("resourceNames", ())} == known
    for binding in of("RoleBinding") + of("ClusterRoleBinding"):
        (subject,) = binding["subjects"]
        assert (subject["name"], subject["namespace"]) == ("certs", names.NAMESPACE)
    # Creating Secrets cannot be restricted by name, so it is by namespace.
    assert all(
        "create" not in rule["verbs"] for each in of("ClusterRole") for rule in each["rules"]
    )


@pytest.mark.parametrize("name", PODS)
def test_only_certs_gets_a_token(name: str) -> None:
    assert PODS[name]["serviceAccountName"] == name
    assert PODS[name]["automountServiceAccountToken"] is (name == "certs")
    assert named("ServiceAccount", name)["automountServiceAccountToken"] is False


@pytest.mark.parametrize("name", PODS)
def test_pods_are_small_and_shut_in(name: str) -> None:
    pod, container = PODS[name], CONTAINERS[name]
    assert pod["enableServiceLinks"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    for part in ("requests", "limits"):
        assert set(container["resources"][part]) == {"cpu", "memory"}
    assert pod["priorityClassName"].startswith("system-")
    if name == "plugin":
        assert pod["securityContext"]["runAsUser"] == 0
    else:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert not any("hostPath" in volume for volume in pod.get("volumes", ()))


def test_the_webhook_is_never_away_on_purpose() -> None:
    spec = WORKLOADS["webhook"]["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert named("PodDisruptionBudget", "webhook")["spec"]["maxUnavailable"] == 1
    labels = WORKLOADS["webhook"]["spec"]["template"]["metadata"]["labels"]
    assert named("PodDisruptionBudget", "webhook")["spec"]["selector"]["matchLabels"] == labels
    assert named("Service", names.SERVICE)["spec"]["selector"] == labels


def test_never_two_plugins_on_a_node() -> None:
    assert WORKLOADS["plugin"]["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] == 0
    assert PODS["plugin"]["tolerations"] == [{"operator": "Exists"}]
    environment = {each.pop("name"): each for each in deepcopy(CONTAINERS["plugin"]["env"])}
    assert environment == {
        names.ENV_VISIBLE_DEVICES: {"value": "all"},
        "NVIDIA_DRIVER_CAPABILITIES": {"value": "utility"},
        "MILLIGPU_NODE_NAME": {
            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}
        },
    }
