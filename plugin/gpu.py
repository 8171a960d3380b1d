"""Cards as values: what is known of one, and of all that a look found."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from plugin.config import UnusableError
from vgpu import slots

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Gpu:
    """A card as the driver (or a simulated inventory) describes it."""

    uuid: str
    index: int
    """The driver's number of it, from 0; may change at a reboot."""
    minor: int | None
    """The n of `/dev/nvidia<n>`; None where there is no such file (WSL)."""
    model: str
    memory_total: int
    """Bytes."""
    memory_reserved: int = 0
    """Bytes of the total that no process can have; 0 where an old driver does not say."""
    mig: bool = False

    @property
    def usable_mib(self) -> int:
        """Memory that processes can have, in whole MiB."""
        return (self.memory_total - self.memory_reserved) // MIB


class InventoryError(UnusableError):
    """There should be cards but they cannot be read."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One look at the cards of a node."""

    gpus: tuple[Gpu, ...] = ()
    notes: tuple[str, ...] = ()
    """Half sentences about what is missing: no driver, a card that does not answer."""


@dataclass(frozen=True, slots=True)
class Event:
    """A fault that the driver has just reported of a card, by its XID number."""

    uuid: str
    xid: int


@lru_cache(maxsize=256)
def unfit(gpu: Gpu) -> str:
    """Return why a card cannot be shared in slots, as half a sentence; empty if it can."""
    if gpu.mig:
        return "it is in MIG mode: its parts are for NVIDIA's own plugin"
    if gpu.usable_mib < slots.PER_CARD:
        return f"it has {gpu.usable_mib} MiB of usable memory, less than one for each slot"
    try:
        slots.parse(str(slots.of_card(gpu.uuid)[0]))
    except ValueError as fault:
        return f"its id makes no slot ids ({fault})"
    return ""


def named(gpu: Gpu, names: Collection[str]) -> bool:
    """Whether a list of UUIDs, indices and models names a card."""
    known = {gpu.uuid.casefold(), str(gpu.index), gpu.model.casefold()}
    return not known.isdisjoint(map(str.casefold, names))
