"""The ledger beside a kubelet's own truth: never is free what a live pod has, nor held for ever."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from plugin import checkpoint, pods
from plugin.checkpoint import Checkpoint
from plugin.ledger import AGAIN, GRACE, Ledger
from plugin.pods import Holding, Pods
from tests.device_manager import DeviceManager, Entry
from vgpu import names

Kind = Literal["init", "main"]
Shape = tuple[tuple[Kind, int], ...]
"""A pod's containers: whether one is an init container, and how many slots it asks for."""
IDS = tuple(f"GPU-{card}::{n}" for card in "ab" for n in range(6))
TOO_MANY = 5
"""So many slots of one container are refused by the plugin."""
PLUGIN = "milligpu-node/plugin"
"""The plugin's own pod, which always runs: a kubelet that is ready lists it at least."""


@dataclass
class Look:
    """One look at the kubelet, made in two steps and taken in later."""

    listed: Pods | None
    read: Checkpoint | None = None


class World:
    """A kubelet, whose steps are taken one by one, and the ledger of a plugin beside it.

    Nothing runs by itself. Admissions are iterators, since anything may happen between two steps.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 1000.0
        self.manager = DeviceManager(folder)
        self.active: dict[str, tuple[str, ...]] = {PLUGIN: ()}
        """Pods that have not ended, with the containers that are listed."""
        self.ready = True
        self.lister = True
        """Whether the socket that lists pods is there."""
        self.readable = True
        """Whether we can read the checkpoint."""
        self.admission: Iterator[str] | None = None
        self.admitting = ""
        self.in_flight: frozenset[str] = frozenset()
        """Ids of an answered Allocate that the kubelet has not written yet."""
        self.unseen: frozenset[str] = frozenset()
        """Ids that this plugin's process cannot know of yet: another answered, nothing tells."""
        self.ask = False
        """Whether the ledger wants the device list to be sent."""
        self.pods = 0
        self.ledger = Ledger()
        self.message()
        self.ledger.start(checkpoint.read(folder))

    # The kubelet.

    def admit(self, shape: Shape, name: str = "") -> None:
        """Begin to admit a pod."""
        self.pods += 1
        pod = f"test/{name or f'p{self.pods}'}"
        self.active[pod] = tuple(f"c{n}" for n, (kind, _) in enumerate(shape) if kind == "main")
        self.admitting, self.admission = pod, self._admission(pod, shape)

    def step(self) -> str:
        """Go one step on with the admission; return its name, or nothing when it is over."""
        assert self.admission
        if (name := next(self.admission, "")) == "":
            self.admission = None
        return name

    def _admission(self, pod: str, shape: Shape) -> Iterator[str]:
        reusable: frozenset[str] = frozenset()
        for n, (kind, size) in enumerate(shape):
            if self.ready:
                self.manager.update(self.active)
            must = frozenset(sorted(reusable)[:size])
            free = set(IDS) - self.manager.allocated()
            if len(must) + len(free) < size:
                self.end(pod)
                return
            ids = must
            if len(must) < size:
                self.ledger.available(free)
                yield "preferred"
                ids = must | frozenset(sorted(free)[: size - len(must)])
            if size >= TOO_MANY:
                self.end(pod)
                return
            self.ledger.allocated(sorted(ids), self.now)
            self.in_flight = ids
            yield "answered"
            self.manager.insert(pod, Entry(f"c{n}", names.COUNT, ids))
            yield "inserted"
            self.message()
            self.in_flight = frozenset()
            yield "written"
            reusable = reusable | ids if kind == "init" else reusable - ids

    def message(self) -> None:
        """Receive a device list, ours or another plugin's."""
        self.manager.write({names.COUNT: IDS})

    def end(self, pod: str) -> None:
        """End a pod; nobody is told."""
        self.active.pop(pod, None)

    def restart_kubelet(self) -> None:
        """Lose what is only in its memory; a pod that was being admitted never runs."""
        if self.admission:
            self.end(self.admitting)
        self.admission, self.in_flight = None, frozenset()
        self.manager.restore()
        self.ready = False

    # The plugin.

    def restart_plugin(self) -> None:
        """Lose the ledger; what is on disk stays."""
        self.ledger, self.ask = Ledger(), False
        found = self.checkpoint()
        self.ledger.start(found)
        self.unseen = self.truth() - (found.held if found else frozenset())

    def checkpoint(self) -> Checkpoint | None:
        return checkpoint.read(self.folder) if self.readable else None

    def list(self) -> Look:
        """Do the first step of a look."""
        if not self.lister:
            return Look(None)
        active = self.active if self.ready else {}
        if self.ready:
            self.manager.update(self.active)
        return Look(pods.gather(self.manager.listed(active), ()))

    def read(self, look: Look) -> None:
        """Do the second one."""
        look.read = self.checkpoint()

    def take(self, look: Look) -> None:
        """Do the last one."""
        told = look.read.held if look.read else frozenset()
        if look.listed:
            told |= {each for holding in look.listed.holdings for each in holding.ids}
        self.unseen -= told
        self.ask |= self.ledger.polled(look.listed, look.read, self.now)

    def look(self) -> None:
        """Do all of a look, and what it asks for."""
        look = self.list()
        self.read(look)
        self.take(look)
        if self.ask:
            self.message()
            self.ask = False

    # What is to be compared.

    def truth(self) -> frozenset[str]:
        """Return what live pods have, or are about to have."""
        has = (each.ids for pod in self.active for each in self.manager.entries.get(pod, ()))
        return self.in_flight.union(*has)

    def held(self) -> frozenset[str]:
        held = frozenset(each for ids in self.ledger.held.values() for each in ids)
        assert all(ids for ids in self.ledger.held.values())
        assert {each.partition("::")[0] for each in held} == set(self.ledger.held)
        return held

    def lost(self) -> frozenset[str]:
        """Return what the ledger takes for free though a live pod has it."""
        return self.truth() - self.held() - self.unseen

    def settle(self) -> None:
        """Let the kubelet finish, and look until nothing more can come of it."""
        self.ready = self.lister = self.readable = True
        while self.admission:
            self.step()
        for _ in range(4):
            self.now += GRACE
            self.look()
        assert self.held() == self.truth()
        assert not self.unseen & self.truth()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def admit(world: World, *shape: tuple[Kind, int], name: str = "") -> str:
    """Admit a pod in full, or in vain."""
    world.admit(shape, name)
    while world.step():
        pass
    return world.admitting


