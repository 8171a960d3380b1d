"""What the kubelet's stand-in sees of cards: whole, in slots, held by others, and handed out."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import grpc
import pytest

from milligpu.kubelet import AdmissionError, Grant
from plugin import ledger
from plugin.gpu import MIB, Event, Gpu
from plugin.v1beta1 import deviceplugin_pb2 as api
from plugin.v1beta1 import deviceplugin_pb2_grpc as rpc
from tests.integration.plugin_rig import (
    DEADLINE,
    A,
    B,
    Cards,
    Kubelet,
    Plugin,
    eventually,
    in_loop,
    plugin,
    pod,
    t4,
)
from vgpu import names

REAL = replace(t4("x", 2), uuid="GPU-1f2e3d4c-0000-4000-8000-0123456789ab")


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget soon what has ended: this kubelet writes its checkpoint in the same event loop."""
    monkeypatch.setattr(ledger, "GRACE", 0.5)


def whole(name: str, cards: int = 1) -> dict[str, Any]:
    """Return a container with whole cards."""
    return {"name": name, "resources": {"limits": {names.WHOLE: str(cards)}}}


def cards_of(*grants: Grant) -> set[str]:
    return {device.split("::")[0] for grant in grants for device in grant.ids}


async def served(kubelet: Kubelet, slots: int, wholes: int) -> None:
    await kubelet.listed(names.COUNT, slots, DEADLINE)
    await kubelet.listed(names.WHOLE, wholes, DEADLINE)


class Sockets:
    """Both of the plugin's sockets, without the kubelet's checks."""

    def __init__(self, folder: Path) -> None:
        self._channels = {
            resource: grpc.aio.insecure_channel(f"unix:{folder}/milligpu-{short}.sock")
            for resource, short in ((names.COUNT, "vgpu"), (names.WHOLE, "pgpu"))
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for channel in self._channels.values():
            await channel.close()

    def _stub(self, device: str) -> rpc.DevicePluginStub:
        resource = names.WHOLE if device.endswith("whole") else names.COUNT
        return rpc.DevicePluginStub(self._channels[resource])

    async def allocate(self, *ids: str) -> api.ContainerAllocateResponse:
        one = api.ContainerAllocateRequest(devices_ids=ids)
        request = api.AllocateRequest(container_requests=[one])
        response = await self._stub(ids[0]).Allocate(request)
        return response.container_responses[0]

    async def prefer(self, *available: str, size: int = 1, must: tuple[str, ...] = ()) -> list[str]:
        one = api.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        request = api.PreferredAllocationRequest(container_requests=[one])
        response = await self._stub([*available, ""][0]).GetPreferredAllocation(request)
        return list(response.container_responses[0].deviceIDs)


# Whole cards.


@in_loop
async def test_whole_cards(folder: Path) -> None:
    gpus = A, B, t4("c", 2)
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(*gpus)) as running:
        await served(kubelet, 300, 3)
        [grant] = await kubelet.admit(pod("p", whole("c", 2)))
        assert grant == Grant(
            "c",
            names.WHOLE,
            frozenset({"GPU-a::whole", "GPU-b::whole"}),
            {"MILLIGPU_GPU_UUID": "GPU-a,GPU-b", "NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b"},
        )
        await served(kubelet, 100, 3)
        [share] = await kubelet.admit(pod("q", 30))
        assert cards_of(share) == {"GPU-c"}
        await served(kubelet, 100, 2)
        assert [gpu["held"] for gpu in (await running.state())["gpus"]] == [100, 100, 30]
        with pytest.raises(AdmissionError, match="Requested: 1, Available: 0"):
            await kubelet.admit(pod("r", whole("c")))
        with pytest.raises(AdmissionError, match="Requested: 80, Available: 70"):
            await kubelet.admit(pod("s", 80))


@pytest.mark.usefixtures("_hasty")
@in_loop
async def test_a_card_is_free_again_in_both_ways_when_its_pod_has_ended(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A)):
        await served(kubelet, 100, 1)
        for first, shows in ((whole("c"), (0, 1)), (30, (100, 0))) * 2:
            await kubelet.admit(pod("p", first))
            await served(kubelet, *shows)
            del kubelet.pods["test/p"]
            await served(kubelet, 100, 1)


