"""The real gunicorn, over TLS on the loopback address."""

import http.client
import json
import re
import signal
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from certs import issue
from milligpu import processes
from milligpu.processes import ProgramError, Webhook, certificates, write_pair
from tests.webhook_server import JSON, SECRET, SLOW_SECONDS, UID, plain, pod, post, review, secure
from webhook.review import MAX_BODY
from webhook.worker import HELD, QUICK

SOON = 3.0
"""Seconds that an answer may take here; it takes milliseconds."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """A webhook for the tests that leave it as it was."""
    with processes.webhook(tmp_path_factory.mktemp("webhook")) as webhook:
        yield webhook


def allowed(webhook: Webhook) -> bool:
    answer = webhook.review(review(pod()))["response"]
    assert answer["uid"] == UID
    return bool(answer["allowed"])


def events(webhook: Webhook, event: str) -> list[dict[str, Any]]:
    return [line for line in webhook.program.lines() if line["event"] == event]


def answered(client: ssl.SSLSocket) -> tuple[int, bytes]:
    with http.client.HTTPResponse(client) as response:
        response.begin()
        return response.status, response.read()


# Reviews


def test_an_ask_comes_back_as_slots(shared: Webhook) -> None:
    answer = shared.review(review(pod()))["response"]
    assert answer["patchType"] == "JSONPatch"
    status, text = shared.get("/readyz")
    assert status == 200
    assert text.startswith("ok: the served certificate is valid from ")
    assert shared.get("/livez") == (200, "ok\n")


def test_a_connection_serves_many_reviews(shared: Webhook) -> None:
    connection = shared.connect()
    connection.connect()
    local = connection.sock.getsockname()
    for _ in range(5):
        connection.request("POST", "/mutate", json.dumps(review(pod())), JSON)
        response = connection.getresponse()
        assert json.loads(response.read())["response"]["allowed"]
        assert not response.will_close
    assert connection.sock.getsockname() == local
    connection.close()


def test_log_and_metrics_tell_of_reviews_but_not_what_is_in_them(shared: Webhook) -> None:
    # A line comes after its answer, so those of other tests may come yet: this one has its own uid.
    assert shared.review(review(pod(), uid="of-the-log"))["response"]["allowed"]

    def told() -> list[dict[str, Any]]:
        return [line for line in events(shared, "review") if line["uid"] == "of-the-log"]

    shared.program.wait_until(lambda: bool(told()))
    (line,) = told()
    assert (line["kind"], line["verdict"]) == ("Pod", "changed")
    assert SECRET not in shared.program.output.read_text()
    assert 'milligpu_webhook_reviews_total{dry_run="false",kind="Pod"' in shared.get("/metrics")[1]


def test_a_line_of_gunicorns_own_looks_like_ours(shared: Webhook) -> None:
    (line,) = [line for line in shared.program.lines() if line["event"].startswith("Listening at")]
    assert list(line) == ["timestamp", "level", "event"]
    assert all(text.startswith("{") for text in shared.program.output.read_text().splitlines())


# Bad input


HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def test_a_chunked_review_is_read(shared: Webhook) -> None:
    body = json.dumps(review(pod())).encode()
    with secure(shared) as client:
        client.sendall(CHUNKED)
        for part in (body[:100], body[100:]):
            client.sendall(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        client.sendall(b"0\r\n\r\n")
        assert json.loads(answered(client)[1])["response"]["allowed"]


def test_two_big_objects_fit(shared: Webhook) -> None:
    big = pod({}, annotations={"example.com/note": "x" * 2_900_000})
    answer = shared.review(review(big, operation="UPDATE", oldObject=big))
    assert answer["response"]["allowed"]


def test_a_body_over_the_limit_is_refused_unread(shared: Webhook) -> None:
    with secure(shared) as client:
        client.sendall(HEAD + f"Content-Length: {MAX_BODY + 1}\r\n\r\n".encode())
        assert answered(client)[0] == 413
    assert allowed(shared)


def test_a_chunked_body_without_end_is_cut_at_the_limit(shared: Webhook) -> None:
    chunk = b"100000\r\n" + b" " * 2**20 + b"\r\n"
    with secure(shared) as client:
        client.sendall(CHUNKED)
        # What is on its way when the server ends it fits into the sockets' buffers.
        sent = until_cut(client, chunk, 4 * MAX_BODY // len(chunk)) * len(chunk)
        assert MAX_BODY - len(chunk) <= sent < 4 * MAX_BODY - len(chunk)
    assert events(shared, "refused")[-1]["status"] == 413
    assert allowed(shared)


def until_cut(client: ssl.SSLSocket, piece: bytes, most: int, pause: float = 0) -> int:
    """Send a piece again and again; return how often before the server ended it."""
    for sent in range(most):
        try:
            client.sendall(piece)
        except OSError:
            return sent
        time.sleep(pause)
    return most


def test_a_broken_chunk_is_refused(shared: Webhook) -> None:
    with secure(shared) as client:
        client.sendall(CHUNKED + b"five\r\n")
        assert answered(client) == (400, b"the body did not arrive whole\n")
    assert allowed(shared)


def test_a_client_that_leaves_in_the_middle_is_no_error_of_ours(shared: Webhook) -> None:
    for part in (b"POST", HEAD, HEAD + b"Content-Length: 9\r\n\r\nfour", CHUNKED + b"5\r\nab"):
        secure_and_close(shared, part)
    assert allowed(shared)
    assert not [line for line in shared.program.lines() if line["level"] == "error"]


def secure_and_close(webhook: Webhook, said: bytes) -> None:
    with secure(webhook) as client:
        client.sendall(said)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /mutate HTTP/1.1", 405),
        (b"GET /nothing HTTP/1.1", 404),
        (b"POST /mutate HTTP/1.1", 415),
        (b"NONSENSE", 400),
        (b"GET / HTTP/9.9", 400),
    ],
)
def test_other_requests_are_refused(shared: Webhook, request_line: bytes, status: int) -> None:
    with secure(shared) as client:
        client.sendall(request_line + b"\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        got, text = answered(client)
        assert got == status
        assert b"Traceback" not in text
    assert allowed(shared)


def test_old_tls_is_refused(shared: Webhook) -> None:
    context = ssl.create_default_context(cadata=shared.ca.decode())
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    with plain(shared) as client, pytest.raises(ssl.SSLError):
        context.wrap_socket(client, server_hostname="localhost")


def test_a_bug_is_a_500_and_the_pod_stays_secret(tmp_path: Path) -> None:
    with processes.webhook(tmp_path, "tests.webhook_server:broken()") as webhook:
        with pytest.raises(ProgramError, match="500: internal error"):
            webhook.review(review(pod()))
        (line,) = events(webhook, "failed")
        assert (line["uid"], line["error"]) == (UID, "KeyError")
        assert SECRET not in webhook.program.output.read_text()
        assert 'errors_total{status="500"} 1.0' in webhook.get("/metrics")[1]


# Clients that say nothing, or nonsense, or are slow


def test_idle_and_nonsense_connections_do_not_hold_up_admission(tmp_path: Path) -> None:
    with processes.webhook(tmp_path, threads=2) as webhook, ExitStack() as open_ones:
        for _ in range(20):
            open_ones.enter_context(plain(webhook))
            open_ones.enter_context(secure(webhook))
            half = open_ones.enter_context(plain(webhook))
            half.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")  # a ClientHello's begin
            probe = open_ones.enter_context(plain(webhook))
            probe.sendall(b"GET / HTTP/1.0\r\n\r\n")
            done = open_ones.enter_context(secure(webhook))
            done.sendall(b"GET /livez HTTP/1.0\r\n\r\n")  # and never closes
        for _ in range(20):
            begin = time.monotonic()
            assert allowed(webhook)
            assert time.monotonic() - begin < SOON
        assert len(restarts(webhook)) == 1
        assert {line["level"] for line in webhook.program.lines()} == {"info"}


def restarts(webhook: Webhook) -> list[dict[str, Any]]:
    return [line for line in webhook.program.lines() if line["event"].startswith("Booting worker")]


def test_requests_that_dawdle_do_not_hold_up_admission(tmp_path: Path) -> None:
    with processes.webhook(tmp_path, threads=2) as webhook, ExitStack() as open_ones:
        for said in (
            *(b"P", HEAD, post()[:-1], HEAD + b"Content-Length: 60000\r\n\r\n" + b" " * 50_000)
            * 10,
            *(CHUNKED, HEAD + b"Content-Length: 999999\r\n\r\n{", HEAD + b"Expect: x\r\n\r\n") * 10,
        ):
            open_ones.enter_context(secure(webhook)).sendall(said)
        for _ in range(10):
            begin = time.monotonic()
            assert allowed(webhook)
            assert time.monotonic() - begin < SOON


def test_long_bodies_that_dawdle_hold_up_no_long_review(tmp_path: Path) -> None:
    """Neither those that say how long they are, nor those in pieces, which wait in threads."""
    big = pod({}, annotations={"example.com/note": "x" * 2**20})
    with processes.webhook(tmp_path) as webhook, ExitStack() as open_ones:
        for said in (HEAD + b"Content-Length: 999999\r\n\r\n{", CHUNKED, CHUNKED + b"5\r\nab"):
            for _ in range(10):
                open_ones.enter_context(secure(webhook)).sendall(said)
        for _ in range(3):
            begin = time.monotonic()
            assert webhook.review(review(big))["response"]["allowed"]
            assert time.monotonic() - begin < SOON


def test_long_bodies_that_dawdle_make_room_for_others(tmp_path: Path) -> None:
    """There is memory for a number of them; then the one that has been slowest has to go."""
    part = HEAD + b"Content-Length: %d\r\n\r\n" % MAX_BODY + b" " * (MAX_BODY - 1)
    with processes.webhook(tmp_path) as webhook, ExitStack() as open_ones:
        slow = [open_ones.enter_context(secure(webhook)) for _ in range(HELD // MAX_BODY + 3)]
        for client in slow:
            client.sendall(part)
        assert webhook.review(review(pod({}, annotations={"a": "x" * 2**20})))
        first, last = slow[0], slow[-1]
        assert first.recv(1) == b""
        last.sendall(b" ")
        assert answered(last)[0] == 400  # it is no JSON, but it was read
        assert allowed(webhook)


def test_when_there_are_too_many_connections_idle_ones_make_room(tmp_path: Path) -> None:
    with processes.webhook(tmp_path) as webhook, ExitStack() as open_ones:
        for open_one in (secure, plain):
            for _ in range(520):
                open_ones.enter_context(open_one(webhook))
            begin = time.monotonic()
            assert allowed(webhook)
            assert time.monotonic() - begin < SOON


def test_requests_in_a_row_on_one_connection_are_all_answered(shared: Webhook) -> None:
    with secure(shared) as client:
        client.sendall(post() + post())
        said = b""
        while said.count(b'"allowed":true') < 2:
            more = client.recv(2**16)
            assert more, said
            said += more


def test_a_request_in_many_pieces_is_one(shared: Webhook) -> None:
    body = post(review(pod(annotations={"a": "x" * 500_000})))
    for said, size in ((post(), 37), (body, 50_000)):
        with secure(shared) as client:
            for start in range(0, len(said), size):
                client.sendall(said[start : start + size])
                time.sleep(0.01)
            assert json.loads(answered(client)[1])["response"]["allowed"]


def test_a_request_that_dawdles_is_given_up(tmp_path: Path) -> None:
    application = "tests.webhook_server:impatient()"
    with processes.webhook(tmp_path, application, threads=2) as webhook, ExitStack() as open_ones:
        slow = [open_ones.enter_context(secure(webhook)) for _ in range(4)]
        for client, said in zip(slow, (b"POST", HEAD, CHUNKED, post()[:-1]), strict=True):
            client.sendall(said)
        begin = time.monotonic()
        assert allowed(webhook)
        # Four times a second for two threads.
        assert time.monotonic() - begin < 2 + SOON
        # Bytes that drip do not extend it.
        with secure(webhook) as client:
            assert until_cut(client, b"X", 100, pause=0.1) < 50
        assert allowed(webhook)
        assert not [line for line in webhook.program.lines() if line["level"] == "error"]


# Certificates


def serial(webhook: Webhook) -> Any:
    """Return what tells the certificate that is being served from others."""
    with plain(webhook) as client:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(client) as tls:
            return tls.getpeercert(binary_form=True)


def test_a_new_pair_is_served_without_a_restart(tmp_path: Path) -> None:
    with processes.webhook(tmp_path) as webhook:
        kept = webhook.connect()
        kept.request("GET", "/livez")
        assert kept.getresponse().read() == b"ok\n"
        before = serial(webhook)
        assert serial(webhook) == before
        authority, pair = certificates()
        write_pair(tmp_path / "tls", pair)
        assert serial(webhook) != before
        renewed = Webhook(webhook.program, webhook.port, authority.certificate)
        assert allowed(renewed)
        with pytest.raises(ssl.SSLCertVerificationError):
            allowed(webhook)
        kept.request("GET", "/livez")
        assert kept.getresponse().read() == b"ok\n"
        kept.close()
        assert len(restarts(webhook)) == 1
        assert len(events(webhook, "certificate loaded")) == 2


@pytest.mark.parametrize("harm", ["half a certificate", "half a key", "another key", "no files"])
def test_a_bad_pair_changes_nothing_until_a_good_one_comes(tmp_path: Path, harm: str) -> None:
    with processes.webhook(tmp_path) as webhook:
        before = serial(webhook)
        certificate, key = tmp_path / "tls/tls.crt", tmp_path / "tls/tls.key"
        authority, pair = certificates()
        match harm:
            case "half a certificate":
                certificate.write_bytes(pair.certificate[:300])
            case "half a key":
                key.write_bytes(key.read_bytes()[:100])
            case "another key":
                key.write_bytes(pair.key)
            case "no files":
                certificate.unlink()
                key.unlink()
        for _ in range(3):
            assert serial(webhook) == before
        assert allowed(webhook)
        assert len(events(webhook, "certificate unusable")) == (harm != "no files")
        write_pair(tmp_path / "tls", pair)
        assert serial(webhook) != before
        assert allowed(Webhook(webhook.program, webhook.port, authority.certificate))


def test_it_waits_for_its_first_certificate(tmp_path: Path) -> None:
    elsewhere = tmp_path / "later"
    with processes.webhook(tmp_path, wait=False, tls_dir=elsewhere) as webhook:
        webhook.program.wait_until(lambda: bool(events(webhook, "waiting for the certificate")))
        with pytest.raises(ConnectionRefusedError):
            plain(webhook)
        elsewhere.mkdir()
        (elsewhere / "tls.crt").write_bytes((tmp_path / "tls/tls.crt").read_bytes())
        (elsewhere / "tls.key").write_bytes(b"")
        time.sleep(0.5)
        with pytest.raises(ConnectionRefusedError):
            plain(webhook)
        (elsewhere / "tls.key").write_bytes((tmp_path / "tls/tls.key").read_bytes())
        webhook.program.wait_until(webhook.ready)
        assert allowed(webhook)
        assert len(events(webhook, "waiting for the certificate")) == 1


def served_end(webhook: Webhook) -> float:
    _, text = webhook.get("/metrics")
    name = "milligpu_webhook_certificate_not_after_timestamp_seconds"
    (value,) = (line.split()[1] for line in text.splitlines() if line.startswith(f"{name} "))
    return float(value)


def test_readiness_and_a_metric_tell_the_end_of_what_is_served(tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    authority = issue.ca(issue.fresh(now), timedelta(days=1))
    with processes.webhook(tmp_path) as webhook:

        def serve(end: datetime) -> Webhook:
            pair = issue.leaf(issue.fresh(now), end - now, authority, [processes.HOST])
            write_pair(tmp_path / "tls", pair)
            return Webhook(webhook.program, webhook.port, authority.certificate)

        end = now + timedelta(hours=5)
        good = serve(end)
        status, text = good.get("/readyz")
        assert status == 200
        assert f" to {end:%Y-%m-%dT%H:%M:%SZ}, and" in text
        assert served_end(good) == end.timestamp()
        # What lies in the folder and is not served counts for nothing.
        (tmp_path / "tls/tls.key").write_bytes(b"")
        assert good.get("/readyz")[0] == 200
        assert served_end(good) == end.timestamp()

        with closing(good.connect()) as kept:
            kept.request("GET", "/livez")
            assert kept.getresponse().read() == b"ok\n"
            brief = serve(datetime.now(UTC) + timedelta(seconds=4))
            assert brief.get("/readyz")[0] == 200
            assert served_end(brief) < end.timestamp()
            time.sleep(4)
            kept.request("GET", "/readyz")
            response = kept.getresponse()
            assert response.status == 503
            assert response.read().startswith(b"not ready: the served certificate ")
            # It goes on with those whom it has.
            kept.request("POST", "/mutate", json.dumps(review(pod())), JSON)
            assert json.loads(kept.getresponse().read())["response"]["allowed"]


def test_it_ends_when_told_to_while_it_waits(tmp_path: Path) -> None:
    with processes.webhook(tmp_path, wait=False, tls_dir=tmp_path / "never") as webhook:
        webhook.program.wait_until(lambda: bool(events(webhook, "waiting for the certificate")))
        assert webhook.program.stop() == 0


# The end


def test_requests_that_run_or_wait_are_answered_after_sigterm(tmp_path: Path) -> None:
    application = "tests.webhook_server:slow()"
    sent = review(pod({}, annotations={"example.com/note": "x" * QUICK}))
    with (
        processes.webhook(tmp_path, application, threads=2) as webhook,
        ThreadPoolExecutor(6) as senders,
    ):
        # Two run, four wait for a thread.
        answers = [senders.submit(webhook.review, sent) for _ in range(6)]
        time.sleep(SLOW_SECONDS / 2)
        assert webhook.program.stop() == 0
        for answer in answers:
            assert answer.result()["response"]["allowed"]
        assert len(events(webhook, "review")) == 6


def test_readiness_ends_before_service_does(tmp_path: Path) -> None:
    with processes.webhook(tmp_path, drain_seconds=3) as webhook:
        kept = webhook.connect()
        kept.request("GET", "/readyz")
        assert kept.getresponse().read().startswith(b"ok: the served certificate ")
        webhook.program.process.send_signal(signal.SIGTERM)
        webhook.program.wait_until(lambda: webhook.get("/readyz") == (503, "not ready: ending\n"))
        assert webhook.get("/livez") == (200, "ok\n")
        assert allowed(webhook)  # on a new connection
        kept.request("POST", "/mutate", json.dumps(review(pod())), JSON)
        response = kept.getresponse()
        assert json.loads(response.read())["response"]["allowed"]
        assert response.will_close
        kept.close()
        assert webhook.program.wait() == 0
        with pytest.raises(ConnectionRefusedError):
            plain(webhook)


# The start


def test_bad_settings_are_all_named_and_nothing_starts(tmp_path: Path) -> None:
    settings: Any = {"port": "x", "threads": 0, "cpus_per_gpu": "many", "colour": "red"}
    with processes.webhook(tmp_path, wait=False, **settings) as webhook:
        assert webhook.program.wait() == 1
        said = webhook.program.output.read_text()
    assert all(f"MILLIGPU_{name.upper()}" in said for name in settings)
    assert "Traceback" not in said


def test_its_process_imports_nothing_that_belongs_to_others(tmp_path: Path) -> None:
    authority, pair = certificates()
    write_pair(tmp_path, pair)
    port = processes.free_port()
    # The interpreter itself tells what is imported, in gunicorn's master and in its worker.
    with processes.running(
        *("-X", "importtime", "-m", "gunicorn", "-c", "python:webhook.gunicorn_conf"),
        output=tmp_path / "imports",
        settings={"tls_dir": tmp_path, "host": "127.0.0.1", "port": port, "drain_seconds": 0},
    ) as program:
        program.wait_until(Webhook(program, port, authority.certificate).ready)
        text = program.output.read_text()
    imported = {name.split(".")[0] for name in re.findall(r"\| +(\S+)$", text, re.MULTILINE)}
    assert {"gunicorn", "flask", "jsonpatch", "webhook"} <= imported
    assert not imported & {"grpc", "google", "kubernetes", "cryptography", "pynvml", "ruamel"}