def until(world: World, step: str, *shape: tuple[Kind, int]) -> None:
    """Admit a pod, but only as far as a step."""
    world.admit(shape)
    while world.step() != step:
        pass


# One thing after the other.


def test_nothing_is_held_at_first(world: World) -> None:
    assert world.ledger.known
    assert world.ledger.held == {}
    assert world.ledger.holdings == ()


def test_what_is_allocated_is_held_at_once_by_card(world: World) -> None:
    world.ledger.allocated(["GPU-a::1", "GPU-b::whole", "GPU-a::0"], 0)
    assert world.ledger.held == {"GPU-a": {"GPU-a::0", "GPU-a::1"}, "GPU-b": {"GPU-b::whole"}}


def test_an_ended_pod_is_seen_by_the_second_look(world: World) -> None:
    pod = admit(world, ("main", 3))
    world.now += GRACE
    world.look()
    assert [holding.pod for holding in world.ledger.holdings] == ["p1"]
    world.end(pod)
    world.look()  # the list lacks it; the checkpoint is old, and a new one is asked for
    assert len(world.held()) == 3
    assert not world.ledger.holdings
    world.look()
    assert world.ledger.held == {}


def test_init_containers_are_never_listed_but_held_while_their_pod_lives(world: World) -> None:
    pod = admit(world, ("init", 4), ("main", 1))
    for _ in range(5):
        world.now += GRACE
        world.look()
        assert len(world.held()) == 4
    world.end(pod)
    world.look()
    world.look()
    assert world.ledger.held == {}


def test_what_is_offered_again_is_free_at_once(world: World) -> None:
    pod = admit(world, ("main", 3))
    world.look()
    world.end(pod)
    world.admit((("main", 1),))
    assert world.step() == "preferred"
    assert world.ledger.held == {}


def test_an_old_look_does_not_bring_back_what_was_offered_since(world: World) -> None:
    pod = admit(world, ("main", 3))
    old = world.list()
    world.read(old)
    world.end(pod)
    world.admit((("main", 1),))
    world.step()
    world.take(old)
    assert world.ledger.held == {}
    world.step()
    world.take(old)
    assert world.lost() == frozenset()


def test_a_refused_pod_gives_back_what_its_first_container_had(world: World) -> None:
    admit(world, ("main", 2), ("main", TOO_MANY))
    assert len(world.held()) == 2
    world.now += GRACE
    world.look()
    world.look()
    assert world.ledger.held == {}


def test_what_was_seen_once_is_not_waited_for(world: World) -> None:
    """Neither what a list showed nor what was written, however short it lives."""
    pods = [admit(world, ("main", 2)), admit(world, ("init", 3))]
    world.look()
    for each in pods:
        world.end(each)
    world.look()
    assert len(world.held()) == 5
    world.look()
    assert world.ledger.held == {}


