"""The tutorial, typed word by word on a real node: its answers are those that come."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.node import Node
from tests.cluster.product import use_cards
from tests.cluster.spaces import Space
from tests.contract.pages import fits, sessions
from tests.documents import ROOT

pytestmark = pytest.mark.node

PAGE = ROOT / "docs/tutorial/first-share.md"
LOOKS = ("kubectl get", "kubectl describe", "kubectl exec", "for pod in", "milligpu explain")
"""What only looks, and may be typed again until the cluster has got so far."""
PATIENCE = 45
_END = "--- that was all ---"


@dataclass(frozen=True)
class Terminal:
    """A shell that is typed into; what is set in it stays."""

    shell: "subprocess.Popen[str]"

    def type(self, command: str) -> str:
        """Return the answer to a command."""
        assert self.shell.stdin
        assert self.shell.stdout
        self.shell.stdin.write(f"{command}\necho; echo '{_END}'\n")
        self.shell.stdin.flush()
        answer = ""
        while not answer.endswith(f"\n{_END}\n"):
            line = self.shell.stdout.readline()
            assert line, f"the shell ended: {answer}"
            answer += line
        return answer.removesuffix(f"\n{_END}\n")


@pytest.fixture
def terminal(space: Space, tmp_path: Path) -> Iterator[Terminal]:
    """A shell as `make cluster` tells to set it up, in a folder and a namespace of its own."""
    plane, config = space.node.plane, tmp_path / "kubeconfig"
    config.write_text(plane.kubectl("config", "view", "--raw", "--flatten").stdout)
    own = (f"--kubeconfig={config}", "config", "set-context", "--current")
    subprocess.run([plane.kubectl_path, *own, f"--namespace={space.name}"], check=True)
    programs = f"{plane.kubectl_path.parent}:{Path(sys.executable).parent}"
    environ = {"PATH": f"{programs}:{os.environ['PATH']}", "KUBECONFIG": str(config)}
    with subprocess.Popen(
        ["bash"],
        cwd=tmp_path,
        env={**environ, "HOME": str(tmp_path), "COLUMNS": "100"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as shell:
        yield Terminal(shell)


def test_the_tutorial_word_by_word(
    node: Node, space: Space, terminal: Terminal, tmp_path: Path
) -> None:
    use_cards(node, "two-t4")
    for session in sessions(PAGE, tmp_path):
        for command, shown in session:
            deadline = time.monotonic() + PATIENCE
            while not fits(shown, got := terminal.type(command).replace(space.name, "default")):
                again = command.startswith(LOOKS) and time.monotonic() < deadline
                assert again, f"$ {command}\n{got}\n--- the page shows:\n{shown}"
                time.sleep(0.5)
