"""`milligpu explain`: what an ask becomes, of a file's objects or of a pod in the cluster."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from milligpu import manifests
from milligpu.manifests import Manifest, ManifestError
from milligpu.show import Screen
from milligpu.steps import REFUSED, Locate, explained
from vgpu.settings import read
from webhook.config import Config
from webhook.findings import Denied
from webhook.pod import Json

_COLUMN = 14


def main(files: Sequence[Path], pod: str, flags: Sequence[str]) -> int:
    """Print what becomes of files' objects, or of a pod that kubectl finds with these flags.

    Returns 0, or 1 where something is refused. Raises SettingsError and ManifestError.
    """
    config, screen, refused = read(Config, os.environ), Screen.of(sys.stdout, os.environ), False
    for title, document, locate in _of_files(files) if files else _of_cluster(pod, flags):
        print(screen.paint(screen.plain(title), "bold"))
        try:
            told = [each for each in explained(document, config, locate) if each[1]]
        except Denied as denial:
            told = [(REFUSED, [("error", str(denial))])]
        for heading, steps in told or [("it asks for no share", [])]:
            refused |= heading.endswith(REFUSED)
            print(f"  {screen.plain(heading)}")
            for word, text in steps:
                print(*screen.field(word, [screen.plain(text)], column=_COLUMN), sep="\n")
    return int(refused)


def _of_files(paths: Sequence[Path]) -> Iterator[tuple[str, Json, Locate]]:
    for file in [manifests.read(path) for path in paths]:
        for where in file.others:
            print(f"milligpu explain: {where}: is no Kubernetes object", file=sys.stderr)
        for each in file.manifests:
            yield f"{each.title}, {each.place('')}", each.document, partial(_located, each)


def _located(manifest: Manifest, field: str) -> str:
    return f", {manifest.place(field)}"


def _of_cluster(pod: str, flags: Sequence[str]) -> Iterator[tuple[str, Json, Locate]]:
    command = ["kubectl", *flags, "get", "pod", pod, "--output=json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except FileNotFoundError as fault:
        raise ManifestError("kubectl, through which pods are read, is not on the PATH") from fault
    if done.returncode:
        # Before it there may be a line for each of its attempts.
        raise ManifestError(f"kubectl: {' '.join(done.stderr.strip().splitlines()[-1:])}")
    document = json.loads(done.stdout)
    metadata = document["metadata"]
    yield f"Pod/{metadata['name']} in {metadata['namespace']}", document, lambda _field: ""
