"""The chart: the one file is made of it, and every value does what its sentence says."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from certs.config import Config as Certs
from certs.plan import SERVED_AS
from plugin.config import Config as Plugin
from tests import chart
from tests.chart import CHART, RenderError, objects
from tests.contract.test_deploy import VERSIONS, identity
from tests.documents import ROOT, blocks
from vgpu import names, settings
from webhook.config import Config as Webhook

pytestmark = pytest.mark.timeout(900)  # the first run builds Helm

HELMS = ("helm", "helm3")
TEXT = (CHART / "values.yaml").read_text()
DEFAULTS: dict[str, Any] = YAML(typ="safe").load(TEXT)
CONFIGS: dict[str, type] = {"webhook": Webhook, "certs": Certs, "plugin": Plugin}
FIXED = {
    # What the chart itself decides: ports and folders inside a container, and who the node is.
    "webhook": {"MILLIGPU_HOST", "MILLIGPU_PORT", "MILLIGPU_TLS_DIR"},
    "certs": set[str](),
    "plugin": {
        *("MILLIGPU_HOST", "MILLIGPU_PORT", "MILLIGPU_NODE_NAME"),
        *("MILLIGPU_DEVICE_PLUGIN_DIR", "MILLIGPU_POD_RESOURCES"),
    },
}
OPEN = ("labels", "annotations", "nodeSelector", "affinity", "resources")
"""Values that are set as a whole."""


def nested(path: str, value: Any) -> dict[str, Any]:
    """Return values in which the one at a path such as `image.tag` is set."""
    for key in reversed(path.split(".")):
        value = {key: value}
    result: dict[str, Any] = value
    return result


def leaves(values: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict) and value and key not in OPEN:
            yield from leaves(value, f"{path}{key}.")
        else:
            yield path + key


def by_identity(rendered: list[Any]) -> dict[str, Any]:
    return {identity(each): each for each in rendered}


def changed(values: dict[str, Any]) -> dict[str, Any]:
    """Return the objects that differ from those of the defaults."""
    before, after = by_identity(objects()), by_identity(objects(values))
    return {name: each for name, each in after.items() if before.get(name) != each}


# The one file.


@pytest.mark.parametrize("helm", HELMS)
def test_the_one_file_is_made_of_the_chart(helm: str) -> None:
    said = "deploy/webhook.yaml is not what the chart makes: make manifests"
    assert chart.manifest(helm) == chart.MANIFEST.read_text(), said


def test_the_one_file_is_all_that_the_defaults_install() -> None:
    file = [each for each in YAML(typ="safe").load_all(chart.MANIFEST) if each]
    assert by_identity(file) == by_identity(objects({"restartOnChange": False}))


def test_what_is_rendered_depends_on_the_values_only() -> None:
    first = chart.text()
    assert chart.text() == first
    # No place, no cluster, no time of the release's life has a part in it.
    assert chart.text("--namespace", "other", "--is-upgrade", "--kube-version", "1.37.0") == first
    written = "".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))
    called = " ".join(re.findall(r"{{(.*?)}}", written))
    assert len(called) > 5000
    assert not re.search(r"\b(lookup|gen[A-Z]\w+|rand\w+|now|uuidv4|env|getHostByName)\b", called)
    assert "helm.sh/" not in written  # neither hooks nor names of releases


def test_the_version_is_the_products() -> None:
    declared = YAML(typ="safe").load((CHART / "Chart.yaml").read_text())
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    assert declared["version"] == declared["appVersion"] == version[1]


# Values.

SELINUX = {"type": "container_device_plugin_t"}
TAINT = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
AFFINITY = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 1,
                "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
            }
        ]
    }
}
RESOURCES = {
    "requests": {"cpu": "100m", "memory": "1Gi"},
    "limits": {"cpu": 3, "memory": "1Gi"},
}
PODS = {
    "resources": (RESOURCES, {"limits": {"cpu": "much"}}),
    "nodeSelector": ({"pool": "x"}, {"pool": 1}),
    "tolerations": ([TAINT], [{**TAINT, "effekt": "NoSchedule"}]),
    "affinity": (AFFINITY, []),
}
VALUES: dict[str, tuple[Any, Any]] = {
    "image.repository": ("registry.example:5000/team/milligpu", "registry.example/milligpu 1"),
    "image.tag": ("1.0", "1 0"),
    "image.digest": ("sha256:" + 64 * "a", "sha256:abc"),
    "image.pullPolicy": ("Always", "Sometimes"),
    "image.pullSecrets": (["registry"], "registry"),
    "namespaces.create": (False, "no"),
    "namespaces.labels": ({"team": "ml"}, {"team": "m l"}),
    "labels": ({"example.com/team": "ml", "cost": "12"}, {"cost": 12}),
    "annotations": ({"example.com/why": 'it\'s "so": {a}\n#'}, {"why": 1}),
    "restartOnChange": (False, 0),
    "networkPolicy": (False, {"enabled": True}),
    "priorityClasses.control": ("high", "HIGH"),
    "priorityClasses.node": ("", "HIGH"),
    "monitoring.by": ("pod-monitor", "service-monitor"),
    "monitoring.labels": ({"release": "prometheus"}, ["release"]),
    "monitoring.interval": ("15s", 15),
    "admission.optIn": (True, "enabled"),
    "admission.leftOut": (["ingress"], ["Ingress"]),
    "webhook.replicas": (3, 0),
    "webhook.disruptionBudget": (False, 1),
    "certManager.enabled": (True, True),  # wrong without an issuer
    "certManager.issuer.name": ("internal", "In ternal"),
    "certManager.issuer.kind": ("Issuer", ""),
    "certManager.issuer.group": ("awspca.cert-manager.io", ""),
    "certManager.duration": ("48h", "2d"),
    "certManager.renewBefore": ("12h", 12),
    "plugin.runtimeClassName": ("nvidia", ["nvidia"]),
    "plugin.kubeletFolder": ("/var/lib/k0s/kubelet", "var/lib/kubelet"),
    "plugin.devicePluginFolder": ("/var/snap/device-plugins", ""),
    "plugin.privileged": (True, "true"),
    "plugin.seLinuxOptions": (SELINUX, {"typ": "spc_t"}),
    **{f"{name}.{key}": value for name in CONFIGS for key, value in PODS.items()},
}
"""For each value but the settings another that is right, and one that is not."""
NEEDED: dict[str, dict[str, Any]] = {
    "monitoring.labels": {"monitoring": {"by": "pod-monitor"}},
    "monitoring.interval": {"monitoring": {"by": "pod-monitor"}},
    "certManager": {"certManager": {"enabled": True, "issuer": {"name": "ca"}}},
    "certManager.duration": {
        "certManager": {"enabled": True, "issuer": {"name": "ca"}, "renewBefore": "12h"}
    },
}
"""What must be set as well for a value to have a meaning."""
SETTINGS: dict[str, tuple[Any, Any]] = {
    "CPUS_PER_GPU": ("7500m", "8 CPUs"),
    "CPU_LIMIT_MAX": (0.5, 2000),
    "WHOLE_CARDS": (False, "no"),
    "TOLERATIONS": ([{"key": "a", "operator": "Exists"}], True),
    "RUNTIME_CLASS": ("nvidia", "NVIDIA"),
    "TEMPLATE_PATHS": (
        [{"group": "ray.io", "version": "v1", "resource": "rayclusters", "path": "spec.t"}],
        {},
    ),
    "THREADS": (4, 0),
    "DRAIN_SECONDS": (2.5, 61),
    "INTERVAL": ("5m", "5 minutes"),
    "CA_LIFE": ("2000d", 2000),
    "LEAF_LIFE": ("12h", "12"),
    "SECRET_DELAY": ("90s", "1.5m"),
    "INVENTORY": ("simulated", "fake"),
    "INVENTORY_FILE": ("one-t4", ""),
    "SETTLE_SECONDS": (0, -1),
    "PLACEMENT": ("spread", "Spread"),
    "ADVERTISE": ("all", "some"),
    "DEVICE_LIST_STRATEGY": ("volume-mounts", "env"),
    "MEMORY_MARGIN_MIB": (0, "512Mi"),
    "SIMULATE_BESIDE_GPUS": (True, 1),
    "CARDS": ("Tesla T4,0", 5),
    "CARDS_EXCEPT": ("0", []),
    "BESIDE_OTHERS": ("true", "yes"),
    "POLL_SECONDS": (0.5, 0),
    "CDI_DIR": ("/etc/cdi", "cdi"),
    "CDI_KIND": ("nvidia.com/gpu", "nvidia.com"),
    "DEV_DIR": ("/host/dev", "dev"),
    "DRIVER_ROOT": ("/opt/driver", "driver"),
    "PROBE_SECONDS": (1, 4000),
    "IGNORED_XIDS": (13, "13;31"),
    "LOG_LEVEL": ("debug", "verbose"),
}
"""For each setting a right value that is not its default, and a wrong one."""


def right(path: str) -> dict[str, Any]:
    """Return values in which one is not the default, and what it needs to have a meaning."""
    values = deepcopy(NEEDED.get(path) or NEEDED.get(path.split(".")[0]) or {})
    *way, last = path.split(".")
    place = values
    for key in way:
        place = place.setdefault(key, {})
    place[last] = VALUES[path][0]
    return values


def own_settings(program: str) -> dict[str, tuple[Any, Any]]:
    """Return those of a program that the chart takes, by their names in full."""
    own = {settings.variable(item) for item in fields(CONFIGS[program])} - FIXED[program]
    return {name: SETTINGS[name.removeprefix(names.ENV_OURS)] for name in sorted(own)}


VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "cert-manager": NEEDED["certManager"],
    "opt-in": {"admission": {"optIn": True}},
    "cdi": {"plugin": {"settings": {"MILLIGPU_DEVICE_LIST_STRATEGY": "cdi"}}},
    "driver": {"plugin": {"privileged": True, "settings": {"MILLIGPU_DRIVER_ROOT": "/opt/driver"}}},
    **{path: right(path) for path in VALUES},
    **{
        f"{name}.settings": {name: {"settings": {key: value for key, (value, _) in all_.items()}}}
        for name, all_ in ((name, own_settings(name)) for name in CONFIGS)
    },
}


def test_every_value_is_tried() -> None:
    own = {path for path in leaves(DEFAULTS) if ".settings." not in path}
    assert own == set(VALUES)


def test_every_value_has_a_sentence() -> None:
    lines = TEXT.splitlines()
    nameless = [
        line.strip()
        for above, line in zip(["", *lines], lines, strict=False)
        if re.match(r"(?!.*(requests|limits): {) *[A-Za-z_]+: *\S", line)
        and not above.strip().startswith("# ")
    ]
    assert nameless == []
    assert len(re.findall(r"^ *# ", TEXT, re.MULTILINE)) > len(VALUES)


def test_settings_are_explained_alike_where_they_are_set() -> None:
    explained = re.compile(r"((?:^ *# .*\n)+) *(MILLIGPU_\w+):", re.MULTILINE)
    made = (CHART / "templates" / "settings.yaml").read_text()

    def sentences(text: str) -> dict[str, str]:
        return {
            key: " ".join(said.replace("#", " ").split()) for said, key in explained.findall(text)
        }

    ours, theirs = sentences(TEXT), sentences(made)
    assert len(theirs) == 16
    del theirs["MILLIGPU_CA_LIFE"]  # two lives in one sentence
    assert {key: ours[key] for key in theirs} == theirs


@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_made_has_its_kinds_schema(name: str) -> None:
    rendered = objects(VARIANTS[name])
    assert len(by_identity(rendered)) == len(rendered) > 15
    for each in rendered:
        group = each["apiVersion"].partition("/")[0]
        if group in FOREIGN:
            FOREIGN[group](each)
            continue
        assert not re.search("alpha|beta", each["apiVersion"])
        has_its_kinds_schema(json.dumps(each))


@cache
def has_its_kinds_schema(text: str) -> None:
    for version in VERSIONS:
        kubernetes_validate.validate(json.loads(text), version, strict=True)


def certificate(found: Any) -> None:
    """Check a Certificate as cert-manager's own definition of it does."""
    assert found["kind"] == "Certificate"
    spec = found["spec"]
    wanted = {"secretName", "issuerRef", "dnsNames", "duration", "renewBefore", "privateKey"}
    assert set(spec) == {*wanted, "usages"}
    assert spec["secretName"] == names.SECRET_SERVING
    assert tuple(spec["dnsNames"]) == SERVED_AS
    assert set(spec["issuerRef"]) == {"name", "kind", "group"}
    assert spec["privateKey"] == {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"}
    assert spec["usages"] == ["server auth"]


def pod_monitor(found: Any) -> None:
    """Check a PodMonitor as the Prometheus operator's own definition of it does."""
    assert found["kind"] == "PodMonitor"
    assert set(found["spec"]) == {"selector", "podMetricsEndpoints"}
    (endpoint,) = found["spec"]["podMetricsEndpoints"]
    known = {"port", "scheme", "interval", "honorLabels", "tlsConfig"}
    assert {"port", "interval", "honorLabels"} <= set(endpoint) <= known
    assert endpoint["honorLabels"] is True


FOREIGN = {"cert-manager.io": certificate, "monitoring.coreos.com": pod_monitor}


@pytest.mark.parametrize("path", VALUES)
def test_a_value_is_heard(path: str) -> None:
    needed = NEEDED.get(path) or NEEDED.get(path.split(".")[0]) or {}
    before = objects({} if path == "certManager.enabled" else needed)
    assert objects(right(path)) != before


def refused(values: dict[str, Any], helm: str = "helm") -> list[str]:
    """Return what Helm says against values, line by line."""
    with pytest.raises(RenderError) as found:
        chart.text(values=values, helm=helm)
    return re.findall(r"^- (.*)", str(found.value), re.MULTILINE)


@pytest.mark.parametrize("path", VALUES)
def test_a_wrong_value_is_named(path: str) -> None:
    (said,) = refused(nested(path, VALUES[path][1]))
    place = "certManager.issuer.name" if path == "certManager.enabled" else path
    assert said.startswith(f"at '/{place.replace('.', '/')}")


@pytest.mark.parametrize("helm", HELMS)
def test_all_that_is_wrong_is_named_at_once(helm: str) -> None:
    wrong = {"networkPolicy": 1, "webhook": {"replicas": 0}, "image": {"tag": "1 0"}}
    assert set(refused(wrong, helm)) == {
        "at '/networkPolicy': got number, want boolean",
        "at '/webhook/replicas': minimum: got 0, want 1",
        "at '/image/tag': '1 0' does not match pattern '^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$'",
    }


def test_an_unknown_value_is_named_at_any_depth() -> None:
    places = {path.rpartition(".")[0] for path in leaves(DEFAULTS)}
    assert len(places) > 10
    for place in places:
        (said,) = refused(nested(f"{place}.unheardOf".lstrip("."), 1))
        where = f"/{place.replace('.', '/')}" if place else ""
        assert said == f"at '{where}': additional properties 'unheardOf' not allowed"
    # failurePolicy is the design's: an entry that sees stored objects must never fail them.
    assert refused({"admission": {"failurePolicy": "Fail"}})


# Settings.


@pytest.mark.parametrize("program", CONFIGS)
def test_every_setting_can_be_set(program: str) -> None:
    rendered = by_identity(objects(VARIANTS[f"{program}.settings"]))
    namespace = names.NODE_NAMESPACE if program == "plugin" else names.NAMESPACE
    data = rendered[f"ConfigMap/{namespace}/{program}"]["data"]
    assert set(data) == set(own_settings(program))
    config: Any = settings.read(CONFIGS[program], data)
    for item in fields(CONFIGS[program]):
        if settings.variable(item) in data:
            assert getattr(config, item.name) != item.default, item.name


def test_words_that_a_setting_may_be_are_those_of_the_program() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    tried = 0
    for program, config in CONFIGS.items():
        known = schema[program]["properties"]["settings"]["properties"]
        types = get_type_hints(config)
        for item in fields(config):
            words = known.get(settings.variable(item), {}).get("enum", ())
            for word in words:
                text = word if isinstance(word, str) else json.dumps(word)
                settings.read(config, {settings.variable(item): text})
                tried += 1
            if get_origin(types[item.name]) is Literal:
                assert set(words) == set(get_args(types[item.name])), item.name
    assert tried > 20


@pytest.mark.parametrize("program", CONFIGS)
def test_a_wrong_setting_is_named(program: str) -> None:
    wrong = {name: wrong for name, (_, wrong) in own_settings(program).items()}
    said = refused({program: {"settings": wrong | dict.fromkeys(FIXED[program], "1")}})
    for name in wrong:
        assert any(each.startswith(f"at '/{program}/settings/{name}'") for each in said), name
    for name in FIXED[program]:
        assert any(f"'{name}'" in each and "not allowed" in each for each in said), name


LIVES = {
    "as shipped": {},
    "as short as can be": {"LEAF_LIFE": "465s"},
    "too short": {"LEAF_LIFE": "464s"},
    "as short as can be, with slow looks": {"LEAF_LIFE": "735s", "INTERVAL": "1m"},
    "too short for slow looks": {"LEAF_LIFE": "12m", "INTERVAL": "1m"},
    "too short for slow kubelets": {"LEAF_LIFE": "10m", "SECRET_DELAY": "3m"},
    "a third of the CA's": {"LEAF_LIFE": "365d"},
    "more than a third of the CA's": {"LEAF_LIFE": "8761h"},
    "longer than the CA's": {"CA_LIFE": "80d"},
}


@pytest.mark.parametrize("case", LIVES)
def test_lives_are_refused_that_the_program_would_refuse(case: str) -> None:
    given = {f"{names.ENV_OURS}{name}": value for name, value in LIVES[case].items()}
    values = {"certs": {"settings": given}}
    try:
        settings.read(Certs, given)
    except settings.SettingsError as fault:
        (said,) = refused(values)
        sentence, _, _ = str(fault).partition("LEAF_LIFE: ")[2].partition(":")
        assert said.startswith(f"at '/certs/settings/MILLIGPU_LEAF_LIFE': {sentence}")
    else:
        assert objects(values)


def test_cert_manager_has_time_to_renew() -> None:
    manager = {"enabled": True, "issuer": {"name": "ca"}, "duration": "48h", "renewBefore": "48h"}
    (said,) = refused({"certManager": manager})
    assert said == "at '/certManager/renewBefore': must be less than certManager.duration"


@pytest.mark.parametrize("program", CONFIGS)
def test_pods_are_replaced_when_their_settings_change(program: str) -> None:
    name = "MILLIGPU_LOG_LEVEL"
    found = changed(nested(f"{program}.settings.{name}", "debug"))
    assert {each.rpartition("/")[2] for each in found} == {program}
    assert len(found) == 2
    still = by_identity(objects({"restartOnChange": False}))
    for each in still.values():
        assert "checksum" not in json.dumps(each)


def test_the_webhook_has_as_long_to_end_as_it_drains() -> None:
    found = changed({"webhook": {"settings": {"MILLIGPU_DRAIN_SECONDS": "30.5"}}})
    pod = found["Deployment/milligpu/webhook"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 31 + 25


# What they do.


def pods(rendered: list[Any]) -> dict[str, Any]:
    return {
        each["metadata"]["name"]: each["spec"]["template"]
        for each in rendered
        if each["kind"] in ("Deployment", "DaemonSet")
    }


def plugin(values: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Return the plugin's pod, its container, and what is mounted where from the host."""
    spec = pods(objects({"plugin": values}))["plugin"]["spec"]
    (container,) = spec["containers"]
    host = {each["name"]: each["hostPath"] for each in spec["volumes"] if "hostPath" in each}
    mounts = {
        each["mountPath"]: host[each["name"]]["path"]
        for each in container["volumeMounts"]
        if each["name"] in host
    }
    assert len(mounts) == len(host)
    return spec, container, mounts


BARE = {
    "/var/lib/kubelet/device-plugins": "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet/pod-resources": "/var/lib/kubelet/pod-resources",
}


def test_folders_of_the_kubelet() -> None:
    assert plugin({})[2] == BARE
    _, _, mounts = plugin({"kubeletFolder": "/data/kubelet"})
    assert mounts == BARE | {"/var/lib/kubelet/pod-resources": "/data/kubelet/pod-resources"}
    _, _, mounts = plugin({"devicePluginFolder": "/data/sockets"})
    assert mounts == BARE | {"/var/lib/kubelet/device-plugins": "/data/sockets"}


CDI = "MILLIGPU_DEVICE_LIST_STRATEGY", "cdi"


def test_the_folder_of_specs_is_mounted_where_we_write_them() -> None:
    for more, folder in ({}, "/var/run/cdi"), ({"MILLIGPU_CDI_DIR": "/etc/cdi"}, "/etc/cdi"):
        _, _, mounts = plugin({"settings": dict([CDI]) | more})
        assert mounts == BARE | {folder: folder}
    theirs = {"MILLIGPU_CDI_KIND": "nvidia.com/gpu"}
    assert plugin({"settings": dict([CDI]) | theirs})[2] == BARE
    assert plugin({"settings": {"MILLIGPU_CDI_DIR": "/etc/cdi"}})[2] == BARE


def test_the_drivers_folder_is_mounted_and_found() -> None:
    _, container, mounts = plugin({"settings": {"MILLIGPU_DRIVER_ROOT": "/opt/nvidia"}})
    assert mounts == BARE | {"/usr/local/nvidia": "/opt/nvidia"}
    library = {"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}
    assert library in container["env"]
    assert {"name": "driver", "mountPath": "/usr/local/nvidia", "readOnly": True} in container[
        "volumeMounts"
    ]


def test_a_privileged_plugin_is_one_that_the_api_server_takes() -> None:
    _, container, _ = plugin({"privileged": True, "seLinuxOptions": SELINUX})
    security = container["securityContext"]
    assert security["privileged"] is True
    assert security["allowPrivilegeEscalation"] is True  # false would be refused beside it
    assert security["seLinuxOptions"] == SELINUX


def entries(values: dict[str, Any]) -> list[Any]:
    found: list[Any] = by_identity(objects(values))["MutatingWebhookConfiguration//milligpu"][
        "webhooks"
    ]
    return found


def test_namespaces_are_left_out_or_asked_in() -> None:
    for entry in entries({"admission": {"leftOut": ["ingress", "storage"]}}):
        excluded, label = entry["namespaceSelector"]["matchExpressions"]
        assert excluded["values"][-2:] == ["ingress", "storage"]
        assert {names.NAMESPACE, names.NODE_NAMESPACE, "kube-system"} < set(excluded["values"])
        assert label["values"] == [names.ADMISSION_DISABLED]
    for entry in entries({"admission": {"optIn": True}}):
        excluded, label = entry["namespaceSelector"]["matchExpressions"]
        assert {names.NAMESPACE, names.NODE_NAMESPACE, "kube-system"} < set(excluded["values"])
        assert label == {"key": names.LABEL_ADMISSION, "operator": "In", "values": ["enabled"]}


@pytest.mark.parametrize("name", VARIANTS)
def test_no_value_makes_a_stored_object_fail(name: str) -> None:
    policies = {each["name"]: each["failurePolicy"] for each in entries(VARIANTS[name])}
    assert policies == {
        "pods.milligpu.io": "Fail",
        "templates.milligpu.io": "Fail",
        "stored-pods.milligpu.io": "Ignore",
        "stored-templates.milligpu.io": "Ignore",
    }


def test_with_cert_manager_nobody_of_ours_has_rights() -> None:
    before, after = by_identity(objects()), by_identity(objects(NEEDED["certManager"]))
    gone = set(before) - set(after)
    assert {each.partition("/")[0] for each in gone} == {
        *("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        *("ConfigMap", "Deployment", "NetworkPolicy"),
    }
    assert {each.rpartition("/")[2] for each in gone} == {"certs", "milligpu-certs"}
    assert set(after) - set(before) == {f"Certificate/{names.NAMESPACE}/{names.SECRET_SERVING}"}
    configuration = after[f"MutatingWebhookConfiguration//{names.WEBHOOK_CONFIGURATION}"]
    assert configuration["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": f"{names.NAMESPACE}/{names.SECRET_SERVING}"
    }
    issuer = {"name": "ca", "kind": "ClusterIssuer", "group": "cert-manager.io"}
    made = after[f"Certificate/{names.NAMESPACE}/{names.SECRET_SERVING}"]["spec"]
    assert made["issuerRef"] == issuer


def test_labels_and_annotations_are_everywhere() -> None:
    marks = {"labels": {"team": "ml"}, "annotations": {"why": "so"}}
    rendered = objects(marks | NEEDED["certManager"] | {"monitoring": {"by": "pod-monitor"}})
    for each in [*rendered, *pods(rendered).values()]:
        assert each["metadata"]["labels"]["team"] == "ml"
        assert each["metadata"]["annotations"]["why"] == "so"
    for each in rendered:  # what pods are found by stays as it was: it cannot be changed
        assert "ml" not in json.dumps(each["spec"].get("selector", "")) if "spec" in each else True
    ours = {"labels": {"app.kubernetes.io/name": "mine"}}
    assert changed(ours) == {}


def test_namespaces_of_ones_own() -> None:
    rendered = objects({"namespaces": {"create": False}})
    assert "Namespace" not in {each["kind"] for each in rendered}
    labels = {"team": "ml", "pod-security.kubernetes.io/enforce": "privileged"}
    for name, level in ((names.NAMESPACE, "restricted"), (names.NODE_NAMESPACE, "privileged")):
        made = by_identity(objects({"namespaces": {"labels": labels}}))[f"Namespace//{name}"]
        assert made["metadata"]["labels"]["team"] == "ml"
        assert made["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == level


def test_what_looks_like_a_number_stays_a_text() -> None:
    odd = {
        "image": {"tag": "1.10", "pullSecrets": ["007"]},
        "labels": {"cost": "1e3", "on": "yes"},
        "priorityClasses": {"control": "123", "node": "true"},
        "admission": {"leftOut": ["0x10", "null"]},
        "plugin": {"runtimeClassName": "1e3"},
        "webhook": {"replicas": 1_000_000},
    }
    rendered = objects(odd)
    for each in rendered:
        if each["apiVersion"].partition("/")[0] not in FOREIGN:
            kubernetes_validate.validate(each, VERSIONS[-1], strict=True)
    found = pods(rendered)
    assert found["plugin"]["spec"]["runtimeClassName"] == "1e3"
    assert found["webhook"]["spec"]["imagePullSecrets"] == [{"name": "007"}]
    assert found["certs"]["metadata"]["labels"]["on"] == "yes"


def test_quotas_follow_the_priority_classes() -> None:
    classes = {"control": "high", "node": "system-cluster-critical"}
    rendered = objects({"priorityClasses": classes})
    (quota,) = [each for each in rendered if each["kind"] == "ResourceQuota"]
    assert quota["metadata"]["namespace"] == names.NODE_NAMESPACE
    assert "system-cluster-critical" in json.dumps(quota)
    found = {name: each["spec"]["priorityClassName"] for name, each in pods(rendered).items()}
    assert found == {"webhook": "high", "certs": "high", "plugin": "system-cluster-critical"}


def test_the_image() -> None:
    def images(**image: str) -> set[str]:
        values = {"image": {"repository": "r.example/m", **image}}
        return {each["spec"]["containers"][0]["image"] for each in pods(objects(values)).values()}

    assert images(tag="1") == {"r.example/m:1"}
    digest = "sha256:" + 64 * "0"
    assert images(tag="1", digest=digest) == {f"r.example/m@{digest}"}
    for good in ("m", "r.example:5000/m", "localhost:5000/a/m"):
        assert images(repository=good, tag="1") == {f"{good}:1"}
    for bad in ("m:1", "r.example/m:1", "r.example:5000", "r.example//m", "m/", f"m@{digest}"):
        (said,) = refused({"image": {"repository": bad}})
        assert said.startswith("at '/image/repository'")


def test_the_image_is_pulled_alike_in_both_namespaces() -> None:
    rendered = objects({"image": {"pullSecrets": ["registry"], "pullPolicy": "Always"}})
    workloads = [each for each in rendered if each["kind"] in ("Deployment", "DaemonSet")]
    places = {each["metadata"]["namespace"] for each in workloads}
    assert places == {names.NAMESPACE, names.NODE_NAMESPACE}
    for pod in pods(rendered).values():
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
        assert pod["spec"]["containers"][0]["imagePullPolicy"] == "Always"


def test_metrics_are_found_in_one_way() -> None:
    def ways(by: str) -> tuple[set[str], int]:
        rendered = objects({"monitoring": {"by": by}})
        noted = {
            name
            for name, pod in pods(rendered).items()
            if "prometheus.io/scrape" in pod["metadata"].get("annotations", {})
        }
        return noted, sum(each["kind"] == "PodMonitor" for each in rendered)

    assert ways("annotations") == ({"webhook", "plugin"}, 0)
    assert ways("pod-monitor") == (set(), 2)
    assert ways("none") == (set(), 0)


def test_monitors_keep_our_labels() -> None:
    rendered = objects({"monitoring": {"by": "pod-monitor", "labels": {"release": "x"}}})
    monitors = [each for each in rendered if each["kind"] == "PodMonitor"]
    templates = pods(rendered)
    assert len(monitors) == 2
    for each in monitors:
        template = templates[each["metadata"]["name"]]
        assert each["metadata"]["labels"]["release"] == "x"
        wanted = each["spec"]["selector"]["matchLabels"]
        assert wanted.items() <= template["metadata"]["labels"].items()
        (endpoint,) = each["spec"]["podMetricsEndpoints"]
        assert endpoint["honorLabels"] is True
        ports = template["spec"]["containers"][0]["ports"]
        assert endpoint["port"] in {port["name"] for port in ports}
    # Without the kubelet's socket there would be no such labels to keep.
    assert "/var/lib/kubelet/pod-resources" in plugin({})[2]


def test_network_policies_leave_open_what_is_needed() -> None:
    rendered = objects()
    policies = {
        each["metadata"]["name"]: each["spec"]
        for each in rendered
        if each["kind"] == "NetworkPolicy"
    }
    ports = {
        name: [port["name"] for port in pod["spec"]["containers"][0].get("ports", ())]
        for name, pod in pods(rendered).items()
    }
    assert set(policies) == set(ports)
    for name, spec in policies.items():
        assert spec["podSelector"]["matchLabels"] == {
            "app.kubernetes.io/name": "milligpu",
            "app.kubernetes.io/component": name,
        }
        opened = [port["port"] for rule in spec.get("ingress", ()) for port in rule["ports"]]
        assert opened == ports[name]
        assert all(set(rule) == {"ports"} for rule in spec.get("ingress", ()))
        assert "egress" not in spec
    # Only who has a token has somebody to call.
    calling = {name for name, spec in policies.items() if "Egress" not in spec["policyTypes"]}
    tokens = {
        name for name, pod in pods(rendered).items() if pod["spec"]["automountServiceAccountToken"]
    }
    assert calling == tokens == {"certs"}


# Pages, and the command line.

BLOCKS = blocks((ROOT / "docs/how-to/helm.md").read_text(), "yaml")


def test_values_of_the_page_are_values() -> None:
    assert len(BLOCKS) > 8
    for block in BLOCKS:
        values = YAML(typ="safe").load(block)
        assert objects(values) != objects(), block


def custom(text: str) -> list[str]:
    """Return the names of the entries for custom resources."""
    documents = [each for each in YAML(typ="safe").load_all(text) if each]
    found = by_identity(documents)[f"MutatingWebhookConfiguration//{names.WEBHOOK_CONFIGURATION}"]
    return [each["name"] for each in found["webhooks"] if "custom-" in each["name"]]


def test_entries_for_custom_resources_come_behind_helm() -> None:
    (values,) = [YAML(typ="safe").load(each) for each in BLOCKS if "TEMPLATE_PATHS" in each]
    command = str(Path(sys.executable).parent / "milligpu")
    wanted = [names.ENTRY_CUSTOM_TEMPLATES, names.ENTRY_STORED_CUSTOM_TEMPLATES]
    plain = chart.text(values=values)
    assert custom(plain) == []
    piped = subprocess.run(
        [command, "render", "-"], input=plain, capture_output=True, text=True, check=True
    )
    assert custom(piped.stdout) == wanted
    arguments = [f"--post-renderer-args={each}" for each in ("render", "-")]
    behind = chart.text("--post-renderer", command, *arguments, values=values, helm="helm3")
    assert custom(behind) == wanted
