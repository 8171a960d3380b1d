"""The real cluster's fixtures. Building its programs takes minutes, so that is done beforehand."""

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest

from milligpu.processes import Webhook
from tests.cluster import setup, spaces, webhooks
from tests.cluster.controlplane import PROGRAMS, ControlPlane, control_plane
from tests.cluster.node import Node, cluster
from tests.cluster.product import deploy
from tests.cluster.spaces import Space
from tests.cluster.tools import ensure
from tests.cluster.tools.recipes import RECIPES

_numbers = itertools.count(1)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what the chosen tests need before the first one's time is taken."""
    if session.config.option.collectonly:
        return
    with _visible(session.config):
        if any(item.get_closest_marker("apiserver") for item in session.items):
            ensure(PROGRAMS)
        if any(item.get_closest_marker("node") for item in session.items):
            setup.install()
            ensure(RECIPES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give a node's tests more time: pods start and end, and the first test brings up the node.

    Those that need root but not the whole cluster come first: there is one place for a sandbox.
    """
    for item in items:
        if item.get_closest_marker("node") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300))
    items.sort(key=lambda item: "node" in getattr(item, "fixturenames", ()))


def _visible(config: pytest.Config) -> AbstractContextManager[None]:
    """Show what is said about slow work while it goes on."""
    capture = config.pluginmanager.getplugin("capturemanager")
    shown: AbstractContextManager[None] = capture.global_and_fixture_disabled()
    return shown


@pytest.fixture(scope="session")
def apiserver() -> Iterator[ControlPlane]:
    """One real API server for the whole run; tests keep apart by namespace."""
    with control_plane() as plane:
        yield plane


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """An API server of the test's own: without a controller-manager no namespace goes again."""
    with control_plane() as started:
        yield started


@pytest.fixture
def namespace(apiserver: ControlPlane) -> str:
    """A namespace of the test's own."""
    name = f"test-{next(_numbers)}"
    apiserver.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture(scope="module")
def webhook(apiserver: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """The real webhook before the API server, by the configuration that is shipped."""
    with webhooks.before(apiserver, tmp_path_factory.mktemp("webhook")) as started:
        yield started


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    """One whole cluster for the run, with milligpu deployed in it."""
    with ExitStack() as stack:
        with _visible(request.config):
            made = stack.enter_context(cluster())
            deploy(made)
        yield made


@pytest.fixture(scope="module")
def bare(request: pytest.FixtureRequest) -> Iterator[Node]:
    """A whole cluster of the module's own, which does not know milligpu yet."""
    with _visible(request.config), cluster() as made:
        yield made


@pytest.fixture
def space(node: Node) -> Iterator[Space]:
    """A namespace of the test's own on the node; its pods are gone afterwards."""
    with spaces.space(node) as made:
        yield made
