"""The site is made of the pages, its links lead somewhere, and it asks no other host."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.documents import ROOT

PAGES = sorted((ROOT / "docs").rglob("*.md"))
# The first run makes the site's own environment.
pytestmark = pytest.mark.timeout(300)


def make(folder: Path) -> "subprocess.CompletedProcess[str]":
    """Build the site of a checkout as a person does."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", "site", f"PYTHON={sys.executable}"],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site() -> Path:
    done = make(ROOT)
    assert done.returncode == 0, done.stdout
    return ROOT / "build/site"


@dataclass
class Page(HTMLParser):
    """What a page of the site links to, what it loads, and its anchors."""

    path: Path
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value for name, value in attrs if value}
        self.anchors |= {said[name] for name in ("id", "name") if name in said}
        if tag == "a":
            self.links += [said["href"]] if "href" in said else []
        elif tag != "meta":
            self.loaded += [said[name] for name in ("src", "href") if name in said]


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """Every page but that for a page that is not there: its links start at the root."""
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_is_there_with_its_heading(page: Path, pages: dict[Path, Page]) -> None:
    made = ROOT / "build/site" / page.relative_to(ROOT / "docs").with_suffix(".html")
    assert made in pages
    start = pages[ROOT / "build/site/index.html"]
    assert any((start.path.parent / link).resolve() == made for link in start.links), "in no menu"


def test_every_link_leads_to_a_page_and_a_place_in_it(pages: dict[Path, Page]) -> None:
    for page in pages.values():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
            assert target.exists(), f"{page.path}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, f"{page.path}: {link}"


def test_nothing_is_loaded_from_another_host(site: Path, pages: dict[Path, Page]) -> None:
    for page in pages.values():
        assert page.loaded
        for link in page.loaded:
            assert not urlsplit(link).netloc, f"{page.path}: {link}"
            assert (page.path.parent / urlsplit(link).path).exists(), f"{page.path}: {link}"
    for style in site.rglob("*.css"):
        text = style.read_text()
        assert "url(http" not in text
        assert "url(//" not in text


def without_a_page(docs: Path) -> None:
    (docs / "how-to/helm.md").unlink()


def with_a_page_in_no_menu(docs: Path) -> None:
    (docs / "how-to/lonely.md").write_text("# Lonely\n")


def with_a_link_to_nothing(docs: Path) -> None:
    with (docs / "index.md").open("a") as file:
        file.write("\n[see](how-to/nowhere.md)\n")


def with_a_link_to_nothing_outside(docs: Path) -> None:
    with (docs / "index.md").open("a") as file:
        file.write("\n[see](../examples/nothing.yaml)\n")


def with_a_link_to_no_heading(docs: Path) -> None:
    with (docs / "index.md").open("a") as file:
        file.write("\n[see](how-to/helm.md#no-such-heading)\n")


@pytest.fixture
def checkout(site: Path, tmp_path: Path) -> Path:
    """Another checkout, whose docs can be changed."""
    assert site.exists()
    for each in _top():
        (tmp_path / each.name).symlink_to(each)
    for name in ("docs", "website"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def _top() -> Iterator[Path]:
    made = ("docs", "website", "build", "dist")
    hidden = (".venv-site",)
    for each in ROOT.iterdir():
        if each.name in hidden or (each.name not in made and not each.name.startswith(".")):
            yield each


def test_another_checkout_builds(checkout: Path) -> None:
    done = make(checkout)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (without_a_page, "helm.md"),
        (with_a_page_in_no_menu, "how-to/lonely.md"),
        (with_a_link_to_nothing, "how-to/nowhere.md"),
        (with_a_link_to_nothing_outside, "examples/nothing.yaml"),
        (with_a_link_to_no_heading, "#no-such-heading"),
    ],
)
def test_what_is_broken_fails_the_build(
    checkout: Path, break_it: Callable[[Path], None], said: str
) -> None:
    break_it(checkout / "docs")
    done = make(checkout)
    assert done.returncode != 0
    assert said in done.stdout
