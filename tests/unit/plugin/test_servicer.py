import asyncio
import time
from typing import Any, cast

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin.checkpoint import Checkpoint
from plugin.config import Config, Placement, UnusableError
from plugin.gpu import MIB, Gpu, Probe
from plugin.metrics import Metrics
from plugin.node import Node
from plugin.offer import Card, Offer
from plugin.resources import SHARES, WHOLES
from plugin.servicer import MAX_MESSAGE, Context, DevicePlugin, device_list
from plugin.v1beta1 import deviceplugin_pb2 as api
from vgpu import names

A, B, C = (
    Gpu(f"GPU-{letter}", index, index, "Tesla T4", 16384 * MIB)
    for index, letter in enumerate("abc")
)


class RefusalError(Exception):
    """What gRPC would send instead of an answer."""


class Call:
    """A call's context."""

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        raise RefusalError(details)


CALL = cast(Context, Call())


class Plugin:
    """Both resources of a node."""

    def __init__(
        self, *gpus: Gpu, placement: Placement = "packed", held: tuple[str, ...] = ()
    ) -> None:
        self.node, self.metrics = Node(Config(settle_seconds=0, placement=placement)), Metrics()
        self.node.start(Checkpoint(frozenset(held)))
        self.node.see(Probe(gpus))
        self.shares = DevicePlugin(SHARES, self.node, self.metrics)
        self.wholes = DevicePlugin(WHOLES, self.node, self.metrics)

    def _resource(self, device: str) -> DevicePlugin[Any]:
        return self.wholes if device.endswith("whole") else self.shares

    def allocate(self, *ids: str) -> dict[str, str]:
        """Return the variables of a container that gets these devices, or raise RefusalError."""
        return asyncio.run(self._allocate(ids))

    async def _allocate(self, ids: tuple[str, ...]) -> dict[str, str]:
        request = api.AllocateRequest(
            container_requests=[api.ContainerAllocateRequest(devices_ids=ids)]
        )
        response = await self._resource(ids[0]).Allocate(request, CALL)
        return dict(response.container_responses[0].envs)

    async def together(self, *containers: tuple[str, ...]) -> list[Any]:
        """Allocate for several containers at the same moment; return answers and refusals."""
        every = (self._allocate(ids) for ids in containers)
        return await asyncio.gather(*every, return_exceptions=True)

    def prefer(self, available: list[str], size: int, *required: str) -> list[str]:
        async def ask() -> list[str]:
            asked = api.ContainerPreferredAllocationRequest(
                available_deviceIDs=available,
                must_include_deviceIDs=required,
                allocation_size=size,
            )
            request = api.PreferredAllocationRequest(container_requests=[asked])
            servicer = self._resource([*available, ""][0])
            response = await servicer.GetPreferredAllocation(request, CALL)
            return list(response.container_responses[0].deviceIDs)

        return asyncio.run(ask())

    def counted(self, resource: str, call: str, outcome: str) -> float | None:
        labels = {"resource": resource, "call": call, "outcome": outcome}
        name = "milligpu_plugin_call_seconds_count"
        return self.metrics.registry.get_sample_value(name, labels)


def some(gpu: Gpu, first: int, last: int) -> list[str]:
    return [f"{gpu.uuid}::{number}" for number in range(first, last)]


# The list.


def test_a_list_names_every_device_and_no_numa_node() -> None:
    sent = device_list({"GPU-a::0": True, "GPU-a::1": False}, 1)
    assert [(each.ID, each.health) for each in sent.devices] == [
        ("GPU-a::0", "Healthy"),
        ("GPU-a::1", "Unhealthy"),
    ]
    assert not any(each.HasField("topology") for each in sent.devices)


@pytest.mark.parametrize("length", [36, 52])
def test_the_number_of_cards_that_a_sentence_gives_is_what_the_kubelet_takes(length: int) -> None:
    def list_of(cards: int) -> int:
        uuids = (f"GPU-{number:0{length}}" for number in range(cards))
        offer = Offer(tuple(Card(Gpu(uuid, 0, 0, "T4", 2**34)) for uuid in uuids))
        return device_list(offer.vgpu, cards).ByteSize()

    with pytest.raises(UnusableError) as refusal:
        list_of(900)
    sentence = str(refusal.value)
    assert sentence.startswith("the list of 90000 devices of 900 GPUs has ")
    most = int(sentence.removesuffix(" such GPUs").rpartition(" ")[2])
    assert list_of(most) <= MAX_MESSAGE
    with pytest.raises(UnusableError):
        list_of(most + 1)


def test_sixteen_cards_take_a_fiftieth_of_what_a_message_may_have() -> None:
    """A constant number of slots, not one for each MiB: no machine comes near the limit."""
    uuids = (f"GPU-1f2e3d4c-0000-4000-8000-{number:012}" for number in range(16))
    offer = Offer(tuple(Card(Gpu(uuid, 0, 0, "H200", 2**37)) for uuid in uuids))
    assert device_list(offer.vgpu, 16).ByteSize() < MAX_MESSAGE / 45


