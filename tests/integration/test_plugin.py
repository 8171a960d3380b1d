"""The device plugin against the kubelet stand-in, over real sockets."""

import asyncio
import shutil
import socket
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from milligpu.kubelet import AdmissionError, Context, Grant
from plugin import checkpoint, http
from plugin.gpu import InventoryError, Probe
from plugin.v1beta1 import deviceplugin_pb2 as api
from plugin.v1beta1 import deviceplugin_pb2_grpc as rpc
from tests.integration.plugin_rig import (
    DEADLINE,
    LOOPBACK,
    A,
    B,
    Cards,
    Kubelet,
    container,
    eventually,
    in_loop,
    plugin,
    pod,
    t4,
)
from vgpu import names

SOCKET = "milligpu-vgpu.sock"


async def served(kubelet: Kubelet, cards: int) -> frozenset[str]:
    """Wait until so many cards are offered, none of which anybody has; return the slots."""
    await kubelet.listed(names.WHOLE, cards, DEADLINE)
    return await kubelet.listed(names.COUNT, 100 * cards, DEADLINE)


def counted(call: str, outcome: str, resource: str = names.COUNT) -> str:
    """Return the line of /metrics that counts calls."""
    labels = f'call="{call}",outcome="{outcome}",resource="{resource}"'
    return f"milligpu_plugin_call_seconds_count{{{labels}}}"


def card(grant: Grant) -> str:
    """Return the one card that a grant is of."""
    [uuid] = {device.split("::")[0] for device in grant.ids}
    return uuid


# Life.


@in_loop
async def test_the_first_list_is_full_and_healthy(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A, B)) as running:
        ids = await kubelet.listed(names.COUNT, 200, DEADLINE)
        assert ids == {f"GPU-{letter}::{n}" for letter in "ab" for n in range(100)}
        assert await kubelet.listed(names.WHOLE, 2, DEADLINE) == {"GPU-a::whole", "GPU-b::whole"}
        assert kubelet.registrations == 2
        assert (await running.state())["kubelet_listens"]
        assert (await running.get("/readyz"))[0] == 200


@in_loop
async def test_kubelet_restarts(folder: Path) -> None:
    """Back each time with the same ids; nothing piles up; pods keep what they have."""
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A, B)):
        ids = await served(kubelet, 2)
        [grant] = await kubelet.admit(pod("p", 30))
        levels = []
        for _ in range(5):
            await kubelet.restart()
            assert await kubelet.listed(names.COUNT, 200, DEADLINE) == ids
            assert await kubelet.listed(names.WHOLE, 1, DEADLINE) == {"GPU-b::whole"}
            levels.append((len(asyncio.all_tasks()), threading.active_count()))
        for level in zip(*levels, strict=True):  # looks at cards and pods come and go
            assert max(level) - min(level) < len(levels) - 1, "less than one for each restart"
        assert kubelet.registrations == 2 + 2 * 5
        assert kubelet.pods["test/p"] == (grant,)
        [other] = await kubelet.admit(pod("q", 30))
        assert not set(other.ids) & set(grant.ids)


@in_loop
async def test_pods_admitted_while_the_kubelet_restarts(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A)):
        await kubelet.listed(names.COUNT, 100, DEADLINE)
        await kubelet.restart()
        with pytest.raises(AdmissionError, match="no healthy devices present"):
            await kubelet.admit(pod("early", 30))
        await kubelet.listed(names.COUNT, 100, DEADLINE)
        assert await kubelet.admit(pod("late", 30))


@in_loop
async def test_our_socket_is_deleted(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A)):
        await served(kubelet, 1)
        (folder / SOCKET).unlink()

        async def again() -> bool:
            return kubelet.registrations == 3

        await eventually(again)
        await kubelet.listed(names.COUNT, 100, DEADLINE)
        assert (folder / SOCKET).is_socket()


@in_loop
async def test_the_kubelets_socket_is_replaced_behind_our_back(folder: Path) -> None:
    """As by a kubelet that leaves plugins' sockets alone; the old one still listens to us."""
    async with Kubelet(folder) as old, plugin(folder, Cards(A)):
        await old.listed(names.COUNT, 100, DEADLINE)
        elsewhere = folder / "new"
        elsewhere.mkdir()
        async with Kubelet(elsewhere) as new:
            new.folder = folder  # dials plugins where the old one does
            (elsewhere / "kubelet.sock").rename(folder / "kubelet.sock")
            await new.listed(names.COUNT, 100, DEADLINE)


