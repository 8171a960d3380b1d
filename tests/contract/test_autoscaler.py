"""The chart's examples of node pools, and the page that explains them, count as milligpu does."""

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.chart import CHART, objects
from tests.contract.test_chart import has_its_kinds_schema
from tests.documents import ROOT, code, rows
from vgpu import names, quantity, slots
from vgpu.slots import PER_CARD
from webhook.config import Config

pytestmark = pytest.mark.timeout(900)  # the first run builds Helm

EXAMPLES = sorted((CHART / "examples").glob("*.yaml"))
PAGE = (ROOT / "docs/how-to/autoscaler.md").read_text()
POOL = "example.com/pool"
TAINT = "nvidia.com/gpu"
SHARES_ONLY = {"cluster-api"}
"""Autoscalers that can be told of one resource only."""
each_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


def told(path: Path) -> list[tuple[str, str]]:
    """Return what an example says of the pool: keys, with `/` for Azure's `_`, and values."""
    found = re.findall(r"^#  +(\S+): \"?(.*?)\"?$", path.read_text(), re.MULTILINE)
    return [(key.replace("_", "/"), value) for key, value in found]


def cards(path: Path) -> int:
    (count,) = re.findall(r"Cards of a node: (\d+)", path.read_text())
    return int(count)


def counts(path: Path) -> dict[str, int]:
    """Return how much of each resource of ours an example promises for a node."""
    said = told(path)
    pairs = [(key, value) for key, value in said if value.isdecimal()]
    typed = [value for key, value in said if key.endswith("/gpu-type")]
    named = [(typed[0] if key.endswith("/gpu-count") else key, value) for key, value in pairs]
    ours = (names.COUNT, names.WHOLE)
    return {name: int(value) for key, value in named for name in ours if key.endswith(name)}


def values(path: Path) -> Any:
    return YAML(typ="safe").load(path)


def test_there_is_an_example_for_each_part_of_the_page() -> None:
    linked = set(re.findall(r"examples/([a-z-]+)\.yaml\)", PAGE))
    assert linked == {path.stem for path in EXAMPLES}
    assert len(linked) == 5


@each_example
def test_an_example_promises_what_the_plugin_offers(path: Path) -> None:
    whole = {} if path.stem in SHARES_ONLY else {names.WHOLE: cards(path)}
    assert counts(path) == {names.COUNT: cards(path) * PER_CARD, **whole}
    served = values(path).get("webhook", {}).get("settings", {}).get("MILLIGPU_WHOLE_CARDS", True)
    assert served is bool(whole)


@each_example
def test_the_pools_label_is_what_the_plugin_looks_for(path: Path) -> None:
    (plugin,) = [each for each in objects(values(path)) if each["kind"] == "DaemonSet"]
    wanted = plugin["spec"]["template"]["spec"]["nodeSelector"][POOL]
    said = re.findall(rf"{re.escape(POOL)}(?:: |=)(\S+)", path.read_text().replace("_", "/"))
    assert len(said) >= 2  # in a comment, and in the values
    assert {each.strip("},") for each in said} == {wanted}


@each_example
def test_the_pools_taint_is_one_that_shares_bear(path: Path) -> None:
    borne = {each["key"]: each for each in Config().tolerations}
    assert TAINT in path.read_text().replace("_", "/")
    assert borne[TAINT] == {"key": TAINT, "operator": "Exists", "effect": "NoSchedule"}
    assert set(re.findall(r"\bpresent:(\w+)", path.read_text())) == {"NoSchedule"}


@each_example
def test_an_example_is_made_of_values(path: Path) -> None:
    rendered = objects(values(path))
    assert rendered != objects()
    for each in rendered:
        has_its_kinds_schema(json.dumps(each))


@pytest.mark.parametrize("row", rows(PAGE, "How many nodes"), ids=lambda row: " on ".join(row[:2]))
def test_the_pages_counts_of_nodes(row: tuple[str, ...]) -> None:
    pods, ask = re.findall(r"(\d+) of `gpu: (\w+)`", row[0])[0]
    size = slots.count(Fraction(quantity.parse(ask)))
    per_node = int(row[1])
    believed = -(-int(pods) // (per_node * PER_CARD // size))
    needed = -(-int(pods) // (per_node * (PER_CARD // size)))
    assert [int(row[2]), int(row[3])] == [believed, needed]


def test_the_pages_table_of_nodes() -> None:
    table = [row for row in rows(PAGE, "What to tell") if row[0].isdecimal()]
    assert len(table) == 4
    for number, vgpu, pgpu in table:
        count = int(number)
        assert code(vgpu) == [f"{names.COUNT}: {count * PER_CARD}"]
        assert code(pgpu) == [f"{names.WHOLE}: {count}"]
