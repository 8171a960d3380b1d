"""The device plugin's settings."""

from dataclasses import dataclass
from pathlib import Path

from vgpu.settings import boolean, choice, integer, level, seconds, setting


class UnusableError(Exception):
    """The settings or the node do not let us work; the message tells the operator why."""


def _folder(text: str) -> Path:
    if not Path(text).is_absolute():
        raise ValueError("must be an absolute path")
    return Path(text)


@dataclass(frozen=True, slots=True)
class Config:
    """Read once, at start, by `vgpu.settings.read`; `MILLIGPU_<FIELD>` sets a field."""

    inventory: str = setting("nvml", choice("nvml", "simulated"))
    """Where cards come from: the driver, or a file of made-up ones."""
    inventory_file: str = setting("two-t4")
    """Of a simulated inventory: the name of one that ships with us, or the path of a JSON file."""
    simulate_beside_gpus: bool = setting(False, boolean)
    """Whether a simulated inventory may start where the driver finds a real card."""
    device_plugin_dir: Path = setting(Path("/var/lib/kubelet/device-plugins"), _folder)
    """The kubelet's folder of plugin sockets."""
    device_list_strategy: str = setting("envvar", choice("envvar"))
    """How a container gets its card: `envvar` names it in NVIDIA_VISIBLE_DEVICES."""
    memory_margin_mib: int = setting(512, integer(0, 65536))
    """MiB that a process needs beside its framework's pool (the CUDA context)."""
    probe_seconds: float = setting(10.0, seconds(0.1, 3600))
    """Pause between two looks at the cards."""
    host: str = setting("")
    """Address that HTTP listens on; empty for all."""
    port: int = setting(9410, integer(0, 65535))
    """TCP port of `/metrics`, `/healthz` and `/readyz`; 0 lets the system choose."""
    log_level: str = setting("info", level)
