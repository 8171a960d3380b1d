"""Waiting for what a cluster does in its own time."""

import time
from collections.abc import Callable
from http.client import HTTPException
from typing import TypeVar

from tests.cluster.api import ApiError

T = TypeVar("T")


def eventually(
    look: Callable[[], T | None], what: str | Callable[[], str], seconds: float = 30
) -> T:
    """Look again and again until something true comes back, and return that.

    Fails with `what` was awaited when time is up; an AssertionError or a refusal of the API server
    inside `look` counts as not yet, and the last one is told.
    """
    deadline, last = time.monotonic() + seconds, ""
    while True:
        try:
            if found := look():
                return found
            last = f"; the last look gave {found!r}"
        except (AssertionError, ApiError, OSError, HTTPException) as error:
            last = f"; the last look: {error}"
        if time.monotonic() > deadline:
            told = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {seconds:g} s: {told}{last}")
        time.sleep(0.1)
