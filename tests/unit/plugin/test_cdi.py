"""The spec of our CDI devices, and how it comes into the node's folder."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from plugin import cdi
from plugin.config import Config, UnusableError
from plugin.edits import Handing
from tests.unit.plugin.test_edits import FILES, WSL, A, B, handing


def node(name: str) -> dict[str, str]:
    return {"path": f"/dev/{name}", "hostPath": f"/dev/{name}", "permissions": "rw"}


def test_each_card_is_a_device_and_what_all_need_comes_once() -> None:
    assert cdi.spec([A, B], handing("cdi", driver_root="/opt/driver")) == {
        "cdiVersion": "0.5.0",
        "kind": "milligpu.io/gpu",
        "devices": [
            {"name": "GPU-b", "containerEdits": {"deviceNodes": [node("nvidia6")]}},
            {"name": "GPU-a", "containerEdits": {"deviceNodes": [node("nvidia1")]}},
        ],
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            "deviceNodes": [node("nvidiactl"), node("nvidia-uvm"), node("nvidia-uvm-tools")],
            "mounts": [
                {
                    "hostPath": "/opt/driver",
                    "containerPath": "/usr/local/nvidia",
                    "options": ["bind", "ro", "nosuid", "nodev"],
                }
            ],
        },
    }


def test_what_the_node_has_not_is_not_in_the_spec() -> None:
    found = cdi.spec([A, WSL], handing("cdi", files=["nvidia1"]))
    assert found["containerEdits"] == {"env": ["NVIDIA_VISIBLE_DEVICES=void"]}
    assert [each["name"] for each in found["devices"]] == ["GPU-a"]


def test_device_files_elsewhere_on_the_host_come_into_dev(tmp_path: Path) -> None:
    config = Config(device_list_strategy="cdi", dev_dir=tmp_path)
    (device,) = cdi.spec([A], Handing(config, FILES))["devices"]
    assert device["containerEdits"]["deviceNodes"] == [
        {"path": "/dev/nvidia1", "hostPath": f"{tmp_path}/nvidia1", "permissions": "rw"}
    ]


@pytest.fixture
def here(tmp_path: Path) -> Handing:
    """Our kind of CDI device, with the test's folder for specs."""
    return Handing(Config(device_list_strategy="cdi", cdi_dir=tmp_path), FILES)


def test_the_spec_is_written_when_it_changes_and_in_one_step(here: Handing) -> None:
    folder = here.config.cdi_dir
    written = folder / "milligpu.io-gpu.json"
    cdi.write([A], here)
    assert json.loads(written.read_bytes()) == cdi.spec([A], here)
    first = written.stat()
    cdi.write([A], here)
    assert written.stat() == first
    cdi.write([B, A], here)
    assert written.stat().st_ino != first.st_ino, "a reader has the old file or the new one"
    assert json.loads(written.read_bytes()) == cdi.spec([A, B], here)
    assert list(folder.iterdir()) == [written]
    written.unlink()
    cdi.write([A, B], here)
    assert written.exists(), "it comes back when somebody clears the folder"


def test_a_broken_spec_is_mended(here: Handing) -> None:
    written = here.config.cdi_dir / cdi.FILE
    written.write_bytes(b"\xff{")
    cdi.write([A], here)
    assert json.loads(written.read_bytes()) == cdi.spec([A], here)


def test_without_a_card_the_last_spec_stays(here: Handing) -> None:
    cdi.write([], here)
    cdi.write([WSL], here)
    assert list(here.config.cdi_dir.iterdir()) == [], "a spec without a device is an error"
    cdi.write([A], here)
    cdi.write([], here)
    assert json.loads((here.config.cdi_dir / cdi.FILE).read_bytes()) == cdi.spec([A], here)


@pytest.mark.parametrize(
    "changed",
    [
        {"cdi_kind": "nvidia.com/gpu"},
        {"device_list_strategy": "envvar"},
        {"device_list_strategy": "volume-mounts"},
        {"device_list_strategy": "device-nodes"},
    ],
    ids=str,
)
def test_nothing_is_written_where_no_spec_of_ours_is_needed(
    here: Handing, changed: dict[str, str]
) -> None:
    config = replace(here.config, **changed)  # type: ignore[arg-type]
    cdi.write([A], Handing(config, FILES))
    assert list(config.cdi_dir.iterdir()) == []


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    way = Handing(Config(device_list_strategy="cdi", cdi_dir=tmp_path / "cdi"), FILES)
    with pytest.raises(UnusableError) as told:
        cdi.write([A], way)
    assert str(told.value) == (
        f"cannot write the CDI spec {tmp_path}/cdi/milligpu.io-gpu.json as uid {os.getuid()}:"
        f" No such file or directory; {tmp_path}/cdi must be the node's folder of that name,"
        " mounted to be written"
    )


def test_a_folder_that_is_not_ours_is_told() -> None:
    way = Handing(Config(device_list_strategy="cdi", cdi_dir=Path("/proc")), FILES)
    with pytest.raises(UnusableError, match=r"^cannot write the CDI spec /proc/milligpu.io-gpu"):
        cdi.write([A], way)