# Choosing.


@pytest.mark.parametrize(("placement", "card"), [("packed", A), ("spread", B)])
def test_placement_is_a_setting(placement: Placement, card: Gpu) -> None:
    plugin = Plugin(A, B, placement=placement)
    assert plugin.prefer([*some(A, 50, 100), *some(B, 0, 100)], 2)[0].startswith(card.uuid)


def test_what_was_withdrawn_since_the_kubelet_heard_of_us_is_chosen_last() -> None:
    """The kubelet's idea of what is healthy is older than ours."""
    plugin = Plugin(A, B)
    plugin.node.ill({"GPU-a": "it needs a reset"})
    both = [*some(A, 0, 50), *some(B, 0, 100)]
    assert plugin.prefer(both, 30) == some(B, 0, 30)
    assert len(plugin.prefer(both, 120)) == 120, "a short answer would be filled up at random"


def test_what_must_be_in_it_is_in_it() -> None:
    plugin = Plugin(A, B)
    assert plugin.prefer([*some(A, 0, 3), *some(B, 0, 9)], 2, "GPU-b::4") == [
        "GPU-b::4",
        "GPU-b::0",
    ]
    assert plugin.prefer(["GPU-a::0"], 1, "GPU-a::0") == ["GPU-a::0"]
    assert plugin.prefer([], 0) == []


def test_whole_cards_are_chosen_in_order() -> None:
    plugin = Plugin(A, B, C)
    free = [f"{gpu.uuid}::whole" for gpu in (C, B, A)]
    assert plugin.prefer(free, 2) == ["GPU-a::whole", "GPU-b::whole"]
    assert plugin.prefer(free, 2, "GPU-c::whole") == ["GPU-c::whole", "GPU-a::whole"]


def test_what_the_kubelet_offers_is_nobodys() -> None:
    plugin = Plugin(A, held=("GPU-a::0", "GPU-a::1"))
    plugin.prefer(some(A, 1, 100), 1)
    assert plugin.node.ledger.held == {"GPU-a": {"GPU-a::0"}}


# Giving.


def test_cards_of_a_container_are_each_named_once_and_in_the_drivers_order() -> None:
    plugin = Plugin(C, A, B)
    envs = plugin.allocate("GPU-c::whole", "GPU-a::whole", "GPU-b::whole", "GPU-a::whole")
    assert envs == dict.fromkeys(
        (names.ENV_GPU_UUID, names.ENV_VISIBLE_DEVICES), "GPU-a,GPU-b,GPU-c"
    )
    assert plugin.allocate("GPU-a::whole") == dict.fromkeys(envs, "GPU-a"), "it may come again"


def test_many_slots_name_their_card_once() -> None:
    envs = Plugin(A).allocate(*some(A, 0, 100))
    assert envs[names.ENV_VISIBLE_DEVICES] == envs[names.ENV_GPU_UUID] == "GPU-a"


@pytest.mark.parametrize(
    ("held", "ids", "sentence"),
    [
        ("GPU-a::whole", ("GPU-a::0",), "1 slots of GPU-a, which another container has whole"),
        ("GPU-a::7", ("GPU-a::whole",), "GPU-a as a whole, but 1 of its slots are in use"),
        ("GPU-a::7", ("GPU-b::whole", "GPU-a::whole"), "GPU-a as a whole, but 1 of its slots"),
        ("GPU-a::7", ("GPU-x::0",), "no milligpu.io/vgpu of this node: 'GPU-x::0'"),
        ("GPU-a::7", ("GPU-x::whole",), "no milligpu.io/pgpu of this node: 'GPU-x::whole'"),
        ("GPU-a::7", ("GPU-a::1", "GPU-b::1"), "2 slots of 2 cards (GPU-a: 1, GPU-b: 1)"),
    ],
)
def test_refusals(held: str, ids: tuple[str, ...], sentence: str) -> None:
    plugin = Plugin(A, B, held=(held,))
    before = {card: set(each) for card, each in plugin.node.ledger.held.items()}
    with pytest.raises(RefusalError) as refusal:
        plugin.allocate(*ids)
    assert str(refusal.value).startswith(sentence)
    assert plugin.node.ledger.held == before, "nothing is given"
    resource = names.WHOLE if ids[0].endswith("whole") else names.COUNT
    assert plugin.counted(resource, "Allocate", "refused") == 1
    assert plugin.counted(resource, "Allocate", "answered") is None


@given(
    st.lists(
        st.sampled_from(
            [("GPU-a::whole",), ("GPU-b::whole",), ("GPU-a::whole", "GPU-b::whole")]
            + [tuple(some(gpu, first, first + 30)) for gpu in (A, B) for first in (0, 30, 60)]
        ),
        min_size=2,
        max_size=8,
    )
)
def test_a_card_is_never_given_whole_and_in_slots(containers: list[tuple[str, ...]]) -> None:
    """However calls meet, and whatever the kubelet thought was free."""
    plugin = Plugin(A, B)
    outcomes = asyncio.run(plugin.together(*containers))
    given = [ids for ids, it in zip(containers, outcomes, strict=True) if isinstance(it, dict)]
    refused = [it for it in outcomes if not isinstance(it, dict)]
    assert all(isinstance(it, RefusalError) for it in refused)
    assert given[0] == containers[0]
    for gpu in (A, B):
        ends = {name.partition("::")[2] for ids in given for name in ids if gpu.uuid in name}
        assert "whole" not in ends or ends == {"whole"}


