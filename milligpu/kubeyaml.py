"""YAML with the values that kubectl gives it: those of Go's yaml.v2, sent as JSON."""

import io
import json
import re
from itertools import chain
from math import isfinite
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.nodes import CollectionNode, Node, ScalarNode
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.scalarstring import LiteralScalarString, SingleQuotedScalarString
from ruamel.yaml.scanner import Scanner
from ruamel.yaml.tag import Tag

from webhook.pod import SECTIONS

_WORDS: dict[str, Any] = {"": None, "~": None, ".inf": float("inf"), ".nan": float("nan")}
for _value, _words in {True: "y yes true on", False: "n no false off", None: "null"}.items():
    for _word in _words.split():
        _WORDS |= dict.fromkeys((_word, _word.capitalize(), _word.upper()), _value)
_INTEGER = re.compile(r"[+-]?(0x[0-9a-f]+|0b[01]+|0(o?)[0-7]+|0|[1-9][0-9]{,20})", re.IGNORECASE)
_FLOAT = re.compile(r"[+-]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)(e[+-]?[0-9]+)?", re.IGNORECASE)
_NUMERIC = re.compile(r"[0-9=+:._TZ -]+")
_PREFIX = "tag:yaml.org,2002:"
_TAGS = {bool: "bool", int: "int", float: "float", type(None): "null"}
_ITEM = "-"
MOST_VALUES = 1_000_000
"""Most values of a document: aliases of aliases take no room in a file, and all of it in memory."""


def resolved(text: str) -> Any:
    """Return what a word without quotes means: text, number, boolean or null."""
    if text in _WORDS:
        return _WORDS[text]
    number = text.replace("_", "") if text[0] in "+-.0123456789" else ""
    if found := _INTEGER.fullmatch(number):
        value = int(number, 8 if found[2] == "" else 0)
        if -(2**63) <= value < 2**64:
            return value
    real = float(number) if _FLOAT.fullmatch(number) else float("inf")
    if not isfinite(real):
        return text
    return int(real) if real.is_integer() and abs(real) < 1e21 else real  # as Go writes JSON


class _Scanner(Scanner):
    def scan_to_next_token(self) -> None:
        """Let tabs stand between words, but not where a line begins."""
        super().scan_to_next_token()
        while self.reader.peek() == "\t" and not self.allow_simple_key:
            self.reader.forward()
            super().scan_to_next_token()


class _Resolver(VersionedResolver):
    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is ScalarNode and implicit[0] and value != "<<":
            return Tag(suffix=_PREFIX + _TAGS.get(type(resolved(value)), "str"))
        return super().resolve(kind, value, implicit)


class _Constructor(SafeConstructor):
    """Makes plain JSON values."""


for _name in ("int", "float", "bool", "null"):
    _Constructor.add_constructor(_PREFIX + _name, lambda _, node: resolved(node.value))
_Constructor.add_constructor(f"{_PREFIX}timestamp", SafeConstructor.construct_yaml_str)


def load(text: str) -> tuple[Node | None, Any]:
    """Return the only document of a text as a tree and as JSON values; None if there is none.

    Raises YAMLError, ValueError, TypeError.
    """
    yaml = _yaml()
    root = yaml.compose(text)
    if root and _values(root, {}) > MOST_VALUES:
        raise ValueError(f"with its aliases it has more than {MOST_VALUES} values")
    value = yaml.constructor.construct_document(root) if root else None
    # As on the way to an API server: no aliases, keys are texts.
    return root, json.loads(json.dumps(value, allow_nan=False))


def _values(node: Node, known: dict[int, int]) -> int:
    """Count the values of a tree, those of an alias each time; `known` has them by a node's id."""
    if id(node) not in known:
        known[id(node)] = 1  # what contains itself has no end; its construction says so
        held = node.value if isinstance(node, CollectionNode) else ()
        nodes = chain.from_iterable(each if isinstance(each, tuple) else (each,) for each in held)
        known[id(node)] += sum(_values(each, known) for each in nodes)
    return known[id(node)]


def tree(text: str) -> Node:
    """Return the only document as it is written: `<<` is a key as any other."""
    root: Node = _yaml().compose(text)
    return root


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.version, yaml.Scanner = (1, 1), _Scanner
    yaml.Resolver, yaml.Constructor = _Resolver, _Constructor
    return yaml


def key_of(node: Node) -> str:
    """Return the key that a node is in JSON."""
    plain = getattr(node, "style", "") is None
    value = resolved(node.value) if plain else node.value
    return value if isinstance(value, str) else json.dumps(value)


def dump(value: Any, step: int = 2, offset: int = 2, *, flow: bool = False) -> str:
    """Return a value as YAML, keys in the order that they have, or all of it in one line.

    Lists are indented below their keys by `offset`, objects by `step` columns.
    """
    yaml = YAML()
    yaml.version, yaml.width, yaml.Resolver = (1, 1), 2**16, _Resolver
    yaml.default_flow_style = flow
    yaml.indent(mapping=step, sequence=offset + 2, offset=offset)
    stream = io.StringIO()
    yaml.dump(_styled(value), stream)
    return stream.getvalue().partition("---")[2][1:]


def _styled(value: Any, key: str = "") -> Any:
    """Put the small objects of a list, such as variables, on a line each; but not containers."""
    if isinstance(value, dict):
        block = CommentedMap((name, _styled(item, name)) for name, item in value.items())
        small = not any(isinstance(item, dict | list) for item in value.values())
        if key == _ITEM and small:
            block.fa.set_flow_style()
        return block
    if isinstance(value, list):
        return [_styled(item, "" if key in SECTIONS else _ITEM) for item in value]
    if not isinstance(value, str):
        return value
    if _NUMERIC.fullmatch(value):  # to others it is a time or a date
        return SingleQuotedScalarString(value)
    body = value.removesuffix("\n")
    lines = body.replace("\n", "").replace("\t", "")
    is_literal = "\n" in value and body == body.strip() and lines.isprintable()
    return LiteralScalarString(value) if is_literal else value
