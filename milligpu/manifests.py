"""Manifests as people keep them: YAML or JSON files of several documents, lists among them."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from webhook.pod import SECTIONS, Json

# What kubectl reads: there `off` is a boolean.
_VERSION = (1, 1)
_ITEM = "-"
_LONGEST_CAPTION = 3  # lines; what is longer is a licence or notes


class ManifestError(Exception):
    """A file holds no manifests; the message names the file and the line or document."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file."""

    where: str
    """The file, and the document where there are several."""
    document: Json

    @property
    def title(self) -> str:
        """Kind and name, as kubectl writes them: `Deployment/sentiment`."""
        metadata = self.document["metadata"]
        return f"{self.document['kind']}/{metadata.get('name') or metadata.get('generateName')}"


@dataclass(frozen=True, slots=True)
class File:
    """A file that was read."""

    path: Path
    caption: str
    """What its first comment says, if that is short."""
    manifests: tuple[Manifest, ...]


def read(path: Path) -> File:
    """Read a file. Raises ManifestError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "not UTF-8 text"
        raise ManifestError(f"{path}: {reason}") from fault
    found = [document for document in _documents(path, text) if document is not None]
    manifests: list[Manifest] = []
    for number, document in enumerate(found, 1):
        manifests += _items(f"{path}, document {number}" if len(found) > 1 else str(path), document)
    return File(path, _caption(text), tuple(manifests))


def dump(document: Json) -> str:
    """Return an object as YAML, keys in the order that they have."""
    yaml = YAML()
    yaml.version, yaml.width = _VERSION, 2**16
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    yaml.dump(_styled(document), stream)
    return stream.getvalue().partition("---\n")[2]


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
    return value


def _documents(path: Path, text: str) -> list[Any]:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = _VERSION
    try:
        # Through JSON, as on the way to an API server: no dates, no aliases, keys are texts.
        return [
            json.loads(json.dumps(document, default=str, allow_nan=False))
            for document in yaml.load_all(text)
        ]
    except MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise ManifestError(f"{path}{line}: {fault.problem or fault.context}") from fault
    except (YAMLError, ValueError, TypeError, RecursionError) as fault:
        raise ManifestError(f"{path}: {' '.join(str(fault).split())}") from fault


def _items(where: str, document: Any) -> Iterator[Manifest]:
    """Yield the objects of a document: itself, or those of a list."""
    match document:
        case {"apiVersion": str(), "kind": str(kind), "items": list(held)} if kind.endswith("List"):
            for number, item in enumerate(held, 1):
                yield from _items(f"{where}, item {number}", item)
        case {
            "apiVersion": str(),
            "kind": str(),
            "metadata": {"name": str()} | {"generateName": str()},
        }:
            yield Manifest(where, document)
        case _:
            needed = "it needs apiVersion, kind and metadata.name, all of them text"
            raise ManifestError(f"{where}: is no Kubernetes object: {needed}")


def _caption(text: str) -> str:
    lines = list(takewhile(lambda line: line.startswith("#"), text.splitlines()))
    return " ".join(line.lstrip("# ") for line in lines) if len(lines) <= _LONGEST_CAPTION else ""
