"""Fixtures: `pytest_plugins = ["tests.fake_nvml.fixtures"]` in a test module brings them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_nvml import AFTER_R450, Driver, build, build_unloadable
from tests.fake_nvml.client import Client


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of a driver of today."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of a driver of 2020."""
    return build(tmp_path_factory.mktemp("old-nvml"), without=AFTER_R450)


@pytest.fixture
def driver(nvml_library: Path, tmp_path: Path) -> Driver:
    return Driver(nvml_library, tmp_path)


@pytest.fixture
def old_driver(old_nvml_library: Path, tmp_path: Path) -> Driver:
    return Driver(old_nvml_library, tmp_path)


@pytest.fixture
def no_driver(tmp_path: Path) -> Driver:
    """A machine on which the library does not load."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return Driver(build_unloadable(folder), tmp_path)


@pytest.fixture
def client(driver: Driver) -> Iterator[Client]:
    """A process with pynvml, not yet initialised."""
    with Client(driver) as client:
        yield client
