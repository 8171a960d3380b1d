"""The placement simulator: that it decides like the plugin, and that its cluster adds up."""

from dataclasses import replace
from random import Random
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.placement import page, picture
from bench.placement.cluster import Cluster
from bench.placement.experiments import LOADS, OURS, Results, Table, tables
from bench.placement.node import Node
from bench.placement.policies import (
    ALL,
    CARD,
    DISTRIBUTED,
    DRA,
    FITTING,
    LARGEST,
    NAMES,
    NVIDIA_PACKED,
    RANDOM,
    SPREAD,
    Choose,
    Free,
    Memory,
    Parts,
    Policy,
    fitting,
    packed,
    spread,
)
from bench.placement.scenario import Pod, Scenario
from bench.placement.scheduler import Scheduler
from plugin import allocation, holes
from plugin.config import Placement
from vgpu.slots import of_card

frees = st.lists(st.integers(0, CARD), min_size=1, max_size=8)
sizes = st.integers(1, CARD)
RNG = Random(1)  # noqa: S311
SMALL = Scenario(FITTING, nodes=3, cards=4, pods=300)


def by_plugin(free: Free, size: int, placement: Placement) -> Parts:
    """Ask the plugin's own code, as the kubelet does; nothing, where Allocate would refuse."""
    available = [
        slot for name, room in zip(NAMES, free, strict=False) for slot in of_card(name)[:room]
    ]
    chosen = allocation.choose(available, (), size, placement)
    cards = {slot.card for slot in chosen}
    return [(NAMES.index(cards.pop()), size)] if len(cards) == 1 else []


@given(frees, sizes)
def test_a_card_is_chosen_as_the_plugin_does(free: Free, size: int) -> None:
    if sum(free) < size:
        return  # the kubelet asks nobody
    assert packed(free, size, RNG) == by_plugin(free, size, "packed")
    assert spread(free, size, RNG) == by_plugin(free, size, "spread")


@given(frees, st.dictionaries(sizes, st.floats(0, 200_000), max_size=5), st.sets(sizes, max_size=3))
def test_slots_are_shown_as_the_plugin_does(
    free: Free, asked: dict[int, float], running: set[int]
) -> None:
    now, memory = 200_000.0, Memory(running=dict.fromkeys(running, 1))
    for size, when in asked.items():
        memory.sizes.asked(size, when)
    known = running | memory.sizes.remembered(now)
    by_name = holes.fitting(dict(zip(NAMES, free, strict=False)), known)
    assert fitting(free, memory, now) == [by_name.get(name, 0) for name in NAMES[: len(free)]]


def test_a_run_is_the_same_with_the_plugins_own_choice() -> None:
    real = Policy("real", lambda free, size, _: by_plugin(free, size, "packed"), fitting)
    result = Cluster(SMALL, 1).run()
    assert result == Cluster(replace(SMALL, policy=real), 1).run()
    assert result.refused > 0


@pytest.mark.parametrize("policy", [RANDOM, DISTRIBUTED, NVIDIA_PACKED])
@given(free=frees, size=sizes, seed=st.integers(0, 9))
def test_others_give_what_is_asked_of_what_is_free(
    policy: Policy, free: Free, size: int, seed: int
) -> None:
    if sum(free) < size:
        return
    parts = policy.choose(free, size, Random(seed))  # noqa: S311
    assert sum(count for _, count in parts) == size
    assert all(0 < count <= free[card] for card, count in parts)


@pytest.mark.parametrize(
    ("choose", "free", "size", "parts"),
    [
        (DISTRIBUTED.choose, [100, 100, 100, 40], 30, [(0, 10), (1, 10), (2, 10)]),
        (DISTRIBUTED.choose, [100, 60], 30, [(0, 30)]),
        (NVIDIA_PACKED.choose, [100, 60, 20], 30, [(1, 10), (2, 20)]),
        (NVIDIA_PACKED.choose, [100, 60], 30, [(1, 30)]),
        (DRA.choose, [20, 100, 60], 30, [(1, 30)]),
    ],
)
def test_others_choose_as_they_do(choose: Choose, free: Free, size: int, parts: Parts) -> None:
    assert choose(free, size, Random(3)) == parts  # noqa: S311


