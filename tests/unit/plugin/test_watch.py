import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from plugin import pods, watch
from plugin.checkpoint import Checkpoint
from plugin.config import Config
from plugin.gpu import Event, Gpu, InventoryError, Probe
from plugin.inventory import Inventory
from plugin.metrics import Metrics
from plugin.node import Node
from plugin.offer import Card

A = Gpu("GPU-a", 0, 0, "Tesla T4", 2**34)
BROKEN = InventoryError("version mismatch")


class Driver:
    """An inventory that does what it is told, and notes what it is asked."""

    def __init__(self, *answers: Probe | InventoryError) -> None:
        self.answers = list(answers)
        """Of the next looks; the last one stays."""
        self.ill: dict[str, str] | InventoryError = {}
        self.events: list[Event] = []
        self.asked: list[str] = []
        self.hangs: dict[str, threading.Event] = {}
        """What ends it, for a call that hangs."""
        self.threads: set[int] = set()

    def _asked(self, call: str) -> None:
        self.asked.append(call)
        if call in self.hangs:
            self.hangs[call].wait(10)

    def probe(self) -> Probe:
        self._asked("probe")
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        if isinstance(answer, InventoryError):
            raise answer
        return answer

    def faults(self) -> dict[str, str]:
        self._asked("faults")
        if isinstance(self.ill, InventoryError):
            raise self.ill
        return self.ill

    def wait(self, seconds: float) -> tuple[Event, ...]:
        self._asked("wait")
        events, self.events = tuple(self.events), []
        if not events:
            threading.Event().wait(seconds)
        return events

    def close(self) -> None:
        pass


@pytest.fixture
def node() -> Node:
    node = Node(Config(settle_seconds=0))
    node.start(Checkpoint())
    return node


def watched(
    node: Node, inventory: Inventory, scene: Callable[[], Awaitable[None]], **settings: Any
) -> Metrics:
    """Play a scene while the cards are looked at; return what was counted."""
    metrics, config = Metrics(), Config(**{"probe_seconds": 0.02, **settings})

    async def both() -> None:
        watching = asyncio.create_task(watch.cards(node, inventory, config, metrics))
        await scene()
        watching.cancel()

    asyncio.run(asyncio.wait_for(both(), 10))
    return metrics


async def until(check: Callable[[], bool]) -> None:
    for pause in itertools.repeat(0.005):
        if check():
            return
        await asyncio.sleep(pause)


def test_it_outlives_failures(node: Node) -> None:
    seen = []

    async def scene() -> None:
        await node.has_cards()
        seen.append(node.state)
        await node.pulse()
        seen.append(node.state)

    watched(node, Driver(BROKEN, Probe((A,)), BROKEN), scene)
    assert seen == ["serving", "broken"]


def test_a_bug_in_an_inventory_is_not_swallowed(node: Node) -> None:
    driver = Driver()  # has no answer
    with pytest.raises(IndexError):
        asyncio.run(asyncio.wait_for(watch.cards(node, driver, Config(), Metrics()), 5))


def test_cards_are_offered_before_the_slow_questions(node: Node) -> None:
    driver = Driver(Probe((A,)))
    driver.hangs["faults"] = threading.Event()

    async def scene() -> None:
        await node.has_cards()
        assert node.offer.cards == (Card(A),)
        driver.ill = {"GPU-a": "it needs a reset"}
        driver.hangs.pop("faults").set()
        await until(lambda: bool(node.offer.cards[0].fault))

    watched(node, driver, scene)
    assert driver.asked[:2] == ["probe", "faults"]
    assert node.offer.cards == (Card(A, "it needs a reset"),)


def test_a_driver_that_cannot_say_who_is_ill_is_broken(node: Node) -> None:
    driver = Driver(Probe((A,)))
    driver.ill = BROKEN

    async def scene() -> None:
        await until(lambda: node.notes == ("version mismatch",))

    watched(node, driver, scene)
    assert (node.state, [card.fault for card in node.offer.cards]) == (
        "broken",
        ["version mismatch"],
    )


