"""Where cards come from: the driver, or a file."""

import contextlib
from typing import Protocol

from plugin.config import Config
from plugin.gpu import Event, InventoryError, Probe
from plugin.nvml import NvmlInventory
from plugin.simulated import SimulatedInventory


class Inventory(Protocol):
    """What the plugin needs of a driver.

    Calls may block for as long as a driver likes; they come from one thread at a time.
    """

    def probe(self) -> Probe:
        """Look at all cards. No driver, no card are answers; raises InventoryError for the rest.

        Only what is needed to offer a card is asked: the node registers after the first look.
        """

    def faults(self) -> dict[str, str]:
        """Return why cards cannot be used now, as half sentences by uuid; the well ones are not in.

        These are the slow questions, about the cards of the last look.
        """

    def wait(self, seconds: float) -> tuple[Event, ...]:
        """Wait for events of the cards; without any, return after so many seconds, never before."""

    def close(self) -> None:
        """Give back what is open; a later call opens it again."""


def open_inventory(config: Config) -> Inventory:
    """Return the inventory that the settings name. Raises InventoryError when it is refused."""
    if config.inventory == "nvml":
        return NvmlInventory()
    inventory = SimulatedInventory(config.inventory_file)
    inventory.probe()
    if not config.simulate_beside_gpus and (real := _real_cards()):
        found = f"the driver finds {', '.join(real)}"
        raise InventoryError(f"a simulated inventory is refused beside real cards; {found}")
    return inventory


def _real_cards() -> list[str]:
    with contextlib.closing(NvmlInventory()) as driver, contextlib.suppress(InventoryError):
        return [gpu.model for gpu in driver.probe().gpus]
    return []
