"""What tests of the webhook share: reviews, raw connections, and builds with a fault inside."""

import json
import socket
import ssl
import time
from typing import Any

from flask import Flask

from milligpu.processes import HOST, Webhook
from vgpu import names
from webhook import worker
from webhook.admission import Answer, answer
from webhook.app import create_app
from webhook.config import Config
from webhook.metrics import Metrics

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
SECRET = "a-password-in-the-pod"
SLOW_SECONDS = 1.0
JSON = {"Content-Type": "application/json"}


def pod(resources: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """Return a pod of one container that asks for 300m, unless told otherwise."""
    container = {
        "name": "main",
        "image": "example.com/app:1",
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "resources": {"limits": {names.ASK: "300m"}} if resources is None else resources,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "trainer", "namespace": "default", **metadata},
        "spec": {"containers": [container]},
    }


def review(document: dict[str, Any], **request: Any) -> dict[str, Any]:
    """Return the AdmissionReview of a pod's creation; `request` replaces fields."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": UID,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "name": document["metadata"].get("name", ""),
            "namespace": "default",
            "operation": "CREATE",
            "object": document,
            "oldObject": None,
            "dryRun": False,
            **request,
        },
    }


def plain(webhook: Webhook) -> socket.socket:
    """Return a TCP connection on which nothing was said."""
    return socket.create_connection((HOST, webhook.port), timeout=30)


def secure(webhook: Webhook) -> ssl.SSLSocket:
    """Return a TLS connection on which nothing was said."""
    context = ssl.create_default_context(cadata=webhook.ca.decode())
    return context.wrap_socket(plain(webhook), server_hostname=HOST)


def post(document: Any = None) -> bytes:
    """Return the bytes of a request with a review; by default of a pod that asks for 300m."""
    body = json.dumps(review(pod()) if document is None else document).encode()
    head = "POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


# Applications for gunicorn, as in "tests.webhook_server:slow()".


def slow() -> Flask:
    """Build a webhook that takes a second."""

    def decide(document: object, config: Config) -> Answer:
        time.sleep(SLOW_SECONDS)
        return answer(document, config)

    return create_app(Config(), Metrics(), lambda: (not worker.draining.is_set(), "ending"), decide)


def broken() -> Flask:
    """Build a webhook with a bug; its exception quotes the pod."""
    return create_app(Config(), Metrics(), decide=_broken)


def _broken(document: Any, config: Config) -> Answer:
    raise KeyError(f"no such thing in {document}")


def impatient() -> Flask:
    """Build a webhook with a short deadline for requests."""
    worker.REQUEST_SECONDS = worker.ARRIVAL_SECONDS = 1.0
    return create_app(Config(), Metrics())
