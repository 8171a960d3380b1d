"""What the page on symptoms shows, for the tests that make each of it happen.

A test names what it waits for by `symptom("...")`, with the page's own words. The contract test
sees to it that nothing stands on the page that no test names, and the other way round.
"""

import ast
import json
import re
from functools import cache
from pathlib import Path

from tests.cluster import shapes
from tests.cluster.api import Json
from tests.cluster.controlplane import ControlPlane
from tests.cluster.shapes import limited
from tests.documents import ROOT, code
from vgpu import names

FILE = ROOT / "docs/how-to/troubleshooting.md"
ELSEWHERE = "Messages of others"
"""The heading below which stands what nobody has tried here."""
_TABLE = re.compile(r"^\| you see \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", re.MULTILINE)
_ANYTHING = "..."


@cache
def page() -> str:
    """Return the page's text."""
    return FILE.read_text()


def shown() -> list[str]:
    """Return every message that the page shows, but for those that were not tried here."""
    own = page().split(f"\n## {ELSEWHERE}\n")[0]
    cells = (row.split("|")[1] for table in _TABLE.findall(own) for row in table.splitlines())
    return [each for cell in cells for each in code(cell)]


def symptom(text: str) -> re.Pattern[str]:
    """Return how a message of the page is looked for; `...` on the page stands for anything."""
    assert text in shown(), f"{FILE.name} does not show: {text}"
    return re.compile(".*?".join(map(re.escape, text.split(_ANYTHING))))


def named(file: Path) -> set[str]:
    """Return the symptoms that a file of tests names."""
    calls = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
    return {
        argument.value
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == symptom.__name__
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def said(plane: ControlPlane, namespace: str, obj: Json, *command: str) -> str:
    """Return what kubectl says on the screen when an object is refused."""
    argv = (*(command or ("apply",)), "-n", namespace, "-f", "-")
    done = plane.kubectl(*argv, stdin=json.dumps(obj), check=False)
    assert done.returncode, f"it was taken: {done.stdout}"
    return done.stderr


def model(**limits: str) -> Json:
    """Return a pod whose container has limits, an ask if none are named."""
    return shapes.pod("model", limited("main", **(limits or {names.ASK: "300m"})))


def annotated(value: object, key: str = names.ANNOTATION_ASK) -> Json:
    """Return a pod with an annotation that may be what annotations cannot be."""
    pod = shapes.pod("model", {"name": "main"})
    pod["metadata"]["annotations"] = {key: value}
    return pod
