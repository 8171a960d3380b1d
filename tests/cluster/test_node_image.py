"""The image that is built from the Dockerfile: what is in it, and what is not."""

import json

import pytest

from tests.cluster import images, shapes
from tests.cluster.eventually import eventually
from tests.cluster.spaces import Space

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
    "writable": [str(p) for p in (app, *app.rglob("*")) if os.access(p, os.W_OK)],
}))
"""


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
        "writable": [],
    }
