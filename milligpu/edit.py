"""Gives a YAML text another value: only the lines of what is different are written anew."""

import json
import re
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

from ruamel.yaml.nodes import MappingNode, Node

from milligpu import kubeyaml
from webhook.pod import named

_STEP = re.compile(r"^(?:metadata|spec):[ \t]*\r?\n( +)\w", re.MULTILINE)
_OFFSET = re.compile(r"^( *)[^\s#-][^\n]*:[ \t]*\r?\n(?: *#[^\n]*\n)*( *)- ", re.MULTILINE)
_DASH = re.compile(r"([&!]\S*\s+|#.*\s+)*-")  # after an anchor, a tag, comments
_ALIAS = re.compile(r"([:\s-]|#[^\n]*\n)*\*\S+")
_EMPTY = re.compile(r"\s*[:-]")

New: TypeAlias = tuple[str, Any]
"""A key, empty for an item of a list, and its value."""


class Member(NamedTuple):
    """A key with its value, or an item of a list, in a text."""

    key: str
    """Empty for an item."""
    start: int
    end: int
    node: Node | None
    """None for an alias."""


Pairs: TypeAlias = list[tuple[Member | None, New | None]]
"""Members and what they become: None if they go; no member where something is added."""


def edited(text: str, before: Any, after: Any) -> str:
    """Return a document's text with another value. Raises ValueError where that is not possible.

    Where an alias stands for something that changes, the result may hold something else.
    """
    text += "" if text.endswith("\n") else "\n"
    editor = _Editor(text)
    if not editor.edit(kubeyaml.tree(text), before, after, ""):
        raise ValueError("it does not stand in lines")
    for start, end, _, new in sorted(editor.edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def style(text: str) -> tuple[int, int]:
    """Return by how much a text indents objects and lists, by the first places that show it."""
    step, offset = _STEP.search(text), _OFFSET.search(text)
    return len(step[1]) if step else 2, max(len(offset[2]) - len(offset[1]), 0) if offset else 2


class _Editor:
    def __init__(self, text: str) -> None:
        self.text, self.style = text, style(text)
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.edits: list[tuple[int, int, int, str]] = []
        """Start, end, number, and the text that comes there."""

    def edit(self, node: Node | None, before: Any, after: Any, key: str) -> bool:
        """Edit a value where it stands; return False if its holder must write it anew."""
        same = type(before) is type(after)
        if before == after or not (same and after and node and _is_block(node)):
            return same and bool(before == after)
        members = self._members(node)
        pairs = _items(members, before, after) if isinstance(after, list) else _keys(members, after)
        if any(old.key == "<<" for old in members) or not any(all(pair) for pair in pairs):
            return False
        indent, last = self.newline + " " * self._column(members[0].start), None
        for old, new in pairs:
            if old and new:
                last, was = old, before[old.key or members.index(old)]
                if old.key != new[0] or not self.edit(old.node, was, new[1], old.key or key):
                    self._replace(old, self._lines(old, new, key), indent)
            elif old:
                self._remove(old)
            elif new:
                lines = self._lines(None, new, key)
                end = self._line_end(last.end) if last else members[0].start
                self._put(end, end, indent.join(["", *lines] if last else [*lines, ""]))
        return True

    def _replace(self, old: Member, lines: list[str], indent: str) -> None:
        # What are several lines now leaves no place for a comment at the end of one.
        end = self._line_end(old.end) if len(lines) > 1 else old.end
        self._put(old.start, end, indent.join(lines))

    def _put(self, start: int, end: int, text: str) -> None:
        self.edits.append((start, end, len(self.edits), text))

    def _remove(self, member: Member) -> None:
        start = member.start - self._column(member.start)
        if self.text[start : member.start].strip():
            raise ValueError("something stands before it in its line")
        self._put(start, self._line_end(member.end) + len(self.newline), "")

    def _lines(self, old: Member | None, new: New, key: str) -> list[str]:
        """Return the lines of a member; a value in brackets stays in brackets."""
        name, value = new
        if value and old and old.node and getattr(old.node, "flow_style", False):
            text = kubeyaml.dump({name: value} if name else [value], flow=True).strip()[1:-1]
            return [text if name else f"- {text}"]
        if name:
            return kubeyaml.dump({name: value}, *self.style).splitlines()
        lines = kubeyaml.dump({key: [value]}, *self.style).splitlines()[1:]
        return [line[self.style[1] :] for line in lines]

    def _members(self, node: Node) -> list[Member]:
        """Return the members of what stands in lines."""
        found: list[Member] = []
        for each in node.value:
            if isinstance(node, MappingNode):
                name, value = each
                key, start, after = kubeyaml.key_of(name), _start(name), name.end_mark.index
            else:
                key, value, start = "", each, self._dash(node, found)
                after = start
            known = None if _start(value) < after else value
            found.append(Member(key, start, self._end(known, after), known))
        return found

    def _dash(self, node: Node, before: list[Member]) -> int:
        """Return where the next item's dash is: in the column of the first one's."""
        if before:
            dash = re.compile(f"^ {{{self._column(before[0].start)}}}-", re.MULTILINE)
            match = dash.search(self.text, before[-1].end)
        else:
            match = _DASH.match(self.text, _start(node))
        if match is None:
            raise ValueError("it has no dash")
        return match.end() - 1

    def _end(self, node: Node | None, after: int) -> int:
        """Return where the value ends that comes after a key or from a dash on."""
        if node and _is_block(node):
            return self._members(node)[-1].end
        if node and (text := self.text[_start(node) : node.end_mark.index]):
            # Blank lines and comments after a block of text are not its own.
            return _start(node) + len(text.rstrip())
        mark = (_EMPTY if node else _ALIAS).match(self.text, after)
        return mark.end() if mark else after

    def _column(self, index: int) -> int:
        start = self.text.rfind("\n", 0, index) + 1
        return index - start - self.text.startswith("\ufeff", start)

    def _line_end(self, index: int) -> int:
        end = self.text.find("\n", index)
        end = len(self.text) if end < 0 else end
        return end - self.text[index:end].endswith("\r")


def _start(node: Node) -> int:
    return int(node.start_mark.index)


def _is_block(node: Node) -> bool:
    return bool(node.value) and not getattr(node, "flow_style", True)


def _keys(members: list[Member], after: dict[str, Any]) -> Pairs:
    """Pair keys; a new one takes the place of one that goes."""
    known = {member.key for member in members}
    fresh = [new for new in after.items() if new[0] not in known]
    pairs: Pairs = []
    for member in members:
        if member.key in after:
            pairs.append((member, (member.key, after[member.key])))
        else:
            pairs.append((member, fresh.pop(0) if fresh else None))
    return [*pairs, *((None, new) for new in fresh)]


def _items(members: list[Member], before: list[Any], after: list[Any]) -> Pairs:
    """Pair items by their names, or by their values."""
    old, new = [_label(each) for each in before], [_label(each) for each in after]
    pairs: Pairs = []
    for _, start, end, first, last in SequenceMatcher(None, old, new, False).get_opcodes():
        pairs += zip_longest(members[start:end], [("", each) for each in after[first:last]])
    return pairs


def _label(item: Any) -> str:
    return json.dumps(item if (name := named(item)) is None else name, sort_keys=True)
