"""How a container gets its card, and nobody else does: stand-in device files on a real node.

The files have NVIDIA's own numbers and no driver behind them: who may open one is told that there
is no such device, who may not is told that.
"""

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import shapes
from tests.cluster.api import Json
from tests.cluster.eventually import eventually
from tests.cluster.node import Node
from tests.cluster.product import SETTINGS, restart_plugin, slots
from tests.cluster.spaces import Space, asking, reporting
from tests.documents import ROOT
from vgpu import names
from vgpu.slots import PER_CARD

pytestmark = pytest.mark.node

PLUGIN: Json = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "plugin", "namespace": names.NODE_NAMESPACE},
}
# By index; the numbers of the device files are the other way round.
CARDS = {
    "SIM-c0000000-0000-4000-8000-000000000001": "nvidia1",
    "SIM-d0000000-0000-4000-8000-000000000002": "nvidia0",
}
CONTROLS = {"nvidiactl": 255, "nvidia-uvm": 250}
"""One that a node may have as well, nvidia-uvm-tools, is not there."""
MARKERS = "/var/run/nvidia-container-devices"
PAGE = ROOT / "docs/how-to/hand-out-cards.md"
LOOK = f"""
import json, os, pathlib
def opened(path):
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return error.errno
places = [pathlib.Path("/dev"), pathlib.Path("{MARKERS}"), pathlib.Path("/usr/local/nvidia/lib64")]
files = [path for place in places for path in place.glob("*")]
ours = [path for path in files if "dev" not in path.parts or "nvidia" in path.name]
print(json.dumps({{str(path): [os.minor(path.stat().st_rdev), opened(path)] for path in ours}}))
"""
"""Tells a container's files that have to do with cards: the number, and why they do not open."""


@contextmanager
def handing_out(node: Node, folder: Path, *patches: str, **settings: str) -> Iterator[None]:
    """Run the plugin with other settings, a folder of ours as `/dev`, and patches of the page."""
    api = node.plane.api
    data, spec = api.read(SETTINGS)["data"], api.read(PLUGIN)["spec"]["template"]["spec"]
    chosen = {
        "MILLIGPU_INVENTORY_FILE": f"{folder}/cards.json",
        "MILLIGPU_DEV_DIR": str(folder),
        "MILLIGPU_SETTLE_SECONDS": "0",
        **{f"MILLIGPU_{name.upper()}": value for name, value in settings.items()},
    }
    try:
        api.patch(SETTINGS, {"data": chosen})
        namespace = ("-n", names.NODE_NAMESPACE)
        for patch in (seeing(folder), *map(shown, patches)):
            own = patch.replace("/home/kubernetes/bin/nvidia", f"{folder}/driver")
            node.plane.kubectl("patch", "daemonset/plugin", *namespace, "--patch", own)
        restart_plugin(node)
        eventually(lambda: slots(node) == 2 * PER_CARD, "the slots of both cards")
        yield
    finally:
        api.patch(SETTINGS, {"data": {name: data.get(name) for name in chosen}})
        changed = ("containers", "volumes")
        api.patch(PLUGIN, {"spec": {"template": {"spec": {name: spec[name] for name in changed}}}})
        restart_plugin(node)


def seeing(folder: Path) -> str:
    """Return a patch for a folder of the node at the same path."""
    mounts = [{"name": "files", "mountPath": str(folder)}]
    containers = [{"name": "plugin", "volumeMounts": mounts}]
    volumes = [{"name": "files", "hostPath": {"path": str(folder), "type": "Directory"}}]
    pod = {"containers": containers, "volumes": volumes}
    return json.dumps({"spec": {"template": {"spec": pod}}})


