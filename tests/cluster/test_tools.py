"""How the cluster's programs are found; nothing is built here."""

import re
import sys
from pathlib import Path

import pytest

from tests.cluster.processes import ClusterError, Processes
from tests.cluster.tools import ToolError, cache, ensure, folder, golang
from tests.cluster.tools.recipes import ENVTEST, HERE, KNOWN, RECIPES, Recipe, versions


def test_every_recipe_names_a_module_that_is_here() -> None:
    for name, recipe in KNOWN.items():
        assert (recipe.source / "go.mod").is_file(), name


@pytest.mark.parametrize("version", versions())
def test_a_recipe_builds_the_version_that_it_is_named_for(version: str) -> None:
    module = (HERE / f"kubernetes-{version}/go.mod").read_text()
    assert f"k8s.io/kubernetes v{version} " in module
    staged = re.findall(r"^\tk8s\.io/\S+ => k8s\.io/\S+ v(\S+)$", module, re.MULTILINE)
    assert set(staged) == {f"0.{version.partition('.')[2]}"}


def test_the_key_changes_with_the_flags() -> None:
    recipe = RECIPES["etcd"]
    other = Recipe(recipe.module, recipe.package, ("-race",), recipe.minutes)
    assert recipe.key() != other.key()
    assert recipe.key().startswith("kubernetes-")


def test_the_cache_is_where_the_user_says(tmp_path: Path) -> None:
    assert cache.root({"CLUSTER_CACHE": str(tmp_path)}) == tmp_path
    assert cache.root({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "milligpu"


def test_an_unknown_program_is_named() -> None:
    with pytest.raises(ToolError, match="no such program: kubeflow"):
        ensure(["kubeflow"])


def test_an_unknown_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Recipe("kubernetes-0.1.0", "x", (), 1)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setitem(RECIPES, "etcd", gone)
    with pytest.raises(ToolError, match=r"no recipe; there are .*1\.36\.3"):
        folder("etcd")


def test_kubebuilder_assets_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVTEST:
        (tmp_path / name).touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert ensure(ENVTEST) == {name: tmp_path / name for name in ENVTEST}
    (tmp_path / "etcd").unlink()
    with pytest.raises(ToolError, match=r"KUBEBUILDER_ASSETS=.* holds no etcd"):
        ensure(ENVTEST)


def test_a_build_that_fails_shows_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "go"
    compiler.write_text("#!/bin/sh\necho 'undefined: Pod' >&2\nexit 2\n")
    compiler.chmod(0o755)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr(cache, "ROOT", tmp_path)
    monkeypatch.setattr(golang, "find", lambda: str(compiler))
    with pytest.raises(ToolError, match="building etcd failed:\nundefined: Pod"):
        ensure(["etcd"])
    assert not (folder("etcd") / "etcd").exists()


def test_a_go_that_is_too_old_is_seen(tmp_path: Path) -> None:
    compiler = tmp_path / "go"
    compiler.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    compiler.chmod(0o755)
    assert golang.version(str(compiler)) == (1, 19) < golang.OLDEST


def test_a_process_that_ends_early_is_named_with_its_log(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("etcd", [sys.executable, "-c", "raise SystemExit('no space left')"])
        with pytest.raises(ClusterError, match=r"etcd ended with 1; (.|\n)*no space left"):
            processes.wait("etcd", lambda: False, timeout=30)


def test_a_process_that_ignores_sigterm_is_ended_all_the_same(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    with Processes(tmp_path) as processes:
        processes.start("stubborn", [sys.executable, "-c", code + "; time.sleep(60)"])
        process = processes.running["stubborn"]
        processes.wait("stubborn", lambda: processes.log("stubborn").read_text() != "", timeout=30)
        processes.stop("stubborn", patience=0.2)
    assert process.returncode == -9
