"""A release has one version wherever it stands, and the page on releases leaves no test out."""

import re
import tomllib
from pathlib import Path

from ruamel.yaml import YAML

from tests.documents import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
PAGE = (ROOT / "docs/how-to/release.md").read_text()


def text(name: str) -> str:
    return Path(ROOT / name).read_text()


def test_all_say_the_same_version() -> None:
    chart = YAML(typ="safe").load(text("deploy/chart/Chart.yaml"))
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    labelled = re.findall(r"org\.opencontainers\.image\.version=\"(.*)\"", text("Dockerfile"))
    assert labelled == [VERSION]


def test_the_changelog_ends_its_unreleased_part_with_this_version() -> None:
    first, *released = re.findall(r"^## \[(.*?)\](.*)$", text("CHANGELOG.md"), re.MULTILINE)
    assert first == ("Unreleased", "")
    # Until something is released, the version is the one that is to come.
    assert not released or re.fullmatch(r" - \d{4}-\d\d-\d\d", released[0][1])
    assert not released or released[0][0] == VERSION


def test_the_page_names_every_version_and_every_long_test() -> None:
    targets = set(re.findall(r"^((?:e2e|soak|fuzz)[a-z0-9-]*):", text("Makefile"), re.MULTILINE))
    assert "e2e-helm" in targets
    assert targets <= set(re.findall(r"`make ([a-z0-9-]+)", PAGE))
    assert "`version`, `appVersion`" in PAGE