def shown(name: str) -> str:
    """Return a file that the page shows."""
    found = re.search(rf"^```yaml\n(# {name}\n.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found, f"{PAGE} does not show {name}"
    return found[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in device files, the cards they belong to, and the driver's files."""
    made = tmp_path_factory.mktemp("dev")
    minors = {file: int(file.removeprefix("nvidia")) for file in CARDS.values()} | CONTROLS
    for name, minor in minors.items():
        os.mknod(made / name, 0o020666, os.makedev(195, minor))
        (made / name).chmod(0o666)
    cards = [
        {"uuid": uuid, "minor": minors[file], "model": "Tesla T4", "memory_total_mib": 15360}
        for uuid, file in CARDS.items()
    ]
    (made / "cards.json").write_text(json.dumps({"gpus": cards}))
    (made / "driver/lib64").mkdir(parents=True)
    (made / "driver/lib64/libcuda.so.1").touch()
    (made / "driver/lib64/libcuda.so.1").chmod(0o666)  # so that only the mount forbids writing
    return made


@pytest.fixture(scope="module")
def _way(request: pytest.FixtureRequest, node: Node, folder: Path) -> Iterator[None]:
    patches, settings = request.param
    with handing_out(node, folder, *patches, **settings(folder)):
        yield


def way(strategy: str, *patches: str) -> pytest.MarkDecorator:
    """Mark tests for a way of handing out, by the page's patches; the driver may be the host's."""

    def settings(folder: Path) -> dict[str, str]:
        root = f"{folder}/driver" if patches else ""
        return {"device_list_strategy": strategy, "driver_root": root}

    parameter = pytest.param((patches, settings), id="-".join((strategy, *patches)))
    return pytest.mark.parametrize("_way", [parameter], indirect=True)


by_cdi = way("cdi", "cdi.yaml")
by_device_nodes = way("device-nodes")
by_device_nodes_and_driver = way("device-nodes", "driver.yaml")
by_volume_mounts = way("volume-mounts")


def files(space: Space, pod: str, container: str = "main") -> dict[str, Any]:
    """Return a running container's files that have to do with cards, by path."""
    found: dict[str, Any] = json.loads(
        space.kubectl("exec", pod, "-c", container, "--", "python3", "-c", LOOK)
    )
    return found


def devices(*names_: str) -> dict[str, list[int]]:
    """Return what a container finds that may use device files behind which there is nothing."""
    minors = CONTROLS | {file: int(file.removeprefix("nvidia")) for file in CARDS.values()}
    return {f"/dev/{name}": [minors[name], errno.ENXIO] for name in (*names_, *CONTROLS)}


DRIVER = {"/usr/local/nvidia/lib64/libcuda.so.1": [0, errno.EROFS]}


def run(space: Space, name: str, ask: str = "300m", **more: Any) -> dict[str, str]:
    """Run a pod with a share, beside a container without one; return the share's variables."""
    space.create(shapes.pod(name, asking("main", ask), reporting("helper"), **more))
    return space.reports(space.running(name))["main"].env


def unseen(space: Space, name: str, **limits: str) -> dict[str, str]:
    """Run a pod that the webhook does not see, and that wants every card; return its variables."""
    space.kubectl("label", "namespace", space.name, f"{names.LABEL_ADMISSION}=disabled")
    wants = [
        {"name": names.ENV_VISIBLE_DEVICES, "value": "all"},
        {"name": names.ENV_GPU_UUID, "value": "mine"},
    ]
    pod = shapes.pod(name, reporting("main", resources={"limits": limits}, env=wants))

    def is_left_alone() -> bool:
        tried = space.node.plane.api.create(pod, space.name, "?dryRun=All")
        return bool(tried["spec"]["containers"][0]["env"] == wants)

    eventually(is_left_alone, "a pod's own variables to be left")
    space.create(pod)
    return space.reports(space.running(name))["main"].env


# --- cdi ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_way")
@by_cdi
def test_cdi_brings_the_card_to_the_container_with_the_share_and_to_no_other(space: Space) -> None:
    env = run(space, "model")
    card = CARDS[env[names.ENV_GPU_UUID]]
    assert files(space, "model") == devices(card) | DRIVER
    assert files(space, "model", "helper") == {}
    assert env[names.ENV_VISIBLE_DEVICES] == names.VOID
    assert env[names.ENV_MEMORY_MIB] == "4608"
    space.create(shapes.pod("plain", reporting("main")))
    space.running("plain")
    assert files(space, "plain") == {}


@pytest.mark.usefixtures("_way")
@by_cdi
def test_a_pod_cannot_ask_for_a_cdi_device_by_annotation(space: Space) -> None:
    wanted = {"cdi.k8s.io/mine": ",".join(f"milligpu.io/gpu={uuid}" for uuid in CARDS)}
    space.create(shapes.pod("plain", reporting("main"), annotations=wanted))
    space.running("plain")
    assert files(space, "plain") == {}


@pytest.mark.usefixtures("_way")
@by_cdi
def test_the_specs_environment_beats_the_pods(space: Space) -> None:
    env = unseen(space, "sly", **{names.COUNT: "30"})
    assert env[names.ENV_VISIBLE_DEVICES] == names.VOID
    assert env[names.ENV_GPU_UUID] == "mine", "what is not in the spec is the pod's own"
    assert len(files(space, "sly")) == len(devices("nvidia0") | DRIVER)


@pytest.mark.usefixtures("_way")
@by_cdi
def test_several_whole_cards_come_as_several_cdi_devices(space: Space) -> None:
    limits = {"limits": {names.WHOLE: "2"}}
    space.create(shapes.pod("train", reporting("main", resources=limits)))
    env = space.reports(space.running("train"))["main"].env
    assert env[names.ENV_GPU_UUID] == ",".join(CARDS)
    assert env[names.ENV_VISIBLE_DEVICES] == names.VOID
    assert files(space, "train") == devices(*CARDS.values()) | DRIVER


@pytest.mark.usefixtures("_way")
@by_cdi
def test_a_container_starts_again_with_its_card_while_the_plugin_is_away(space: Space) -> None:
    card = CARDS[run(space, "model")[names.ENV_GPU_UUID]]
    api = space.node.plane.api
    nowhere = {"spec": {"template": {"spec": {"nodeSelector": {"example.com/none": "here"}}}}}
    pods = f"/api/v1/namespaces/{names.NODE_NAMESPACE}/pods"
    api.patch(PLUGIN, nowhere)
    try:
        eventually(lambda: not api.get(pods)["items"], "the end of the plugin", 60)
        space.kubectl("exec", "model", "-c", "main", "--", "sh", "-c", "kill 1")

        def again() -> bool:
            return {each["restartCount"] for each in statuses("main")} == {1}

        def statuses(name: str) -> list[Json]:
            found: list[Json] = space.pod("model")["status"]["containerStatuses"]
            return [each for each in found if each["name"] == name and each["ready"]]

        eventually(again, "the container to start again", 60)
        assert files(space, "model") == devices(card) | DRIVER
    finally:
        back = {"nodeSelector": {"example.com/none": None}}
        api.patch(PLUGIN, {"spec": {"template": {"spec": back}}})
        restart_plugin(space.node)


# --- device-nodes and volume-mounts ---------------------------------------------------------------


@pytest.mark.usefixtures("_way")
@by_device_nodes
def test_device_nodes_bring_the_cards_own_file_to_the_container_with_the_share(
    space: Space,
) -> None:
    env = run(space, "model")
    assert files(space, "model") == devices(CARDS[env[names.ENV_GPU_UUID]])
    assert files(space, "model", "helper") == {}
    assert env[names.ENV_VISIBLE_DEVICES] == env[names.ENV_GPU_UUID]


@pytest.mark.usefixtures("_way")
@by_device_nodes
def test_without_cdi_the_pods_own_environment_wins(space: Space) -> None:
    env = unseen(space, "sly", **{names.COUNT: "30"})
    assert env[names.ENV_VISIBLE_DEVICES] == "all", "hence the webhook takes it out"


@pytest.mark.usefixtures("_way")
@by_device_nodes_and_driver
def test_without_nvidias_runtime_the_driver_comes_from_the_host(space: Space) -> None:
    env = run(space, "model")
    assert files(space, "model") == devices(CARDS[env[names.ENV_GPU_UUID]]) | DRIVER
    assert files(space, "model", "helper") == {}
    assert env[names.ENV_VISIBLE_DEVICES] == names.VOID


@pytest.mark.usefixtures("_way")
@by_device_nodes_and_driver
def test_the_pages_plugin_sees_the_hosts_device_files_and_the_driver(node: Node) -> None:
    tell = "import os, json; print(json.dumps([os.listdir('/dev'), os.listdir(os.environ[PATH])]))"
    argv = ("python", "-c", tell.replace("PATH", "'LD_LIBRARY_PATH'"))
    done = node.plane.kubectl("exec", "-n", names.NODE_NAMESPACE, "daemonset/plugin", "--", *argv)
    files_, libraries = json.loads(done.stdout)
    hosts = {path.name for path in Path("/dev").iterdir() if path.is_block_device()}
    assert hosts
    assert hosts <= set(files_)
    assert libraries == ["libcuda.so.1"]


@pytest.mark.usefixtures("_way")
@by_volume_mounts
def test_volume_mounts_name_the_card_to_the_runtime(space: Space) -> None:
    env = run(space, "model")
    assert env[names.ENV_VISIBLE_DEVICES] == MARKERS
    ((path, (minor, fault)),) = files(space, "model").items()
    assert path == f"{MARKERS}/{env[names.ENV_GPU_UUID]}"
    assert (minor, fault) == (os.minor(Path("/dev/null").stat().st_rdev), None)
    assert files(space, "model", "helper") == {}
