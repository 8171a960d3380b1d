"""The HTTP side: a review comes in at /mutate and its answer goes out; nothing is decided here."""

import json
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from typing import Any, NoReturn
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import structlog
from flask import Flask, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from werkzeug import exceptions
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as AnyResponse
from werkzeug.wsgi import ClosingIterator

from webhook.admission import Answer, BadReview, answer
from webhook.config import Config
from webhook.metrics import Metrics
from webhook.pod import encode
from webhook.review import MAX_BODY

_JSON = "application/json"
# A body made to hurt takes thirty times its length once parsed. One such a time fits into the
# memory of a small container, eight do not; real reviews are seldom longer than this.
_BIG = 64 * 2**10
_one_at_a_time = threading.Lock()
_LONGEST = 253  # characters of a name in Kubernetes; what claims to be one is cut there in the log

log = structlog.get_logger()

Decide = Callable[[object, Config], Answer]


def create_app(
    config: Config,
    metrics: Metrics,
    ready: Callable[[], tuple[bool, str]] = lambda: (True, "ok"),
    decide: Decide = answer,
) -> Flask:
    """Return the WSGI application. `decide` answers a review.

    `ready` tells /readyz whether reviews should come here, and a sentence about it.
    """
    app = Flask("webhook", static_folder=None)
    app.config.update(PROVIDE_AUTOMATIC_OPTIONS=False)
    app.url_map.merge_slashes = False
    app.add_url_rule("/mutate", "mutate", methods=["POST"])  # for what is refused there
    app.add_url_rule("/livez", "livez", lambda: "ok\n")
    app.add_url_rule("/readyz", "readyz", partial(_readyz, ready))
    app.add_url_rule("/metrics", "metrics", partial(_exposition, metrics))
    app.register_error_handler(HTTPException, partial(_refused, metrics))
    others, mutate = app.wsgi_app, partial(_mutate, config, metrics, decide)

    def serve(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """Take reviews past Flask: its routing, contexts and objects are a fifth of their time."""
        is_review = environ["PATH_INFO"] == "/mutate" and environ["REQUEST_METHOD"] == "POST"
        return (mutate(environ) if is_review else others)(environ, start)

    app.wsgi_app = serve  # type: ignore[assignment,method-assign]  # middleware, to Flask
    return app


def _mutate(
    config: Config, metrics: Metrics, decide: Decide, environ: WSGIEnvironment
) -> WSGIApplication:
    try:
        body, start = _read(environ), time.perf_counter()
        with _one_at_a_time if len(body) > _BIG else nullcontext():
            return _answer(body, start, config, metrics, decide)
    except HTTPException as fault:
        return _refused(metrics, fault)


def _answer(
    body: bytes, start: float, config: Config, metrics: Metrics, decide: Decide
) -> WSGIApplication:
    document: object = None
    try:
        document = _parse(body)
        result = decide(document, config)
        text = encode(result.body)
    except BadReview as fault:
        raise exceptions.BadRequest(str(fault)) from fault
    except RecursionError as fault:
        raise exceptions.BadRequest("the review is nested too deeply") from fault
    except Exception as fault:  # noqa: BLE001 - a bug; failurePolicy decides what it means
        return _failed(metrics, document, fault)
    seconds = time.perf_counter() - start
    return _json(text, partial(_tell, metrics, result, seconds))


def _json(text: str, after: Callable[[], None]) -> WSGIApplication:
    """Return a page with a JSON text; `after` is called when it has left."""

    def page(_environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        body = text.encode()
        start("200 OK", [("Content-Type", _JSON), ("Content-Length", str(len(body)))])
        return ClosingIterator([body], after)

    return page


def _readyz(ready: Callable[[], tuple[bool, str]]) -> str:
    is_ready, sentence = ready()
    if not is_ready:
        raise exceptions.ServiceUnavailable(sentence)
    return f"{sentence}\n"


def _exposition(metrics: Metrics) -> Response:
    return Response(generate_latest(metrics.registry), content_type=CONTENT_TYPE_LATEST)


def _read(environ: WSGIEnvironment) -> bytes:
    kind, _, _ = environ.get("CONTENT_TYPE", "").partition(";")
    if kind.strip().lower() != _JSON:
        raise exceptions.UnsupportedMediaType(f"the content type must be {_JSON}")
    length = int(environ.get("CONTENT_LENGTH") or 0)  # of one in chunks nobody knows
    try:
        # The server's stream ends where the body does; Flask would put another around it.
        body: bytes = environ["wsgi.input"].read(MAX_BODY + 1) if length <= MAX_BODY else b""
    except Exception as fault:  # it has kinds of its own: broken chunks, gone
        raise exceptions.BadRequest("the body did not arrive whole") from fault
    if max(length, len(body)) > MAX_BODY:
        raise exceptions.RequestEntityTooLarge
    return body


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# Made once: json.loads with arguments makes a new one each time.
_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _parse(body: bytes) -> object:
    # Of a key that is there twice the last one counts, as it does for the API server.
    try:
        return _decode(body.decode())
    except ValueError as fault:
        raise BadReview(f"the body is not JSON: {fault}") from fault


def _refused(metrics: Metrics, fault: HTTPException) -> AnyResponse:
    metrics.refused(fault.code or 500)
    log.warning("refused", status=fault.code, reason=fault.description)
    response = fault.get_response()  # has the headers, such as Allow; its text would be HTML
    response.set_data(f"{fault.description}\n")
    response.mimetype = "text/plain"
    return response


def _failed(metrics: Metrics, document: object, fault: Exception) -> Response:
    """Answer for a bug. An exception's text may quote the pod: the log gets only where it arose."""
    metrics.refused(500)
    frames = traceback.extract_tb(fault.__traceback__)
    where = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    log.error("failed", uid=_uid(document), error=type(fault).__name__, traceback=where)
    text = "internal error: the log has it by the review's uid\n"
    return Response(text, 500, mimetype="text/plain")


def _uid(document: Any) -> str:
    try:
        return str(document["request"]["uid"])[:_LONGEST]
    except (TypeError, KeyError):
        return ""


def _tell(metrics: Metrics, result: Answer, seconds: float) -> None:
    """Count and log an answer, for which the API server need not wait."""
    metrics.reviewed(result, seconds)
    log.info(
        "review",
        uid=result.uid[:_LONGEST],
        operation=result.operation[:_LONGEST],
        kind=result.kind[:_LONGEST],
        namespace=result.namespace[:_LONGEST],
        name=result.name[:_LONGEST],
        verdict=result.verdict,
        ops=result.operations,
        ms=round(seconds * 1000, 3),
        dry_run=result.dry_run,
        warnings=len(result.warnings),
    )
