"""gunicorn's thread worker, changed so that only a request that has arrived costs anything.

The stock worker gives every new connection to a thread, which waits there for the first bytes and
for the TLS handshake, and it closes connections politely, for up to two seconds, in its only event
loop. A handful of idle or slow connections, as port probes and load balancers open them, then stops
admission. Here the event loop does the handshakes and collects the requests, without waiting, and
when there are too many connections, or too many bytes of long requests, the one that has waited
longest makes room. Short requests it answers itself: waking a thread, and handing Python's lock to
it and back, takes longer than a review. Only what does not say its length beforehand is read in
threads, a few of their own, before a deadline. Written against gunicorn 27.0.
"""

import errno
import fcntl
import re
import select
import selectors
import socket
import ssl
import termios
import threading
import time
from array import array
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from gunicorn import http, sock, util  # type: ignore[import-untyped]
from gunicorn.workers.gthread import TConn, ThreadWorker  # type: ignore[import-untyped]

from webhook.review import MAX_BODY

ARRIVAL_SECONDS = 5.0
"""How long a handshake may take, and a request from its first byte on."""
REQUEST_SECONDS = 10.0
"""How long an answer may take to leave, and a request that is not collected to arrive."""
QUICK = 16 * 2**10
"""Bytes of a request that the event loop answers itself; one made to hurt takes it 80 ms."""
QUICK_SECONDS = 0.5
"""How long such an answer may take to leave; at once, if less than SEND_BUFFER."""
SEND_BUFFER = 256 * 2**10
"""Bytes of an answer that the kernel takes over, whether or not the client reads them."""
SHORT = 64 * 2**10
"""Bytes of a short request; nearly all reviews are."""
HELD = 64 * 2**20
"""Bytes of all long requests that have been collected and not yet been read by a thread."""
LONG_ONES = 2
"""Threads for long requests, and as many for those that are not collected."""
LINGER_SECONDS = 0.5
"""How long a client that is still sending is listened to, so that it sees a refusal (413)."""

draining = threading.Event()
"""Set at SIGTERM: not ready any more, though every request is still answered."""


_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n", re.IGNORECASE)
_NOT_AT_ONCE = re.compile(rb"\r\n(transfer-encoding|expect):", re.IGNORECASE)


