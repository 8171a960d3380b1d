import json
from pathlib import Path
from typing import Any

import pytest

from plugin import checkpoint
from plugin.checkpoint import Checkpoint
from vgpu import names

CARD = "GPU-10000000-0000-4000-8000-000000000001"
OTHER = "nvidia.com/gpu"


def entry(resource: str, ids: object, **more: object) -> dict[str, object]:
    whose = {"PodUID": "6b1f", "ContainerName": "c", "ResourceName": resource}
    return {**whose, "DeviceIDs": ids, "AllocResp": "CgA=", **more}


def data(*entries: object, registered: object = None) -> dict[str, Any]:
    """Return a file as the kubelet writes it; Go has null for what is empty."""
    return {
        "Data": {"PodDeviceEntries": list(entries) or None, "RegisteredDevices": registered},
        "Checksum": 123,
    }


def read(folder: Path, text: str | bytes) -> Checkpoint | None:
    path = folder / checkpoint.NAME
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return checkpoint.read(folder)


def test_ours_are_held_and_all_are_registered(tmp_path: Path) -> None:
    text = data(
        entry(names.COUNT, {"-1": [f"{CARD}::0", f"{CARD}::99"]}),
        entry(names.COUNT, {"0": ["SIM-a::1"], "1": ["SIM-a::2"]}),
        entry(names.WHOLE, {"-1": ["SIM-b::whole"]}),
        entry(OTHER, {"-1": ["GPU-z"]}),
        registered={names.COUNT: [f"{CARD}::0"], OTHER: ["GPU-z"], names.WHOLE: []},
    )
    found = read(tmp_path, json.dumps(text))
    assert found is not None
    assert found.held == {f"{CARD}::0", f"{CARD}::99", "SIM-a::1", "SIM-a::2", "SIM-b::whole"}
    assert found.registered == {names.COUNT: {f"{CARD}::0"}, OTHER: {"GPU-z"}, names.WHOLE: set()}


def test_no_file_is_an_empty_checkpoint(tmp_path: Path) -> None:
    assert checkpoint.read(tmp_path) == Checkpoint(frozenset(), {})


@pytest.mark.parametrize("text", [data(), data(registered={}), data(registered={OTHER: None})])
def test_nothing_given_out_yet(tmp_path: Path, text: object) -> None:
    found = read(tmp_path, json.dumps(text))
    assert found is not None
    assert found.held == set()


TORN = [b"", b"{", b"\xff\xfe", b"null", b"[]", b'"Data"', b"{}", b"[" * 100_000]
ODD: list[object] = [
    {"Data": None},
    {"Data": {}},
    data(1),
    data("PodDeviceEntries"),
    data({}),
    data(entry(names.COUNT, None)),
    data(entry(names.COUNT, ["SIM-a::1"])),  # of Kubernetes before 1.20
    data(entry(names.COUNT, {"-1": "SIM-a::1"})),
    data(entry(names.COUNT, {"-1": [1]})),
    data(registered=[1]),
    data(registered={OTHER: 1}),
]


@pytest.mark.parametrize("text", [*TORN, *(json.dumps(each).encode() for each in ODD)])
def test_what_cannot_be_understood_is_no_checkpoint(tmp_path: Path, text: bytes) -> None:
    assert read(tmp_path, text) is None


@pytest.mark.parametrize("odd", ["SIM-a::100", "SIM-a::007", "SIM-a", "", "A" * 58 + "::0"])
def test_ids_of_another_scheme_are_passed_over(tmp_path: Path, odd: str) -> None:
    found = read(tmp_path, json.dumps(data(entry(names.COUNT, {"-1": [odd, "SIM-a::1"]}))).encode())
    assert found is not None
    assert found.held == {"SIM-a::1"}


def test_what_cannot_be_read_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / checkpoint.NAME).mkdir()
    assert checkpoint.read(tmp_path) is None