@in_loop
async def test_the_kubelet_hangs_up(folder: Path) -> None:
    """The stream is lost, both sockets stay (kubernetes#127803)."""
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A)) as running:
        await kubelet.listed(names.COUNT, 100, DEADLINE)
        await kubelet.disconnect(names.COUNT)
        await kubelet.listed(names.COUNT, 0)

        async def unready() -> bool:
            return (await running.get("/readyz"))[0] == 503

        await eventually(unready)  # the end of a stream travels for a moment
        await kubelet.listed(names.COUNT, 100, DEADLINE)


@in_loop
async def test_the_kubelet_comes_late_and_goes_away(folder: Path) -> None:
    kubelet = Kubelet(folder)
    async with plugin(folder, Cards(A)) as running:
        await running.becomes("serving")
        assert (await running.get("/healthz"))[0] == 200
        assert (await running.get("/readyz"))[0] == 503
        await asyncio.sleep(0.5)
        async with kubelet:
            await kubelet.listed(names.COUNT, 100, DEADLINE)
        await asyncio.sleep(0.5)
        async with kubelet:
            await kubelet.listed(names.COUNT, 100, DEADLINE)


@in_loop
async def test_that_there_is_no_kubelet_is_told(folder: Path) -> None:
    async with plugin(folder, Cards(A)) as running:

        async def told() -> bool:
            notes = (await running.state())["notes"]
            return bool(notes == [f"waiting for the kubelet: there is no {folder}/kubelet.sock"])

        await eventually(told)
        async with Kubelet(folder) as kubelet:
            await served(kubelet, 1)
            assert (await running.state())["notes"] == []