def results_of(*scenarios: Scenario) -> Results:
    results = Results(2)
    results.by_scenario = {one: [Cluster(one, seed).run() for seed in (0, 1)] for one in scenarios}
    return results


def test_a_misfit_is_hidden_until_it_fits() -> None:
    node = Node(2, FITTING)
    halves = [node.admit(50, 1, 0.0, RNG) for _ in range(4)]
    assert node.free == [0, 0]
    node.release(50, halves[0])
    node.release(50, halves[2])
    assert node.free == node.shown == [50, 50]
    assert node.admit(60, 1, 1.0, RNG) == []
    node.refresh(1.0)
    assert node.shown == [50, 0]
    assert node.allocatable == 150
    node.release(50, halves[1])
    assert node.shown == [100, 0]
    node.refresh(2.0)
    assert node.shown == [100, 50]


@given(st.lists(st.tuples(sizes, st.integers(1, 2), st.booleans()), max_size=30))
def test_a_nodes_slots_add_up(steps: list[tuple[int, int, bool]]) -> None:
    node, pods = Node(4, FITTING), list[tuple[int, Parts]]()
    for now, (size, containers, ends) in enumerate(steps):
        if ends and pods:
            node.release(*pods.pop(0))
        elif parts := node.admit(size, containers, float(now), RNG):
            pods.append((size, parts))
        node.refresh(float(now))
        held = sum(count for _, parts in pods for _, count in parts)
        assert sum(node.free) == 4 * CARD - held
        assert all(0 <= a <= b <= CARD for a, b in zip(node.shown, node.free, strict=True))
        assert node.allocatable == held + sum(node.shown)
        assert sum(node.memory.running.values()) == sum(len(parts) for _, parts in pods)


