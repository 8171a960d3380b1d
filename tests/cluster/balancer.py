"""What stands in for a Service in front of several replicas: a TCP balancer on loopback.

The API server of these tests reaches a webhook by URL, since there is no kube-proxy, and it refuses
endpoints on loopback. So this does what a Service does: a new connection goes to one of the
endpoints that are ready, in turn, and stays there, also when its endpoint is no longer ready. Bytes
are passed on unread, and so are both ways in which a connection ends.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_RESET = struct.pack("ii", 1, 0)
_PIECE = 2**16


class Balancer:
    """Passes connections to `port` on to the endpoints."""

    def __init__(self) -> None:
        self.port = 0
        self.endpoints: tuple[int, ...] = ()
        """Loopback ports that get new connections; replace the tuple to change them."""
        self._turn = 0

    async def serve(self, started: threading.Event, stop: asyncio.Event) -> None:
        """Listen until told to stop."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._next())
        except OSError:  # nobody listens there, or there is no endpoint
            _reset(writer)
            return
        try:
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        finally:
            for each in (writer, back):
                each.close()

    def _next(self) -> int:
        endpoints = self.endpoints
        if not endpoints:
            raise ConnectionRefusedError
        self._turn += 1
        return endpoints[self._turn % len(endpoints)]


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
        with suppress(OSError):
            writer.write_eof()
    except ConnectionError:
        _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection as the kernel does for a process that is gone."""
    with suppress(OSError):  # it may be closed already
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


@contextmanager
def balancing() -> Iterator[Balancer]:
    """Run a balancer, in a thread, until the block is left."""
    balancer, started = Balancer(), threading.Event()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(balancer.serve(started, stop)), daemon=True
    )
    thread.start()
    started.wait(10)
    try:
        yield balancer
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()
