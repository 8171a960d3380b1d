"""The page on messages has every code, and its examples are what is really said."""

from typing import Any

import pytest

from milligpu.remarks import creation, findings
from tests.documents import ROOT, code, rows
from tests.unit.webhook.objects import container, copied, holding, pod
from webhook.config import Config
from webhook.findings import Code, Denied, Finding
from webhook.mutate import desired
from webhook.pod import Json
from webhook.review import Review

PAGE = (ROOT / "docs/reference/messages.md").read_text()
HEADINGS = {"Errors": "error", "Warnings": "warning", "Notes": "note"}
DOCUMENTED = {
    code(row[0])[0]: (level, *row[1:])
    for heading, level in HEADINGS.items()
    for row in rows(PAGE, heading)
}
ALL = ("NVIDIA_VISIBLE_DEVICES", "all")


def sharing(**fields: Any) -> Json:
    return container(limits={"gpu": "300m"}, **fields)


def variable(name: str, value: str) -> list[Json]:
    return [{"name": name, "value": value}]


def annotated(*containers: Json, **notes: str) -> Json:
    return pod(*containers, annotations={f"milligpu.io/{key}": text for key, text in notes.items()})


SHELL = {"image": "tensorflow/serving:latest-gpu", "command": ["sh", "-c"], "args": ["serve"]}
DEPLOYMENT = holding("Deployment", pod(container()))
CUSTOM = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
EXAMPLES: dict[Code, Json] = {
    Code.MALFORMED: pod({"name": "main", "resources": {"limits": ["gpu"]}}),
    Code.ASK: pod(container(limits={"gpu": "1500m"})),
    Code.WHOLE_CARDS: pod(container(limits={"gpu": 1})),  # where they are switched off
    Code.COUNT: pod(container(limits={"milligpu.io/vgpu": 150})),
    Code.REQUESTS: pod(container(requests={"gpu": "300m"})),
    Code.CONFLICT: pod(container(limits={"gpu": "300m", "nvidia.com/gpu": 1})),
    Code.ANNOTATION: annotated(container("trainer"), gpu="trianer=300m"),
    Code.MAIN_CONTAINER: annotated(container("trainer"), container("loader"), gpu="300m"),
    Code.RESERVED_VARIABLE: pod(sharing(env=variable(*ALL))),
    Code.ENV_FROM: pod(sharing(envFrom=[{"configMapRef": {"name": "settings"}}])),
    Code.VOID: pod(sharing(), container("loader", env=variable(*ALL))),
    Code.MEMORY_FRACTION: pod(sharing(env=variable("PER_PROCESS_GPU_MEMORY_FRACTION", "0.5"))),
    Code.MEMORY_UNLIMITED: pod(sharing(**SHELL)),
    Code.UNKNOWN_ANNOTATION: annotated(container(), GPU="300m"),
    Code.UNKNOWN_RESOURCE: pod(container(limits={"milligpu.io/VGPU": 30})),
    Code.MISPLACED_ANNOTATION: {
        **DEPLOYMENT,
        "metadata": {"name": "model", "annotations": {"milligpu.io/gpu": "300m"}},
    },
    Code.MISPLACED_ASK: pod(container(), resources={"limits": {"gpu": "300m"}}),
    Code.RECORD: annotated(container(), share="{}"),
    Code.CUSTOM_RESOURCE: {**CUSTOM, "spec": {"template": pod(sharing())}},
    Code.ROUNDED: pod(container(limits={"gpu": "333m"})),
    Code.CPU_LIMIT: pod(sharing()),
}
ONLY_OF_THE_WEBHOOK = {Code.SHARE_CHANGED, Code.UNTRANSLATED}


def said(kind: Code) -> list[Finding]:
    """What is said of the example of a code, by the linter where it can be."""
    if kind is Code.UNTRANSLATED:
        return desired(Review("kubeflow.org", "PyTorchJob", CUSTOM, None), Config()).warnings
    if kind is not Code.SHARE_CHANGED:
        config = Config(whole_cards=kind is not Code.WHOLE_CARDS)
        return findings(creation(EXAMPLES[kind]), config)
    stored = desired(creation(pod(sharing())), Config()).object
    changed = copied(stored)
    changed["spec"]["containers"][0]["resources"]["limits"]["gpu"] = "500m"
    with pytest.raises(Denied) as denial:
        desired(Review("", "Pod", changed, stored), Config())
    return list(denial.value.findings)


def test_every_code_has_an_example_and_its_line() -> None:
    assert EXAMPLES.keys() | ONLY_OF_THE_WEBHOOK == set(Code)
    assert list(DOCUMENTED) == [each.label for each in Code]


@pytest.mark.parametrize("kind", Code, ids=lambda kind: kind.label)
def test_a_code_is_documented_as_it_is(kind: Code) -> None:
    level, meaning, example, to_do = DOCUMENTED[kind.label]
    assert (level, meaning) == (kind.level, kind.meaning)
    assert code(example) == [str(each) for each in said(kind) if each.code is kind]
    assert to_do


def test_a_label_is_stable() -> None:
    """Metrics, dashboards and suppressions hold them: one may be added, none may change."""
    assert {each.label for each in Code} >= {
        *("malformed", "ask", "whole-cards", "count", "requests", "conflict", "annotation"),
        *("share-changed", "main-container", "reserved-variable", "env-from", "void"),
        *("memory-fraction", "memory-unlimited", "unknown-annotation", "misplaced-annotation"),
        *("misplaced-ask", "record", "untranslated", "custom-resource", "rounded", "cpu-limit"),
        "unknown-resource",
    }
