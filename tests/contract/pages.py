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
    for session in sessions(page, folder):
        yield from _session(session, folder, programs)


def sessions(page: Path, folder: Path) -> Iterator[list[tuple[str, str]]]:
    """Yield a page's sessions, as commands and answers; its files are in the folder when due."""
    for kind, text in _BLOCK.findall(page.read_text()):
        if kind in ("yaml", "yml") and (name := _FILE.match(text)):
            (folder / name[1]).write_text(text)
        elif kind == "console":
            parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
            assert parts[0] == "", f"a session begins with what is typed: {text!r}"
            yield [_split(part) for part in parts[1:]]


def _session(
    pairs: list[tuple[str, str]], folder: Path, programs: tuple[Path, ...]
) -> Iterator[Typed]:
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


_UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_OWN = {
    "AGE": re.compile(r"\b(\d+m)?\d+s\b"),
    "VERSION": re.compile(r"\bv1\.\d+\.\d+\b"),
    "-POD": re.compile(r"-[a-z0-9]{8,10}-[a-z0-9]{5}\b"),
    " ": re.compile(r" +(?=\S)"),
}
"""What is each reader's own: ages, the cluster's version, the ends of pods' names, columns."""


def fits(shown: str, got: str) -> bool:
    """Whether an answer is what a page shows, where `...` stands for any number of lines."""
    lines = _common(shown).splitlines(keepends=True)
    wanted = ["(?:.*\n)*?" if line == "...\n" else re.escape(line) for line in lines]
    return re.fullmatch("".join(wanted), _common(got)) is not None


def _common(text: str) -> str:
    """Return a text without what is its reader's own. Ids of cards become first, second card."""
    cards: dict[str, int] = {}
    text = _UUID.sub(lambda found: f"CARD{cards.setdefault(found[0], len(cards))}", text)
    for word, pattern in _OWN.items():
        text = pattern.sub(word, text)
    return text
