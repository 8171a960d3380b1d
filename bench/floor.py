"""The least that an admission webhook in Flask can do: read a review, answer a constant."""

import json
from pathlib import Path

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
