"""Manifests as people keep them: YAML or JSON files of several documents, lists among them."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from milligpu import edit, kubeyaml
from webhook.pod import Json

STDIN = Path("-")
# Alone in its line, or before a comment, as kubectl splits a file.
_SEPARATOR = re.compile(r"(^---[ \t]*(?:#[^\n]*)?\r?(?:\n|\Z))", re.MULTILINE)
_CONTENT = re.compile(r"^(?!---)[ \t]*[^\s#\ufeff]", re.MULTILINE)
_OBJECT = re.compile(r"[\s\ufeff]*{")
_LIST = re.compile(r"[^\n]*List").fullmatch
_INDENT = re.compile(r"\s*{\s*\n([ \t]+)")
_PAIR = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..")
_KEYS = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


class ManifestError(Exception):
    """A file cannot be read; the message names the file and the line or document."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A part of a file: a document, or what stands between two of them."""

    text: str
    line: int
    """Number of its first line."""
    root: Node | None = None
    """None of a piece without a document, or that is not looked into."""
    json: Any = None
    path: Path = STDIN

    def rewritten(self, new: Mapping[int, Json]) -> str:
        """Return the text with other objects, by the ids of those that they replace."""
        after = _replaced(self.json, new)
        if after is self.json:
            return self.text
        if _is_json(self.text):
            indent = found[1] if (found := _INDENT.match(self.text)) else None
            body = json.dumps(after, indent=indent, ensure_ascii=self.text.isascii())
            return self.text.replace(self.text.strip(), body)
        with suppress(YAMLError, ValueError, TypeError):
            text = edit.edited(self.text, self.json, after)
            if _exact(kubeyaml.load(text)[1]) == _exact(after):
                return text
        text = kubeyaml.dump(after, *edit.style(self.text))
        return text.replace("\n", "\r\n") if "\r\n" in self.text else text


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """One object of a file."""

    where: str
    """The file, and the document where there are several."""
    document: Json
    _node: Node
    _piece: Piece

    @property
    def name(self) -> str:
        """Its name or generateName; empty if it has none."""
        metadata = self.document.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName")
        return name if isinstance(name, str) else ""

    @property
    def title(self) -> str:
        """Kind and name, as kubectl writes them: `Deployment/sentiment`."""
        return "/".join(filter(None, (self.document["kind"], self.name)))

    def place(self, path: str) -> str:
        """Return the file and the line of a field path, as compilers write them."""
        return f"{self._piece.path}:{self.line(path)}"

    def line(self, path: str) -> int:
        """Return the line of a field path, or of what comes nearest to it on the way there."""
        node, found = self._node, self._node
        for key in (bracketed or plain for bracketed, plain in _KEYS.findall(path)):
            if isinstance(node, MappingNode):
                pairs = [pair for pair in node.value if kubeyaml.key_of(pair[0]) == key]
            else:
                items = node.value if isinstance(node, SequenceNode) and key.isdecimal() else []
                pairs = [(item, item) for item in items[int(key) :][:1]] if items else []
            if not pairs:
                break
            found, node = pairs[-1]  # the first ones may be taken from another object
        return int(self._piece.line + found.start_mark.line)


@dataclass(frozen=True, slots=True)
class File:
    """A file that was read."""

    path: Path
    pieces: tuple[Piece, ...]
    manifests: tuple[Manifest, ...]
    others: tuple[str, ...]
    """Where there are documents that are no Kubernetes objects."""

    def named(self) -> Self:
        """Return it; raises ManifestError if a document is no object with a name."""
        nameless = (each.where for each in self.manifests if not each.name)
        for where in (*self.others, *nameless):
            needed = "it needs apiVersion, kind and metadata.name, all of them text"
            raise ManifestError(f"{where}: is no Kubernetes object: {needed}")
        return self

    def rewritten(self, new: Mapping[Manifest, Json]) -> str:
        """Return the file's text with other objects; documents without one stay as they are."""
        changed = {id(manifest.document): document for manifest, document in new.items()}
        return "".join(piece.rewritten(changed) for piece in self.pieces)


