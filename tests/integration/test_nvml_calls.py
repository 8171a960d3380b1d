"""What the driver is asked: so many calls for a look, and for each card, and no more."""

import pytest

from tests.fake_nvml import Driver
from tests.fake_nvml.client import Client
from tests.integration.test_nvml import UUIDS, t4

pytest_plugins = ["tests.fake_nvml.fixtures"]

LOOK = "inventory.probe(); inventory.faults(); done = inventory.wait(0)"
A_LOOK, A_CARD = 2, 9
"""Calls each time that the plugin looks: how many cards there are and whether one has an event;
and six questions of what each card is and has, three of what is wrong with it.
"""


@pytest.mark.parametrize("cards", [1, 4])
def test_a_look_is_so_many_calls_of_the_driver(driver: Driver, client: Client, cards: int) -> None:
    driver.says(*(t4(uuid) for uuid in UUIDS[:cards]))
    client.do("from plugin.nvml import NvmlInventory; inventory = NvmlInventory()")
    client.do(LOOK)  # opens the library, and waits for events from now on
    before = len(driver.calls())
    client.do(LOOK)
    assert len(driver.calls()) - before == A_LOOK + A_CARD * cards
