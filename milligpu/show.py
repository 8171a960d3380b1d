"""Text for a person: colours, bars and diffs, as plain as the terminal needs them."""

import difflib
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from typing import Self, TextIO

from vgpu import slots

_STYLES = {
    "bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36
}  # fmt: skip
_HOLDERS = ("cyan", "magenta", "blue", "green", "yellow")
_MARKS = {"+": "green", "-": "red", " ": "dim"}
_FANCY, _ASCII = "━█▓▌░✗", "=#%+.x"
_CONTROL = re.compile(r"(?!\x1b\[[0-9;]*m)[^\n\x20-\x7e\xa0-\U0010ffff]")  # all but colours
_NARROWEST, _WIDEST = 60, 110
_LABEL = 10  # columns


@dataclass(frozen=True, slots=True)
class Screen:
    """What can be shown: makes texts, prints nothing."""

    width: int
    """Columns."""
    colour: bool
    unicode: bool

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str]) -> Self:
        """Return what a stream can show; NO_COLOR and FORCE_COLOR are honoured."""
        try:
            unicode = bool(_FANCY.encode(stream.encoding or "ascii"))
        except UnicodeEncodeError:
            unicode = False
        terminal = stream.isatty() and environ.get("TERM") != "dumb"
        colour = not environ.get("NO_COLOR") and (terminal or bool(environ.get("FORCE_COLOR")))
        columns = shutil.get_terminal_size((100, 24)).columns
        return cls(max(_NARROWEST, min(_WIDEST, columns)), colour, unicode)

    def plain(self, text: str) -> str:
        """Return a text in characters that the stream has, and none that move a cursor."""
        text = _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)
        return text if self.unicode else text.translate(str.maketrans(_FANCY, _ASCII))

    def paint(self, text: str, *styles: str) -> str:
        """Return a text in these styles, where there are colours."""
        if not (self.colour and styles and text):
            return text
        return f"\x1b[{';'.join(str(_STYLES[style]) for style in styles)}m{text}\x1b[0m"

    def rule(self, text: str) -> str:
        """Return a heading across the screen."""
        line = "━" * max(self.width - len(text) - 4, 2)
        return f"{self.paint('━━', 'dim')} {self.paint(text, 'bold')} {self.paint(line, 'dim')}"

    def labelled(self, label: str, lines: Iterable[str], column: int) -> list[str]:
        """Return lines that begin in a column, with a label before the first."""
        start = " " * max(column - _LABEL, 0)
        head = start + self.paint(label, "dim") + " " * (column - len(start + label))
        return [(" " * column if number else head) + line for number, line in enumerate(lines)]

    def field(self, label: str, texts: Iterable[str], *styles: str, column: int) -> list[str]:
        """Return texts beside a label, each folded where it is too long."""
        lines = (line for text in texts for line in self._fold(text, column))
        return self.labelled(label, (self.paint(line, *styles) for line in lines), column)

    def bar(self, held: Sequence[int]) -> str:
        """Return a card's hundred slots as a bar; `held` are the slots of each holder."""
        size = 2 if self.width >= 90 else 4  # slots in a cell
        owners = [holder for holder, number in enumerate(held) for _ in range(number)]
        cells = (owners[start : start + size] for start in range(0, slots.PER_CARD, size))
        runs = groupby(cells, lambda cell: (len(cell) > size // 2, cell[0] if cell else None))
        return "".join(self._run(len(list(run)), whole, owner) for (whole, owner), run in runs)

    def _run(self, length: int, whole: bool, owner: int | None) -> str:
        if owner is None:
            return self.paint("░" * length, "dim")
        solid = "█" if self.colour or owner % 2 == 0 else "▓"
        return self._holder((solid if whole else "▌") * length, owner)

    def legend(self, words: Iterable[str], column: int) -> list[str]:
        """Return the holders of a bar, a word each, in their colours."""
        numbers, lines = count(), self._fold("  ".join(words), column)
        painted = ((self._holder(word, next(numbers)) for word in line.split()) for line in lines)
        return self.labelled("", map("  ".join, painted), column)

    def _holder(self, text: str, number: int) -> str:
        return self.paint(text, _HOLDERS[number % len(_HOLDERS)])

    def diff(self, before: str, after: str, column: int) -> list[str]:
        """Return the changed lines of a YAML text, each below the keys that lead to it."""
        return [
            self.paint(line, _MARKS[mark])
            for mark, text in changes(before, after)
            for line in self._fold(f"{mark} {text}", column, _depth(text) + 6)
        ]

    def _fold(self, text: str, column: int, indent: int = 0) -> list[str]:
        width, later = self.width - column, " " * indent
        return textwrap.wrap(text, width, subsequent_indent=later, break_on_hyphens=False)


def changes(before: str, after: str) -> list[tuple[str, str]]:
    """Return (`+`, `-` or a blank; line) of a unified diff of two YAML texts.

    The context of a line is not what stands next to it but the keys that lead to it.
    """
    sides = (before.splitlines(), after.splitlines())
    whole = difflib.unified_diff(*sides, lineterm="", n=sum(map(len, sides)))
    shown: list[tuple[str, str]] = []
    keys: list[tuple[str, str]] = []
    for mark, text in ((line[0], line[1:]) for line in list(whole)[3:]):
        keys = [key for key in keys if _depth(key[1]) < _depth(text)]
        if mark == " ":
            keys.append((mark, text))
        else:
            shown += [*keys, (mark, text)]
            keys = []
    return shown


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
