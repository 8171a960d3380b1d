import io
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milligpu.show import Screen, bar

PLAIN = Screen(width=100, colour=False)
COLOUR = Screen(width=100, colour=True)
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")

shares = st.lists(st.integers(1, 100), max_size=8).filter(lambda held: sum(held) <= 100)


@given(shares)
def test_a_bar_is_as_full_as_its_card(held: list[int]) -> None:
    shown = bar(held)
    assert len(shown) == 50
    filled = shown.rstrip(".")
    assert len(filled) == -(-sum(held) // 2), "a cell is empty only if all its slots are free"
    assert "." not in filled


def test_neighbours_on_a_bar_differ() -> None:
    assert bar([50, 30, 10]) == "#" * 25 + "=" * 15 + "#" * 5 + "." * 5
    assert bar([]) == "." * 50


def test_a_manifest_moves_no_cursor_and_rings_no_bell() -> None:
    for screen in (PLAIN, COLOUR):
        shown = screen.plain(screen.paint("a\x1b[2J\x07\x9b0m\x00b", "bold"))
        assert not set(ESCAPE.sub("", shown)) & set("\x1b\x07\x9b\x00")
        assert r"a\x1b[2J\x07\x9b0m\x00b" in ESCAPE.sub("", shown)


@given(st.text("ab ", max_size=300).filter(str.strip), st.integers(60, 110))
def test_fields_fit_the_screen(text: str, width: int) -> None:
    folded = Screen(width, colour=False).field("label", [text], column=14)
    assert all(len(line) <= width for line in folded)
    assert "".join("".join(folded).split()) == "label" + "".join(text.split())


def stream(*, terminal: bool) -> io.StringIO:
    made = io.StringIO()
    made.isatty = lambda: terminal  # type: ignore[method-assign]
    return made


@pytest.mark.parametrize(
    ("terminal", "environ", "colour"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (True, {"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_are_for_terminals_and_for_those_who_want_them(
    terminal: bool, environ: dict[str, str], colour: bool
) -> None:
    screen = Screen.of(stream(terminal=terminal), environ)
    assert screen.colour is colour
    assert ("\x1b" in screen.paint("x", "bold")) is colour


@pytest.mark.parametrize(("columns", "width"), [("20", 60), ("80", 80), ("400", 110)])
def test_the_width_is_the_terminals_within_reason(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert Screen.of(stream(terminal=True), os.environ).width == width
