"""`milligpu render`: the webhook configuration's entries follow the setting of template paths."""

import json
import re
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from milligpu import manifests, render
from milligpu.__main__ import main
from milligpu.render import BRINGS, HOLDS
from tests.documents import ROOT
from vgpu import names
from webhook.templates import TemplatePath

SHIPPED = (ROOT / "deploy/webhook.yaml").read_text()
UNSET = 'MILLIGPU_TEMPLATE_PATHS: "[]"\n'
RAY = {"group": "ray.io", "version": "v1", "resource": "rayclusters"}
SETTING = [
    {**RAY, "path": "spec.headGroupSpec.template"},
    {**RAY, "path": "spec.workerGroupSpecs[*].template"},
    {
        "group": "kubeflow.org",
        "version": "v1",
        "resource": "pytorchjobs",
        "path": "spec.pytorchReplicaSpecs.*.template",
    },
]
PATHS = [
    TemplatePath("ray.io", "v1", "rayclusters", ("spec", "headGroupSpec", "template")),
    TemplatePath("x.example.com", "v2", "sets", ("spec", "a-b", "[*]", "c", "*")),
]


def edited(setting: Any = SETTING) -> str:
    """Return the shipped manifest as an administrator edits it."""
    assert SHIPPED.count(UNSET) == 1
    return SHIPPED.replace(UNSET, f"MILLIGPU_TEMPLATE_PATHS: '{json.dumps(setting)}'\n")


def run(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what `milligpu render -` makes of a text."""
    out = TextIOWrapper(BytesIO(), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(text.encode())))
    monkeypatch.setattr("sys.stdout", out)
    assert main(["render", "-"]) == 0
    out.flush()
    made: bytes = out.buffer.getvalue()
    return made.decode()


def configuration(text: str) -> Any:
    documents = YAML(typ="safe").load_all(text)
    [found] = [each for each in documents if each["kind"] == "MutatingWebhookConfiguration"]
    return found


def entries(text: str) -> dict[str, Any]:
    return {each["name"]: each for each in configuration(text)["webhooks"]}


@pytest.mark.parametrize(
    "text", [SHIPPED, SHIPPED.replace(f"  {UNSET}", ""), SHIPPED.replace("\n", "\r\n")]
)
def test_without_the_setting_every_byte_stays(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(text, monkeypatch) == text


def test_two_entries_come_and_all_else_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    made = run(edited(), monkeypatch)
    assert made.startswith(edited())
    assert list(entries(made)) == [*entries(SHIPPED), BRINGS, HOLDS]


def test_again_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = run(edited(), monkeypatch)
    assert run(made, monkeypatch) == made


def test_another_setting_makes_other_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    made = run(edited(), monkeypatch)
    fewer = made.replace(json.dumps(SETTING), json.dumps(SETTING[:1]))
    assert fewer != made
    assert run(fewer, monkeypatch) == run(edited(SETTING[:1]), monkeypatch)
    none = made.replace(json.dumps(SETTING), "[]")
    assert run(none, monkeypatch) == edited([])


def test_the_entries_are_made_of_those_for_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an administrator changed there, such as the namespaces, is theirs too."""
    text = edited().replace("values: [kube-system, ", "values: [their-own, kube-system, ")
    found = entries(run(text, monkeypatch))
    own = {"name", "rules", "matchConditions"}
    for name, base in (
        (BRINGS, "templates.milligpu.io"),
        (HOLDS, "stored-templates.milligpu.io"),
    ):
        kept = {key: value for key, value in found[base].items() if key not in own}
        assert {key: value for key, value in found[name].items() if key not in own} == kept
        assert "their-own" in str(kept)
    assert (found[BRINGS]["failurePolicy"], found[HOLDS]["failurePolicy"]) == ("Fail", "Ignore")


def test_each_resource_has_one_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    found = entries(run(edited(), monkeypatch))
    wanted = [("ray.io", "rayclusters"), ("kubeflow.org", "pytorchjobs")]
    for name, operations in ((BRINGS, ["CREATE", "UPDATE"]), (HOLDS, ["UPDATE"])):
        assert found[name]["rules"] == [
            {
                "operations": operations,
                "scope": "*",
                "apiGroups": [group],
                "apiVersions": ["v1"],
                "resources": [resource],
            }
            for group, resource in wanted
        ]


def test_conditions_spell_our_names_and_the_safety_of_workloads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = entries(run(edited(), monkeypatch))
    conditions = {
        name: {each["name"]: each["expression"] for each in found[name]["matchConditions"]}
        for name in (BRINGS, HOLDS, "stored-templates.milligpu.io")
    }
    stored = conditions["stored-templates.milligpu.io"]
    for each in ("not-being-deleted", "not-by-kubernetes-controllers", "not-owned"):
        assert conditions[HOLDS][each] == stored[each]
        assert stored[each] in "".join(conditions[BRINGS].values())
    text = "".join([*conditions[BRINGS].values(), *conditions[HOLDS].values()])
    quoted = {each for each in re.findall(r"'([^']+)'", text) if "gpu" in each}
    assert quoted == {*names.ASK_KEYS, *names.GRANT_KEYS, names.NVIDIA_GPU, names.PREFIX}


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_what_is_made_has_its_kinds_schema(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = configuration(run(edited(), monkeypatch))
    assert kubernetes_validate.validate(made, version, strict=True) == version


def test_the_argument_is_not_changed() -> None:
    given = configuration(SHIPPED)
    before = json.dumps(given)
    made = render.rendered(given, PATHS)
    assert json.dumps(given) == before
    assert render.rendered(made, PATHS) == made
    assert render.rendered(made, []) == given


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "it has no 'ConfigMap/webhook'"),
        ("{}", "it has no 'ConfigMap/webhook'"),
        (
            SHIPPED.replace("kind: MutatingWebhookConfiguration", "kind: Other"),
            "it has no 'MutatingWebhookConfiguration/milligpu'",
        ),
        (
            edited().replace("- name: stored-templates.milligpu.io", "- name: other"),
            "it has no 'stored-templates.milligpu.io'",
        ),
        (edited().replace("- name: not-owned", "- name: other"), "it has no 'not-owned'"),
        (edited([{**RAY, "path": "spec..x"}]), "bad settings:\n  MILLIGPU_TEMPLATE_PATHS="),
        (SHIPPED.replace("MILLIGPU_CPUS_PER_GPU", "MILLIGPU_CPU"), "MILLIGPU_CPU: no such setting"),
        (
            edited()
            .replace('CPUS_PER_GPU: "8"', "CPUS_PER_GPU: 8")
            .replace("'[{", "[{")
            .replace("}]'", "}]"),
            "MILLIGPU_TOLERATIONS, MILLIGPU_TEMPLATE_PATHS: it must be a text",
        ),
        ("a: [", "line 1"),
    ],
)
def test_what_cannot_be_rendered_is_named(
    text: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "webhook.yaml"
    path.write_text(text)
    assert main(["render", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("milligpu render: ")
    assert named in said.err


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "none.yaml"]) == 2
    assert "none.yaml: No such file" in capsys.readouterr().err


def test_it_reads_with_the_layer_of_all_commands() -> None:
    file = manifests.read(ROOT / "deploy/webhook.yaml")
    assert file.rewritten({}) == SHIPPED
