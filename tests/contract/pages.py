"""What a page tells its reader to type, typed, and what it says comes back, compared.

A YAML block whose first line is a comment with a file's name is that file. A `console` block is a
session of a shell: `$ ` stands before what is typed, everything else is the answer. Files and
working folder last for the whole page, as they do for who reads it from top to bottom.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.ya?ml)$", re.MULTILINE)
_END = "--- that was all ---"


@dataclass(frozen=True, slots=True)
class Typed:
    """A command of a page."""

    command: str
    shown: str
    """The answer that the page shows."""
    got: str
    """The answer that came: standard output and standard error."""


def typed(page: Path, folder: Path, *programs: Path) -> Iterator[Typed]:
    """Do what a page says in a folder, with our own commands and folders of others on the PATH."""
    for kind, text in _BLOCK.findall(page.read_text()):
        if kind in ("yaml", "yml") and (name := _FILE.match(text)):
            (folder / name[1]).write_text(text)
        elif kind == "console":
            yield from _session(text, folder, programs)


def _session(text: str, folder: Path, programs: tuple[Path, ...]) -> Iterator[Typed]:
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert parts[0] == "", f"a session begins with what is typed: {text!r}"
    pairs = [_split(part) for part in parts[1:]]
    # Each command finds the status of the one before it in `$?`.
    script = "".join(f"{command}\nlast=$?; echo '{_END}'; (exit $last)\n" for command, _ in pairs)
    ours = [Path(sys.executable).parent, *programs]
    environ = {
        "PATH": ":".join([*map(str, ours), os.environ["PATH"]]),
        "HOME": str(folder),
        "COLUMNS": "100",
    }
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{script}"],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=50,
        check=False,
    )
    answers = done.stdout.split(f"{_END}\n")
    for (command, shown), got in zip(pairs, answers[:-1], strict=True):
        yield Typed(command, shown, got)


def _split(part: str) -> tuple[str, str]:
    """Return what is typed, which goes on after a backslash at a line's end, and the answer."""
    found = re.match(r"((?:.*\\\n)*.*)\n", part)
    assert found
    return found[1], part[found.end() :]
