"""The real gunicorn among clients that mean ill, or break: each costs itself, and nobody else.

What any client may get wrong, once, is in test_gunicorn.py.
"""

import contextlib
import itertools
import json
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from milligpu import processes
from milligpu.processes import HOST, Webhook
from tests.cluster.processes import children
from tests.webhook_server import plain, pod, post, review, secure
from webhook.review import MAX_BODY

SOON = 3.0
"""Seconds that an answer may take here; it takes milliseconds."""
BODY = json.dumps(review(pod())).encode()
JSON = b"Content-Type: application/json"
LENGTH = b"Content-Length: %d"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """A webhook that lives through all that leaves it as it was."""
    with processes.webhook(tmp_path_factory.mktemp("webhook")) as webhook:
        yield webhook
        assert {line["level"] for line in webhook.program.lines()} <= {"info", "warning"}


@pytest.fixture(autouse=True)
def _unharmed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test did to the shared webhook: it answers at once, and in the same process."""
    yield
    if "shared" in request.fixturenames:
        webhook: Webhook = request.getfixturevalue("shared")
        assert allowed(webhook)
        assert len(events(webhook, "Booting worker")) == 1


def events(webhook: Webhook, event: str) -> list[dict[str, Any]]:
    return [line for line in webhook.program.lines() if line["event"].startswith(event)]


def allowed(webhook: Webhook) -> bool:
    """Send a review on a connection of its own; True if the answer came soon and was a yes."""
    before, begin = len(events(webhook, "review")), time.monotonic()
    answer = webhook.review(review(pod()))["response"]
    soon = time.monotonic() - begin < SOON
    webhook.program.wait_until(lambda: len(events(webhook, "review")) > before)  # comes later
    return bool(answer["allowed"]) and soon


# Requests that are not what they should be: the whole list of answers tells also what was taken
# for a second request. The last one asked for ends the connection.

LAST = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
SIZED = LENGTH % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked"


def said(line: bytes, *headers: bytes, body: bytes = BODY) -> bytes:
    return b"\r\n".join([line, b"Host: x", *headers, b"", body])


def mutate(*headers: bytes, body: bytes = BODY) -> bytes:
    return said(b"POST /mutate HTTP/1.1", *headers, body=body)


def statuses(webhook: Webhook, sent: bytes) -> list[int]:
    """Send some bytes and the last request, and return the status of every answer."""
    with secure(webhook) as client, contextlib.suppress(ConnectionResetError):
        with contextlib.suppress(ConnectionError, ssl.SSLEOFError):  # it may hear enough early
            client.sendall(sent + LAST)
        return [int(status) for status in re.findall(rb"HTTP/1.1 ([0-9]{3}) ", rest(client))]
    return []


def rest(client: socket.socket) -> bytes:
    """Return what the server sends until it ends the connection."""
    got = b""
    while more := client.recv(2**16):
        got += more
    return got


@pytest.mark.parametrize(
    "method", [b"GET", b"HEAD", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"TRACE", b"BREW"]
)
def test_another_method_is_refused_and_its_body_is_no_request(
    shared: Webhook, method: bytes
) -> None:
    before = len(events(shared, "review"))
    assert statuses(shared, said(method + b" /mutate HTTP/1.1", JSON, SIZED)) == [405, 200]
    assert len(events(shared, "review")) == before


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (b"POST /mutate?timeout=5s HTTP/1.1", [200, 200]),  # so the API server asks
        (b"POST /mutate/ HTTP/1.1", [404, 200]),
        (b"POST /MUTATE HTTP/1.1", [404, 200]),
        (b"POST /../mutate HTTP/1.1", [404, 200]),
        (b"POST /mutate?" + b"x" * 10_000 + b" HTTP/1.1", [414]),
        (b"POST /mutate?\xff HTTP/1.1", [400]),
        (b"POST * HTTP/1.1", [400]),
        (b"CONNECT /mutate HTTP/1.1", [405]),
        (b"post /mutate HTTP/1.1", [400]),
        (b"POST /mutate HTTP/2.0", [400]),
        (b"POST /mutate", [400]),
        (b"PRI * HTTP/2.0", [400]),
    ],
)
def test_a_request_line_is_taken_as_it_is(shared: Webhook, line: bytes, wanted: list[int]) -> None:
    assert statuses(shared, said(line, JSON, SIZED)) == wanted


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ([JSON + b"; charset=utf-8"], [200, 200]),
        ([b"content-type:application/JSON"], [200, 200]),
        ([], [415, 200]),
        ([b"Content-Type:"], [415, 200]),
        ([b"Content-Type: text/plain"], [415, 200]),
        ([b"Content-Type: application/json-patch+json"], [415, 200]),
        ([b"Content-Type: multipart/form-data; boundary=x"], [415, 200]),
        ([b"Content-Type: application/x-www-form-urlencoded"], [415, 200]),
        ([JSON, b"Content-Type: text/plain"], [400]),
        ([b"Content-Type: text/plain", JSON], [400]),
        ([JSON, b"X: " + b"y" * 10_000], [431]),
        ([JSON, *[b"X-%d: y" % number for number in range(200)]], [431]),
        ([JSON, b"X: a\0b"], [400]),
        ([JSON, b"X: a", b" b"], [400]),
        ([JSON, b"X : a"], [400]),
        ([JSON, b"no colon"], [400]),
    ],
)
def test_headers_are_taken_as_they_are(
    shared: Webhook, headers: list[bytes], wanted: list[int]
) -> None:
    assert statuses(shared, mutate(*headers, SIZED)) == wanted


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ([SIZED], [200, 200]),
        ([b"Content-Length: -1"], [400]),
        ([b"Content-Length: +5"], [400]),
        ([b"Content-Length: 0x10"], [400]),
        ([b"Content-Length: 1e3"], [400]),
        ([b"Content-Length: 5, 5"], [400]),
        ([b"Content-Length: \xc2\xb2"], [400]),
        ([b"Content-Length: " + b"9" * 5000], [400]),
        ([SIZED, SIZED], [400]),
        ([SIZED, b"Content-Length: 3"], [400]),
        ([SIZED, CHUNKED], [400]),
        ([CHUNKED, SIZED], [400]),
        ([b"Transfer-Encoding: gzip"], [400]),
        ([b"Transfer-Encoding: chunked, chunked"], [400]),
        ([b"Transfer-Encoding: xchunked"], [501]),
        ([b"Transfer-Encoding : chunked"], [400]),
        # A body that is not announced is the next request, and none.
        ([], [400, 400]),
        ([LENGTH % (len(BODY) - 1)], [400, 400]),
    ],
)
def test_there_is_one_way_to_say_how_long_a_body_is(
    shared: Webhook, headers: list[bytes], wanted: list[int]
) -> None:
    """Else what one server takes for a body is a request to the next."""
    assert statuses(shared, mutate(JSON, *headers)) == wanted


@pytest.mark.parametrize(
    ("over", "wanted"), [(0, [200, 200]), (1, [413])], ids=["the longest", "one byte more"]
)
@pytest.mark.parametrize("how", ["at once", "expecting"])
def test_the_longest_body(shared: Webhook, how: str, over: int, wanted: list[int]) -> None:
    size = MAX_BODY + over
    expecting = [b"Expect: 100-continue"] if how == "expecting" else []
    sent = mutate(JSON, LENGTH % size, *expecting, body=BODY.ljust(size))
    assert [status for status in statuses(shared, sent) if status != 100] == wanted


# Connections that break


def cut(client: socket.socket) -> None:
    """End a connection without a word of goodbye, as a host does that is gone: with a reset."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def hello(webhook: Webhook, size: int | None = None) -> socket.socket:
    """Return a connection on which a TLS handshake was begun, or `size` bytes of its begin."""
    outgoing, incoming = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cadata=webhook.ca.decode())
    tls = context.wrap_bio(incoming, outgoing, server_hostname=HOST)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    client = plain(webhook)
    client.sendall(outgoing.read()[:size])
    return client


