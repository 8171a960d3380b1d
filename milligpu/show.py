"""Text for a person: coloured where the terminal can, and folded to its width."""

import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import Self, TextIO

from vgpu import slots

_STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
_CONTROL = re.compile(r"(?!\x1b\[[0-9;]*m)[^\n\x20-\x7e\xa0-\U0010ffff]")  # all but colours
_NARROWEST, _WIDEST = 60, 110
_LABEL = 10  # columns
_HOLDERS = "#="
_CELL = 2  # slots


@dataclass(frozen=True, slots=True)
class Screen:
    """What can be shown: makes texts, prints nothing."""

    width: int
    """Columns."""
    colour: bool

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str]) -> Self:
        """Return what a stream can show; NO_COLOR and FORCE_COLOR are honoured."""
        terminal = stream.isatty() and environ.get("TERM") != "dumb"
        colour = not environ.get("NO_COLOR") and (terminal or bool(environ.get("FORCE_COLOR")))
        columns = shutil.get_terminal_size((100, 24)).columns
        return cls(max(_NARROWEST, min(_WIDEST, columns)), colour)

    @staticmethod
    def plain(text: str) -> str:
        """Return a text without characters that move a cursor."""
        return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)

    def paint(self, text: str, *styles: str) -> str:
        """Return a text in these styles, where there are colours."""
        if not (self.colour and styles and text):
            return text
        return f"\x1b[{';'.join(str(_STYLES[style]) for style in styles)}m{text}\x1b[0m"

    def field(self, label: str, texts: Iterable[str], *styles: str, column: int) -> list[str]:
        """Return texts beside a label, each folded where it is too long."""
        start = " " * max(column - _LABEL, 0)
        head = start + self.paint(label, "dim") + " " * (column - len(start + label))
        wrap = partial(textwrap.wrap, width=self.width - column, break_on_hyphens=False)
        lines, heads = chain.from_iterable(map(wrap, texts)), chain([head], repeat(" " * column))
        return [next(heads) + self.paint(line, *styles) for line in lines]


def bar(held: Iterable[int]) -> str:
    """Return a card as a bar; `held` are the slots of each holder."""
    owners = "".join(_HOLDERS[place % 2] * count for place, count in enumerate(held))
    return owners[::_CELL].ljust(slots.PER_CARD // _CELL, ".")
