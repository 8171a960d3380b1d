"""`milligpu mutate`: what the webhook makes of manifests, without a cluster."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from milligpu import kubeyaml, manifests
from milligpu.manifests import File, Manifest
from milligpu.remarks import completed, creation, decided
from milligpu.show import Screen
from vgpu.settings import read
from webhook import templates
from webhook.config import Config
from webhook.findings import Finding
from webhook.pod import Json

_HOLDING = r"gpu|\\(?:[xuU]|\r?\n)"
"""What stands in a document with any of our names, or an escape for one of their letters."""
Make: TypeAlias = Callable[[Manifest], Json | None]
Show: TypeAlias = Callable[[File, Mapping[Manifest, Json]], Iterable[str]]


def main(paths: Sequence[Path], form: str) -> int:
    """Print the files' documents as a stream; `form` is `object`, or `pod` for only their pods.

    Returns 0, or 1 with nothing printed where an object is denied. Raises SettingsError and
    ManifestError.
    """
    config = read(Config, os.environ)
    show = partial(_pods, config) if form == "pod" else texts
    return rewrite("mutate", paths, partial(_made, config), show)


def rewrite(command: str, paths: Sequence[Path], make: Make, show: Show) -> int:
    """Print what is to be shown of files when each of their objects is made another.

    Returns 0, or 1 with nothing printed where `make` gives None. Raises ManifestError.
    """
    shown, denied = list[str](), False
    for file in [manifests.read(path, _HOLDING) for path in paths]:
        made = {each: make(each) for each in file.manifests}
        allowed = {each: document for each, document in made.items() if document is not None}
        denied |= len(allowed) < len(made)
        shown += show(file, allowed)
    if denied:  # half of a result would be applied by whoever reads it
        print(f"milligpu {command}: nothing is printed, for there are errors", file=sys.stderr)
    else:
        sys.stdout.buffer.write(_joined(shown).encode())
    return int(denied)


def texts(file: File, made: Mapping[Manifest, Json]) -> Iterable[str]:
    """Show a file as it was, but for the objects that are others now."""
    return [file.rewritten(made)]


def say(manifest: Manifest, field: str, text: str) -> None:
    """Print a message about a place in an object to the standard error."""
    print(Screen.plain(f"{manifest.place(field)}: {text}"), file=sys.stderr)


def say_findings(manifest: Manifest, found: Iterable[Finding]) -> None:
    """Print the findings of an object in the order of its lines."""
    for each in sorted(found, key=lambda each: manifest.line(each.path)):
        say(manifest, each.path, f"{each.code.level}: {manifest.title}: {each}")


def _made(config: Config, manifest: Manifest) -> Json | None:
    """Say what there is to say of an object and return it translated; None if it is denied."""
    made, said = decided(creation(manifest.document), config)
    say_findings(manifest, said)
    return made


def _pods(config: Config, _: File, made: Mapping[Manifest, Json]) -> Iterator[str]:
    """Yield the pods of objects as YAML, one for each template."""
    for manifest, document in made.items():
        review = creation(document)
        for place in templates.places(document, templates.patterns(review, config.template_paths)):
            pod = held = templates.get(document, place)
            if place:
                metadata = {"generateName": f"{manifest.name}-", **(held.get("metadata") or {})}
                pod = {"apiVersion": "v1", "kind": "Pod", **held, "metadata": metadata}
            yield f"# {manifest.title}\n{kubeyaml.dump(completed(pod, config))}"


def _joined(texts: Sequence[str]) -> str:
    """Return texts as one stream of documents."""
    stream = ""
    for text in filter(None, texts):
        stream += "\n" if stream and not stream.endswith("\n") else ""
        stream += "---\n" if stream and not text.startswith("---") else ""
        stream += text.lstrip("\ufeff") if stream else text
    return stream
