"""Whole cards and shares of the same cards, asked for at the same moment: nobody gets a part of a
card that somebody has whole, and who gets nothing is told why.
"""

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import soak
from tests.cluster import shapes
from tests.cluster.api import Json
from tests.cluster.devices import Held, allocatable, held, registered
from tests.cluster.eventually import eventually
from tests.cluster.node import NAME, Node
from tests.cluster.product import configured, use_cards
from tests.cluster.spaces import Space, asking
from tests.cluster.tools.say import say
from vgpu import names
from vgpu.slots import PER_CARD

pytestmark = [pytest.mark.node, pytest.mark.long]

CARDS = 2
ROUNDS = soak.either(6, 150)
"""Of each way to come to the node."""
REASONS = (
    "as a whole, but ",
    "which another container has whole",
    "a share is part of one card",
    "requested number of devices unavailable for milligpu.io/",
    "cannot allocate unhealthy devices milligpu.io/",
    "Node didn't have enough resource: milligpu.io/",
)
"""Why a pod is refused: by us in the first three, by the kubelet, which counts, in the others."""


@pytest.fixture(scope="module", autouse=True)
def _often(node: Node) -> Iterator[None]:
    """Have the plugin look often at who has what, so that a round is over soon."""
    use_cards(node, "two-t4")
    with configured(node, poll_seconds="0.3"):
        yield


def free(node: Node) -> bool:
    """Whether all is on offer: by the kubelet's account, and by the node's status, which lags."""
    everything = {names.COUNT: CARDS * PER_CARD, names.WHOLE: CARDS}
    return all(
        len(registered(node, name)) == allocatable(node, name) == count
        for name, count in everything.items()
    )


def asks(dice: random.Random) -> list[str]:
    """Return what some pods ask for, all together more than there is."""
    wholes = dice.choice((["1"], ["1", "1"], ["2"]))
    shares = [f"{dice.randint(1, 99)}0m" for _ in range(dice.randint(2, 4))]
    return dice.sample([*wholes, *shares], len(wholes) + len(shares))


def settled(pod: Json) -> str:
    """Return where a pod has arrived: Running, Waiting, or Failed and why; empty until then."""
    status = pod["status"]
    conditions = [(each["type"], each["status"]) for each in status.get("conditions", ())]
    match status["phase"]:
        case "Running" if ("Ready", "True") in conditions:
            return "Running"
        case "Failed":
            [reason] = [each for each in REASONS if each in status["message"]]
            return f"Failed: {reason}"
        case "Pending" if ("PodScheduled", "False") in conditions:
            return "Waiting"
    return ""


def outcome(space: Space, count: int) -> dict[str, list[Json]]:
    """Wait until all pods have arrived somewhere; return them by where."""
    found: dict[str, list[Json]] = {}

    def look() -> bool:
        found.clear()
        for pod in space.pods():
            found.setdefault(settled(pod), []).append(pod)
        return "" not in found and sum(map(len, found.values())) == count

    eventually(look, lambda: f"an outcome of {count} pods: {Counter(map(settled, space.pods()))}")
    return found


def unshared(space: Space, running: list[Json]) -> None:
    """See that cards are whole or in slots, by the pods' own account and by the kubelet's."""
    owners: dict[str, list[bool]] = {}
    for pod in running:
        [limits] = [each["resources"]["limits"] for each in pod["spec"]["containers"]]
        env = space.report(pod["metadata"]["name"], "main").env
        for card in env[names.ENV_GPU_UUID].split(","):
            owners.setdefault(card, []).append(names.WHOLE in limits)
    uids = {pod["metadata"]["uid"] for pod in running}
    for each in eventually(lambda: written(space.node, uids), "all pods in the checkpoint"):
        for card in each.cards:
            owners[card].append(each.resource == names.WHOLE)
    for card, wholes in owners.items():
        # A whole card has one owner, told of twice; or nobody has it whole.
        assert wholes == [True, True] or not any(wholes), f"{card}: {wholes}"


def written(node: Node, uids: set[str]) -> list[Held]:
    """Return what the kubelet has written down of pods, once it is all of them.

    It writes once after an Allocate and once after a device list, at the same time, and what is
    older may come last; the plugin has it write again.
    """
    entries = [each for each in held(node) if each.pod in uids]
    return entries if {each.pod for each in entries} == uids else []


def race(space: Space, pods: list[Json]) -> Counter[str]:
    """Create pods at the same moment, judge what becomes of them, and take them away."""
    with ThreadPoolExecutor(len(pods)) as pool:
        list(pool.map(space.create, pods))
    found = outcome(space, len(pods))
    assert found.get("Running"), "somebody wins"
    unshared(space, found["Running"])
    space.kubectl("delete", "pods", "--all", "--now", "--wait=false")
    eventually(lambda: not space.pods() and free(space.node), "the end of the round")
    return Counter({where: len(pods) for where, pods in found.items()})


@pytest.mark.timeout(60 + 20 * ROUNDS)
@pytest.mark.parametrize("way", ["by the scheduler", "bound beforehand"])
def test_nobody_shares_a_card_that_somebody_has_whole(space: Space, way: str) -> None:
    """Through the webhook, which makes slots and whole cards of asks. Bound beforehand, all pods
    come to the kubelet, whatever the node's status says; the scheduler holds some back.
    """
    dice, total = random.Random(way), Counter[str]()  # noqa: S311 - nothing secret
    eventually(lambda: free(space.node), "a free node")
    for number in range(ROUNDS):
        pods = [shapes.pod(f"p{number}-{n}", asking("main", it)) for n, it in enumerate(asks(dice))]
        if way == "bound beforehand":
            for pod in pods:
                pod["spec"]["nodeName"] = NAME
        total += race(space, pods)
    say(f"{ROUNDS} races, {way}:")
    for where, count in total.most_common():
        say(f"  {count} {where}")
    assert any(where.startswith("Failed") for where in total), "nobody met at the kubelet"
