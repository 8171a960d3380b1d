"""What a container is given along with its slots: environment variables, exact for the card."""

from fractions import Fraction

from plugin.gpu import Gpu
from vgpu import names, slots
from vgpu.quantity import decimal


def environment(gpu: Gpu, count: int, margin_mib: int) -> dict[str, str]:
    """Return the variables of a container with `count` slots of a card (design section 2)."""
    share = slots.share(count)
    memory_mib = int(gpu.usable_mib * share)
    pool = memory_mib - min(Fraction(margin_mib), Fraction(memory_mib, 4))
    return {
        names.ENV_GPU_UUID: gpu.uuid,
        names.ENV_SLOTS: str(count),
        names.ENV_SHARE: decimal(share, 2),
        names.ENV_MEMORY_MIB: str(memory_mib),
        names.ENV_MEMORY_FRACTION: decimal(pool / gpu.usable_mib, 4),
        names.ENV_VISIBLE_DEVICES: gpu.uuid,
    }
