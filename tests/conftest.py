"""What holds for every test: a clean environment, and no skip that passes for a success."""

import os
import signal
from collections.abc import Generator
from types import FrameType

import pytest

from vgpu.names import ENV_OURS


def pytest_configure() -> None:
    """Let SIGTERM end a run as Ctrl-C does, so that fixtures take down what they started."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure: a test that needs what is not here belongs to another target."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which counts as failed here: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole module."""
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped, which counts as failed here: {report.longrepr}"
    return report


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the person who runs the tests must not reach the programs under test."""
    for name in os.environ:
        if name.startswith(ENV_OURS):
            monkeypatch.delenv(name)
