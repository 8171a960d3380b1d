"""Commands of a page, typed before a cluster of the tests, as an administrator would."""

import os
import subprocess
import sys
from pathlib import Path

from tests.cluster.controlplane import ControlPlane
from tests.documents import ROOT, blocks

UNINSTALL = ROOT / "docs/how-to/uninstall.md"
PROGRAMS = Path(sys.executable).parent


def told(page: Path, *words: str, **instead: str) -> str:
    """Return the only command of a page with these words, with other words in place of some."""
    shown = blocks(page.read_text(), "sh")
    lines = [line.strip() for block in shown for line in block.splitlines()]
    found: str
    (found,) = [line for line in lines if all(word in line for word in words)]
    for old, new in instead.items():
        assert old.replace("_", "-") in found
        found = found.replace(old.replace("_", "-"), new)
    return found


def typed(plane: ControlPlane, line: str, status: int = 0) -> "subprocess.CompletedProcess[str]":
    """Run a line in a shell that has our commands, kubectl and its configuration."""
    path = f"{plane.kubectl_path.parent}:{PROGRAMS}:{os.environ['PATH']}"
    environ = {"PATH": path, "HOME": str(plane.folder), "KUBECONFIG": str(plane.kubeconfig)}
    command = ["bash", "-c", f"set -o pipefail; {line}"]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, f"$ {line}\n{done.stdout}{done.stderr}"
    return done
