"""The image that is built from the Dockerfile: what is in it, and what is not."""

import hashlib
import json
import tarfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import images, sbom, shapes
from tests.cluster.api import Json
from tests.cluster.eventually import eventually
from tests.cluster.spaces import Space
from tests.contract.test_locks import entries, name
from tests.documents import ROOT, rows

pytestmark = pytest.mark.node

LOOK = """
import importlib.util, json, os, pathlib, shutil, sys
tools = [name for name in ("gcc", "cc", "make", "pip", "pip3", "uv") if shutil.which(name)]
rests = [path for path in ("/pip", "/requirements.lock") if os.path.exists(path)]
app = pathlib.Path("/opt/milligpu/app")
print(json.dumps({
    "uid": os.getuid(), "tools": tools, "rests": rests,
    "pip": importlib.util.find_spec("pip") is not None,
    "packages": sorted(p.name for p in app.iterdir()),
    "uncompiled": [p.name for p in app.rglob("*.py")
                   if not list((p.parent / "__pycache__").glob(p.stem + ".*.pyc"))],
    # Bit 0: known by the source's hash, not by its time; bit 1: which is to be looked at.
    "by time": [p.name for p in app.parent.rglob("*.pyc") if p.read_bytes()[4] != 1],
    "writable": [str(p) for p in (app, *app.rglob("*")) if os.access(p, os.W_OK)],
}))
"""

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image, as `docker save` writes it."""
    path = tmp_path_factory.mktemp("image") / "milligpu.tar"
    with images.builder() as build:
        images.product(build)
        build.save(images.PRODUCT, path)
    return path


def said(archive: Path, file: str) -> Any:
    """Return one of the JSON files of an archive."""
    with tarfile.open(archive) as tar:
        found = tar.extractfile(file)
        assert found
        return json.load(found)


def test_it_says_what_it_is(archive: Path) -> None:
    (manifest,) = said(archive, "manifest.json")
    config = said(archive, manifest["Config"])["config"]
    prefix = "org.opencontainers.image."
    labels = {
        key.removeprefix(prefix): value
        for key, value in config["Labels"].items()
        if key.startswith(prefix)
    }
    assert labels["title"] == PROJECT["name"]
    assert labels["version"] == PROJECT["version"]
    assert config["User"] == "65532:65532"


def test_the_page_states_its_size(archive: Path) -> None:
    (manifest,) = said(archive, "manifest.json")
    with tarfile.open(archive) as tar:
        sizes = [tar.getmember(layer).size / 1e6 for layer in manifest["Layers"]]
    page = (ROOT / "docs/how-to/release.md").read_text()
    stated = [float(row[1].removesuffix(" MB")) for row in rows(page, "What is in the image")]
    assert len(stated) == len(sizes) + 1  # and the sum
    assert stated == pytest.approx([*sizes, sum(sizes)], rel=0.05, abs=0.2)


def packages(components: Iterable[Json]) -> set[tuple[str, str]]:
    return {(name(each["name"]), each["version"]) for each in components}


def locked() -> set[tuple[str, str]]:
    """Return name and version of each package that an image of CPython gets."""
    lines = entries("requirements.lock").values()
    return {(name(line), line.split("==")[1].split()[0]) for line in lines}


@pytest.mark.long
@pytest.mark.timeout(1800)  # the first run builds syft
def test_everything_of_the_lock_is_in_the_list_of_what_is_in_it(
    archive: Path, tmp_path: Path
) -> None:
    target = tmp_path / "milligpu.cdx.json"
    sbom.write(archive, target)
    found = json.loads(target.read_text())
    component = found["metadata"]["component"]
    assert (component["name"], component["version"]) == (PROJECT["name"], PROJECT["version"])
    listed = [each for each in found["components"] if "purl" in each]
    python = [each for each in listed if each["purl"].startswith("pkg:pypi/")]
    assert packages(python) == locked()
    assert len([each for each in python if each.get("licenses")]) > 0.9 * len(python)
    debian = {each["name"] for each in listed if each["purl"].startswith("pkg:deb/")}
    assert {"libc6", "libssl3", "ca-certificates"} <= debian
    files = {each["name"]: each["hashes"] for each in found["components"] if "hashes" in each}
    ours = hashlib.sha256((ROOT / "vgpu/slots.py").read_bytes()).hexdigest()
    assert {"alg": "SHA-256", "content": ours} in files["/opt/milligpu/app/vgpu/slots.py"]


def test_it_holds_the_three_programs_and_nothing_to_build_with(space: Space) -> None:
    container = {"name": "main", "image": images.PRODUCT, "command": ["python", "-c", LOOK]}
    pod = shapes.pod("look", container)
    pod["spec"]["restartPolicy"] = "Never"
    space.create(pod)
    eventually(lambda: space.pod("look")["status"]["phase"] == "Succeeded", "a look into the image")
    assert json.loads(space.kubectl("logs", "look")) == {
        "uid": 65532,
        "tools": [],
        "rests": [],
        "pip": False,
        "packages": ["certs", "plugin", "vgpu", "webhook"],
        "uncompiled": [],
        "by time": [],
        "writable": [],
    }