def test_what_was_seen_of_an_earlier_holder_is_waited_for_again(world: World) -> None:
    world.end(admit(world, ("init", 2)))
    until(world, "answered", ("init", 2))
    world.look()  # the checkpoint shows the slots, but as those of the pod that has ended
    world.message()
    world.look()
    assert len(world.held()) == 2


def test_the_same_pod_refused_again_and_again(world: World) -> None:
    """Each time it leaves the same slots in the checkpoint, and the same pods are listed."""
    for _ in range(3):
        admit(world, ("main", 2), ("main", TOO_MANY))
        world.look()
        assert len(world.held()) == 2
    world.now += GRACE
    world.look()
    assert world.ledger.held == {}


def test_an_old_checkpoint_does_not_bring_back_what_was_offered_since(world: World) -> None:
    pod = admit(world, ("main", 3))
    world.look()
    world.end(pod)
    admit(world, ("main", TOO_MANY))  # is offered them, and refused: nothing is written
    for _ in range(3):
        world.look()
        assert world.ledger.held == {}


def test_a_checkpoint_older_than_an_answer_says_nothing_of_it(world: World) -> None:
    until(world, "answered", ("init", 2))
    world.message()  # another plugin's: the kubelet writes all it has, which is not ours yet
    world.look()
    assert len(world.held()) == 2


def test_what_is_listed_but_not_written_is_held(world: World) -> None:
    until(world, "inserted", ("main", 2))
    world.now += GRACE
    world.look()
    assert len(world.held()) == 2


def test_what_a_slow_kubelet_writes_after_all_is_held(world: World) -> None:
    """Such as an init container's whose other resource took long; no list ever shows it."""
    world.end(admit(world, ("main", 2)))
    until(world, "answered", ("init", 2))
    world.message()
    world.now += GRACE
    world.look()
    assert world.ledger.held == {}
    world.settle()
    assert len(world.held()) == 2


def test_the_same_name_again(world: World) -> None:
    """A StatefulSet's pod ends and comes again between two looks, now with less."""
    admit(world, ("init", 4), name="web-0")
    world.now += GRACE
    world.look()
    world.end("test/web-0")
    admit(world, ("init", 1), name="web-0")
    world.now += GRACE
    world.look()
    world.look()
    assert world.held() == world.truth()


def test_no_list_of_pods(world: World) -> None:
    """The checkpoint alone: what ended pods had goes when something else is written."""
    world.lister = False
    pod = admit(world, ("init", 2), ("main", 3))
    world.now += GRACE
    world.look()
    assert world.held() == world.truth()
    world.end(pod)
    world.look()
    assert len(world.held()) == 3
    admit(world, ("main", 1))
    world.look()
    assert world.held() == world.truth()


def test_a_kubelet_that_starts_lists_no_pod_though_they_run(world: World) -> None:
    admit(world, ("init", 4), ("main", 3))
    world.look()
    world.restart_kubelet()
    for _ in range(3):
        world.now += GRACE
        world.look()
        assert len(world.held()) == 4
    assert world.ledger.holdings == ()
    world.settle()
    assert len(world.held()) == 4


def test_a_pod_that_ends_while_the_kubelet_is_away(world: World) -> None:
    pod = admit(world, ("init", 4), ("main", 3))
    world.restart_kubelet()
    world.end(pod)
    world.restart_plugin()
    world.look()
    assert len(world.held()) == 4
    world.settle()
    assert world.ledger.held == {}


# A checkpoint that cannot be read.


def test_unknown_until_something_can_be_read(tmp_path: Path) -> None:
    ledger = Ledger()
    ledger.start(None)
    assert not ledger.known
    ledger.polled(None, None, 0)
    ledger.polled(Pods(), None, 0)  # a kubelet that starts
    assert not ledger.known
    ledger.polled(Pods(names=frozenset({("n", "p")})), None, 0)
    assert ledger.known


def test_known_by_a_checkpoint_that_can_be_read_later() -> None:
    ledger = Ledger()
    ledger.start(None)
    ledger.polled(None, Checkpoint(frozenset({"GPU-a::1"})), 0)
    assert ledger.known
    assert ledger.held == {"GPU-a": {"GPU-a::1"}}


def listing(**pods: tuple[str, ...]) -> Pods:
    holdings = (Holding("n", name, "c", ids) for name, ids in pods.items() if ids)
    return Pods(tuple(sorted(holdings)), frozenset(("n", name) for name in pods))


