import contextlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import structlog
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.webhook_server import JSON, SECRET, UID, broken, pod, review
from webhook.admission import Answer, BadReview
from webhook.app import create_app
from webhook.config import Config
from webhook.findings import Code
from webhook.metrics import Metrics
from webhook.review import MAX_BODY


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def client(metrics: Metrics) -> FlaskClient:
    return create_app(Config(), metrics).test_client()


def send(client: FlaskClient, body: bytes | str, content_type: str = JSON["Content-Type"]) -> Any:
    """Send a review and wait until it is logged and counted, which is after the answer."""
    return client.post("/mutate", data=body, content_type=content_type, buffered=True)


def refused(response: TestResponse, status: int) -> str:
    """Check that an answer is a short text, and return it."""
    assert response.status_code == status
    assert response.mimetype == "text/plain"
    assert len(response.text) < 200
    assert response.text.count("\n") == 1
    return response.text


def test_a_review_is_answered(client: FlaskClient) -> None:
    response = send(client, json.dumps(review(pod())))
    assert response.status_code == 200
    assert response.mimetype == "application/json"
    assert response.json["response"]["uid"] == UID
    assert response.json["response"]["patchType"] == "JSONPatch"


def test_a_denial_is_an_answer_like_any_other(client: FlaskClient) -> None:
    response = send(client, json.dumps(review(pod({"limits": {"gpu": "-1"}}))))
    assert response.status_code == 200
    assert response.json["response"]["allowed"] is False


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON"]
)
def test_json_has_several_spellings(client: FlaskClient, content_type: str) -> None:
    assert send(client, json.dumps(review(pod())), content_type).status_code == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/yaml", "application/x", ""])
def test_another_content_type_is_refused(client: FlaskClient, content_type: str) -> None:
    text = refused(send(client, json.dumps(review(pod())), content_type), 415)
    assert "application/json" in text


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/mutate", "POST"),
        ("PUT", "/mutate", "POST"),
        ("DELETE", "/mutate", "POST"),
        ("OPTIONS", "/mutate", "POST"),
        ("POST", "/livez", "GET, HEAD"),
        ("POST", "/metrics", "GET, HEAD"),
    ],
)
def test_another_method_is_refused(
    client: FlaskClient, method: str, path: str, allowed: str
) -> None:
    response = client.open(path, method=method)
    refused(response, 405)
    assert sorted(response.headers["Allow"].split(", ")) == sorted(allowed.split(", "))


@pytest.mark.parametrize("path", ["/", "/static/x", "/mutate/", "/validate", "/debug/pprof"])
def test_nothing_else_is_there(client: FlaskClient, path: str) -> None:
    refused(client.get(path), 404)


@pytest.mark.parametrize("path", ["//mutate", "/mutate/", "/mutate//", "/./mutate", "/MUTATE"])
def test_what_is_nearly_the_path_is_not_there(client: FlaskClient, path: str) -> None:
    """As a webhook configuration's `path` may be mistyped: a bug of ours would be a 500."""
    refused(client.open("http://localhost" + path, method="POST", json=review(pod())), 404)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe{}", "not JSON"),
        (json.dumps(review(pod())).encode("utf-16"), "not JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b"1" * 5000, "not JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b"null", "AdmissionReview"),
        (b"[]", "AdmissionReview"),
        (b'"text"', "AdmissionReview"),
        (b"{}", "AdmissionReview"),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}', "AdmissionReview"),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}', "v1"),
    ],
)
def test_what_is_no_review_is_refused(client: FlaskClient, body: bytes, says: str) -> None:
    assert says in refused(send(client, body), 400)


def test_the_last_of_two_equal_keys_counts(client: FlaskClient) -> None:
    body = json.dumps(review(pod())).replace('"uid":', '"uid": "first", "uid":')
    assert send(client, body).json["response"]["uid"] == UID


