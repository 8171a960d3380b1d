"""`milligpu mutate` inside the real Helm, 3 and 4, and the real kustomize. No cluster is needed."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from milligpu import manifests
from tests.cluster.tools import ensure
from tests.contract.pages import typed

pytestmark = pytest.mark.timeout(900)  # the first run builds the tools
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "offline.md"
PROGRAMS = ("helm", "helm3", "kustomize")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def programs() -> list[Path]:
    """The folders of the tools."""
    return [path.parent for path in ensure(PROGRAMS).values()]


def folders(tmp_path: Path) -> None:
    for name in ("chart/templates", "plugin", "base"):
        (tmp_path / name).mkdir(parents=True)


def test_the_page_shows_what_the_tools_do(tmp_path: Path, programs: list[Path]) -> None:
    folders(tmp_path)
    done = list(typed(PAGE, tmp_path, *programs))
    assert {each.command.split()[0] for each in done} >= {"milligpu", *PROGRAMS}
    for each in done:
        assert each.got == each.shown, f"$ {each.command}"


@pytest.fixture
def run(tmp_path: Path, programs: list[Path]) -> Run:
    """Runs a program in a folder where the page's files are, the plugin installed."""
    folders(tmp_path)
    path = [str(Path(sys.executable).parent), *map(str, programs), os.environ["PATH"]]
    environ = {"PATH": ":".join(path), "HOME": str(tmp_path)}

    def run(*command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )

    for _ in typed(PAGE, tmp_path, *programs):
        pass
    (tmp_path / "base" / "kustomization.yaml").write_text(
        "resources: [sentiment.yaml]\ntransformers: [milligpu.yaml]\n"
    )
    return run


ARGUMENTS = {
    "helm": ("template", "demo", "./chart", "--post-renderer", "milligpu"),
    "helm3": (
        *("template", "demo", "./chart", "--post-renderer", "milligpu"),
        *("--post-renderer-args", "mutate", "--post-renderer-args", "-"),
    ),
    "kustomize": ("build", "--enable-alpha-plugins", "--enable-exec", "base"),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_comes_out_is_the_same_as_from_a_pipe(tmp_path: Path, run: Run, program: str) -> None:
    done = run(program, *ARGUMENTS[program])
    assert done.returncode == 0, done.stderr
    (tmp_path / "out.yaml").write_text(done.stdout)
    made, piped = (manifests.read(tmp_path / name) for name in ("out.yaml", "made.yaml"))
    by_title = {each.title: each.document for each in made.manifests}
    assert by_title == {each.title: each.document for each in piped.manifests}
    assert len(by_title) == 2


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_denied_object_ends_the_build_with_nothing_printed(
    tmp_path: Path, run: Run, program: str
) -> None:
    for folder in ("chart/templates", "base"):
        path = tmp_path / folder / "sentiment.yaml"
        path.write_text(path.read_text().replace("300m", "1500m"))
    done = run(program, *ARGUMENTS[program])
    assert done.returncode != 0
    assert done.stdout.strip() == ""
    if program != "helm":  # which swallows what a post-renderer says
        assert "limits[gpu]: 1500m is not allowed" in done.stderr