@given(
    st.lists(st.tuples(st.integers(200, 400), st.integers(0, 400)), min_size=1, max_size=12),
    sizes,
    st.sampled_from(["least", "most"]),
)
def test_the_best_nodes_have_room_and_the_best_score(
    nodes: list[tuple[int, int]], size: int, scoring: str
) -> None:
    scheduler = Scheduler(len(nodes), 400, 0, scoring)
    for node, (allocatable, used) in enumerate(nodes):
        scheduler.status(node, allocatable)
        scheduler.bind(node, used)

    def score(node: int) -> int:
        allocatable, used = nodes[node]
        return (
            (400 - used - size) * 100 // 400
            if scoring == "least"
            else ((used + size) * 100 // allocatable)
        )

    fits = [node for node, (allocatable, used) in enumerate(nodes) if allocatable - used >= size]
    top = max(map(score, fits), default=0)
    assert scheduler.best(size) == [node for node in fits if score(node) == top]


@pytest.mark.parametrize(
    ("nodes", "scored"), [(1, 1), (99, 99), (100, 100), (150, 100), (1000, 420), (10000, 500)]
)
def test_a_large_cluster_is_looked_at_in_turns(nodes: int, scored: int) -> None:
    scheduler = Scheduler(nodes, 400, 0, "none")
    seen = [node for _ in range(-(-nodes // scored)) for node in scheduler.best(30)]
    assert len(scheduler.best(30)) == scored
    assert set(seen) == set(range(nodes))


def test_who_waits_longest_goes_first_if_it_fits() -> None:
    scheduler = Scheduler(1, 100, 0, "least")
    pods = [Pod(size, size, 0.0, 1.0) for size in (70, 30, 30)]
    for pod in pods:
        scheduler.push(pod)
    scheduler.bind(0, 40)
    assert [scheduler.pop(0) for _ in range(3)] == [pods[1], pods[2], None]
    scheduler.bind(0, -40)
    assert scheduler.pop(0) is pods[0]


@pytest.mark.parametrize("policy", [FITTING, ALL, LARGEST, SPREAD])
def test_nodes_of_one_card_never_refuse(policy: Policy) -> None:
    result = Cluster(replace(SMALL, policy=policy, cards=1, nodes=12), 1).run()
    assert result.refused == result.failed == 0
    assert result.wait > 0


def test_exact_counts_never_refuse() -> None:
    result = Cluster(replace(SMALL, policy=DRA), 1).run()
    assert result.refused == result.failed == 0


def test_nvidias_packed_refuses_nothing_and_splits() -> None:
    result = Cluster(replace(SMALL, policy=NVIDIA_PACKED), 1).run()
    assert result.failed == 0
    assert result.refused > 100


def test_a_run_depends_on_its_seed_alone() -> None:
    assert Cluster(SMALL, 1).run() == Cluster(SMALL, 1).run() != Cluster(SMALL, 2).run()


@pytest.mark.parametrize("load", [0.5, 0.7])
def test_as_much_is_used_as_is_asked(load: float) -> None:
    small = Scenario(DRA, mix=(3, 5, 10), nodes=5, load=load, pods=4000)
    assert Cluster(small, 1).run().used == pytest.approx(100 * load, rel=0.05)


@pytest.mark.parametrize("policy", [ALL, FITTING])
def test_tries_in_vain_are_counted_as_if_each_were_made(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario(policy, mix=(20, 60), nodes=1, cards=3, load=0.6, pods=100, life=100.0)

    def failed() -> float:
        return sum(Cluster(scenario, seed).run().failed for seed in (1, 2, 3))

    counted = failed()
    monkeypatch.setattr(Cluster, "_is_stuck", lambda *_: False)
    # Which of two pods gets what becomes free is a matter of chance, so not to the digit.
    assert failed() == pytest.approx(counted, rel=0.1)
    assert counted > 10_000


def test_a_table_goes_to_its_place_and_nowhere_else() -> None:
    text = "before\n<!-- a: b -->\nold\n<!-- end -->\nbetween\n<!-- end -->\n"
    changed = page._insert(text, "a: b", "| new |")
    assert changed == "before\n<!-- a: b -->\n| new |\n<!-- end -->\nbetween\n<!-- end -->\n"
    assert page._insert(text, "a: c", "| new |") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.04, "0"), (1.26, "1.3"), (12.6, "13"), (126, "130"), (45678, "46,000")],
)
def test_numbers_show_the_digits_that_count(value: float, text: str) -> None:
    assert page._number(value) == text


def test_the_picture_is_an_image_with_words() -> None:
    tiny = {
        policy: tuple(Scenario(policy, nodes=1, load=load, pods=5) for load in LOADS)
        for policy in OURS
    }
    text = picture.draw(
        {"panel": tiny}, results_of(*(one for line in tiny.values() for one in line))
    )
    root = ElementTree.fromstring(text)  # noqa: S314 - our own
    assert root.get("role") == "img"
    assert FITTING.name in "".join(root.itertext())


def test_the_page_has_a_place_for_every_table() -> None:
    text = page.PAGE.read_text()
    for table in tables():
        assert f"<!-- {table.name}: refused -->" in text


def test_what_is_not_modelled_has_no_figure() -> None:
    scenario = Scenario(DRA, containers=2)
    table = Table("t", "corner", ("column",), {"row": (scenario,)})
    assert page.markdown(table, Results(2), page.refused).endswith("| row | - |")
    assert all(scenario.modelled for scenario in page.scenarios())


def test_a_table_names_its_rows_and_columns() -> None:
    scenario = Scenario(DRA, nodes=1, pods=5)
    table = Table("t", "corner", ("column",), {"row": (scenario,)})
    lines = page.markdown(table, results_of(scenario), page.refused).splitlines()
    assert lines == ["| corner | column |", "| --- | ---: |", "| row | 0 |"]
