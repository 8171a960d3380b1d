"""Builds the named programs where they are missing, and says so while it takes minutes."""

import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.tools import cache, golang
from tests.cluster.tools.recipes import ENVTEST, KNOWN, KUBERNETES, Recipe, versions
from tests.cluster.tools.say import say


class ToolError(Exception):
    """A program of the cluster cannot be had; the message says why."""


def ensure(names: Iterable[str]) -> dict[str, Path]:
    """Return the path of each named program, building what is missing."""
    return {name: _ensure(name) for name in names}


def folder(name: str) -> Path:
    """Return where a program is, or will be once it is built."""
    if name not in KNOWN:
        raise ToolError(f"no such program: {name}; there are {', '.join(KNOWN)}")
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and name in ENVTEST:
        return Path(assets)
    if not KNOWN[name].source.is_dir():
        raise ToolError(f"K8S={KUBERNETES}: no recipe; there are {', '.join(versions())}")
    return cache.ROOT / "bin" / KNOWN[name].key()


def _ensure(name: str) -> Path:
    place = folder(name)
    program = place / name
    if program.exists():
        return program
    if str(place) == os.environ.get("KUBEBUILDER_ASSETS"):
        raise ToolError(f"KUBEBUILDER_ASSETS={place} holds no {name}")
    go = golang.find()
    with cache.lock(place / ".lock"):
        if not program.exists():  # another run may have built it while this one waited
            _build(go, name, KNOWN[name], program)
    return program


def _build(go: str, name: str, recipe: Recipe, program: Path) -> None:
    say(f"building {name} ({recipe.module}) into {program.parent}")
    say(f"  once; about {60 * recipe.minutes:.0f} s on two idle cores, less if Go's cache is warm")
    unfinished, log = program.with_name(f".{name}.unfinished"), program.with_name(f"{name}.log")
    argv = [go, "build", "-v", *recipe.flags, "-o", str(unfinished), recipe.package]
    # GOTOOLCHAIN: never fetch another Go. GOFLAGS: the user's own must not change the bytes.
    environ = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    started = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(argv, cwd=recipe.source, env=environ, stderr=output)
        try:
            _watch(process, log, started)
        finally:
            process.kill()
            process.wait()
    if process.returncode != 0:
        tail = "\n".join(log.read_text().splitlines()[-20:])
        raise ToolError(f"building {name} failed:\n{tail}\nthe whole output: {log}")
    unfinished.rename(program)
    say(f"  {name} built in {time.monotonic() - started:.0f} s")


def _watch(process: "subprocess.Popen[bytes]", log: Path, started: float) -> None:
    """Wait for a build, telling now and then how far it is: Go prints a line per package."""
    terminal = sys.stdout.isatty()
    pause, end = (1, "\r") if terminal else (15, "\n")
    while True:
        try:
            process.wait(timeout=pause)
        except subprocess.TimeoutExpired:
            lines = log.read_text().splitlines()
            fetched = sum(line.startswith("go: downloading") for line in lines)
            text = f"  {time.monotonic() - started:.0f} s: {fetched} modules fetched, "
            say(f"{text}{len(lines) - fetched} packages compiled ", end=end)
        else:
            return
