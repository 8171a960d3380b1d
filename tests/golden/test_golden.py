"""Objects as people send them, and the whole objects that they become.

Each file says why it is there, under which settings (`config`, if any), what is given, and what is
wanted: `want`, the object after the patch, or `rejected`, the messages; and the `warnings`.
"""

import json
from base64 import b64decode
from functools import cache
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
from ruamel.yaml import YAML

from tests.unit.webhook.objects import review
from vgpu.settings import read
from webhook.admission import answer
from webhook.config import Config

FILES = sorted(Path(__file__).parent.glob("*.yaml"))
GIVEN = {"object", "oldObject"}
Case = dict[str, Any]


@cache
def loaded(path: Path) -> Case:
    """Return a case as plain data."""
    return dict(YAML(typ="safe").load(path))


def _yaml() -> YAML:
    yaml = YAML()
    yaml.width = 100
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def answered(case: Case) -> Case:
    """Return what the webhook says to a case, in the words of a case."""
    given = json.loads(json.dumps(case["given"]))
    config = read(Config, case.get("config", {}))
    response = answer(review(given["object"], given.get("oldObject")), config).body["response"]
    said: Case = {}
    if response["allowed"]:
        patch = json.loads(b64decode(response["patch"])) if "patch" in response else []
        said["want"] = jsonpatch.apply_patch(given["object"], patch)
    else:
        said["rejected"] = [response["status"]["message"]]
    if "warnings" in response:
        said["warnings"] = response["warnings"]
    return said


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_golden(path: Path, request: pytest.FixtureRequest) -> None:
    case = loaded(path)
    said = answered(case)
    wanted = {key: case[key] for key in ("want", "rejected", "warnings") if key in case}
    if "rejected" in wanted:
        wanted["rejected"] = ["; ".join(wanted["rejected"])]
    if wanted != said and request.config.getoption("--update-golden", default=False):
        _write(path, said)
        pytest.fail(f"{path.name} was written anew: read the difference")
    assert said == wanted


def _write(path: Path, said: Case) -> None:
    case = _yaml().load(path)
    for key in ("want", "rejected", "warnings"):
        case.pop(key, None)
    given = case["given"]["object"]
    if said.get("want") == given:
        given.yaml_set_anchor("object")  # what does not change is not written twice
        said["want"] = given
    _yaml().dump({**case, **said}, path)


def test_golden_files_are_well_formed() -> None:
    assert len(FILES) >= 12
    for path in FILES:
        case = loaded(path)
        assert set(case) <= {"why", "config", "given", "want", "rejected", "warnings"}, path.name
        assert ("want" in case) != ("rejected" in case), path.name
        assert case["why"], path.name
        assert "object" in case["given"], path.name
        assert set(case["given"]) <= GIVEN, path.name
