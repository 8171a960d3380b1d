"""The device plugin's settings."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from vgpu import names
from vgpu.settings import boolean, choice, integer, level, seconds, setting

Placement = Literal["packed", "spread"]
Advertise = Literal["fitting", "largest-hole", "all"]
Strategy = Literal["envvar", "volume-mounts", "cdi", "device-nodes"]


class UnusableError(Exception):
    """The settings or the node do not let us work; the message tells the operator why."""


def _absolute(text: str) -> Path:
    if not Path(text).is_absolute():
        raise ValueError("must be an absolute path")
    return Path(text)


def _absolute_or_none(text: str) -> str:
    return str(_absolute(text)) if text else ""


def _listed(text: str) -> tuple[str, ...]:
    items = tuple(item for each in text.split(",") if (item := each.strip()))
    if text and not items:
        raise ValueError("must name something, or be empty")
    return items


def _xids(text: str) -> frozenset[int]:
    return frozenset(map(integer(1, 65535), _listed(text)))


def _cdi_kind(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*", text):
        raise ValueError(f"must be vendor/class, such as {names.NVIDIA_GPU}")
    return text


@dataclass(frozen=True, slots=True)
class Config:
    """Read once, at start, by `vgpu.settings.read`; `MILLIGPU_<FIELD>` sets a field."""

    inventory: str = setting("nvml", choice("nvml", "simulated"))
    """Where cards come from: the driver, or a file of made-up ones."""
    inventory_file: str = setting("two-t4")
    """Of a simulated inventory: the name of one that ships with us, or the path of a JSON file."""
    simulate_beside_gpus: bool = setting(False, boolean)
    """Whether a simulated inventory may start where the driver finds a real card."""
    cards: tuple[str, ...] = setting((), _listed)
    """The only cards that are shared, each by UUID, index or model; empty for all."""
    cards_except: tuple[str, ...] = setting((), _listed)
    """Cards that are not shared, in the same way; this wins over `cards`."""
    beside_others: bool = setting(False, boolean)
    """Whether cards are shared that another plugin of the node lists as well."""
    settle_seconds: float = setting(10.0, seconds(0, 3600))
    """How long cards of a node that is new to us are held back, so that others can list them."""
    placement: Placement = setting("packed", choice(*get_args(Placement)))
    """Which card a share goes to: the fullest that fits, or the emptiest."""
    advertise: Advertise = setting("fitting", choice(*get_args(Advertise)))
    """What is shown of free slots: what a pod of a known size could get, those of one card, all."""
    device_plugin_dir: Path = setting(Path("/var/lib/kubelet/device-plugins"), _absolute)
    """The kubelet's folder of plugin sockets."""
    pod_resources: Path = setting(Path("/var/lib/kubelet/pod-resources/kubelet.sock"), _absolute)
    """The kubelet's socket that tells which pod has which devices."""
    poll_seconds: float = setting(5.0, seconds(0.1, 3600))
    """Pause between two looks at the pods."""
    node_name: str = setting("")
    """The node's name, for the metrics; empty for the host's."""
    device_list_strategy: Strategy = setting("envvar", choice(*get_args(Strategy)))
    """How a container gets its card."""
    cdi_dir: Path = setting(Path("/var/run/cdi"), _absolute)
    """Where specs of the Container Device Interface are."""
    cdi_kind: str = setting(names.CDI_KIND, _cdi_kind)
    """Vendor and class of CDI devices: of ours, or of somebody who writes the specs for us."""
    dev_dir: Path = setting(Path("/dev"), _absolute)
    """Where the host's device files are, to us and to the host."""
    driver_root: str = setting("", _absolute_or_none)
    """Folder of the host with the driver's files, mounted into containers; empty for none."""
    memory_margin_mib: int = setting(512, integer(0, 65536))
    """MiB that a process needs beside its framework's pool (the CUDA context)."""
    probe_seconds: float = setting(10.0, seconds(0.1, 3600))
    """Pause between two looks at the cards."""
    ignored_xids: frozenset[int] = setting(frozenset(), _xids)
    """Driver error events that say nothing about a card's health, beside those known as such."""
    host: str = setting("")
    """Address that HTTP listens on; empty for all."""
    port: int = setting(9410, integer(0, 65535))
    """TCP port of `/metrics`, `/healthz` and `/readyz`; 0 lets the system choose."""
    log_level: str = setting("info", level)
