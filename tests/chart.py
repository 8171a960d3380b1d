"""The chart rendered by the real Helm, and the one file that is made of it.

`python -m tests.chart` writes deploy/webhook.yaml anew.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.cluster.tools import ensure
from tests.documents import ROOT

CHART = ROOT / "deploy" / "chart"
MANIFEST = ROOT / "deploy" / "webhook.yaml"
SECTIONS = {
    "places": "Where things run",
    "settings": "Settings",
    "certs": "Certificates",
    "webhook": "Webhook",
    "plugin": "Plugin",
    "admission": "What reaches the webhook",
}
"""Templates in the order of the one file, and what stands above what they make."""
KUBERNETES = "1.36.0"
"""For a Helm that was built from source: without a cluster it takes itself for a very old one."""
_SOURCE = re.compile(r"^---\n# Source: milligpu/templates/([a-z-]+)\.yaml\n", re.MULTILINE)
_HEADER = """\
# milligpu on a cluster: kubectl apply -f webhook.yaml
#
# First put your own image's name for `milligpu:dev`: it stands in this file three times. The
# settings are in the three ConfigMaps; pods read them when they start. More in
# docs/how-to/install.md.
# No key lies in here: the program `certs` makes the webhook's certificate in the cluster and fills
# in the caBundle at the end of this file; applying the file again leaves that alone.
#
# `make manifests` makes this file of the chart in deploy/chart.
"""


class RenderError(Exception):
    """Helm refuses to render; the message is Helm's own."""


def text(*arguments: str, values: Mapping[str, Any] | None = None, helm: str = "helm") -> str:
    """Return what Helm renders, with these values above the chart's. Raises RenderError."""
    program = str(ensure([helm])[helm])
    command = [program, "template", "milligpu", str(CHART), "--values", "-"]
    done = subprocess.run(
        [*command, "--kube-version", KUBERNETES, *arguments],
        input=json.dumps(values or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RenderError(done.stderr)
    return done.stdout


def objects(values: Mapping[str, Any] | None = None) -> list[Any]:
    """Return the objects that Helm renders; they are shared. Raises RenderError."""
    return _objects(json.dumps(values or {}))


@cache
def _objects(values: str) -> list[Any]:
    rendered = text(values=json.loads(values))
    return [each for each in YAML(typ="safe").load_all(rendered) if each]


def manifest(helm: str = "helm") -> str:
    """Return the one file: what the chart makes, in the order of a reader.

    Who edits settings in a file cannot keep a checksum of them, so there is none.
    """
    _, *parts = _SOURCE.split(text(values={"restartOnChange": False}, helm=helm))
    documents = [
        (source, document.strip("\n"))
        for source, document in zip(parts[::2], parts[1::2], strict=True)
    ]
    assert {source for source, _ in documents} == set(SECTIONS)
    return _HEADER + "".join(
        _heading(title)
        + "\n---\n".join(document for source, document in documents if source == section)
        + "\n"
        for section, title in SECTIONS.items()
    )


def _heading(title: str) -> str:
    line = f"# --- {title} ".ljust(121, "-")
    return f"\n{line}\n---\n" if title != SECTIONS["places"] else f"\n{line}\n\n"


def main(path: Path = MANIFEST) -> None:
    """Write the one file."""
    path.write_text(manifest())


if __name__ == "__main__":
    main()
