"""What the plugin reads of a kubelet: its list of pods, and the checkpoint beside it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from milligpu.kubelet import AdmissionError
from plugin import checkpoint, ledger, pods
from plugin.pods import Holding
from plugin.v1beta1 import deviceplugin_pb2 as api
from tests.device_manager import Entry
from tests.integration.plugin_rig import (
    DEADLINE,
    A,
    B,
    Cards,
    Kubelet,
    container,
    in_loop,
    plugin,
    pod,
    pod_resources,
)
from vgpu import names

OTHER = "nvidia.com/gpu"


async def both_listed(kubelet: Kubelet) -> None:
    """Wait for slots and whole cards: a kubelet gives nothing of what it has not heard of."""
    await kubelet.listed(names.COUNT, 200, DEADLINE)
    await kubelet.listed(names.WHOLE, 2, DEADLINE)


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Kubelet]:
    """A kubelet and a plugin that never looks at its pods by itself."""
    nowhere = {"pod_resources": folder / "none", "poll_seconds": 3600}
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A, B), **nowhere):
        await both_listed(kubelet)
        yield kubelet


def written(folder: Path) -> frozenset[str]:
    """Return what the checkpoint says is held."""
    found = checkpoint.read(folder)
    assert found is not None
    return found.held


@in_loop
async def test_who_has_what(folder: Path) -> None:
    sidecar = container("watcher", 10, restartPolicy="Always")
    async with scene(folder) as kubelet:
        kubelet.others[OTHER] = frozenset({"GPU-a", "GPU-z"})
        grants = await kubelet.admit(pod("p", 30, 0, 20, init=(container("load", 40), sidecar)))
        has = {grant.container: tuple(sorted(grant.ids)) for grant in grants}
        found = await pods.look(kubelet.pod_resources)
        shown = ("c0", "c2", "watcher")  # not `load`: an init container is left out
        assert found.holdings == tuple(Holding("test", "p", name, has[name]) for name in shown)
        assert found.names == {("test", "p")}
        assert found.foreign == {OTHER: {"GPU-a", "GPU-z"}}
        assert set(has["c0"]) <= set(has["load"])
        assert written(folder) == {each for ids in has.values() for each in ids}


@in_loop
async def test_what_pods_have_of_others_is_foreign_though_it_is_out_of_order(folder: Path) -> None:
    async with scene(folder) as kubelet:
        kubelet.others[OTHER] = frozenset({"GPU-y"})
        await kubelet.admit(pod("p", 0))
        kubelet.manager.insert("test/p", Entry("c0", OTHER, frozenset({"GPU-z"})))
        found = await pods.look(kubelet.pod_resources)
        assert found.foreign == {OTHER: {"GPU-y", "GPU-z"}}
        assert not found.holdings


@in_loop
async def test_pods_without_a_grant_are_named(folder: Path) -> None:
    async with scene(folder) as kubelet:
        await kubelet.admit(pod("plain", 0))
        found = await pods.look(kubelet.pod_resources)
        assert found.names == {("test", "plain")}
        assert not found.holdings


@in_loop
async def test_whole_cards_are_held_like_slots(folder: Path) -> None:
    whole = {"name": "c", "resources": {"limits": {names.WHOLE: "1"}}}
    async with scene(folder) as kubelet:
        await kubelet.admit(pod("p", whole))
        [holding] = (await pods.look(kubelet.pod_resources)).holdings
        assert written(folder) == set(holding.ids)
        assert holding.ids in {("GPU-a::whole",), ("GPU-b::whole",)}


@in_loop
async def test_what_ended_pods_had_is_written_until_something_is_written_anew(folder: Path) -> None:
    async with scene(folder) as kubelet:
        [grant] = await kubelet.admit(pod("p", 30))
        del kubelet.pods["test/p"]
        assert (await pods.look(kubelet.pod_resources)).holdings == ()
        assert written(folder) == grant.ids
        await kubelet.admit(pod("q", 0))
        assert written(folder) == grant.ids
        [other] = await kubelet.admit(pod("r", 5))
        assert written(folder) == other.ids


@in_loop
async def test_a_refused_pod_leaves_what_its_first_container_had(folder: Path) -> None:
    async with scene(folder) as kubelet:
        with pytest.raises(AdmissionError):
            await kubelet.admit(pod("p", 30, 150))
        assert len(written(folder)) == 30
        assert (await pods.look(kubelet.pod_resources)).names == set()


@in_loop
async def test_a_kubelet_that_starts_lists_nothing_yet(folder: Path) -> None:
    async with scene(folder) as kubelet:
        [grant] = await kubelet.admit(pod("p", 30))
        await kubelet.restart(ready=False)
        assert (await pods.look(kubelet.pod_resources)).names == set()
        assert written(folder) == grant.ids
        kubelet.ready = True
        [holding] = (await pods.look(kubelet.pod_resources)).holdings
        assert set(holding.ids) == grant.ids


@in_loop
async def test_no_socket(folder: Path) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await pods.look(pod_resources(folder))
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE


@in_loop
async def test_a_kubelet_that_hangs_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object) -> None:
        await asyncio.sleep(30)

    monkeypatch.setattr(pods, "DEADLINE", 0.2)
    monkeypatch.setattr(Kubelet, "List", hang)
    async with Kubelet(folder) as kubelet:
        start = time.monotonic()
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await pods.look(kubelet.pod_resources)
    assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - start < 2


@in_loop
async def test_an_answer_above_four_mebibytes_is_read(folder: Path) -> None:
    async with Kubelet(folder) as kubelet:
        ids = frozenset(f"{'x' * 50}-{n}" for n in range(70_000))
        kubelet.others[OTHER] = ids
        assert (await pods.look(kubelet.pod_resources)).foreign == {OTHER: ids}


# The plugin that looks.


@in_loop
async def test_what_an_ended_pod_had_is_free_soon_and_nobody_is_kept_busy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "GRACE", 0.1)
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A, B), poll_seconds=0.1):
        await both_listed(kubelet)
        await kubelet.admit(pod("p", 30, init=(container("load", 40),)))
        await kubelet.listed(names.WHOLE, 1, DEADLINE)
        await asyncio.sleep(1)
        before = kubelet.messages
        await asyncio.sleep(1)  # ten looks, each of which lacks ten slots of the init container
        assert kubelet.messages == before
        assert len(kubelet.healthy(names.WHOLE)) == 1
        del kubelet.pods["test/p"]
        await kubelet.listed(names.WHOLE, 2, DEADLINE)
        assert written(folder) == set()


class Recording(Kubelet):
    """It notes how many whole cards it was ever told are free."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.told: list[int] = []

    def _received(self, name: str, response: api.ListAndWatchResponse) -> None:
        super()._received(name, response)
        if name == names.WHOLE:
            self.told.append(len(self.healthy(name)))


@in_loop
async def test_a_plugin_that_comes_later_knows_who_has_what(folder: Path) -> None:
    async with Recording(folder) as kubelet:
        async with plugin(folder, Cards(A, B)):
            await both_listed(kubelet)
            await kubelet.admit(pod("p", 0, init=(container("load", 40),)))
        kubelet.told.clear()
        async with plugin(folder, Cards(A, B)):
            await kubelet.listed(names.WHOLE, 1, DEADLINE)
            await asyncio.sleep(0.5)
        assert set(kubelet.told) == {1}
