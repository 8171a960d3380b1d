"""The documents say what the programs do: settings, metrics, names, and the README's table."""

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics import MetricWrapperBase
from ruamel.yaml import YAML

import certs.config
import plugin.config
import plugin.metrics
import webhook.config
import webhook.metrics
from milligpu.workloads import arriving, review
from plugin import edits
from plugin.gpu import MIB, Gpu
from plugin.node import Node
from plugin.series import Series
from tests.documents import ROOT, blocks, code, rows
from vgpu import names
from vgpu.settings import variable
from webhook.admission import answer
from webhook.notes import FRAMEWORKS
from webhook.templates import PATHS

REFERENCE = ROOT / "docs" / "reference"
README = ROOT / "README.md"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
CONFIGS = {
    "webhook": webhook.config.Config,
    "plugin": plugin.config.Config,
    "certs": certs.config.Config,
}
REGISTRIES = {
    "webhook": webhook.metrics.Metrics().registry,
    "plugin": plugin.metrics.Metrics().registry,
}
REGISTRIES["plugin"].register(Series(Node(plugin.config.Config()), ""))


@pytest.mark.parametrize("program", CONFIGS)
def test_every_setting_is_documented_with_its_default(program: str) -> None:
    table = rows((REFERENCE / "configuration.md").read_text(), program)
    documented = {code(name)[0]: default.strip("`") for name, default, meaning in table if meaning}
    settings = {variable(item): item for item in fields(CONFIGS[program])}
    assert documented.keys() == settings.keys()
    for name, item in settings.items():
        assert item.metadata["parse"](documented[name]) == item.default, name


def instruments(registry: CollectorRegistry) -> dict[str, tuple[str, ...]]:
    """Our metrics by the name that Prometheus sees, with their labels."""
    found = {}
    for collector in set(registry._collector_to_names):
        for metric in collector.collect() if not isinstance(collector, ProcessCollector) else ():
            holder: Any = collector if isinstance(collector, MetricWrapperBase) else metric
            own = (metric.name,) if metric.type == "stateset" else ()
            name = f"{metric.name}_total" if metric.type == "counter" else metric.name
            found[name] = (*holder._labelnames, *own)
    return found


@pytest.mark.parametrize("program", REGISTRIES)
def test_every_metric_is_documented_with_its_labels(program: str) -> None:
    table = rows((REFERENCE / "metrics.md").read_text(), program)
    documented = {code(name)[0]: tuple(code(labels)) for name, labels, meaning in table if meaning}
    assert documented == instruments(REGISTRIES[program])


def constants(prefix: str) -> set[str]:
    texts = {name: value for name, value in vars(names).items() if isinstance(value, str)}
    return {value for name, value in texts.items() if name.startswith(prefix)}


def test_every_name_is_documented() -> None:
    text = (REFERENCE / "names.md").read_text()
    ours = {
        "Resources, in a container's limits": {
            *names.ASK_KEYS,
            names.NVIDIA_GPU,
            *names.GRANT_KEYS,
        },
        "Annotations": set(names.ANNOTATIONS_KNOWN),
        "Labels of a namespace": {names.LABEL_ADMISSION},
        "Environment of a container with a share": constants("ENV_GPU")
        | {names.ENV_SLOTS, names.ENV_SHARE, names.ENV_MEMORY_MIB, names.ENV_MEMORY_FRACTION}
        | {names.ENV_FRACTION, names.ENV_VISIBLE_DEVICES},
    }
    for heading, wanted in ours.items():
        documented = {name for row in rows(text, heading) for name in code(row[0])}
        assert documented == wanted, heading
    said = set(code(text))
    assert said >= {*names.ENV_RESERVED, *names.ENV_RESERVED_PREFIXES, *FRAMEWORKS}
    assert names.ANNOTATION_DEFAULT_CONTAINER in said
    assert names.ADMISSION_DISABLED in said


def test_the_readme_names_what_a_user_may_write() -> None:
    said = " ".join(code(README.read_text()))
    for name in (*names.ANNOTATIONS_READ, *names.ASK_KEYS, names.NVIDIA_GPU, *FRAMEWORKS):
        assert name in said
    for variable_name in (*names.ENV_RESERVED, *names.ENV_RESERVED_PREFIXES):
        assert variable_name in said
    for _, kind in PATHS:
        assert kind in README.read_text()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_name_is_documented_that_there_is_not(path: Path) -> None:
    text = path.read_text()
    known = {variable(item) for config in CONFIGS.values() for item in fields(config)}
    known |= constants("ENV_")
    assert set(re.findall(r"\bMILLIGPU_[A-Z_]+", text)) <= known
    prefixed = set(re.findall(rf"\b{re.escape(names.PREFIX)}[a-z-]+", text))
    assert prefixed <= constants("")
    metrics = {name for registry in REGISTRIES.values() for name in instruments(registry)}
    assert set(re.findall(r"\bmilligpu_(?:webhook|plugin)_\w+", text)) <= metrics


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_and_picture_leads_somewhere(path: Path) -> None:
    text = path.read_text()
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lower()).replace(" ", "-")
        for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in headings
        elif "://" not in target:
            assert (path.parent / target.partition("#")[0]).exists(), target
    assert all(alt for alt, _ in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", text))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_targets_that_are_named_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z0-9-]+)", path.read_text())) <= targets


