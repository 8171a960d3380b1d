"""Gives a YAML text another value: only the lines of what is different are written anew."""

import json
import re
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

from ruamel.yaml.nodes import MappingNode, Node

from milligpu import kubeyaml

_STEP = re.compile(r"^(?:metadata|spec):[ \t]*\r?\n( +)\w", re.MULTILINE)
_OFFSET = re.compile(r"^( *)[^\s#-][^\n]*:[ \t]*\r?\n(?: *#[^\n]*\n)*( *)- ", re.MULTILINE)
_DASH = re.compile(r"([&!]\S*\s+|#.*\s+)*-")  # after an anchor, a tag, comments
_ALIAS = re.compile(r"([:\s-]|#[^\n]*\n)*\*\S+")

New: TypeAlias = tuple[str, Any]
"""A key, empty for an item of a list, and its value."""


class CannotEditError(Exception):
    """The text is written in a way for which there is no edit."""


class Member(NamedTuple):
    """A key with its value, or an item of a list, in a text."""

    key: str
    value: Any
    start: int
    end: int
    node: Node | None
    """None for an alias."""


Pairs: TypeAlias = list[tuple[Member | None, New | None]]
"""Members and what they become: None if they go; no member where something is added."""


def edited(text: str, before: Any, after: Any) -> str:
    """Return a document's text with another value. Raises CannotEditError.

    Where an alias stands for something that changes, the result may hold something else.
    """
    editor = _Editor(text)
    if not editor.edit(kubeyaml.tree(text), before, after, ""):
        raise CannotEditError
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
        if type(before) is not type(after):
            return False
        if before == after or node is None or not after or not _is_block(node):
            return bool(before == after)
        members = self._members(node, before)
        pairs = _items(members, after) if isinstance(after, list) else _keys(members, after)
        if not any(old and new for old, new in pairs):
            return False
        indent, last = self.newline + " " * self._column(members[0].start), None
        for old, new in pairs:
            lines = self._lines(old, new, key) if new else []
            if old and new:
                last = old
                if old.key != new[0] or not self.edit(old.node, old.value, new[1], old.key or key):
                    self._put(old.start, old.end, indent.join(lines))
            elif old:
                self._remove(old)
            else:
                self._add(last, indent.join(["", *lines]))
        return True

    def _put(self, start: int, end: int, text: str) -> None:
        self.edits.append((start, end, len(self.edits), text))

    def _add(self, last: Member | None, text: str) -> None:
        if last is None:
            raise CannotEditError
        end = self._line_end(last.end)
        self._put(end, end, text)

    def _remove(self, member: Member) -> None:
        start = member.start - self._column(member.start)
        if self.text[start : member.start].strip():
            raise CannotEditError
        self._put(start, self._line_end(member.end) + len(self.newline), "")

    def _lines(self, old: Member | None, new: New, key: str) -> list[str]:
        """Return the lines of a member; a value in brackets stays in brackets."""
        name, value = new
        if old and old.value and value and getattr(old.node, "flow_style", False):
            text = kubeyaml.dump({name: value} if name else [value], flow=True).strip()[1:-1]
            return [text if name else f"- {text}"]
        if name:
            return kubeyaml.dump({name: value}, *self.style).splitlines()
        lines = kubeyaml.dump({key: [value]}, *self.style).splitlines()[1:]
        return [line[self.style[1] :] for line in lines]

    def _members(self, node: Node, before: Any) -> list[Member]:
        """Return the members of what stands in lines. Raises CannotEditError for `<<`."""
        found: list[Member] = []
        for index, each in enumerate(node.value):
            if isinstance(node, MappingNode):
                name, value = each
                key, start, after = kubeyaml.key_of(name), _start(name), name.end_mark.index
                if key not in before:
                    raise CannotEditError
            else:
                key, value, start = "", each, self._dash(node, found)
                after = start
            end, known = self._end(value, after), None if _start(value) < after else value
            found.append(Member(key, before[key or index], start, end, known))
        return found

    def _dash(self, node: Node, before: list[Member]) -> int:
        """Return where the next item's dash is: in the column of the first one's."""
        if before:
            dash = re.compile(f"^ {{{self._column(before[0].start)}}}-", re.MULTILINE)
            match = dash.search(self.text, before[-1].end)
        else:
            match = _DASH.match(self.text, _start(node))
        if match is None:
            raise CannotEditError
        return match.end() - 1

    def _end(self, node: Node, after: int) -> int:
        """Return where a value ends that begins after an index."""
        start = _start(node)
        if start < after:
            found = _ALIAS.match(self.text, after)
            return found.end() if found else after
        if not _is_block(node):  # blank lines and comments after a block of text are not its own
            return start + len(self.text[start : node.end_mark.index].rstrip())
        if isinstance(node, MappingNode):
            name, value = node.value[-1]
            return self._end(value, name.end_mark.index)
        for item in node.value:
            start = self._end(item, start)
        return start

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


def _items(members: list[Member], after: list[Any]) -> Pairs:
    """Pair items by their names, or by their values."""
    old, new = [_label(each.value) for each in members], [_label(each) for each in after]
    pairs: Pairs = []
    for _, start, end, first, last in SequenceMatcher(None, old, new, False).get_opcodes():
        pairs += zip_longest(members[start:end], [("", each) for each in after[first:last]])
    return pairs


def _label(item: Any) -> str:
    named = isinstance(item, dict) and isinstance(item.get("name"), str)
    return json.dumps(item["name"] if named else item, sort_keys=True)