def files(webhook: Webhook) -> int:
    """Return how many files the worker has open, its connections among them."""
    (worker,) = children(webhook.program.process.pid)
    return len(list(Path(f"/proc/{worker}/fd").iterdir()))


def test_connections_that_break_leave_nothing_behind(shared: Webhook) -> None:
    assert allowed(shared)
    before = files(shared)
    for end in (cut, socket.socket.close):
        for size in (0, 1, 100, None):
            end(hello(shared, size))
        for sent in (b"", b"P", post()[:-1], mutate(JSON, CHUNKED, body=b"5\r\nab"), post() * 20):
            client = secure(shared)
            client.sendall(sent)
            end(client)
    limit = time.monotonic() + SOON
    while files(shared) > before and time.monotonic() < limit:
        time.sleep(0.05)
    assert files(shared) <= before


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /mutate HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"PROXY TCP4 10.0.0.1 10.0.0.2 1 443\r\n",
        b"\x05\x01\x00",
        b"\x16\x03\x01\xff\xff" + b"\0" * 70_000,
        b"\x80" * 100,
    ],
    ids=["HTTP", "HTTP/2", "SSH", "PROXY", "SOCKS", "a giant hello", "noise"],
)
def test_what_is_no_tls_hears_no_http(impatient: Webhook, sent: bytes) -> None:
    with plain(impatient) as client, contextlib.suppress(ConnectionError):
        client.sendall(sent)
        client.settimeout(1 + SOON)
        assert b"HTTP" not in rest(client)


