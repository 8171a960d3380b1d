"""`milligpu mutate`: what the webhook makes of manifests, without a cluster."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from milligpu import kubeyaml, manifests
from milligpu.manifests import File, Manifest
from milligpu.remarks import creation, findings
from milligpu.show import Screen
from vgpu.settings import read
from webhook import templates
from webhook.config import Config
from webhook.mutate import desired
from webhook.pod import Json
from webhook.review import Review

_HOLDING = r"gpu|\\(?:[xuU]|\r?\n)"
"""What stands in a document with any of our names, or an escape for one of their letters."""


def main(paths: Sequence[Path], form: str) -> int:
    """Print the files' documents as a stream; `form` is `object`, or `pod` for only their pods.

    Returns 0, or 1 with nothing printed where an object is denied. Raises SettingsError and
    ManifestError.
    """
    config, texts, denied = read(Config, os.environ), list[str](), False
    for file in [manifests.read(path, _HOLDING) for path in paths]:
        made = {each: _made(file, each, config) for each in file.manifests}
        allowed = {each: document for each, document in made.items() if document is not None}
        denied |= len(allowed) < len(made)
        if form == "pod":
            texts += (text for each in allowed.items() for text in _pods(*each, config))
        else:
            texts.append(file.rewritten(allowed))
    if denied:  # half of a result would be applied by whoever reads it
        print("milligpu mutate: nothing is printed, for there are errors", file=sys.stderr)
    else:
        sys.stdout.buffer.write(_joined(texts).encode())
    return int(denied)


def _made(file: File, manifest: Manifest, config: Config) -> Json | None:
    """Say what there is to say of an object and return it translated; None if it is denied."""
    review, denied = creation(manifest.document), False
    screen = Screen.of(sys.stderr, os.environ)
    found = [(manifest.line(each.path), each) for each in findings(review, config)]
    for number, each in sorted(found, key=lambda pair: pair[0]):
        line = f"{file.path}:{number}: {each.code.level}: {manifest.title}: {each}"
        print(screen.plain(line), file=sys.stderr)
        denied |= each.code.level == "error"
    return None if denied else desired(review, config).object


def _pods(manifest: Manifest, document: Json, config: Config) -> Iterator[str]:
    """Yield the pods of an object as YAML, one for each template."""
    review = creation(document)
    for place in templates.places(document, templates.patterns(review, config.template_paths)):
        pod = held = templates.get(document, place)
        if place:
            metadata = {"generateName": f"{manifest.name}-", **(held.get("metadata") or {})}
            pod = {"apiVersion": "v1", "kind": "Pod", **held, "metadata": metadata}
        made = desired(Review("", "Pod", pod, None), config).object
        yield f"# {manifest.title}\n{kubeyaml.dump(made)}"


def _joined(texts: Sequence[str]) -> str:
    """Return texts as one stream of documents."""
    stream = ""
    for text in filter(None, texts):
        stream += "\n" if stream and not stream.endswith("\n") else ""
        stream += "---\n" if stream and not text.startswith("---") else ""
        stream += text.lstrip("\ufeff") if stream else text
    return stream
