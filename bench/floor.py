"""The least that an admission webhook can do: read a review, answer a constant."""

import json
from collections.abc import Iterable
from pathlib import Path
from wsgiref.types import StartResponse, WSGIEnvironment

from flask import Flask, Response, request

from webhook.admission import answer
from webhook.config import Config

REVIEW = Path(__file__).with_name("review.json")
"""A pod of 5.2 kB with two containers that ask for 300m, as kube-apiserver 1.36.3 sends it."""

ANSWER = json.dumps(answer(json.loads(REVIEW.read_text()), Config()).body, separators=(",", ":"))

app = Flask("floor", static_folder=None)


@app.post("/mutate")
def mutate() -> Response:
    request.get_data(cache=False)
    return Response(ANSWER, mimetype="application/json")


@app.get("/readyz")
def readyz() -> str:
    return "ok\n"


def bare(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    """Do the same without Flask, which the webhook leaves out for reviews."""
    if environ["PATH_INFO"] != "/mutate":
        return app(environ, start)
    environ["wsgi.input"].read()
    body = ANSWER.encode()
    start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