def test_without_a_checkpoint_a_full_list_tells_what_it_had_and_lacks() -> None:
    ledger = Ledger()
    ledger.start(None)
    ledger.polled(listing(p=("GPU-a::1",), other=()), None, 0)
    ledger.allocated(["GPU-a::2"], 0)  # an init container's
    ledger.polled(listing(), None, 100)
    assert ledger.held == {"GPU-a": {"GPU-a::1", "GPU-a::2"}}
    ledger.polled(listing(other=()), None, 200)
    assert ledger.held == {"GPU-a": {"GPU-a::2"}}
    ledger.available(["GPU-a::2"])
    assert ledger.held == {}
    ledger.allocated(["GPU-a::1"], 300)  # an init container's, which no list shows
    ledger.polled(listing(other=()), None, 400)
    assert ledger.held == {"GPU-a": {"GPU-a::1"}}


def test_without_a_checkpoint_a_list_may_be_short_at_a_kubelets_start() -> None:
    """It lists static pods first, and the others a moment later."""
    ledger = Ledger()
    ledger.start(None)
    ledger.polled(listing(p=("GPU-a::1",), static=()), None, 0)
    ledger.polled(listing(static=()), None, 5)
    assert ledger.held == {"GPU-a": {"GPU-a::1"}}
    ledger.polled(listing(p=("GPU-a::1",), static=()), None, 10)
    ledger.polled(listing(static=()), None, 15)
    assert ledger.held == {"GPU-a": {"GPU-a::1"}}
    ledger.polled(listing(static=()), None, 25)
    assert ledger.held == {}


# When a new checkpoint is asked for.


def test_a_new_checkpoint_is_asked_for_once_a_change() -> None:
    ledger = Ledger()
    ledger.start(Checkpoint(frozenset({"GPU-a::1"})))
    old = Checkpoint(frozenset({"GPU-a::1"}))
    assert ledger.polled(listing(p=()), old, 0)
    assert not any(ledger.polled(listing(p=()), old, now) for now in range(1, int(AGAIN)))
    assert ledger.polled(listing(p=()), old, AGAIN)  # should the first one have been lost
    assert not ledger.polled(listing(p=()), old, AGAIN + 1)
    assert ledger.polled(listing(q=()), old, AGAIN + 2)
    assert ledger.polled(listing(), old, AGAIN + 3)


def test_a_new_checkpoint_is_asked_for_where_it_lacks_what_a_pod_has() -> None:
    """The kubelet writes two at once, after an Allocate and after our list; the older may win."""
    ledger, slot = Ledger(), "GPU-a::1"
    ledger.start(Checkpoint())
    ledger.allocated([slot], 0)
    assert ledger.polled(listing(p=(slot,)), Checkpoint(), 1)
    assert not ledger.polled(listing(p=(slot,)), Checkpoint(), 2)
    assert not ledger.polled(listing(p=(slot,)), Checkpoint(frozenset({slot})), 3)
    assert ledger.held == {"GPU-a": {slot}}


def test_no_new_checkpoint_is_asked_for_where_none_is_needed() -> None:
    ledger = Ledger()
    ledger.start(Checkpoint())
    new = Checkpoint(frozenset({"GPU-a::1"}))
    assert not ledger.polled(listing(p=("GPU-a::1",)), new, 0)
    assert not ledger.polled(listing(p=("GPU-a::1",), q=()), new, 1)
    assert not ledger.polled(None, new, 2)
    assert not ledger.polled(listing(), Checkpoint(), 3)


# Every step, and a crash after it.

Play = Callable[[World], Iterator[str]]


def through(world: World, *shape: tuple[Kind, int]) -> Iterator[str]:
    world.admit(shape)
    while name := world.step():
        yield name


def looking(world: World) -> Iterator[str]:
    look = world.list()
    yield "listed"
    world.read(look)
    yield "read"
    world.take(look)
    yield "taken in"
    if world.ask:
        world.message()
        world.ask = False
        yield "rewritten"


def ending(world: World) -> Iterator[str]:
    """A pod of all kinds of containers comes, is looked at, ends, and another one comes."""
    yield from through(world, ("init", 4), ("main", 2), ("main", 1))
    pod = world.admitting
    yield from looking(world)
    world.now += GRACE
    world.end(pod)
    yield "ended"
    yield from looking(world)
    yield from looking(world)
    yield from through(world, ("main", 3))


def refused(world: World) -> Iterator[str]:
    """One pod lives; another one's second container is refused, and a third one takes its slots."""
    yield from through(world, ("main", 2))
    yield from through(world, ("init", 3), ("main", TOO_MANY))
    yield from looking(world)
    yield from through(world, ("init", 4))
    yield from looking(world)