def test_a_size_that_is_granted_or_refused_for_want_of_room_is_remembered() -> None:
    plugin = Plugin(A, B, held=(*some(A, 0, 60), *some(B, 0, 70)))
    assert sum(plugin.node.offer.vgpu.values()) == 200
    for ids in (("GPU-x::0",), ("GPU-a::whole",)):
        with pytest.raises(RefusalError):
            plugin.allocate(*ids)
        assert sum(plugin.node.offer.vgpu.values()) == 200
    with pytest.raises(RefusalError):
        plugin.allocate(*some(A, 60, 100), *some(B, 70, 90))
    assert sum(plugin.node.offer.vgpu.values()) == 130 + 40
    plugin.allocate(*some(A, 60, 70))
    assert sum(plugin.node.offer.vgpu.values()) == 140 + 49, "one of 10 may end: 59 then"


def test_a_card_that_has_just_become_ill_is_refused_with_the_reason() -> None:
    plugin = Plugin(A, B)
    plugin.node.ill({"GPU-a": "it needs a reset"})
    for ids in (some(A, 0, 10), ("GPU-a::whole",)):
        with pytest.raises(RefusalError, match="GPU-a is not well: it needs a reset"):
            plugin.allocate(*ids)
    plugin.allocate(*some(B, 0, 10))


def test_a_bug_of_ours_is_counted_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = Plugin(A)
    monkeypatch.setattr(plugin.node, "allocated", lambda _: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        plugin.allocate("GPU-a::0")
    assert plugin.counted(names.COUNT, "Allocate", "failed") == 1


@pytest.mark.parametrize(("takes", "waits"), [(0.0, 0.0), (0.05, 0.05), (5.0, 0.2)])
def test_an_allocation_waits_a_moment_for_our_own_look_at_the_pods(
    takes: float, waits: float
) -> None:
    """A kubelet that is asked for its pods in the middle of one may give the ids out again."""
    plugin = Plugin(A)

    async def scene() -> float:
        async def look() -> None:
            async with plugin.node.looking:
                await asyncio.sleep(takes)

        looking = asyncio.create_task(look())
        await asyncio.sleep(0)
        begin = time.monotonic()
        request = api.PreferredAllocationRequest()
        await plugin.shares.GetPreferredAllocation(request, Call())  # type: ignore[arg-type]
        looking.cancel()
        return time.monotonic() - begin

    assert waits <= asyncio.run(scene()) + 0.01 < waits + 1


def test_an_init_container_goes_where_its_pods_next_container_has_room_too() -> None:
    """The kubelet makes the next one have its slots; else the pod would be refused for ever."""
    plugin = Plugin(A, B, held=tuple(some(A, 0, 70)))
    free, first = [*some(A, 70, 100), *some(B, 0, 100)], some(A, 70, 90)
    assert plugin.prefer(free, 20) == first, "nothing is known of such a pod yet"
    with pytest.raises(RefusalError, match="50 slots of 2 cards"):
        plugin.allocate(*plugin.prefer(free, 50, *first))
    again = plugin.prefer(free, 20)
    assert again == some(B, 0, 20)
    plugin.allocate(*plugin.prefer(free, 50, *again))
    assert plugin.prefer(some(A, 70, 100), 20) == first, "where there is no such card, any"
    plugin.node.now = lambda: time.monotonic() + 3601
    assert plugin.prefer(free, 20) == first, "it is forgotten after an hour"


def test_an_init_container_whose_pod_fits_changes_nothing_for_others() -> None:
    plugin = Plugin(A, B, held=tuple(some(A, 0, 10)))
    free = [*some(A, 10, 100), *some(B, 0, 100)]
    first = plugin.prefer(free, 20)
    plugin.allocate(*plugin.prefer(free, 50, *first))
    assert plugin.prefer([*some(A, 60, 80), *some(B, 0, 100)], 20) == some(A, 60, 80)


def test_what_is_required_is_still_held_by_the_init_container() -> None:
    plugin = Plugin(A, held=tuple(some(A, 0, 40)))
    plugin.prefer(some(A, 0, 100), 30, *some(A, 0, 30))
    assert plugin.node.ledger.held["GPU-a"] == set(some(A, 0, 30)), "of the others it said: free"


def test_both_calls_keep_looks_at_the_pods_away() -> None:
    for call in ("prefer", "allocate"):
        plugin = Plugin(A)
        assert not plugin.node.is_called(60)
        if call == "prefer":
            plugin.prefer(some(A, 0, 100), 30)
        else:
            plugin.allocate(*some(A, 0, 30))
        assert plugin.node.is_called(60)
