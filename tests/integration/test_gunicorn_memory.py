"""What bodies over the limit cost the real gunicorn's worker (B49)."""

import re
from pathlib import Path

import pytest

from milligpu import processes
from milligpu.processes import Webhook
from tests.cluster.processes import children
from tests.webhook_server import pod, review, secure
from webhook.review import MAX_BODY

HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
ANNOUNCED = HEAD + b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 2**20)
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
PIECE = b" " * 2**16


def peak(webhook: Webhook) -> int:
    """Return the most memory that the worker has had, in KiB."""
    (worker,) = children(webhook.program.process.pid)
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{worker}/status").read_text())
    assert found
    return int(found[1])


def pour(webhook: Webhook, head: bytes, piece: bytes) -> bytes:
    """Send a body over the limit until it is over or cut off; return what came back."""
    with secure(webhook) as client:
        client.sendall(head)
        try:
            for _ in range((MAX_BODY + 2**20) // len(PIECE)):
                client.sendall(piece)
            return client.recv(12)
        except OSError:
            return b""


@pytest.mark.parametrize(
    ("head", "piece", "grows"),
    [(ANNOUNCED, PIECE, 4), (CHUNKED, b"%x\r\n%b\r\n" % (len(PIECE), PIECE), 32)],
    ids=["announced", "in chunks"],
)
def test_bodies_over_the_limit_take_no_memory(
    tmp_path: Path, head: bytes, piece: bytes, grows: int
) -> None:
    """One whose length is known is not read; of one in chunks there is one in memory at a time."""
    with processes.webhook(tmp_path) as webhook:
        assert webhook.review(review(pod()))["response"]["allowed"]
        before = peak(webhook)
        for _ in range(10):
            assert pour(webhook, head, piece) in {b"", b"HTTP/1.1 413"}
        assert webhook.review(review(pod()))["response"]["allowed"]
        assert peak(webhook) - before < grows * 1024
        errors = webhook.get("/metrics")[1]
        assert 'milligpu_webhook_errors_total{status="413"} 10.0' in errors
