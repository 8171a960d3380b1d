import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from milligpu import kubeyaml, manifests, mutate
from milligpu.manifests import ManifestError
from milligpu.remarks import creation
from tests.strategies import objects
from tests.unit.webhook.objects import KINDS, holding
from vgpu import names
from vgpu.settings import SettingsError
from webhook.config import Config
from webhook.findings import Denied
from webhook.mutate import desired

Json = dict[str, Any]
Captured = pytest.CaptureFixture[str]

SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"
DEPLOYMENT = """\
# three models
apiVersion: apps/v1
kind: Deployment
metadata:
  name: models
spec:
  template:
    spec:
      containers:
      - name: a
        image: "x"   # odd
        resources:
          limits:
            gpu: 333m  # a third
"""
TRANSLATED = DEPLOYMENT.replace("gpu: 333m", "milligpu.io/vgpu: '34'").replace(
    "# a third\n", "# a third\n          requests:\n            milligpu.io/vgpu: '34'\n"
)


def file(tmp_path: Path, text: str, name: str = "my.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text, newline="")
    return path


def test_what_changes_is_written_and_all_else_is_as_it_was(tmp_path: Path, capfd: Captured) -> None:
    odd = "# values\ngpu:   {share: 300m}\n"
    path = file(tmp_path, f"---\n{SERVICE}---\n{DEPLOYMENT}--- # x\n{odd}")
    assert mutate.main([path], "object") == 0
    out, err = capfd.readouterr()
    assert out == f"---\n{SERVICE}---\n{TRANSLATED}--- # x\n{odd}"
    assert f"{path}:19: note: Deployment/models: container a: 333m is rounded up" in err


@pytest.mark.parametrize("first", [DEPLOYMENT, DEPLOYMENT.rstrip(), json.dumps({"a": "gpu"}), ""])
@pytest.mark.parametrize("second", [SERVICE, f"---\n{SERVICE}", f"\ufeff{SERVICE}", "", "# c\n"])
def test_files_are_joined_into_one_stream(
    tmp_path: Path, capfd: Captured, first: str, second: str
) -> None:
    paths = [
        file(tmp_path, text, f"{n}.yaml") for n, text in enumerate((first, second, DEPLOYMENT))
    ]
    assert mutate.main(paths, "object") == 0
    read = manifests.read(file(tmp_path, capfd.readouterr().out))
    alone = [manifests.read(path) for path in paths]
    assert [each.title for each in read.manifests] == [
        each.title for one in alone for each in one.manifests
    ]
    assert len(read.others) == sum(len(one.others) for one in alone)
    assert read.manifests[-1].document == kubeyaml.load(TRANSLATED)[1]


@pytest.mark.parametrize("form", ["object", "pod"])
def test_of_a_denied_object_nothing_is_printed(tmp_path: Path, capfd: Captured, form: str) -> None:
    good = file(tmp_path, DEPLOYMENT, "good.yaml")
    bad = file(tmp_path, SERVICE + "---\n" + DEPLOYMENT.replace("333m", "1500m"), "bad.yaml")
    assert mutate.main([good, bad, good], form) == 1
    out, err = capfd.readouterr()
    assert out == ""
    at = "spec.template.spec.containers[0].resources.limits[gpu]"
    assert f"{bad}:18: error: Deployment/models: {at}: 1500m is not allowed" in err
    assert err.splitlines()[-1] == "milligpu mutate: nothing is printed, for there are errors"


def test_a_file_that_cannot_be_read_ends_it(tmp_path: Path, capfd: Captured) -> None:
    good, bad = file(tmp_path, DEPLOYMENT), file(tmp_path, "gpu: [\n", "bad.yaml")
    with pytest.raises(ManifestError, match=rf"{bad}, line 2: "):
        mutate.main([good, bad], "object")
    assert capfd.readouterr().out == ""


def test_settings_are_those_of_the_webhook(
    tmp_path: Path, capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path, DEPLOYMENT.replace("333m", "2"))
    assert mutate.main([path], "object") == 0
    assert f"{names.WHOLE}: '2'" in capfd.readouterr().out
    monkeypatch.setenv("MILLIGPU_WHOLE_CARDS", "false")
    assert mutate.main([path], "object") == 1
    monkeypatch.setenv("MILLIGPU_WHOLE_CARDS", "perhaps")
    with pytest.raises(SettingsError, match="MILLIGPU_WHOLE_CARDS"):
        mutate.main([path], "object")


CUSTOM = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: j}
spec:
  pytorchReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
          - name: pytorch
            resources: {limits: {gpu: 300m}}