# Clients that are slow


def test_a_handshake_that_is_not_finished_is_given_up(impatient: Webhook) -> None:
    begin = time.monotonic()
    with ExitStack() as stack:
        for client in [stack.enter_context(hello(impatient, size)) for size in (0, 1, 100, None)]:
            with contextlib.suppress(ConnectionResetError):
                rest(client)
            assert 0.5 < time.monotonic() - begin < 1 + SOON


def test_a_handshake_that_drips_is_given_up_too(impatient: Webhook) -> None:
    begin = time.monotonic()
    with hello(impatient, 5) as client, contextlib.suppress(ConnectionError):
        for _ in range(100):
            client.sendall(b"\0")
            time.sleep(0.1)
    assert time.monotonic() - begin < 1 + SOON


def test_what_comes_after_a_body_that_did_not_is_no_request(impatient: Webhook) -> None:
    """It might be the body."""
    with ExitStack() as stack:
        clients = [stack.enter_context(secure(impatient)) for _ in range(5)]
        for client, digits in zip(clients, (7, 9, 10, 30, 4300), strict=True):
            client.sendall(mutate(JSON, b"Content-Length: " + b"9" * digits))
            assert client.recv(2**16).startswith(b"HTTP/1.1 413 ")
        time.sleep(1.2)  # until nobody waits for it any more
        for client in clients:
            with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
                client.sendall(LAST)
                assert b"HTTP" not in rest(client)


def test_who_does_not_read_the_answers_is_given_up(impatient: Webhook) -> None:
    """It asks again and again until nothing more fits into the buffers between it and us."""
    with ExitStack() as stack:
        clients = [stack.enter_context(secure(impatient)) for _ in range(4)]
        for client in clients:
            client.settimeout(0.2)
            with contextlib.suppress(TimeoutError, ConnectionError, ssl.SSLEOFError):
                while True:
                    client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        begin = time.monotonic()
        assert impatient.review(review(pod()))["response"]["allowed"]
        # A second for each of four on two threads, at most.
        assert time.monotonic() - begin < 2 + SOON


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """A webhook whose deadlines are one second, with two threads."""
    folder = tmp_path_factory.mktemp("impatient")
    with processes.webhook(folder, "tests.webhook_server:impatient()", threads=2) as webhook:
        yield webhook
        assert {line["level"] for line in webhook.program.lines()} <= {"info", "warning"}
        assert len(events(webhook, "Booting worker")) == 1


# All at once


def test_admission_goes_on_in_a_storm(tmp_path: Path) -> None:
    """Twelve clients do their worst for a while; reviews are answered all the while."""
    stop = threading.Event()
    with processes.webhook(tmp_path) as webhook, ThreadPoolExecutor(12) as pool:
        ill = [pool.submit(misbehave, webhook, number, stop) for number in range(12)]
        try:
            for _ in range(8):
                assert allowed(webhook)
                time.sleep(0.1)
        finally:
            stop.set()
        assert sum(each.result() for each in ill) > 20
        assert len(events(webhook, "Booting worker")) == 1
        assert {line["level"] for line in webhook.program.lines()} <= {"info", "warning"}


def misbehave(webhook: Webhook, number: int, stop: threading.Event) -> int:
    """Break connections in one way or another until told to stop; return how many."""
    for turn in itertools.count():
        if stop.is_set():
            return turn
        with contextlib.suppress(OSError):
            match (number + turn) % 6:
                case 0:
                    cut(hello(webhook, turn % 300))
                case 1:
                    plain(webhook).close()
                case 2:
                    statuses(webhook, mutate(JSON, SIZED, SIZED))
                case 3:
                    client = secure(webhook)
                    client.sendall(post()[: -1 - turn % 500])
                    cut(client)
                case 4:
                    client = secure(webhook)
                    client.sendall(post() * 3)
                    cut(client)
                case _:
                    client = secure(webhook)
                    client.sendall(mutate(JSON, LENGTH % 200_000, body=b"[" * 100_000))
                    cut(client)
    return 0