@in_loop
async def test_an_init_containers_whole_card_is_used_again(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A, B)):
        await served(kubelet, 200, 2)
        init, main = await kubelet.admit(pod("p", whole("main"), init=(whole("init"),)))
        assert init.ids == main.ids


@in_loop
async def test_a_new_plugin_knows_what_is_held_before_it_offers_whole_cards(folder: Path) -> None:
    async with Kubelet(folder) as kubelet:
        async with plugin(folder, Cards(A, B, t4("c", 2))):
            await served(kubelet, 300, 3)
            await kubelet.admit(pod("p", 30))
            await kubelet.admit(pod("q", whole("c")))
        lists: list[dict[str, bool]] = []
        received = kubelet._received

        def noted(name: str, response: api.ListAndWatchResponse) -> None:
            received(name, response)
            lists.append(dict(kubelet.devices[name]))

        kubelet._received = noted  # type: ignore[method-assign]
        async with plugin(folder, Cards(A, B, t4("c", 2))):
            await served(kubelet, 200, 2)
        assert len(lists) >= 2
        for each in lists:
            healthy = {name for name, well in each.items() if well}
            assert healthy.isdisjoint({"GPU-a::whole", *(f"GPU-b::{n}" for n in range(100))})


REASONS = (
    "which another container has whole",
    "of its slots are in use",
    "a share is part of one card",
    "requested number of devices unavailable",
    "no healthy devices present",
)


class Behind(Kubelet):
    """A kubelet whose idea of what is free is always a moment old, as that of a real one is."""

    def _received(self, name: str, response: api.ListAndWatchResponse) -> None:
        asyncio.get_running_loop().call_later(0.03, super()._received, name, response)


@pytest.mark.usefixtures("_hasty")
@in_loop
async def test_pods_of_both_kinds_at_the_same_moment_never_have_the_same_card(
    folder: Path,
) -> None:
    gpus = [t4(letter, index) for index, letter in enumerate("abcdef")]
    dice, refused = random.Random(1), list[object]()  # noqa: S311 - pods, not secrets
    async with Behind(folder) as kubelet, plugin(folder, Cards(*gpus)) as running:
        for turn in range(15):
            await served(kubelet, 600, 6)
            pods = [pod(f"w{n}", whole("c", dice.choice((1, 1, 2)))) for n in range(5)]
            pods += [pod(f"s{n}", dice.choice((10, 40, 70, 100))) for n in range(8)]
            dice.shuffle(pods)
            outcomes = await asyncio.gather(*map(kubelet.admit, pods), return_exceptions=True)
            given = [it for it in outcomes if isinstance(it, tuple)]
            refused += [it for it in outcomes if not isinstance(it, tuple)]
            wholes = [g for got in given for g in got if g.resource == names.WHOLE]
            shares = [g for got in given for g in got if g.resource == names.COUNT]
            assert not cards_of(*wholes) & cards_of(*shares), turn
            ids = [device for grant in (*wholes, *shares) for device in grant.ids]
            assert len(ids) == len(set(ids))
            assert len(given) >= 3
            kubelet.pods.clear()
        assert all(isinstance(it, AdmissionError) for it in refused)
        assert all(any(reason in str(it) for reason in REASONS) for it in refused)
        races = sum("container has whole" in str(it) or "in use" in str(it) for it in refused)
        assert races, "or this shows nothing"
        assert (await running.state())["state"] == "serving"


@in_loop
async def test_two_calls_at_the_same_moment_for_the_same_card(folder: Path) -> None:
    slots = [f"GPU-a::{n}" for n in range(30)]
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A)), Sockets(folder) as sockets:
        await served(kubelet, 100, 1)
        firsts = set()
        for turn in range(200):
            calls = [sockets.allocate(*slots), sockets.allocate("GPU-a::whole")]
            order = 1 if turn % 2 else -1
            outcomes = await asyncio.gather(*calls[::order], return_exceptions=True)
            share, card = outcomes[::order]
            assert isinstance(share, grpc.aio.AioRpcError) is not isinstance(
                card, grpc.aio.AioRpcError
            )
            firsts.add(isinstance(card, grpc.aio.AioRpcError))
            # As the kubelet does for the next container, when the pod is gone.
            await asyncio.gather(sockets.prefer(*slots), sockets.prefer("GPU-a::whole"))
        assert firsts == {True, False}