def read(path: Path, holding: str = "") -> File:
    """Read a file, or the standard input for `-`. Raises ManifestError.

    Documents in whose text a regular expression finds nothing are not looked into.
    """
    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        text = data.decode()
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "not UTF-8 text"
        hint = f"; name its files: {path}/*.yaml" if path.is_dir() else ""
        raise ManifestError(f"{path}: {reason}{hint}") from fault
    pieces = tuple(_pieces(path, text, re.compile(holding)))
    documents = [piece for piece in pieces if _CONTENT.search(piece.text)]
    found: list[Manifest | str] = []
    for number, piece in enumerate(documents, 1):
        where = f"{path}, document {number}" if len(documents) > 1 else str(path)
        if piece.root and piece.json is not None:
            found += _objects(where, piece, piece.root, piece.json)
    manifests = tuple(each for each in found if isinstance(each, Manifest))
    others = tuple(each for each in found if isinstance(each, str))
    return File(path, pieces, manifests, others)


def _pieces(path: Path, text: str, holding: re.Pattern[str]) -> Iterator[Piece]:
    line = 1
    for part in _json_parts(text) or _SEPARATOR.split(text):
        yield _parsed(path, part, line) if holding.search(part) else Piece(part, line)
        line += part.count("\n")


def _json_parts(text: str) -> list[str]:
    """Return the objects of a JSON file, each with the space before it; nothing of other files."""
    decoder, parts, end = json.JSONDecoder(), list[str](), 0
    with suppress(ValueError, RecursionError):
        while match := _OBJECT.match(text, end):
            start, end = end, decoder.raw_decode(text, match.end() - 1)[1]
            parts.append(text[start:end])
    return [] if text[end:].strip() else [*parts, text[end:]]


def _parsed(path: Path, text: str, line: int) -> Piece:
    # In JSON there may be surrogate pairs, which YAML does not know.
    joined = _PAIR.sub(lambda pair: str(json.loads(f'"{pair[0]}"')), text)
    try:
        return Piece(text, line, *kubeyaml.load(joined if _is_json(text) else text), path)
    except MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        where = f", line {mark.line + line}" if mark else ""
        problem = (fault.problem or fault.context).partition(" with value")[0]
        problem += "; if it is a template, render it first" if "{{" in text else ""
        raise ManifestError(f"{path}{where}: {problem}") from fault
    except (YAMLError, ValueError, TypeError, RecursionError) as fault:
        raise ManifestError(f"{path}: {' '.join(str(fault).split())}") from fault


def _is_json(text: str) -> bool:
    with suppress(ValueError, RecursionError):
        return bool(_OBJECT.match(text) and json.loads(text))
    return False


def _objects(where: str, piece: Piece, node: Node, value: Any) -> Iterator[Manifest | str]:
    """Yield the objects of a document: itself, or those of a list; the place of what is none."""
    match value:
        case {"apiVersion": str(made), "kind": str(kind), "items": list(items)} if _LIST(kind):
            nodes = [held for key, held in node.value if key.value == "items"][-1]
            for number, (below, item) in enumerate(zip(nodes.value, items, strict=True), 1):
                if kind != "List" and isinstance(item, dict):
                    item.setdefault("apiVersion", made)
                    item.setdefault("kind", kind.removesuffix("List"))
                yield from _objects(f"{where}, item {number}", piece, below, item)
        case {"apiVersion": str(), "kind": str()} if isinstance(value.get("metadata") or {}, dict):
            yield Manifest(where, value, node, piece)
        case _:
            yield where


def _replaced(value: Any, new: Mapping[int, Json]) -> Any:
    """Return a document with other objects in it; the very same one if there are none."""
    if id(value) in new:
        return new[id(value)]
    if not isinstance(value, dict) or not isinstance(value.get("items"), list):
        return value
    items = [_replaced(item, new) for item in value["items"]]
    same = all(item is old for item, old in zip(items, value["items"], strict=True))
    return value if same else {**value, "items": items}


def _exact(value: Any) -> str:
    """Return what is equal for equal values, where `1` is not `true`."""
    return json.dumps(value, sort_keys=True)
