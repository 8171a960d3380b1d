"""The site is made of the pages, its links lead somewhere, and it asks no other host."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.documents import ROOT

PAGES = sorted((ROOT / "docs").rglob("*.md"))
PLACES = re.findall(
    r"- (?:\w+: )?(\S+\.md)$", (ROOT / "website/mkdocs.yml").read_text(), re.MULTILINE
)
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


def test_every_page_has_one_place_in_the_menu() -> None:
    assert sorted(PLACES) == [str(page.relative_to(ROOT / "docs")) for page in PAGES]


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


BROKEN = {
    "index.md": ("how-to/nowhere.md", "../examples/nothing.yaml", "how-to/helm.md#no-such-heading"),
    "how-to/lonely.md": (),
}
"""What is added to pages, one of them in no menu: links to nothing."""
GONE = "reference/health.md"


@pytest.fixture
def checkout(site: Path, tmp_path: Path) -> Path:
    """Another checkout, whose docs can be changed."""
    assert site.exists()
    ours = [each for each in ROOT.iterdir() if each.name[0] != "." and each.name != "build"]
    for each in (*ours, ROOT / ".venv-site"):
        if each.name in ("docs", "website"):
            shutil.copytree(each, tmp_path / each.name)
        else:
            (tmp_path / each.name).symlink_to(each)
    return tmp_path


def test_what_is_broken_fails_the_build(checkout: Path) -> None:
    done = make(checkout)
    assert done.returncode == 0, done.stdout
    for page, links in BROKEN.items():
        with (checkout / "docs" / page).open("a") as file:
            file.writelines(f"\n[see]({link})\n" for link in links)
    (checkout / "docs" / GONE).unlink()
    done = make(checkout)
    assert done.returncode != 0
    said = done.stdout.partition("WARNING")[2]
    for fault in (GONE, *BROKEN, *(link for links in BROKEN.values() for link in links)):
        assert fault in said
