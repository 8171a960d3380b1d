"""The kubelet's own file of who has which devices, in its folder for device plugins.

It holds everything that is allocated, but also what ended pods had until it is written anew: at a
container's allocation, and at each device list that a plugin sends.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from vgpu import names, slots

NAME = "kubelet_internal_checkpoint"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint says of devices."""

    held: frozenset[str] = frozenset()
    """Ids of our two resources that containers have, or had when it was written."""
    registered: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The healthy devices of every resource."""


def read(folder: Path) -> Checkpoint | None:
    """Read the checkpoint of a device plugin folder; None if it cannot be read or understood.

    No file is an empty checkpoint: the kubelet has never given out a device. It is replaced as a
    whole, so half of one is never seen.
    """
    try:
        data = json.loads((folder / NAME).read_bytes())["Data"]
        entries, registered = data["PodDeviceEntries"] or (), data["RegisteredDevices"] or {}
        return Checkpoint(
            frozenset(each for entry in entries for each in _ours(entry)),
            {name: frozenset(map(str, ids or ())) for name, ids in registered.items()},
        )
    except FileNotFoundError:
        return Checkpoint()
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _ours(entry: Mapping[str, Any]) -> list[str]:
    """Return the ids in an entry of one container and resource. Raises TypeError."""
    if entry["ResourceName"] not in names.GRANT_KEYS:
        return []
    by_numa_node = entry["DeviceIDs"].values()
    return list(slots.valid(chain.from_iterable([] + (ids or []) for ids in by_numa_node)))