@pytest.mark.parametrize("character", ["\N{SNOWMAN}", "\\ud800", "\\u0000"])
def test_any_character_may_stand_in_a_pod(client: FlaskClient, character: str) -> None:
    body = json.dumps(review(pod(annotations={"note": "HERE"}))).replace("HERE", character)
    assert send(client, body.encode()).json["response"]["allowed"] is True


def test_the_longest_body_is_read(client: FlaskClient) -> None:
    text = json.dumps(review(pod()))
    assert send(client, text + " " * (MAX_BODY - len(text))).status_code == 200
    assert "exceeds" in refused(send(client, text + " " * (MAX_BODY - len(text) + 1)), 413)


@pytest.mark.parametrize(
    ("lengths", "together"),
    [
        ([1_000, 1_000_000], True),
        ([1_000, 1_000], True),
        ([1_000_000, 1_000_000], False),
    ],
    ids=["a big and a small one", "small ones", "big ones"],
)
def test_big_bodies_are_thought_about_one_at_a_time(
    metrics: Metrics, lengths: list[int], together: bool
) -> None:
    # A big one made to hurt takes thirty times its length of memory, and time; see webhook/app.py.
    meeting = threading.Barrier(len(lengths))

    def decide(document: object, config: Config) -> Answer:
        with contextlib.suppress(threading.BrokenBarrierError):
            meeting.wait(5 if together else 0.2)
        raise BadReview("none")

    app = create_app(Config(), metrics, decide=decide)
    bodies = [b" " * length + b"{}" for length in lengths]
    with ThreadPoolExecutor(len(lengths)) as senders:
        answers = list(senders.map(lambda body: send(app.test_client(), body), bodies))
    assert {response.status_code for response in answers} == {400}
    assert meeting.broken is not together


def test_a_review_too_deep_for_the_decision_is_the_senders_fault(metrics: Metrics) -> None:
    client = create_app(Config(), metrics, decide=_recurse).test_client()
    assert "nested too deeply" in refused(send(client, "{}"), 400)


def _recurse(document: object, config: Config) -> Answer:
    return _recurse(document, config)


def test_a_bad_review_says_what_is_wrong(metrics: Metrics) -> None:
    def decide(document: object, config: Config) -> Answer:
        raise BadReview("request.uid is missing")

    client = create_app(Config(), metrics, decide=decide).test_client()
    assert refused(send(client, "{}"), 400) == "request.uid is missing\n"


def test_a_bug_is_a_500_that_tells_the_log_where_and_nobody_what() -> None:
    client = broken().test_client()
    with structlog.testing.capture_logs() as logs:
        text = refused(send(client, json.dumps(review(pod()))), 500)
    assert "Traceback" not in text
    assert "KeyError" not in text
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("failed", "error")
    assert (line["uid"], line["error"]) == (UID, "KeyError")
    assert line["traceback"][-1].endswith("_broken")
    assert SECRET not in str(line)
    assert 'milligpu_webhook_errors_total{status="500"} 1.0' in client.get("/metrics").text


@pytest.mark.parametrize("document", [[], {}, {"request": None}, {"request": {"uid": 7}}])
def test_a_bug_with_an_odd_review_is_a_500_too(document: Any) -> None:
    refused(send(broken().test_client(), json.dumps(document)), 500)


def test_readiness_is_asked_each_time(metrics: Metrics) -> None:
    answers = iter([(True, "ok"), (False, "not ready: ending")])
    client = create_app(Config(), metrics, ready=lambda: next(answers)).test_client()
    assert client.get("/readyz").text == "ok\n"
    refused(client.get("/readyz"), 503)
    assert client.get("/livez").text == "ok\n"


