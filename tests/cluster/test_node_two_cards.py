"""Two cards: where the slots of a pod come from."""

import pytest

from tests.cluster import shapes
from tests.cluster.api import Json
from tests.cluster.eventually import eventually
from tests.cluster.node import Node
from tests.cluster.product import configured, slots, use_cards
from tests.cluster.spaces import Space, asking
from vgpu import names

pytestmark = pytest.mark.node


@pytest.fixture(autouse=True)
def _two_cards(node: Node) -> None:
    use_cards(node, "two-t4")


def card(space: Space, name: str, ask: str) -> str:
    """Create a pod, wait until it runs, and return the card that it got."""
    space.create(shapes.pod(name, asking("main", ask)))
    return space.reports(space.running(name))["main"].env[names.ENV_GPU_UUID]


def test_two_pods_that_do_not_fit_together_get_a_card_each(space: Space) -> None:
    assert card(space, "first", "600m") != card(space, "second", "600m")


def test_small_shares_fill_the_card_that_is_in_use(space: Space) -> None:
    first = card(space, "large", "600m")
    assert card(space, "medium", "300m") == first
    assert card(space, "small", "100m") == first


def test_a_pod_that_fits_on_no_single_card_waits_for_one(space: Space) -> None:
    card(space, "first", "600m")
    card(space, "second", "600m")
    eventually(lambda: slots(space.node) == 2 * 60 + 40, "another of 60 must not seem to fit")
    space.create(shapes.pod("split", asking("main", "500m")))
    eventually(lambda: waits(space.pod("split")), "the scheduler finds no room")
    space.kubectl("delete", "pod", "first", "--now")
    space.running("split")


def waits(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(f"1 Insufficient {names.COUNT}" in each.get("message", "") for each in conditions)


def test_a_pod_that_is_sent_where_no_card_has_room_is_refused_in_a_sentence(space: Space) -> None:
    with configured(space.node, advertise="all"):
        card(space, "first", "600m")
        card(space, "second", "600m")
        space.create(shapes.pod("split", asking("main", "500m")))
        refused = eventually(
            lambda: found if (found := space.pod("split"))["status"]["phase"] == "Failed" else None,
            "the kubelet refuses the pod",
        )
    assert refused["status"]["reason"] == "UnexpectedAdmissionError"
    assert "a share is part of one card" in refused["status"]["message"]