# Free slots on several cards.


async def half_full(kubelet: Kubelet) -> None:
    """Let two pods have 60 slots of each card."""
    await served(kubelet, 200, 2)
    for name in ("p", "q"):
        await kubelet.admit(pod(name, 60))


@pytest.mark.usefixtures("_hasty")
@in_loop
async def test_what_was_refused_is_hidden_until_a_card_has_room(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A, B)):
        await half_full(kubelet)
        # The running ones are known: another like them would not fit.
        await kubelet.listed(names.COUNT, 60 + 60 + 40, DEADLINE)
        with pytest.raises(AdmissionError, match="Requested: 60, Available: 40"):
            await kubelet.admit(pod("r", 60))
        [grant] = await kubelet.admit(pod("fits", 40))
        assert len(cards_of(grant)) == 1
        del kubelet.pods["test/p"]
        await kubelet.listed(names.COUNT, 200, DEADLINE)
        [grant] = await kubelet.admit(pod("r", 60))
        assert cards_of(grant) == {"GPU-a"}


@in_loop
async def test_a_size_that_was_never_seen_is_refused_once(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A, B)):
        await served(kubelet, 200, 2)
        for name in "pqrst":
            await kubelet.admit(pod(name, 30))
        await kubelet.listed(names.WHOLE, 0, DEADLINE)
        await kubelet.listed(names.COUNT, 200, DEADLINE)  # another of 30 would fit
        with pytest.raises(AdmissionError, match=r"50 slots of 2 cards \(GPU-a: 10, GPU-b: 40\)"):
            await kubelet.admit(pod("u", 50))
        await kubelet.listed(names.COUNT, 5 * 30 + 40, DEADLINE)
        with pytest.raises(AdmissionError, match="Requested: 50, Available: 40"):
            await kubelet.admit(pod("u", 50))


@pytest.mark.parametrize(("advertise", "shown"), [("all", 200), ("largest-hole", 160)])
@in_loop
async def test_the_hole_as_a_setting(folder: Path, advertise: str, shown: int) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A, B), advertise=advertise):
        if advertise == "largest-hole":
            await kubelet.listed(names.COUNT, 100, DEADLINE)
            await kubelet.admit(pod("p", 60))
            await kubelet.listed(names.COUNT, 160, DEADLINE)
            await kubelet.admit(pod("q", 60))
        else:
            await half_full(kubelet)
            with pytest.raises(AdmissionError, match=r"60 slots of 2 cards"):
                await kubelet.admit(pod("r", 60))
            await asyncio.sleep(0.3)
        await kubelet.listed(names.COUNT, shown, DEADLINE)


@in_loop
async def test_shares_are_spread(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A, B), placement="spread"):
        await served(kubelet, 200, 2)
        grants = [(await kubelet.admit(pod(f"p{n}", 30)))[0] for n in range(4)]
        assert [*map(cards_of, grants)] == [{"GPU-a"}, {"GPU-b"}] * 2


@in_loop
async def test_requests_at_the_edge(folder: Path) -> None:
    """As after a kubelet's restart: an init container's own slots, all there is, nothing."""
    slots = [f"GPU-a::{n}" for n in range(100)]
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A)), Sockets(folder) as sockets:
        await served(kubelet, 100, 1)
        assert await sockets.prefer("GPU-a::0", must=("GPU-a::0",)) == ["GPU-a::0"]
        assert await sockets.prefer(size=0) == []
        assert await sockets.prefer(*slots, size=100, must=tuple(slots)) == slots
        for _ in range(3):
            answer = await sockets.allocate(*slots[:30])
            assert answer.envs[names.ENV_SLOTS] == "30"
            assert await sockets.prefer(*slots[:30], size=30, must=tuple(slots[:30])) == slots[:30]
        with pytest.raises(grpc.aio.AioRpcError, match="3 slots of 2 available"):
            await sockets.prefer(*slots[:2], size=3)
        assert await kubelet.admit(pod("p", 30)), "it goes on"


