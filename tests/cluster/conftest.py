"""The real cluster's fixtures. Building its programs takes minutes, so that is done beforehand."""

import itertools
from collections.abc import Iterator

import pytest

from milligpu import processes
from milligpu.processes import Webhook
from tests.cluster import webhooks
from tests.cluster.controlplane import PROGRAMS, ControlPlane, control_plane
from tests.cluster.tools import ensure

_numbers = itertools.count(1)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what the chosen tests need before the first one's time is taken."""
    if session.config.option.collectonly:
        return
    if any(item.get_closest_marker("apiserver") for item in session.items):
        ensure(PROGRAMS)


@pytest.fixture(scope="session")
def apiserver() -> Iterator[ControlPlane]:
    """One real API server for the whole run; tests keep apart by namespace."""
    with control_plane() as plane:
        yield plane


@pytest.fixture
def namespace(apiserver: ControlPlane) -> str:
    """A namespace of the test's own."""
    name = f"test-{next(_numbers)}"
    apiserver.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture(scope="module")
def webhook(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """The real webhook before the API server, by the configuration that is shipped."""
    with (
        processes.webhook(tmp_path_factory.mktemp("webhook")) as started,
        webhooks.installed(apiserver, started.url, started.ca),
    ):
        yield started