def fenced(path: Path) -> Iterator[Any]:
    """The YAML documents that a document shows, as kubectl reads them."""
    for block in blocks(path.read_text(), "ya?ml"):
        yaml = YAML(typ="safe", pure=True)
        yaml.version = (1, 1)
        yield from yaml.load_all(block)


SED = re.compile(r"sed 's\|([^|]+)\|([^|]+)\|' (deploy/\S+)")


def test_what_pages_tell_to_replace_in_a_file_stands_there() -> None:
    said = [found for path in DOCUMENTS for found in SED.findall(path.read_text())]
    assert {old for old, _, _ in said} == {"image: milligpu:dev", "MILLIGPU_INVENTORY: nvml"}
    for old, new, file in said:
        text = (ROOT / file).read_text()
        assert old in text
        assert new not in text


def test_the_map_of_the_plugin_names_each_of_its_modules_once() -> None:
    table = rows((ROOT / "CONTRIBUTING.md").read_text(), "The plugin")
    mapped = sorted(name for row in table for name in code(row[0]) if row[1] != "decide")
    assert mapped == sorted(path.stem for path in ROOT.glob("plugin/[a-z]*.py"))


def annotations(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, below in value.items():
            if key == "annotations":
                yield from below.values()
            yield from annotations(below)
    elif isinstance(value, list):
        for below in value:
            yield from annotations(below)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_annotations_in_examples_are_quoted(path: Path) -> None:
    for document in fenced(path):
        assert all(isinstance(value, str) for value in annotations(document))


def test_the_readmes_manifest_becomes_what_it_says() -> None:
    [manifest] = fenced(README)
    response = answer(review(arriving(manifest)), webhook.config.Config()).body["response"]
    assert response["allowed"]
    text = README.read_text()
    values = dict(re.findall(r"^([A-Z_]+)=([^ \n]+)", text, re.MULTILINE))
    gpu = Gpu(uuid="GPU-1f2e...", index=0, minor=0, model="T4", memory_total=15360 * MIB)
    assert values.pop(names.ENV_FRACTION) == "0.3"
    assert values == edits.share(gpu, 30, edits.Handing(plugin.config.Config())).envs


def test_the_readme_tells_the_figures_of_the_simulator() -> None:
    page = (ROOT / "docs/explanation/placement.md").read_text()
    table = page.split("<!-- loads: refused -->")[1].split("<!-- end -->")[0]
    column = [cell.strip() for cell in table.split("\n")[1].split("|")].index("least, 70%") - 1
    refused = {row[0]: row[column].split()[0] for row in rows(table)}
    said = (
        f"it happened to {refused['packed, fitting']} pods of a thousand,"
        f" and to {refused['packed, all']} where nodes show all that is free"
    )
    assert said in README.read_text()
    seen = {code(row[0])[0]: row[1:] for row in rows(page, "On a real node")}
    failed, seconds = re.findall(r"\d+", seen["fitting"][0])
    said = (
        f"left {failed} Failed pods within {seconds} s and then waited, instead of {seen['all'][1]}"
    )
    assert said in README.read_text()


def pod(written: str) -> dict[str, Any]:
    """A pod with two containers, the first of which has what a row of the README says."""
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)
    [(key, value)] = yaml.load(written).items()
    resources = {key: value} if key in ("limits", "requests") else {}
    noted = value if key == "annotations" else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": noted},
        "spec": {"containers": [{"name": "trainer", "resources": resources}, {"name": "loader"}]},
    }


TABLE = rows(README.read_text(), "What you may write")
WRITTEN = [(written, outcome) for row in TABLE for written, outcome in [(code(row[0])[0], row[1])]]
WRITTEN += [(other, row[1]) for row in TABLE for other in code(row[1]) if "{" in other]


@pytest.mark.parametrize(("written", "outcome"), WRITTEN)
def test_the_readmes_table_is_true(written: str, outcome: str) -> None:
    sent = arriving(pod(written))
    response = answer(review(sent), webhook.config.Config()).body["response"]
    assert response["allowed"] is not outcome.startswith("denied")
    patch = json.loads(b64decode(response["patch"])) if "patch" in response else []
    limits = (
        jsonpatch.apply_patch(sent, patch)["spec"]["containers"][0]
        .get("resources", {})
        .get("limits", {})
    )
    counts = [text for text in code(outcome) if text.partition(": ")[0] in names.GRANT_KEYS]
    if outcome.startswith("untouched"):
        assert patch == []
    elif counts:
        assert counts == [f"{key}: {limits[key]}" for key in names.GRANT_KEYS if key in limits]
        assert not set(names.ASK_KEYS) & set(limits)
    elif response["allowed"]:
        assert outcome.startswith("no share")
        assert limits == {}
    assert ("rounded" in outcome) is any("rounded" in text for text in response.get("warnings", ()))
