"""Whatever answers the certificate keeper: it says so, and looks again later."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from kubernetes import client

from certs import keeper
from certs.cluster import Cluster
from certs.config import Config
from certs.plan import Wait

SECRET = "c2VjcmV0c2VjcmV0"
TEXT = f'{{"kind": "Secret", "data": ["{SECRET}"]}}'.encode()


class Server(ThreadingHTTPServer):
    """Answers each request in the same way."""

    daemon_threads = True
    answer: tuple[int, bytes] | None
    """Status and body, or nothing until it is ended."""
    requests: int = 0
    over = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests += 1
        if self.server.answer is None:
            self.server.over.wait(10)
            return
        status, body = self.server.answer
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=[0.01]).start()
        settings = client.Configuration(host=f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(client.Configuration, "_default", settings)
        yield server
        server.over.set()
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (403, b'{"message": "secrets is forbidden"}', "the API server refuses: secrets is fo"),
        (500, b"oops", "the API server refuses: 500 Internal Server Error"),
        (302, b"", "the API server refuses: 302 Found"),
        (401, b"\xff\x00", "the API server refuses: 401 Unauthorized"),
        (200, b"", "no API server answers so: ValidationError"),
        (200, b"<html>Log in</html>", "no API server answers so: "),
        (200, b"[]", "no API server answers so: ValidationError"),
        (200, b'{"kind":', "no API server answers so: JSONDecodeError"),
        (200, b"\xff\x00", "no API server answers so: UnicodeDecodeError"),
        (200, TEXT, "no API server answers so: ValidationError"),
    ],
)
def test_an_answer_that_is_none_is_waited_for(
    server: Server, status: int, body: bytes, said: str
) -> None:
    server.answer = status, body
    (last,) = keeper.settle(Cluster(), Config())
    assert isinstance(last, Wait)
    assert last.reason.startswith(said)
    assert SECRET not in last.reason


def test_who_does_not_answer_is_asked_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the end of the process would wait for as many times the timeout."""
    monkeypatch.setattr("certs.cluster.TIMEOUT", 0.2)
    server.answer = None
    (last,) = keeper.settle(Cluster(), Config())
    assert isinstance(last, Wait)
    assert last.reason.startswith("the API server does not answer: ")
    assert server.requests == 1
