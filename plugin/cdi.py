"""Our spec of the Container Device Interface: which files a runtime adds for which card."""

import json
import os
from collections.abc import Iterable
from typing import Any

import structlog

from plugin.config import UnusableError
from plugin.edits import Handing, in_order
from plugin.gpu import Gpu
from vgpu import names

VERSION = "0.5.0"
"""The first in which a device file may have another path on the host."""
FILE = names.CDI_KIND.replace("/", "-") + ".json"

log = structlog.get_logger()


def spec(gpus: Iterable[Gpu], handing: Handing) -> dict[str, Any]:
    """Return the spec with a device for each card; what all need comes once with any of them."""
    # Beats what the pod or its image says, so that NVIDIA's runtime adds no other card.
    common: dict[str, Any] = {"env": [f"{names.ENV_VISIBLE_DEVICES}={names.VOID}"]}
    if controls := handing.controls():
        common["deviceNodes"] = [_node(*each) for each in controls]
    if mounts := handing.driver():
        common["mounts"] = [_mount(*each) for each in mounts]
    devices = [
        {"name": gpu.uuid, "containerEdits": {"deviceNodes": [_node(*handing.device(gpu))]}}
        for gpu in in_order(gpus)
        if gpu.minor is not None
    ]
    kind = handing.config.cdi_kind
    return {"cdiVersion": VERSION, "kind": kind, "devices": devices, "containerEdits": common}


def _node(host: str, inside: str) -> dict[str, str]:
    return {"path": inside, "hostPath": host, "permissions": "rw"}


def _mount(host: str, inside: str) -> dict[str, Any]:
    options = ["bind", "ro", "nosuid", "nodev"]
    return {"hostPath": host, "containerPath": inside, "options": options}


def write(gpus: Iterable[Gpu], handing: Handing) -> None:
    """Write the spec, where one of ours is needed and it is not there yet. Raises UnusableError.

    It stays when we end, for containers start again without us.
    """
    if not handing.writes_spec or not (found := spec(gpus, handing))["devices"]:
        return
    path, content = handing.config.cdi_dir / FILE, json.dumps(found, indent=1).encode()
    draft = path.with_suffix(".new")  # a suffix that no runtime reads
    try:
        if path.exists() and path.read_bytes() == content:
            return
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        raise UnusableError(
            f"cannot write the CDI spec {path} as uid {os.getuid()}: {error.strerror or error};"
            f" {path.parent} must be the node's folder of that name, mounted to be written"
        ) from error
    log.info("described", spec=str(path), gpus=[each["name"] for each in found["devices"]])
