"""Stay known to the kubelet: serve, register, wait until forgotten, and again."""

import asyncio
import fcntl
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import grpc
import structlog

from plugin import unix
from plugin.config import UnusableError
from plugin.metrics import Metrics
from plugin.servicer import DevicePlugin
from plugin.v1beta1 import deviceplugin_pb2 as api
from plugin.v1beta1 import deviceplugin_pb2_grpc as rpc

KUBELET: Final = "kubelet.sock"
"""File name of the kubelet's socket, beside which ours stand."""
POLL: Final = 0.2
"""Seconds between two looks at the sockets."""
PATIENCE: Final = 2.0
"""Seconds without a listener after which the kubelet has forgotten us; it never comes back."""
BACK_OFF: Final = (0.2, 2.0)
"""Seconds before the next try: after a session that worked, and at most."""
REGISTER_SECONDS: Final = 15.0
"""Deadline of a registration, in which the kubelet dials back for up to 10 s."""
GRACE: Final = 1.0
"""Seconds that calls in flight get to end when the server stops."""
LONGEST_PATH: Final = 107
"""Bytes of a socket's path for which an address has room."""

_AWAY: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

T = TypeVar("T")
Identity: TypeAlias = tuple[int, int, int]
log = structlog.get_logger()


class FolderError(UnusableError):
    """The device plugin folder cannot be used."""


def check(endpoint: Path) -> None:
    """See whether our socket can be made, and be reached, in its folder. Raises FolderError."""
    try:
        _try_out(endpoint)
    except OSError as error:
        raise FolderError(
            f"cannot make a socket in the device plugin folder {endpoint.parent} as uid"
            f" {os.getuid()}: {error.strerror or error}"
        ) from error


def _try_out(endpoint: Path) -> None:
    size, name = (len(os.fsencode(each)) for each in (endpoint.parent, f"/{endpoint.name}"))
    if size + name > LONGEST_PATH:
        room = LONGEST_PATH - name
        raise OSError(f"its path has {size} bytes, and sockets have room for {room}")
    path = _private(endpoint.parent)
    with socket.socket(socket.AF_UNIX) as probe:
        probe.bind(str(path))
    path.unlink()


@asynccontextmanager
async def alone(folder: Path) -> AsyncIterator[None]:
    """Hold the folder: of two plugins (a roll-out, a mistake) the second waits for the first.

    They would take the socket from each other for ever. The lock leaves no file and ends with us.
    """
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise FolderError(f"cannot open {folder}: {error.strerror}") from error
    try:
        await _found(lambda: _locked(opened), "waiting for another plugin to end", folder)
        yield
    finally:
        os.close(opened)


def _locked(folder: int) -> bool | None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return True


async def run(folder: Path, servicer: DevicePlugin[Any], metrics: Metrics) -> None:
    """Keep the kubelet in the picture for ever; the first of a row of failures is logged."""
    resource, endpoint = servicer.resource.name, folder / servicer.resource.endpoint
    kubelet = folder / KUBELET
    pause, failing = BACK_OFF[0], False
    while True:
        try:
            if _identity(kubelet) is None:
                servicer.unknown = f"waiting for the kubelet: there is no {kubelet}"
            known = await _found(lambda: _identity(kubelet), "waiting for the kubelet", kubelet)
            async with _serving(endpoint, servicer) as ours:
                registering = asyncio.create_task(_register(endpoint, resource, metrics))
                try:
                    why = await _forgotten(endpoint, ours, known, servicer, registering)
                finally:
                    registering.cancel()
                log.warning("forgotten", resource=resource, why=why)
                pause, failing = BACK_OFF[0], False
        except (grpc.aio.AioRpcError, FolderError) as error:
            refused = isinstance(error, grpc.aio.AioRpcError) and error.code() not in _AWAY
            metrics.registrations.labels(resource, "refused" if refused else "unreachable").inc()
            said = error.details() if isinstance(error, grpc.aio.AioRpcError) else str(error)
            (log.debug if failing else log.warning)("not registered", resource=resource, why=said)
            servicer.unknown, failing = f"not registered with the kubelet: {said}", True
        await asyncio.sleep(pause)
        pause = min(2 * pause, BACK_OFF[1])


async def _found(look: Callable[[], T | None], waiting: str, path: Path) -> T:
    """Look until something is found, and return it; say once that we wait."""
    found = look()
    if found is None:
        log.info(waiting, path=str(path))
    while found is None:
        await asyncio.sleep(POLL)
        found = look()
    return found


@asynccontextmanager
async def _serving(endpoint: Path, servicer: DevicePlugin[Any]) -> AsyncIterator[Identity | None]:
    """Serve on a fresh socket, and afterwards remove it if it is still ours."""
    check(endpoint)
    servicer.full_list()  # raises if it would never arrive
    server = grpc.aio.server()
    rpc.add_DevicePluginServicer_to_server(servicer, server)
    ours = _bind(server, endpoint)
    servicer.set_open(True)
    starting = asyncio.ensure_future(server.start())
    try:
        await asyncio.shield(starting)  # half a start cannot be stopped
        yield ours
    finally:
        servicer.set_open(False)
        await asyncio.wait([starting])
        await server.stop(GRACE)
        if _identity(endpoint) == ours:
            endpoint.unlink(missing_ok=True)


def _bind(server: grpc.aio.Server, endpoint: Path) -> Identity | None:
    """Bind our socket. Under a private name first: when it stops, gRPC unlinks the name that it
    bound, whatever is there by then.
    """
    private = _private(endpoint.parent)
    try:
        server.add_insecure_port(unix.address(private))
        ours = _identity(private)
        private.rename(endpoint)
    except (RuntimeError, OSError) as error:
        raise FolderError(f"cannot serve in {endpoint.parent}: {error}") from error
    return ours


async def _register(endpoint: Path, resource: str, metrics: Metrics) -> None:
    kubelet = unix.address(endpoint.with_name(KUBELET))
    async with grpc.aio.insecure_channel(kubelet, options=(unix.AUTHORITY,)) as channel:
        request = api.RegisterRequest(
            version="v1beta1", endpoint=endpoint.name, resource_name=resource
        )
        await rpc.RegistrationStub(channel).Register(request, timeout=REGISTER_SECONDS)
    metrics.registrations.labels(resource, "accepted").inc()
    log.info("registered", resource=resource, socket=str(endpoint))


async def _forgotten(
    endpoint: Path,
    ours: Identity | None,
    kubelet: Identity,
    servicer: DevicePlugin[Any],
    registering: asyncio.Task[None],
) -> str:
    """Wait until the kubelet does not know us any more, and return how that shows.

    It may not even while we register: one that starts then clears its folder, and would look for
    our socket for 10 s. Raises what the registration raises.
    """
    heard = time.monotonic()
    while True:
        await asyncio.sleep(POLL)
        if registering.done():
            registering.result()
        if _identity(endpoint) != ours:
            return "our socket is gone"
        if _identity(endpoint.with_name(KUBELET)) not in (kubelet, None):
            return "the kubelet has a new socket"
        if servicer.watchers or not registering.done():
            heard = time.monotonic()
        elif time.monotonic() - heard > PATIENCE:
            return "nobody listens"


def _identity(path: Path) -> Identity | None:
    """Return what tells a file from its successor at a path, for inode numbers are used again."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns


def _private(folder: Path) -> Path:
    return folder / f".{secrets.token_hex(4)}.sock"
