"""What people see when the webhook is not asked, or does not answer well (the page's messages)."""

import base64
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from certs import issue
from milligpu import processes
from milligpu.processes import HOST
from tests.cluster import pki, shapes, webhooks
from tests.cluster.api import Json
from tests.cluster.controlplane import ControlPlane, control_plane
from tests.cluster.eventually import eventually
from tests.cluster.https import serving
from tests.cluster.shapes import holding
from tests.cluster.symptoms import annotated, model, said, symptom
from vgpu import names

pytestmark = pytest.mark.apiserver

Message = re.Pattern[str]
DAY = timedelta(days=1)


def requesting(requests: Json, limits: Json) -> Json:
    body = {"name": "main", "resources": {"requests": requests, "limits": limits}}
    return shapes.pod("model", body)


# Nobody has turned the ask into a count.


UNKNOWN = symptom(
    'limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified'
)
NO_STANDARD = symptom("must be a standard resource for containers")
FRACTION = symptom('Invalid value: "300m": must be an integer')
NO_LIMIT = symptom("Limit must be set for non overcommitable resources")
DIFFERENT = symptom("must be equal to milligpu.io/vgpu limit of 40")


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (model(), UNKNOWN),
        (model(), NO_STANDARD),
        (model(**{names.NVIDIA_GPU: "300m"}), FRACTION),
        (model(**{names.ASK_QUALIFIED: "300m"}), FRACTION),
        (requesting({names.COUNT: "30"}, {}), NO_LIMIT),
        (requesting({names.COUNT: "30"}, {names.COUNT: "40"}), DIFFERENT),
    ],
)
@pytest.mark.parametrize("kind", ["Pod", "CronJob"])
def test_where_the_webhook_is_not_asked_the_api_server_refuses(
    apiserver: ControlPlane, namespace: str, kind: str, obj: Json, message: Message
) -> None:
    assert message.search(said(apiserver, namespace, holding(kind, obj)))


def test_where_the_webhook_is_not_asked_an_annotation_has_no_effect(
    apiserver: ControlPlane, namespace: str
) -> None:
    """And nobody says so, as the page warns."""
    done = apiserver.kubectl(
        "apply", "-n", namespace, "-f", "-", stdin=json.dumps(annotated("300m"))
    )
    assert done.stderr == ""
    made = apiserver.api.read(annotated("300m"), namespace)
    assert "limits" not in made["spec"]["containers"][0].get("resources", {})


def test_a_webhook_configuration_that_is_gone(apiserver: ControlPlane) -> None:
    name = names.WEBHOOK_CONFIGURATION
    done = apiserver.kubectl("get", "mutatingwebhookconfiguration", name, check=False)
    message = symptom(
        'mutatingwebhookconfigurations.admissionregistration.k8s.io "milligpu" not found'
    )
    assert message.search(done.stderr)


# It cannot be reached, or is somebody else.


@contextmanager
def calling(plane: ControlPlane, client: Json) -> Iterator[None]:
    """Have the API server call the webhook at another place, or trust somebody else."""
    config = webhooks.configuration("https://localhost:1", b"")
    for entry in config["webhooks"]:
        entry["clientConfig"] = client
    plane.api.create(config)
    try:
        yield
    finally:
        plane.api.delete(config)


def trusting(url: str, ca: bytes) -> Json:
    return {"url": url, "caBundle": base64.b64encode(ca).decode()}


def refused(plane: ControlPlane, namespace: str, client: Json, message: Message) -> None:
    """Hold what a pod with an ask gets to a message, and that one without gets none."""
    with calling(plane, client):
        look = lambda: message.search(said(plane, namespace, model(), "create"))  # noqa: E731
        eventually(look, message.pattern, 20)
        plain = shapes.pod("plain", {"name": "main"})
        plane.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(plain))