@in_loop
async def test_a_dead_socket_of_the_kubelet(folder: Path) -> None:
    """A kubelet that was killed leaves its socket; failures in a row are logged once."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "kubelet.sock"))
    with capture_logs() as logs:
        async with plugin(folder, Cards(A)) as running:
            line = f'registrations_total{{outcome="unreachable",resource="{names.COUNT}"}}'

            async def failed() -> bool:
                return any(entry["event"] == "not registered" for entry in logs)

            await eventually(failed)
            await asyncio.sleep(1)
            tries = await running.metric(f"milligpu_plugin_{line}")
            assert 2 <= tries <= 5, "retried, but not in a busy loop"
            async with Kubelet(folder) as kubelet:
                await kubelet.listed(names.COUNT, 100, DEADLINE)
    warnings = [entry for entry in logs if entry["log_level"] == "warning"]
    failures = [it["resource"] for it in warnings if it["event"] == "not registered"]
    assert sorted(failures) == sorted(names.GRANT_KEYS)


@in_loop
async def test_a_dead_socket_of_ours_is_no_obstacle(folder: Path) -> None:
    async with Kubelet(folder) as kubelet:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(folder / SOCKET))
        async with plugin(folder, Cards(A)):
            await kubelet.listed(names.COUNT, 100, DEADLINE)


class Refusing(rpc.RegistrationServicer):
    """A kubelet that does not want us."""

    async def Register(  # noqa: N802
        self, request: api.RegisterRequest, context: Context
    ) -> api.Empty:
        await context.abort(grpc.StatusCode.UNKNOWN, f"{request.resource_name} is not wanted")


@in_loop
async def test_a_refused_registration_is_logged_and_counted(folder: Path) -> None:
    server = grpc.aio.server()
    rpc.add_RegistrationServicer_to_server(Refusing(), server)
    server.add_insecure_port(f"unix:{folder}/kubelet.sock")
    await server.start()
    try:
        with capture_logs() as logs:
            async with plugin(folder, Cards(A)) as running:

                async def told() -> bool:
                    said = {entry.get("why") for entry in logs}
                    return {f"{name} is not wanted" for name in names.GRANT_KEYS} <= said

                await eventually(told)
                notes = (await running.state())["notes"]
                assert notes == [
                    f"not registered with the kubelet: {name} is not wanted"
                    for name in sorted(names.GRANT_KEYS)
                ]
                for name in names.GRANT_KEYS:
                    line = f'registrations_total{{outcome="refused",resource="{name}"}}'
                    assert await running.metric(f"milligpu_plugin_{line}") >= 1
    finally:
        await server.stop(None)


@in_loop
async def test_the_end_leaves_nothing(folder: Path) -> None:
    async with Kubelet(folder) as kubelet:
        async with plugin(folder, Cards(A)):
            await served(kubelet, 1)
        await kubelet.listed(names.COUNT, 0)
        await kubelet.listed(names.WHOLE, 0)
        left = {path.name for path in folder.iterdir()}
        assert left == {"kubelet.sock", checkpoint.NAME}, "the kubelet's own"


@pytest.mark.parametrize("kind", ["socket", "file"])
@in_loop
async def test_what_is_not_ours_any_more_is_not_removed(folder: Path, kind: str) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A)) as running:
        await kubelet.listed(names.COUNT, 100, DEADLINE)
        (folder / SOCKET).unlink()
        with socket.socket(socket.AF_UNIX) as other:
            if kind == "socket":
                other.bind(str(folder / SOCKET))
            else:
                (folder / SOCKET).touch()
            await running.stop()
            assert (folder / SOCKET).exists()


@in_loop
async def test_two_plugins_take_turns(folder: Path) -> None:
    """The second waits, and takes over soon after the first has ended (a roll-out)."""
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A)) as first:
        await served(kubelet, 1)
        async with plugin(folder, Cards(A)) as second:
            await asyncio.sleep(0.5)
            assert kubelet.registrations == 2
            assert (await first.get("/readyz"))[0] == 200
            assert (await second.get("/readyz"))[0] == 503
            await first.stop()
            await kubelet.listed(names.COUNT, 0)
            await served(kubelet, 1)
            assert (await second.get("/readyz"))[0] == 200


@in_loop
async def test_a_folder_with_an_odd_name(folder: Path) -> None:
    odd = folder / "50%41 #?é"
    odd.mkdir()
    async with Kubelet(odd) as kubelet, plugin(odd, Cards(A)):
        await kubelet.listed(names.COUNT, 100, DEADLINE)


@in_loop
async def test_a_folder_that_is_removed_and_comes_back(folder: Path) -> None:
    inner = folder / "device-plugins"
    inner.mkdir()
    async with plugin(inner, Cards(A)):
        async with Kubelet(inner) as kubelet:
            await kubelet.listed(names.COUNT, 100, DEADLINE)
        shutil.rmtree(inner)
        await asyncio.sleep(0.5)
        inner.mkdir()
        async with Kubelet(inner) as kubelet:
            await kubelet.listed(names.COUNT, 100, DEADLINE)


# Cards.


@in_loop
async def test_no_card_then_one(folder: Path) -> None:
    cards = Cards()
    cards.answer = Probe(notes=("the NVIDIA driver is not loaded",))
    async with Kubelet(folder) as kubelet, plugin(folder, cards) as running:
        state = await running.becomes("idle")
        assert state["notes"] == ["the NVIDIA driver is not loaded"]
        assert (await running.get("/readyz"))[0] == 200
        assert await running.metric('milligpu_plugin_state{milligpu_plugin_state="idle"}') == 1
        await asyncio.sleep(0.3)
        assert kubelet.registrations == 0
        cards.answer = Probe((A,))
        await kubelet.listed(names.COUNT, 100, DEADLINE)


@in_loop
async def test_a_broken_driver_is_not_ready_and_recovers(folder: Path) -> None:
    cards = Cards()
    cards.answer = InventoryError("version mismatch")
    async with Kubelet(folder) as kubelet, plugin(folder, cards) as running:
        assert (await running.becomes("broken"))["notes"] == ["version mismatch"]
        assert (await running.get("/healthz"))[0] == 200
        assert (await running.get("/readyz"))[0] == 503
        cards.answer = Probe((A,))
        await kubelet.listed(names.COUNT, 100, DEADLINE)
        await running.becomes("serving")


@in_loop
async def test_one_card_is_lost_and_comes_back(folder: Path) -> None:
    cards = Cards(A, B)
    async with Kubelet(folder) as kubelet, plugin(folder, cards) as running:
        every = await served(kubelet, 2)
        cards.answer = Probe((A,), ("card 1 does not answer",))
        healthy = await kubelet.listed(names.COUNT, 100, DEADLINE)
        assert healthy == {f"GPU-a::{n}" for n in range(100)}
        assert set(kubelet.devices[names.COUNT]) == every
        assert await kubelet.listed(names.WHOLE, 1, DEADLINE) == {"GPU-a::whole"}
        assert [gpu["fault"] for gpu in (await running.state())["gpus"]] == [
            None,
            "card 1 does not answer",
        ]
        cards.answer = Probe((A, B))
        assert await served(kubelet, 2) == every
        assert kubelet.registrations == 2


@in_loop
async def test_a_card_is_added(folder: Path) -> None:
    cards = Cards(A)
    async with Kubelet(folder) as kubelet, plugin(folder, cards):
        await kubelet.listed(names.COUNT, 100, DEADLINE)
        cards.answer = Probe((A, B))
        await kubelet.listed(names.COUNT, 200, DEADLINE)


# Pods.


@in_loop
async def test_a_share_of_a_t4(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A)) as running:
        await kubelet.listed(names.COUNT, 100, DEADLINE)
        [grant] = await kubelet.admit(pod("p", 30))
        assert grant == Grant(
            "c0",
            names.COUNT,
            frozenset(f"GPU-a::{n}" for n in range(30)),
            {
                "MILLIGPU_GPU_UUID": "GPU-a",
                "MILLIGPU_SLOTS": "30",
                "MILLIGPU_SHARE": "0.3",
                "MILLIGPU_MEMORY_MIB": "4608",
                "MILLIGPU_MEMORY_FRACTION": "0.2666",
                "NVIDIA_VISIBLE_DEVICES": "GPU-a",
            },
        )
        for call in ("GetPreferredAllocation", "Allocate"):
            assert await running.metric(counted(call, "answered")) == 1


@in_loop
async def test_cards_are_packed(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A, B)):
        await kubelet.listed(names.COUNT, 200, DEADLINE)
        grants = [
            (await kubelet.admit(pod(f"p{n}", size)))[0] for n, size in enumerate((60, 60, 30, 10))
        ]
        assert [card(grant) for grant in grants] == ["GPU-a", "GPU-b", "GPU-a", "GPU-a"]


@in_loop
async def test_two_containers_with_different_shares(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A, B)):
        await kubelet.listed(names.COUNT, 200, DEADLINE)
        first, second = await kubelet.admit(pod("p", 30, 0, 80))
        assert (first.container, second.container) == ("c0", "c2")
        assert (card(first), card(second)) == ("GPU-a", "GPU-b")
        assert (first.env[names.ENV_SLOTS], second.env[names.ENV_SLOTS]) == ("30", "80")


@in_loop
async def test_an_init_containers_slots_are_used_again(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A, B)):
        await kubelet.listed(names.COUNT, 200, DEADLINE)
        init, main, other = await kubelet.admit(
            pod("p", 40, 20, init=(container("init", 30),)),
        )
        assert set(init.ids) < set(main.ids)
        assert len(main.ids) == 40
        assert card(init) == card(main) == card(other)
        assert not set(main.ids) & set(other.ids)


@in_loop
async def test_a_sidecar_keeps_its_slots(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A)):
        await kubelet.listed(names.COUNT, 100, DEADLINE)
        init = (container("init", 30), container("sidecar", 10, restartPolicy="Always"))
        first, sidecar, main = await kubelet.admit(pod("p", 30, init=init))
        assert set(sidecar.ids) < set(first.ids), "taken from the init container's"
        assert not set(sidecar.ids) & set(main.ids)
        assert len(set(sidecar.ids) | set(main.ids)) == 40


@in_loop
async def test_slots_of_two_cards_are_refused_with_a_sentence(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A, B)) as running:
        await kubelet.listed(names.COUNT, 200, DEADLINE)
        grants = [(await kubelet.admit(pod(f"p{n}", 30)))[0] for n in range(5)]
        assert [card(grant) for grant in grants] == ["GPU-a"] * 3 + ["GPU-b"] * 2
        with pytest.raises(AdmissionError) as refusal:
            await kubelet.admit(pod("r", 50))
        assert str(refusal.value) == (
            "UnexpectedAdmissionError: Allocate failed due to rpc error:"
            " code = InvalidArgument desc = 50 slots of 2 cards (GPU-a: 10, GPU-b: 40):"
            " a share is part of one card, but the node's free slots lie on several,"
            " which is unexpected"
        )
        assert await running.metric(counted("Allocate", "refused")) == 1
        del kubelet.pods["test/p4"]
        [grant] = await kubelet.admit(pod("r", 50))
        assert card(grant) == "GPU-b"


@in_loop
async def test_more_than_the_node_has_left(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A)):
        await kubelet.listed(names.COUNT, 100, DEADLINE)
        await kubelet.admit(pod("p", 60))
        with pytest.raises(AdmissionError, match="Requested: 50, Available: 40"):
            await kubelet.admit(pod("q", 50))


@in_loop
async def test_many_pods_at_once(folder: Path) -> None:
    """Every container gets what it asked for, of one card, and no slot twice."""
    gpus = [t4(letter, index) for index, letter in enumerate("abcdefgh")]
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(*gpus)):
        await kubelet.listed(names.COUNT, 800, DEADLINE)
        pods = [pod(f"p{n}", 10, 20) for n in range(24)]
        grants = [g for got in await asyncio.gather(*map(kubelet.admit, pods)) for g in got]
        assert [grant.env[names.ENV_SLOTS] for grant in grants] == ["10", "20"] * 24
        assert all(grant.env[names.ENV_GPU_UUID] == card(grant) for grant in grants)
        ids = [device for grant in grants for device in grant.ids]
        assert len(ids) == len(set(ids)) == 720


# Bad requests, straight to the plugin's socket.


@pytest.mark.parametrize(
    ("call", "request_", "sentence"),
    [
        ("Allocate", {"devices_ids": ["GPU-x::0"]}, "no milligpu.io/vgpu of this node: 'GPU-x::0'"),
        (
            "Allocate",
            {"devices_ids": ["GPU-a::100"]},
            "no milligpu.io/vgpu of this node: 'GPU-a::100'",
        ),
        (
            "Allocate",
            {"devices_ids": ["GPU-a::whole"]},
            "no milligpu.io/vgpu of this node: 'GPU-a::whole'",
        ),
        ("Allocate", {"devices_ids": []}, "0 slots of 0 cards"),
        ("Allocate", {"devices_ids": ["GPU-a::0", "GPU-b::0"]}, "2 slots of 2 cards"),
        (
            "GetPreferredAllocation",
            {"available_deviceIDs": ["GPU-x::0"], "allocation_size": 1},
            "no milligpu.io/vgpu of this node: 'GPU-x::0'",
        ),
        (
            "GetPreferredAllocation",
            {"available_deviceIDs": ["GPU-a::0"], "allocation_size": 2},
            "2 slots of 1 available, 0 of them required",
        ),
    ],
)
@in_loop
async def test_bad_requests_are_refused(
    folder: Path, call: str, request_: dict[str, object], sentence: str
) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A, B)):
        await kubelet.listed(names.COUNT, 200, DEADLINE)
        async with grpc.aio.insecure_channel(f"unix:{folder / SOCKET}") as channel:
            message = "PreferredAllocationRequest" if call != "Allocate" else "AllocateRequest"
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await getattr(rpc.DevicePluginStub(channel), call)(
                    getattr(api, message)(container_requests=[request_])
                )
            assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert str(refusal.value.details()).startswith(sentence)
            assert await kubelet.admit(pod("p", 30)), "it goes on"


@in_loop
async def test_calls_that_ask_for_nothing(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A)):
        await kubelet.listed(names.COUNT, 100, DEADLINE)
        async with grpc.aio.insecure_channel(f"unix:{folder / SOCKET}") as channel:
            stub = rpc.DevicePluginStub(channel)
            assert await stub.Allocate(api.AllocateRequest()) == api.AllocateResponse()
            none = api.ContainerPreferredAllocationRequest()
            answer = await stub.GetPreferredAllocation(
                api.PreferredAllocationRequest(container_requests=[none])
            )
            assert [list(r.deviceIDs) for r in answer.container_responses] == [[]]
            request = api.PreStartContainerRequest(devices_ids=["GPU-a::0"])
            assert await stub.PreStartContainer(request) == api.PreStartContainerResponse()


@in_loop
async def test_many_listeners_that_drop_off(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A)) as running:
        await kubelet.listed(names.COUNT, 100, DEADLINE)
        for _ in range(50):
            async with grpc.aio.insecure_channel(f"unix:{folder / SOCKET}") as channel:
                stream = rpc.DevicePluginStub(channel).ListAndWatch(api.Empty())
                first = await stream.read()
                assert isinstance(first, api.ListAndWatchResponse)
                assert len(first.devices) == 100

        async def alone() -> bool:
            line = f'milligpu_plugin_watchers{{resource="{names.COUNT}"}}'
            return await running.metric(line) == 1

        await eventually(alone)
        assert await kubelet.admit(pod("p", 30))


# The stand-in itself, where no plugin of ours would lead it.


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": "v1"}, 'requested API version "v1" is not supported by kubelet.'),
        ({"resource_name": "vgpu"}, 'the ResourceName "vgpu" is invalid'),
        ({"resource_name": "x.kubernetes.io/vgpu"}, "the ResourceName "),
        ({"resource_name": "requests.milligpu.io/vgpu"}, "the ResourceName "),
        ({"endpoint": "nobody.sock"}, "failed to dial device plugin"),
    ],
)
@in_loop
async def test_the_stand_in_refuses_what_a_kubelet_refuses(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], sentence: str
) -> None:
    monkeypatch.setattr(Kubelet, "dial_seconds", 0.2)
    asked: dict[str, Any] = {"version": "v1beta1", "endpoint": SOCKET, "resource_name": names.COUNT}
    async with Kubelet(folder) as kubelet:
        async with grpc.aio.insecure_channel(f"unix:{folder}/kubelet.sock") as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refusal:
                await rpc.RegistrationStub(channel).Register(api.RegisterRequest(**asked | change))
        assert str(refusal.value.details()).startswith(sentence)
        assert kubelet.devices == {}


@in_loop
async def test_resources_that_nobody_registered_are_passed_over(folder: Path) -> None:
    async with Kubelet(folder) as kubelet:
        assert await kubelet.admit(pod("p", 30)) == ()


@in_loop
async def test_waiting_in_vain_says_what_there_is(folder: Path) -> None:
    async with Kubelet(folder) as kubelet, plugin(folder, Cards(A)):
        await kubelet.listed(names.COUNT, 100, DEADLINE)
        with pytest.raises(TimeoutError, match=r"100 of 200 x milligpu.io/vgpu after 0.1 s"):
            await kubelet.listed(names.COUNT, 200, 0.1)


# HTTP.


@in_loop
async def test_pages(folder: Path) -> None:
    async with plugin(folder, Cards(A)) as running:
        await running.becomes("serving")
        assert (await running.get("/metrics"))[0] == 200
        assert (await running.get("/healthz?verbose=1"))[0] == 200
        assert (await running.get("/"))[0] == 404
        assert (await running.send(b"POST /healthz HTTP/1.1\r\n\r\n"))[0] == 404
        assert (await running.send(b"nonsense\r\n\r\n"))[0] == 404
        assert await running.send(b"x" * 20000) == (0, b"")


@in_loop
async def test_a_client_that_says_nothing_holds_up_nobody(folder: Path) -> None:
    async with plugin(folder, Cards(A)) as running:
        reader, writer = await asyncio.open_connection(LOOPBACK, running.port)
        assert (await running.get("/healthz"))[0] == 200
        assert await reader.read() == b"", "the connection is closed in the end"
        writer.close()


@in_loop
async def test_clients_that_do_not_read_hold_no_socket(folder: Path) -> None:
    async with plugin(folder, Cards(A, B)) as running:
        await running.becomes("serving")
        before, clients = open_files(), list[socket.socket]()
        for _ in range(2 * http.MAX_CLIENTS):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            client.connect((LOOPBACK, running.port))
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" if len(clients) % 2 else b"GET /met")
            clients.append(client)
            await asyncio.sleep(0)
        await asyncio.sleep(http.SECONDS + 0.5)
        assert open_files() <= before + len(clients) + 2, "ours are closed, theirs are not"
        assert (await running.get("/healthz"))[0] == 200
        for client in clients:
            client.close()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