"""


def test_an_ask_that_is_not_reached_is_said_and_left_alone(
    tmp_path: Path, capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path, CUSTOM)
    assert mutate.main([path], "object") == 0
    out, err = capfd.readouterr()
    assert out == CUSTOM
    assert f"{path}:11: note: PyTorchJob/j: gpu: 300m counts when pods are made" in err
    template = {"group": "kubeflow.org", "version": "v1", "resource": "pytorchjobs"}
    template["path"] = "spec.pytorchReplicaSpecs.*.template"
    monkeypatch.setenv("MILLIGPU_TEMPLATE_PATHS", json.dumps([template]))
    assert mutate.main([path], "object") == 0
    assert "limits: {milligpu.io/vgpu: '30'}" in capfd.readouterr().out


def test_a_message_moves_no_cursor(tmp_path: Path, capfd: Captured) -> None:
    text = DEPLOYMENT.replace("name: a", r'name: "\e[2Jb"')
    assert mutate.main([file(tmp_path, text)], "object") == 0
    assert "\x1b" not in capfd.readouterr().err


def test_standard_input_is_a_file(capfd: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(DEPLOYMENT.encode())))
    assert mutate.main([Path("-")], "object") == 0
    out, err = capfd.readouterr()
    assert out == TRANSLATED
    lines = [int(line.split(":")[1]) for line in err.splitlines()]
    assert lines == [13, 14], "in the order of the file"


def test_the_pods_of_templates_can_be_seen(tmp_path: Path, capfd: Captured) -> None:
    nameless = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - {name: gpu}\n"
    path = file(tmp_path, f"{SERVICE}---\n{DEPLOYMENT}---\n{nameless}")
    assert mutate.main([path], "pod") == 0
    deployment, bare = capfd.readouterr().out.split("---\n")
    assert deployment.startswith("# Deployment/models\n")
    pod = kubeyaml.load(deployment)[1]
    assert (pod["kind"], pod["metadata"]["generateName"]) == ("Pod", "models-")
    [container] = pod["spec"]["containers"]
    assert container["env"] == [{"name": names.ENV_FRACTION, "value": "0.34"}]
    assert container["resources"]["limits"] == {names.COUNT: "34", "cpu": "2720m"}
    assert kubeyaml.load(bare)[1] == kubeyaml.load(nameless)[1]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_shows_its_pods(tmp_path: Path, capfd: Captured, kind: str) -> None:
    container = {"name": "a", "resources": {"limits": {"gpu": "300m"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    pod["spec"] = {"containers": [container]}
    path = file(tmp_path, json.dumps(holding(kind, pod)))
    assert mutate.main([path], "pod") == 0
    made = kubeyaml.load(capfd.readouterr().out)[1]
    assert made["kind"] == "Pod"
    assert made["spec"]["containers"][0]["resources"]["limits"][names.COUNT] == "30"
    assert made["spec"]["tolerations"]


@given(objects)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_printed_is_what_the_webhook_answers(
    tmp_path: Path, capfd: Captured, document: Json
) -> None:
    path = file(tmp_path, kubeyaml.dump(document))
    try:
        wanted = desired(creation(document), Config()).object
    except Denied:
        assert mutate.main([path], "object") == 1
        assert capfd.readouterr().out == ""
    else:
        assert mutate.main([path], "object") == 0
        assert kubeyaml.load(capfd.readouterr().out)[1] == wanted