# Other plugins.


@in_loop
async def test_a_card_of_another_plugin_is_never_offered(folder: Path) -> None:
    kubelet = Kubelet(folder)
    kubelet.others = {names.NVIDIA_GPU: frozenset({f"{REAL.uuid}::0"})}
    async with kubelet, plugin(folder, Cards(A, REAL), settle_seconds=1) as running:
        assert await kubelet.listed(names.COUNT, 100, DEADLINE) == {
            f"GPU-a::{n}" for n in range(100)
        }
        assert set(kubelet.devices[names.COUNT]) == kubelet.healthy(names.COUNT)
        [note] = (await running.state())["notes"]
        assert note == f"{REAL.uuid} is left out: another plugin lists it as nvidia.com/gpu"


@in_loop
async def test_a_card_that_another_plugin_lists_later_is_withdrawn(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(REAL)) as running:
        await served(kubelet, 100, 1)
        [grant] = await kubelet.admit(pod("p", 30))
        await served(kubelet, 100, 0)
        kubelet.others = {names.NVIDIA_GPU: frozenset({REAL.uuid})}
        assert await kubelet.listed(names.COUNT, 30, DEADLINE) == grant.ids
        [card] = (await running.state())["gpus"]
        assert card["withdrawn"] == "another plugin lists it as nvidia.com/gpu"
        kubelet.others = {}
        await asyncio.sleep(0.5)
        assert kubelet.healthy(names.COUNT) == grant.ids


# Handing out. The first card of the driver has the sixth device file.

FIRST = replace(A, index=0, minor=6)
SECOND = replace(B, index=1, minor=1)


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """A folder of device files, as the driver makes them."""
    for name in ("nvidia1", "nvidia6", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("settings", "visible", "wanted"),
    [
        ({"device_list_strategy": "envvar"}, "{cards}", {}),
        (
            {"device_list_strategy": "volume-mounts"},
            "/var/run/nvidia-container-devices",
            {"mounts": ["/var/run/nvidia-container-devices/{card}"]},
        ),
        (
            {"device_list_strategy": "cdi", "cdi_kind": "nvidia.com/gpu"},
            "void",
            {"cdi": ["nvidia.com/gpu={card}"]},
        ),
        ({"device_list_strategy": "cdi"}, "void", {"cdi": ["milligpu.io/gpu={card}"]}),
        (
            {"device_list_strategy": "device-nodes"},
            "{cards}",
            {"devices": ["/dev/nvidia{minor}"], "once": ["/dev/nvidiactl", "/dev/nvidia-uvm"]},
        ),
    ],
    ids=["envvar", "volume-mounts", "cdi of another", "cdi of ours", "device-nodes"],
)
@pytest.mark.parametrize(
    ("ids", "gpus"),
    [
        (["GPU-b::9", "GPU-b::0", "GPU-b::3"], [SECOND]),
        (["GPU-a::99"], [FIRST]),
        (["GPU-b::whole", "GPU-a::whole"], [FIRST, SECOND]),
    ],
    ids=["slots", "a slot", "cards"],
)
@in_loop
async def test_how_a_card_is_handed_out(
    folder: Path,
    dev: Path,
    settings: dict[str, str],
    visible: str,
    wanted: dict[str, list[str]],
    ids: list[str],
    gpus: list[Gpu],
) -> None:
    """By its own id and its own file, whatever its number, and each card once."""

    def each(kind: str) -> list[str]:
        forms = wanted.get(kind, ())
        return [form.format(card=gpu.uuid, minor=gpu.minor) for gpu in gpus for form in forms]

    places = {"dev_dir": dev, "cdi_dir": dev}
    cards = Cards(SECOND, FIRST)
    async with (
        Kubelet(folder) as kubelet,
        plugin(folder, cards, **settings, **places),
        Sockets(folder) as sockets,
    ):
        await served(kubelet, 200, 2)
        answer = await sockets.allocate(*ids)
    listed = ",".join(gpu.uuid for gpu in gpus)
    assert answer.envs[names.ENV_GPU_UUID] == listed
    assert answer.envs[names.ENV_VISIBLE_DEVICES] == visible.format(cards=listed)
    assert "CUDA_VISIBLE_DEVICES" not in answer.envs
    assert [it.container_path for it in answer.mounts] == each("mounts")
    assert {it.host_path for it in answer.mounts} <= {"/dev/null"}
    assert [it.name for it in answer.cdi_devices] == each("cdi")
    inside = [it.container_path for it in answer.devices]
    assert inside == each("devices") + wanted.get("once", [])
    assert [it.host_path for it in answer.devices] == [str(dev / Path(it).name) for it in inside]
    assert {it.permissions for it in answer.devices} <= {"rw"}