def away(world: World) -> Iterator[str]:
    """The kubelet restarts with two pods, one of which is gone when it is back."""
    yield from through(world, ("init", 2), ("main", 1))
    first = world.admitting
    yield from through(world, ("main", 3))
    world.restart_kubelet()
    yield "kubelet restarted"
    yield from looking(world)
    world.end(first)
    yield "ended"
    yield from looking(world)
    world.ready = True
    yield "ready"
    yield from looking(world)
    yield from looking(world)


PLAYS: tuple[Play, ...] = (ending, refused, away)


def steps(play: Play) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        return list(play(World(Path(folder))))


CRASHES = [
    pytest.param(play, at, id=f"{play.__name__}-{at}-{name.replace(' ', '-')}")
    for play in PLAYS
    for at, name in enumerate(steps(play))
]


@pytest.mark.parametrize(("play", "at"), CRASHES)
def test_the_plugin_is_killed_after_any_step(world: World, play: Play, at: int) -> None:
    for number, _ in enumerate(play(world)):
        if number == at:
            world.restart_plugin()
            if not world.in_flight:  # the kubelet has written all that was answered
                assert world.unseen == frozenset()
        assert world.lost() == frozenset()
    world.settle()


@pytest.mark.parametrize(("play", "at"), CRASHES)
def test_the_kubelet_is_killed_after_any_step(world: World, play: Play, at: int) -> None:
    for number, _ in enumerate(play(world)):
        if number == at:
            world.restart_kubelet()
            break
        assert world.lost() == frozenset()
    world.look()
    assert world.lost() == frozenset()
    world.settle()


# Anything in any order.

shapes = st.lists(
    st.tuples(st.sampled_from(["init", "main"]), st.integers(1, TOO_MANY)), min_size=1, max_size=3
).map(lambda each: tuple(sorted(each)))


class Anything(RuleBasedStateMachine):
    """The kubelet and the plugin take steps, crash and look in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ledger-"))
        self.world = World(self.folder)
        self.looks: list[Look] = []
        """One look at a time; its steps are taken apart."""

    def teardown(self) -> None:
        try:
            self.world.settle()
            self.world.active = {PLUGIN: ()}
            self.world.settle()
            assert self.world.ledger.held == {}
        finally:
            shutil.rmtree(self.folder)

    @precondition(lambda self: not self.world.admission and self.world.ready)
    @rule(shape=shapes, name=st.sampled_from(["", "", "web-0"]))
    def admit(self, shape: Shape, name: str) -> None:
        if f"test/{name}" not in self.world.active:
            self.world.admit(shape, name)

    @precondition(lambda self: self.world.admission)
    @rule(count=st.integers(1, 9))
    def go_on(self, count: int) -> None:
        for _ in range(count):
            if self.world.admission:
                self.world.step()

    @rule(number=st.integers(0, 9))
    def end(self, number: int) -> None:
        pods = sorted(self.world.active.keys() - {PLUGIN})
        if pods and not (self.world.admission and pods[number % len(pods)] == self.world.admitting):
            self.world.end(pods[number % len(pods)])

    @precondition(lambda self: not self.looks)
    @rule()
    def list(self) -> None:
        self.looks = [self.world.list()]

    @precondition(lambda self: self.looks and self.looks[0].read is None)
    @rule()
    def read(self) -> None:
        self.world.read(self.looks[0])

    @precondition(lambda self: self.looks)
    @rule()
    def take(self) -> None:
        """Take in a look, also one whose checkpoint could not be read."""
        self.world.take(self.looks.pop())

    @rule()
    def look(self) -> None:
        self.looks.clear()
        self.world.look()

    @rule()
    def another_plugins_message(self) -> None:
        self.world.message()

    @rule()
    def restart_kubelet(self) -> None:
        self.world.restart_kubelet()

    @rule()
    def ready(self) -> None:
        self.world.ready = True

    @rule(there=st.booleans())
    def lister(self, there: bool) -> None:
        self.world.lister = there

    @rule(can=st.booleans())
    def readable(self, can: bool) -> None:
        self.world.readable = can

    @rule()
    def restart_plugin(self) -> None:
        self.looks.clear()
        self.world.restart_plugin()

    @precondition(lambda self: not (self.world.admission or (self.looks and self.looks[0].read)))
    @rule(seconds=st.sampled_from([1.0, GRACE, AGAIN]))
    def wait(self, seconds: float) -> None:
        """Not in an admission: what comes late is another test's matter. What is read is fresh."""
        self.world.now += seconds

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.world.lost() == frozenset()


TestAnything = Anything.TestCase
TestAnything.settings = settings(max_examples=60, stateful_step_count=50)
