"""The plugin on a driver, in its pod: the real nvidia-ml-py against a fake library (fake_nvml)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import shapes
from tests.cluster.api import Json
from tests.cluster.eventually import eventually
from tests.cluster.node import Node
from tests.cluster.product import SETTINGS, restart_plugin, slots
from tests.cluster.spaces import Space, asking
from tests.fake_nvml import Driver, build, statement
from vgpu import names
from vgpu.slots import PER_CARD

pytestmark = pytest.mark.node

CARD = "GPU-10000000-0000-4000-8000-000000000001"
MIB = 2**20
PLUGIN: Json = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "plugin", "namespace": names.NODE_NAMESPACE},
}


@pytest.fixture
def driver(node: Node, tmp_path: Path) -> Iterator[Driver]:
    """The plugin restarted on a driver, whose folder is mounted from the host as real ones are."""
    (tmp_path / "driver").mkdir()
    made = Driver(build(tmp_path / "driver"), tmp_path / "driver")
    made.says(statement("card", uuid=CARD, name="Tesla T4", total=15810 * MIB, reserved=450 * MIB))
    api = node.plane.api
    before = api.read(PLUGIN)["spec"]["template"]["spec"]
    settings = api.read(SETTINGS)["data"]
    api.patch(SETTINGS, {"data": {"MILLIGPU_INVENTORY": "nvml"}})
    api.patch(PLUGIN, {"spec": {"template": {"spec": with_driver(before, made)}}})
    restart_plugin(node)
    yield made
    api.patch(SETTINGS, {"data": settings})
    api.patch(PLUGIN, {"spec": {"template": {"spec": {k: before[k] for k in KEPT}}}})
    restart_plugin(node)


KEPT = ("containers", "volumes")


def with_driver(spec: Json, driver: Driver) -> Json:
    (container,) = spec["containers"]
    folder = str(driver.folder)
    env = [{"name": name, "value": value} for name, value in driver.variables().items()]
    mount = {"name": "driver", "mountPath": folder}
    volume = {"name": "driver", "hostPath": {"path": folder, "type": "Directory"}}
    changed = {
        **container,
        "env": [*container["env"], *env],
        "volumeMounts": [*container["volumeMounts"], mount],
    }
    return {"containers": [changed], "volumes": [*spec["volumes"], volume]}


def test_a_card_of_the_driver_is_shared(space: Space, driver: Driver) -> None:
    node = space.node
    eventually(lambda: slots(node) == PER_CARD, "the slots of the driver's card")
    space.create(shapes.pod("model", asking("main", "300m")))
    env = space.reports(space.running("model"))["main"].env
    assert env[names.ENV_GPU_UUID] == env[names.ENV_VISIBLE_DEVICES] == CARD
    assert env[names.ENV_MEMORY_MIB] == "4608"
    assert env[names.ENV_MEMORY_FRACTION] == "0.2666"
    assert "nvmlDeviceGetUUID" in driver.calls()