class Connection(TConn):  # type: ignore[misc]
    """A client's connection, and what the parser reads from: it ends at the deadline."""

    deadline = 0.0
    is_arriving = False
    """Whether a part of a request was collected."""
    is_streamed = False
    """Whether the rest of it is to be read in a thread."""
    wanted = 0
    """Bytes that it has, as far as they are collected; 0 while that is unknown."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.arrived = bytearray()

    def collect(self) -> bool:
        """Take what is here of a request; return whether a thread can go on with it."""
        try:
            while not self._is_complete():
                more = self.sock.recv(SHORT)
                if not more:
                    return True  # as much as will ever come
                self.arrived += more
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError:
            pass
        return True

    def _is_complete(self) -> bool:
        if not self.wanted:
            head, end, _ = self.arrived[: SHORT + 1].partition(b"\r\n\r\n")
            if not end:
                return len(self.arrived) > SHORT
            found = _LENGTH.search(head + b"\r\n")
            length = int(found[1]) if found else 0
            self.is_streamed = length > MAX_BODY or _NOT_AT_ONCE.search(head) is not None
            self.wanted = len(head + end) + (0 if self.is_streamed else length)
        return len(self.arrived) >= self.wanted

    def is_quick(self) -> bool:
        """Whether it is all here, short, and nothing stands before its answer in the way out."""
        if self.is_streamed or not 0 < len(self.arrived) <= QUICK:
            return False
        unsent = array("i", [0])
        fcntl.ioctl(self.sock.fileno(), termios.TIOCOUTQ, unsent)
        return unsent[0] == 0

    def limit(self) -> None:
        """Let the socket wait for no longer than the deadline."""
        self.sock.settimeout(max(self.deadline - time.monotonic(), 0.001))

    def recv(self, size: int) -> bytes:
        """Return what the client sent, or nothing, as at its end, when it is too slow."""
        if self.arrived or not self.is_streamed:
            taken, self.arrived, self.wanted = self.arrived, bytearray(), 0
            return bytes(taken)
        self.limit()
        try:
            return bytes(self.sock.recv(size))
        except TimeoutError:
            return b""

    def close(self, graceful: bool = False) -> None:
        """Close at once: the event loop must not wait; `Worker.linger` did what is graceful."""
        del graceful
        util.close(self.sock)


class Worker(ThreadWorker):  # type: ignore[misc]
    """Handshakes and short requests in the event loop, and a readiness that ends first."""

    drain_seconds = 0.0
    """How long after SIGTERM new connections are still accepted."""
    long: list[Connection]
    """Those whose long requests wait for the rest, or for a thread; oldest first."""

    def accept(self, listener: Any) -> None:
        """Take a new connection and begin its handshake."""
        try:
            client, address = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        connection = Connection(self.cfg, client, address, listener.getsockname())
        try:
            connection.sock = sock.ssl_wrap_socket(client, self.cfg)
        except OSError as fault:  # gone already
            self.log.debug("Lost %s: %s", address, fault)
            util.close(client)
            return
        connection.timeout = time.monotonic() + ARRIVAL_SECONDS
        self.nr_conns += 1
        self.pending_conns.append(connection)
        go_on = partial(self.shake_hands, connection)
        self.poller.register(connection.sock, selectors.EVENT_READ, go_on)
        if self.nr_conns >= self.worker_connections:
            (self.keepalived_conns or self.pending_conns)[0].timeout = 0.0
            self.murder_keepalived()
            self.murder_pending()

    def shake_hands(self, connection: Connection, client: Any) -> None:
        """Go on with a handshake as far as the bytes that are here allow."""
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            return
        except OSError as fault:  # SSLError is one: not TLS, or not our certificate's friend
            self.log.debug("No TLS with %s: %s", connection.client, fault)
            self.drop(connection, self.pending_conns)
            return
        connection.initialized = True
        connection.parser = http.get_parser(self.cfg, connection, connection.client)
        # From here on it is like any connection between two requests.
        self.pending_conns.remove(connection)
        connection.set_timeout()
        self.keepalived_conns.append(connection)
        go_on = partial(self.on_client_socket_readable, connection)
        self.poller.modify(client, selectors.EVENT_READ, go_on)

    def on_client_socket_readable(self, connection: Connection, client: Any) -> None:
        """Go on with a request as far as the bytes that are here allow."""
        ready = connection.collect()
        if len(connection.arrived) > SHORT:
            self.make_room(connection)
        if client.fileno() < 0 or (connection.is_arriving and not ready):
            return
        waiting = self.pending_conns if connection.is_arriving else self.keepalived_conns
        waiting.remove(connection)
        connection.is_arriving = not ready
        if ready:
            self.poller.unregister(client)
            self.enqueue_req(connection)
        else:
            connection.timeout = time.monotonic() + ARRIVAL_SECONDS
            self.pending_conns.append(connection)

    def make_room(self, connection: Connection) -> None:
        """Drop long requests while there are too many bytes of them: who has been slowest first."""
        self.long = [each for each in self.long if each.arrived and each.sock.fileno() >= 0]
        if connection not in self.long:
            self.long.append(connection)
        while sum(len(each.arrived) for each in self.long) > HELD:
            slow = next((each for each in self.long if each.is_arriving), connection)
            self.long.remove(slow)
            self.drop(slow, self.pending_conns if slow.is_arriving else self.keepalived_conns)

    def drop(self, connection: Connection, waiting: deque[Connection]) -> None:
        """End a connection that waits."""
        self.poller.unregister(connection.sock)
        waiting.remove(connection)
        self.nr_conns -= 1
        connection.close()

    def get_thread_pool(self) -> ThreadPoolExecutor:
        """Make the threads."""
        self.long = []
        self.long_ones, self.streamed = (ThreadPoolExecutor(LONG_ONES) for _ in range(2))
        return ThreadPoolExecutor(self.cfg.threads)

    def enqueue_req(self, connection: Connection) -> None:
        """Answer a request here if that is quick, or have a thread do it."""
        if not connection.is_quick():
            pool = self.long_ones if len(connection.arrived) > SHORT else self.tpool
            pool = self.streamed if connection.is_streamed else pool
            work = pool.submit(self.handle, connection)
        elif self.answer(connection, QUICK_SECONDS):
            self.finish_request(connection, _done(True))
            return
        else:
            work = self.tpool.submit(self.linger, connection)
        work.add_done_callback(
            lambda done: self.method_queue.defer(self.finish_request, connection, done)
        )

    def handle(self, connection: Connection) -> bool:
        """Answer one request, in a thread; False when the connection is of no more use."""
        return self.answer(connection, REQUEST_SECONDS) or self.linger(connection)

    def answer(self, connection: Connection, seconds: float) -> bool:
        """Answer one request; False when the connection is of no more use."""
        connection.deadline = time.monotonic() + seconds
        return bool(super().handle(connection))

    def linger(self, connection: Connection) -> bool:
        """Let a client get its last answer: an end before its bytes are read takes it away."""
        if _has_unread(connection.sock):
            util.close_graceful(connection.sock, timeout=LINGER_SECONDS)
        return False

    def handle_request(self, request: Any, connection: Connection) -> bool:
        """Run the application."""
        connection.limit()
        if draining.is_set():
            request.force_close()  # the API server then opens its next connection elsewhere
        try:
            return bool(super().handle_request(request, connection))
        except TimeoutError as fault:  # who does not read is as good as gone
            raise ConnectionResetError(errno.ECONNRESET, "the client does not read") from fault

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Begin to end: say so at /readyz first, and stop accepting only later."""
        if not draining.is_set():
            draining.set()
            threading.Timer(self.drain_seconds, super().handle_exit, (sig, frame)).start()


def _has_unread(client: Any) -> bool:
    return client.fileno() >= 0 and bool(select.select([client], [], [], 0)[0])


def _done(result: bool) -> Future[bool]:
    done: Future[bool] = Future()
    done.set_result(result)
    return done
