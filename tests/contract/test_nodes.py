"""The page on nodes says what the plugin says, and its values are values."""

import re

import pytest
from ruamel.yaml import YAML

from plugin import nvml
from plugin.config import Config
from tests.chart import objects
from tests.documents import ROOT

pytestmark = pytest.mark.timeout(900)  # the first run builds Helm

PAGES = {
    name: (ROOT / f"docs/how-to/{name}.md").read_text()
    for name in ("nodes", "runtime-class", "gpu-operator", "release")
}
VALUES = {
    f"{name}-{number}": block
    for name, page in PAGES.items()
    for number, block in enumerate(
        re.findall(r"^```yaml\n(# values\.yaml\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    )
}


def test_what_an_idle_plugin_misses() -> None:
    for missing in nvml._ABSENT.values():
        assert f"`{missing}`" in PAGES["nodes"]


def test_what_it_says_without_a_kubelet() -> None:
    folder = Config().device_plugin_dir
    assert f"`waiting for the kubelet: there is no {folder}/kubelet.sock`" in PAGES["nodes"]
    assert f"in the device plugin folder {folder} as uid 0: " in PAGES["nodes"]


@pytest.mark.parametrize("block", VALUES.values(), ids=VALUES)
def test_values_of_the_pages_are_values(block: str) -> None:
    assert objects(YAML(typ="safe").load(block)) != objects()


def test_each_page_has_some() -> None:
    assert {each.rpartition("-")[0] for each in VALUES} == PAGES.keys()
