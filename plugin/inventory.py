"""Where cards come from: the driver, or a file."""

import contextlib
from collections.abc import Callable
from typing import Protocol

from plugin.config import Config
from plugin.gpu import InventoryError, Probe
from plugin.nvml import NvmlInventory
from plugin.simulated import SimulatedInventory


class Inventory(Protocol):
    """What the plugin needs of a driver. Calls may block for as long as a driver likes."""

    def probe(self) -> Probe:
        """Look at all cards. No driver, no card are answers; raises InventoryError for the rest."""


def _nvml(_: Config) -> Inventory:
    return NvmlInventory()


def _simulated(config: Config) -> Inventory:
    inventory = SimulatedInventory(config.inventory_file)
    inventory.probe()
    real = [] if config.simulate_beside_gpus else _real_cards()
    if real:
        raise InventoryError(
            "a simulated inventory is refused beside real cards; the driver finds "
            + ", ".join(real)
        )
    return inventory


def _real_cards() -> list[str]:
    with contextlib.closing(NvmlInventory()) as driver, contextlib.suppress(InventoryError):
        return [gpu.model for gpu in driver.probe().gpus]
    return []


_KINDS: dict[str, Callable[[Config], Inventory]] = {"nvml": _nvml, "simulated": _simulated}


def open_inventory(config: Config) -> Inventory:
    """Return the inventory that the settings name. Raises InventoryError when it is refused."""
    return _KINDS[config.inventory](config)
