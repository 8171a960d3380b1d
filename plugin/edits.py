"""What a container is given along with its slots or cards: variables, mounts, device files."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from plugin.config import Config
from plugin.gpu import Gpu
from plugin.v1beta1 import deviceplugin_pb2 as api
from vgpu import names, slots
from vgpu.quantity import decimal

Edits: TypeAlias = api.ContainerAllocateResponse
"""What is added to one container, as the kubelet is told."""

MARKERS = "/var/run/nvidia-container-devices"
"""NVIDIA's runtime takes the name of a file that is mounted below it for that of a card."""
CONTROLS = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
"""Device files that every program that computes on a card needs; a node may lack the last."""
DRIVER = "/usr/local/nvidia"
"""Where a container finds the driver's files, if they come from a folder of the host."""


@dataclass(frozen=True, slots=True)
class Handing:
    """How cards are handed out on this node: the settings, and the device files that are there."""

    config: Config
    files: frozenset[str] = frozenset()
    """Names in the folder of device files."""

    @property
    def writes_spec(self) -> bool:
        """Whether a CDI spec of ours is needed."""
        return self.config.device_list_strategy == "cdi" and self.config.cdi_kind == names.CDI_KIND

    @property
    def by_files(self) -> bool:
        """Whether it is we who name the device files: to the kubelet, or in a spec."""
        return self.config.device_list_strategy == "device-nodes" or self.writes_spec

    def controls(self) -> tuple[tuple[str, str], ...]:
        """Return the device files beside the cards' own that there are: on the host, inside."""
        return tuple(self._file(name) for name in CONTROLS if name in self.files)

    def device(self, gpu: Gpu) -> tuple[str, str]:
        """Return a card's own device file: on the host, inside."""
        return self._file(f"nvidia{gpu.minor}")

    def driver(self) -> tuple[tuple[str, str], ...]:
        """Return the mount of the driver's files, if they come from a folder of the host."""
        return ((self.config.driver_root, DRIVER),) if self.config.driver_root else ()

    def _file(self, name: str) -> tuple[str, str]:
        return str(self.config.dev_dir / name), f"/dev/{name}"


def handing(config: Config) -> Handing:
    """Return how cards are handed out now; device files come and go with the driver."""
    return Handing(config, frozenset(path.name for path in config.dev_dir.glob("nvidia*")))


def lacks(gpu: Gpu, handing: Handing) -> str:
    """Return why a card cannot be handed out in this way, as half a sentence; empty if it can."""
    if not handing.by_files:
        return ""
    strategy = handing.config.device_list_strategy
    if gpu.minor is None:
        return f"it has no device file (WSL), so {strategy} cannot hand it out"
    if f"nvidia{gpu.minor}" not in handing.files:
        return f"{handing.device(gpu)[0]} is not there, which {strategy} needs"
    return ""


def share(gpu: Gpu, count: int, handing: Handing) -> Edits:
    """Return what a container with `count` slots of a card is given (design section 2)."""
    part = slots.share(count)
    memory_mib = int(gpu.usable_mib * part)
    margin_mib = min(Fraction(handing.config.memory_margin_mib), Fraction(memory_mib, 4))
    limits = {
        names.ENV_SLOTS: str(count),
        names.ENV_SHARE: decimal(part, 2),
        names.ENV_MEMORY_MIB: str(memory_mib),
        names.ENV_MEMORY_FRACTION: decimal((memory_mib - margin_mib) / gpu.usable_mib, 4),
    }
    return _edits((gpu,), limits, handing)


def whole(gpus: Iterable[Gpu], handing: Handing) -> Edits:
    """Return what a container with whole cards is given; they are in the order of `nvidia-smi`."""
    return _edits(in_order(gpus), {}, handing)


def in_order(gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
    """Return each card once, by the driver's number."""
    return tuple(sorted(set(gpus), key=lambda gpu: (gpu.index, gpu.uuid)))


def _edits(gpus: tuple[Gpu, ...], limits: dict[str, str], handing: Handing) -> Edits:
    config, uuids = handing.config, [gpu.uuid for gpu in gpus]
    listed = visible = ",".join(uuids)
    mounts: Iterable[tuple[str, str]] = ()
    files: Iterable[tuple[str, str]] = ()
    cdi: Iterable[str] = ()
    match config.device_list_strategy:
        case "volume-mounts":
            visible, mounts = MARKERS, [("/dev/null", f"{MARKERS}/{uuid}") for uuid in uuids]
        case "cdi":
            # The spec adds the card; NVIDIA's runtime shall add none for what an image asks.
            visible, cdi = names.VOID, uuids
        case "device-nodes":
            # Somebody has to bring the driver's files along: NVIDIA's runtime does for the cards
            # that the variable names; where they come from the host's folder it shall not.
            visible = names.VOID if config.driver_root else listed
            mounts, files = handing.driver(), [*map(handing.device, gpus), *handing.controls()]
    return Edits(
        envs={names.ENV_GPU_UUID: listed, **limits, names.ENV_VISIBLE_DEVICES: visible},
        mounts=[api.Mount(host_path=a, container_path=b, read_only=True) for a, b in mounts],
        devices=[api.DeviceSpec(host_path=a, container_path=b, permissions="rw") for a, b in files],
        cdi_devices=[api.CDIDevice(name=f"{config.cdi_kind}={uuid}") for uuid in cdi],
    )