# Metrics.


async def containers(running: Plugin) -> set[str]:
    """Return the lines of /metrics about containers."""
    text = (await running.get("/metrics"))[1].decode()
    return {line for line in text.splitlines() if line.startswith("milligpu_plugin_container_")}


@in_loop
async def test_series_of_containers_come_and_go_with_their_pods(folder: Path) -> None:
    big = replace(B, memory_total=32768 * MIB, memory_reserved=0, model="A40")
    async with (
        Kubelet(folder) as kubelet,
        plugin(folder, Cards(A, big), node_name="n1") as running,
    ):
        await served(kubelet, 200, 2)
        assert await containers(running) == set()
        for name, slots in (("p1", 70), ("p2", 10), ("p3", 70)):
            await kubelet.admit(pod(name, slots))
        where = 'container="c0",gpu="GPU-{}",model="{}",namespace="test",node="n1",pod="{}"'
        lines = {
            f"milligpu_plugin_container_{kind}{{{where.format(*labels)}}} {value}"
            for labels, slots, memory in (
                (("a", "Tesla T4", "p1"), 70.0, 10752.0),
                (("a", "Tesla T4", "p2"), 10.0, 1536.0),
                (("b", "A40", "p3"), 70.0, 22937.0),
            )
            for kind, value in (("slots", slots), ("memory_bytes", memory * MIB))
        }

        async def told() -> bool:
            return {_exact(line) for line in await containers(running)} == {*map(_exact, lines)}

        await eventually(told)
        kubelet.pods = dict(reversed(kubelet.pods.items()))
        await asyncio.sleep(0.3)
        assert await told(), "whatever the order of the list"
        for letter, memory in (("a", 15360), ("b", 32768)):
            card = f'gpu="GPU-{letter}",model="{"Tesla T4" if letter == "a" else "A40"}",node="n1"'
            assert (
                await running.metric(f"milligpu_plugin_gpu_memory_bytes{{{card}}}") == memory * MIB
            )
        kubelet.pods.clear()

        async def silent() -> bool:
            return not await containers(running)

        await eventually(silent)


def _exact(line: str) -> tuple[str, float]:
    series, _, value = line.rpartition(" ")
    return series, float(value)


@in_loop
async def test_an_error_of_one_containers_program_changes_nothing_for_its_neighbour(
    folder: Path,
) -> None:
    cards = Cards(A)
    async with Kubelet(folder) as kubelet, plugin(folder, cards) as running:
        await served(kubelet, 100, 1)
        for name in ("p1", "p2"):
            await kubelet.admit(pod(name, 30))
        await served(kubelet, 100, 0)
        messages = kubelet.messages
        cards.events = [Event("GPU-a", 31)]
        line = 'milligpu_plugin_driver_events_total{gpu="GPU-a",kind="application",xid="31"}'

        async def counted() -> bool:
            text = (await running.get("/metrics"))[1].decode()
            return f"{line} 1.0" in text.splitlines()

        await eventually(counted)
        assert kubelet.messages == messages
        assert len(kubelet.healthy(names.COUNT)) == 100
        [card] = (await running.state())["gpus"]
        assert (card["fault"], card["held"]) == (None, 60)