def test_one_line_per_review_says_what_was_decided(metrics: Metrics) -> None:
    result = Answer(
        body={"secret": SECRET},
        verdict="changed",
        uid=UID,
        operation="UPDATE",
        kind="Job",
        namespace="default",
        name="trainer-",
        dry_run=True,
        operations=3,
        warnings=("one", SECRET),
    )
    client = create_app(Config(), metrics, decide=lambda *_: result).test_client()
    with structlog.testing.capture_logs() as logs:
        send(client, "{}")
    (line,) = logs
    assert line.pop("ms") >= 0
    assert line == {
        "event": "review",
        "log_level": "info",
        "uid": UID,
        "operation": "UPDATE",
        "kind": "Job",
        "namespace": "default",
        "name": "trainer-",
        "verdict": "changed",
        "ops": 3,
        "dry_run": True,
        "warnings": 2,
    }


def test_a_name_cannot_fill_the_log(client: FlaskClient) -> None:
    with structlog.testing.capture_logs() as logs:
        send(client, json.dumps(review(pod(), uid="u" * 10_000, namespace="n" * 10_000)))
    (line,) = logs
    assert len(line["uid"]) == len(line["namespace"]) == 253


def test_a_refusal_is_logged_without_the_body(client: FlaskClient) -> None:
    with structlog.testing.capture_logs() as logs:
        send(client, f'{{"password": "{SECRET}"')
    (line,) = logs
    assert (line["event"], line["log_level"], line["status"]) == ("refused", "warning", 400)
    assert SECRET not in str(line)


def series(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


@pytest.mark.parametrize(
    ("document", "labels"),
    [
        (review(pod()), {"verdict": "changed"}),
        (review(pod({})), {"verdict": "unchanged"}),
        (review(pod({"limits": {"gpu": "x"}})), {"verdict": "denied"}),
        (review(pod(), dryRun=True), {"verdict": "changed", "dry_run": "true"}),
        (
            review(pod({}), kind={"group": "x.io", "version": "v1", "kind": "Made-up"}),
            {"verdict": "unchanged", "kind": "other"},
        ),
        (review(pod({}), operation="CONNECT"), {"verdict": "unchanged", "operation": "other"}),
    ],
    ids=["changed", "unchanged", "denied", "dry run", "unknown kind", "unknown operation"],
)
def test_reviews_are_counted_by_a_closed_set_of_labels(
    client: FlaskClient, metrics: Metrics, document: dict[str, Any], labels: dict[str, str]
) -> None:
    assert send(client, json.dumps(document)).status_code == 200
    all_labels = {"operation": "CREATE", "kind": "Pod", "dry_run": "false", **labels}
    assert series(metrics, "milligpu_webhook_reviews_total", **all_labels) == 1
    assert series(metrics, "milligpu_webhook_review_seconds_count") == 1


@pytest.mark.parametrize(
    ("asks", "counted"),
    [
        ({"gpu": "300m", "cpu": "1"}, {}),
        ({"gpu": "333m", "cpu": "1"}, {"rounded": "note"}),
        ({"gpu": "-1"}, {"ask": "error"}),
        ({"gpu": "300m", "milligpu.io/gpu": "100m"}, {"conflict": "error"}),
    ],
)
def test_what_is_said_is_counted_by_its_code(
    client: FlaskClient, metrics: Metrics, asks: dict[str, str], counted: dict[str, str]
) -> None:
    send(client, json.dumps(review(pod({"limits": asks}))))
    (family,) = [each for each in metrics.registry.collect() if each.name.endswith("_findings")]
    series = [each for each in family.samples if each.name.endswith("_total")]
    seen = {each.labels["code"]: each.labels["level"] for each in series if each.value == 1}
    assert seen == counted
    assert {each.labels["code"] for each in series} == {code.label for code in Code}
    assert sum(each.value for each in series) == len(counted)


def test_refusals_are_counted_by_status(client: FlaskClient, metrics: Metrics) -> None:
    send(client, "{")
    send(client, "{}", "text/plain")
    client.get("/mutate")
    for status in ("400", "415", "405"):
        assert series(metrics, "milligpu_webhook_errors_total", status=status) == 1
    assert series(metrics, "milligpu_webhook_review_seconds_count") == 0
