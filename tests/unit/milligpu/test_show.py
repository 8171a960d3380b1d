import io
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milligpu.show import Screen, changes

PLAIN = Screen(width=100, colour=False, unicode=True)
COLOUR = Screen(width=100, colour=True, unicode=True)
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")

shares = st.lists(st.integers(1, 100), max_size=8).filter(lambda held: sum(held) <= 100)


@given(shares, st.sampled_from([60, 89, 90, 110]))
def test_a_bar_is_as_full_as_its_card(held: list[int], width: int) -> None:
    bar = Screen(width, colour=False, unicode=True).bar(held)
    size = 2 if width >= 90 else 4
    assert len(bar) == 100 // size
    filled = len(bar) - bar.count("░")
    assert filled == -(-sum(held) // size), "a cell is empty only if all its slots are free"
    halves = bar.count("▌")
    assert (filled - halves) * size <= sum(held) + size - 1
    assert halves <= 1


@given(shares)
def test_colours_change_no_character_of_a_bar(held: list[int]) -> None:
    assert ESCAPE.sub("", COLOUR.bar(held)) == PLAIN.bar(held).replace("▓", "█")


def test_holders_differ_in_colour_or_else_in_shade() -> None:
    assert PLAIN.bar([50, 50]) == "█" * 25 + "▓" * 25
    assert COLOUR.bar([50, 50]).count("\x1b[0m") == 2
    words = COLOUR.legend(["a:50", "b:50"], 2)[0]
    codes = re.findall(r"\x1b\[(\d+)m", COLOUR.bar([50, 50]))
    assert codes == re.findall(r"\x1b\[(\d+)m", words), "the legend has the bar's colours"


def test_a_manifest_moves_no_cursor_and_rings_no_bell() -> None:
    for screen in (PLAIN, COLOUR):
        shown = screen.plain(screen.paint("a\x1b[2J\x07\x9b0m\x00b", "bold"))
        assert not set(ESCAPE.sub("", shown)) & set("\x1b\x07\x9b\x00")
        assert r"a\x1b[2J\x07\x9b0m\x00b" in ESCAPE.sub("", shown)


BEFORE = """\
spec:
  replicas: 3
  template:
    spec:
      containers:
        - name: a
          image: x
        - name: model
          image: y
          resources:
            limits:
              gpu: 300m
              memory: 2Gi
"""


def test_a_change_is_shown_below_the_keys_that_lead_to_it_and_no_others() -> None:
    after = BEFORE.replace("gpu: 300m", "milligpu.io/vgpu: '30'")
    assert changes(BEFORE, after) == [
        (" ", "spec:"),
        (" ", "  template:"),
        (" ", "    spec:"),
        (" ", "      containers:"),
        (" ", "        - name: model"),
        (" ", "          resources:"),
        (" ", "            limits:"),
        ("-", "              gpu: 300m"),
        ("+", "              milligpu.io/vgpu: '30'"),
    ]


lines = st.lists(st.sampled_from(["a:", "  b: 1", "  c:", "    - d", "    - e: 2", "f: 3"]))


@given(lines, lines)
def test_changes_hold_every_changed_line_in_order(before: list[str], after: list[str]) -> None:
    rows = changes("\n".join(before), "\n".join(after))
    gone = [text for mark, text in rows if mark == "-"]
    new = [text for mark, text in rows if mark == "+"]
    kept = len(before) - len(gone)
    assert kept == len(after) - len(new)
    for side, part in ((before, gone), (after, new)):
        rest = iter(side)
        assert all(line in rest for line in part), "a subsequence of its side"
    assert (not rows) == (before == after)


@given(st.text("ab ", max_size=300).filter(str.strip), st.integers(60, 110))
def test_fields_fit_the_screen(text: str, width: int) -> None:
    screen = Screen(width, colour=False, unicode=True)
    folded = screen.field("label", [text], column=14)
    assert all(len(line) <= width for line in folded)
    assert "".join("".join(folded).split()) == "label" + "".join(text.split())


def stream(encoding: str, *, terminal: bool = True) -> io.TextIOWrapper:
    made = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
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
    screen = Screen.of(stream("utf-8", terminal=terminal), environ)
    assert screen.colour is colour
    assert ("\x1b" in screen.rule("x")) is colour


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_everything_can_be_printed_in_every_encoding(encoding: str) -> None:
    screen = Screen.of(stream(encoding), {})
    assert screen.unicode is (encoding == "utf-8")
    shown = screen.plain("\n".join([screen.rule("x"), screen.bar([3, 30, 30]), "✗ refused"]))
    assert shown.encode(encoding)
    assert len(ESCAPE.sub("", shown).splitlines()[1]) == 50


@pytest.mark.parametrize(("columns", "width"), [("20", 60), ("80", 80), ("400", 110)])
def test_the_width_is_the_terminals_within_reason(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert Screen.of(stream("utf-8"), os.environ).width == width
