"""How long the tests of endurance are: short in the suites, long in `make soak` (SOAK=1)."""

import os
from typing import TypeVar

from tests.cluster.tools.say import say

T = TypeVar("T")


def either(short: T, long: T) -> T:
    """Return what this run shall take."""
    return long if os.environ.get("SOAK") else short


def tell(what: str, times: list[float]) -> None:
    """Print how long it took until the slots were back (`pytest -s`)."""
    median = sorted(times)[len(times) // 2]
    say(f"{what}: back after {min(times):.2f} to {max(times):.2f} s, median {median:.2f} s")