@contextmanager
def certified(folder: Path, born: datetime, *served_as: str) -> Iterator[tuple[str, bytes]]:
    """Run a webhook with a certificate of a day; give its URL and whom to trust."""
    authority = issue.ca(issue.fresh(born), DAY * 30)
    pair = issue.leaf(issue.fresh(born), DAY, authority, served_as)
    with processes.webhook(folder) as started:
        processes.write_pair(folder / "tls", pair)
        yield started.url, authority.certificate


def test_a_ca_that_is_another_one(apiserver: ControlPlane, namespace: str, tmp_path: Path) -> None:
    message = symptom("x509: certificate signed by unknown authority")
    other = processes.certificates()[0]
    with certified(tmp_path, datetime.now(UTC), HOST) as (url, _):
        refused(apiserver, namespace, trusting(url, other.certificate), message)


def test_no_ca_at_all(apiserver: ControlPlane, namespace: str, tmp_path: Path) -> None:
    message = symptom("x509: certificate signed by unknown authority")
    with certified(tmp_path, datetime.now(UTC), HOST) as (url, _):
        refused(apiserver, namespace, {"url": url}, message)


def test_a_certificate_that_has_ended(
    apiserver: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    message = symptom(
        "x509: certificate has expired or is not yet valid: current time ... is after"
    )
    with certified(tmp_path, datetime.now(UTC) - 3 * DAY, HOST) as (url, ca):
        refused(apiserver, namespace, trusting(url, ca), message)


def test_a_certificate_of_somebody_else(
    apiserver: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    message = symptom("x509: certificate is valid for ..., not")
    with certified(tmp_path, datetime.now(UTC), "elsewhere.svc") as (url, ca):
        refused(apiserver, namespace, trusting(url, ca), message)


def test_nobody_listens(apiserver: ControlPlane, namespace: str) -> None:
    url = f"https://127.0.0.1:{processes.free_port()}/mutate"
    refused(apiserver, namespace, trusting(url, b""), symptom("connect: connection refused"))


def test_somebody_listens_and_says_nothing(apiserver: ControlPlane, namespace: str) -> None:
    """As where a firewall drops what the API server sends to the webhook's port."""
    message = symptom('failed calling webhook "pods.milligpu.io": ...: context deadline exceeded')
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/mutate"
        refused(apiserver, namespace, trusting(url, b""), message)


def test_somebody_hangs_up(apiserver: ControlPlane, namespace: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=hang_up, daemon=True).start()
        url = f"https://127.0.0.1:{server.getsockname()[1]}/mutate"
        refused(apiserver, namespace, trusting(url, b""), symptom('mutate?timeout=5s": EOF'))
        server.shutdown(socket.SHUT_RDWR)


class Broken(BaseHTTPRequestHandler):
    """Answers as our webhook does when it meets a bug of its own."""

    def do_POST(self) -> None:
        self.send_error(500)

    def log_message(self, *_: object) -> None:
        pass


def test_an_error_of_ours(apiserver: ControlPlane, namespace: str, tmp_path: Path) -> None:
    ca = pki.authority()
    message = symptom('an error on the server ("...") has prevented the request from succeeding')
    with serving(Broken, pki.issue(ca, "127.0.0.1"), tmp_path) as url:
        refused(apiserver, namespace, trusting(f"{url}/mutate", ca.certificate), message)


def test_the_service_is_away_or_has_no_pods() -> None:
    """By an API server that reaches Services by their pods, as those of many clouds do."""
    service: Json = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": names.SERVICE, "namespace": names.NAMESPACE},
        "spec": {"ports": [{"port": 443}], "selector": {"a": "b"}},
    }
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.NAMESPACE}}
    reference = {"name": names.SERVICE, "namespace": names.NAMESPACE, "path": "/mutate"}
    with control_plane(extra=("--enable-aggregator-routing=true",)) as plane:
        message = symptom('service "webhook" not found')
        refused(plane, "default", {"service": reference}, message)
        plane.api.delete(shapes.pod("plain", {"name": "main"}))
        plane.api.create(space)
        plane.api.create(service)
        message = symptom('no endpoints available for service "webhook"')
        refused(plane, "default", {"service": reference}, message)