@pytest.mark.parametrize("call", ["probe", "faults", "wait"])
def test_a_driver_that_hangs_is_told_and_recovers(
    node: Node, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(watch, "HANGS_SECONDS", 0.1)
    driver = Driver(Probe((A,)))

    async def scene() -> None:
        await node.has_cards()
        driver.hangs[call] = threading.Event()
        await until(lambda: node.state == "broken")
        assert node.notes == ("the driver has not answered for 0 s",)
        assert node.offer.cards[0].fault == "the driver has not answered for 0 s"
        asked = len(driver.asked)
        await asyncio.sleep(0.2)
        assert len(driver.asked) == asked, "it is asked nothing else"
        driver.hangs.pop(call).set()
        await until(lambda: node.state == "serving")

    watched(node, driver, scene)
    assert node.offer.cards == (Card(A),)


def test_events_are_counted_told_and_looked_into_soon(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "AFTER_EVENT_SECONDS", 0.05)
    driver = Driver(Probe((A,)))

    async def scene() -> None:
        await until(lambda: "wait" in driver.asked)
        driver.events = [Event("GPU-a", 31), Event("GPU-a", 31), Event("GPU-a", 79)]
        await until(lambda: bool(node.offer.cards[0].fault))
        asked = driver.asked.count("probe")
        await until(lambda: driver.asked.count("probe") > asked)

    with capture_logs() as logs:
        # The wait for events is cut in two, so that the second of them finds what has come.
        metrics = watched(node, Brief(driver), scene, probe_seconds=60)
    events = "milligpu_plugin_driver_events_total"
    for xid, kind, count in (("31", "application", 2), ("79", "fault", 1)):
        labels = {"gpu": "GPU-a", "xid": xid, "kind": kind}
        assert metrics.registry.get_sample_value(events, labels) == count
    told = [(each["gpu"], each["xid"], each["kind"]) for each in logs if each["event"] == "XID"]
    assert told == [("GPU-a", 31, "application")] * 2 + [("GPU-a", 79, "fault")]


class Brief:
    """A driver whose waits end as soon as there is an event, not only when they begin."""

    def __init__(self, driver: Driver) -> None:
        self.probe, self.faults, self.close = driver.probe, driver.faults, driver.close
        self._driver = driver

    def wait(self, seconds: float) -> tuple[Event, ...]:
        while not (events := self._driver.wait(min(seconds, 0.01))):
            seconds -= 0.01
        return events


def test_a_storm_of_events_is_no_busy_loop(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "AFTER_EVENT_SECONDS", 0.05)

    class Storm(Driver):
        def wait(self, seconds: float) -> tuple[Event, ...]:
            self.asked.append("wait")
            return (Event("GPU-a", 31),) * 10

    driver = Storm(Probe((A,)))

    async def scene() -> None:
        await asyncio.sleep(0.5)

    watched(node, driver, scene, probe_seconds=60)
    assert 2 <= driver.asked.count("wait") <= 11
    assert 2 <= driver.asked.count("probe") <= 11


def test_it_asks_no_more_than_it_should(node: Node) -> None:
    driver = Driver(Probe((A,)))

    async def scene() -> None:
        await asyncio.sleep(0.5)

    watched(node, driver, scene, probe_seconds=0.1)
    assert driver.asked[:6] == ["probe", "faults", "wait"] * 2
    assert 3 <= driver.asked.count("probe") <= 6


def test_a_driver_that_hangs_does_not_keep_the_program_from_ending() -> None:
    release = threading.Event()

    async def scene() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watch.in_thread(release.wait), 0.05)

    asyncio.run(scene())  # with asyncio.to_thread it would wait here for the thread
    release.set()


def test_no_kubelet_to_list_pods_is_said_once(node: Node, tmp_path: Path) -> None:
    config = Config(
        poll_seconds=0.01, device_plugin_dir=tmp_path, pod_resources=tmp_path / "none.sock"
    )

    async def scene() -> None:
        looking = asyncio.create_task(watch.holdings(node, config))
        async with asyncio.timeout(30):
            while len(levels()) < 3:  # noqa: ASYNC110 - a log wakes nobody
                await asyncio.sleep(0.01)
        looking.cancel()

    def levels() -> list[str]:
        return [each["log_level"] for each in logs if each["event"] == "pods not listed"]

    with capture_logs() as logs:
        asyncio.run(scene())
    assert levels()[0] == "warning"
    assert set(levels()[1:]) == {"debug"}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times at which the kubelet is asked for its pods; each takes a tenth of a second."""
    times: list[float] = []

    async def look(_: Path) -> pods.Pods:
        times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.1)
        return pods.Pods()

    monkeypatch.setattr(pods, "look", look)
    return times


def follow(node: Node, folder: Path, scene: Callable[[], Awaitable[None]]) -> None:
    """Play a scene while the pods are looked at without a pause."""

    async def both() -> None:
        config = Config(device_plugin_dir=folder, poll_seconds=0.01)
        following = asyncio.create_task(watch.holdings(node, config))
        await scene()
        following.cancel()

    asyncio.run(asyncio.wait_for(both(), 10))


def test_the_kubelet_is_not_asked_while_it_gives_something_out(
    node: Node, tmp_path: Path, looks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "CALM_SECONDS", 0.2)

    async def scene() -> None:
        await until(lambda: len(looks) > 2)
        async with node.looking:  # between two looks
            node.called()
            called = asyncio.get_running_loop().time()
        seen = len(looks)
        await until(lambda: len(looks) > seen)
        assert looks[seen] >= called + 0.2

    follow(node, tmp_path, scene)


def test_a_kubelet_that_never_rests_is_asked_all_the_same(
    node: Node, tmp_path: Path, looks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "CALM_SECONDS", 0.05)
    monkeypatch.setattr(watch, "BUSY_SECONDS", 0.3)

    async def scene() -> None:
        while len(looks) < 3:
            node.called()
            await asyncio.sleep(0.01)

    follow(node, tmp_path, scene)


def test_an_answer_that_is_none_is_asked_for_again(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Any] = [AttributeError("no message"), pods.Pods(names=frozenset({("n", "p")}))]

    async def look(_: Path) -> pods.Pods:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    monkeypatch.setattr(pods, "look", look)

    async def scene() -> None:
        with capture_logs() as entries:
            await until(lambda: node.ledger.known and len(answers) == 1)
        assert [each["why"] for each in entries] == ["AttributeError('no message')"]

    follow(node, tmp_path, scene)
