"""The webhook's Service on an API server without nodes: does it trust the pair in the Secret?

The Service is an ExternalName one that leads to a server on loopback, so that the API server calls
it by the name, and judges its certificate by the caBundle, as in any cluster.
"""

import base64
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from certs.model import KeyPair
from milligpu.processes import write_pair
from tests.cluster import webhooks
from tests.cluster.api import ApiError, Json
from tests.cluster.controlplane import ControlPlane
from vgpu import names
from webhook.admission import answer
from webhook.config import Config
from webhook.tls import Certificate


class _Reviews(BaseHTTPRequestHandler):
    """Answers one review a connection, so that each has its handshake."""

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(answer(document, Config()).body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name above
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False

    def __init__(self, certificate: Certificate) -> None:
        super().__init__(("127.0.0.1", 0), _Reviews)
        self.certificate = certificate

    def get_request(self) -> tuple[socket.socket, Any]:
        client, address = super().get_request()
        context = self.certificate.context()
        if context is None:  # before the first pair the webhook does not even listen
            client.close()
            raise OSError("no certificate yet")
        # The handshake is the handler's thread's affair.
        return context.wrap_socket(client, True, do_handshake_on_connect=False), address

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that do not trust us."""


@dataclass(frozen=True, slots=True)
class Service:
    """The Service, and the folder that stands for the volume of its pods."""

    plane: ControlPlane
    certificate: Certificate
    port: int

    def configuration(self) -> Json:
        """Return the webhook configuration that is shipped, but for the Service's port."""
        documents = YAML(typ="safe").load_all(webhooks.SHIPPED)
        (found,) = [each for each in documents if each and each["kind"] == webhooks.KIND]
        for entry in found["webhooks"]:
            entry["clientConfig"]["service"]["port"] = self.port
        config: Json = found
        return config

    def secret(self, name: str) -> KeyPair | None:
        """Return a Secret's pair, whatever is in it."""
        try:
            found = self.plane.api.get(f"/api/v1/namespaces/{names.NAMESPACE}/secrets/{name}")
        except ApiError as error:
            if error.code != 404:
                raise
            return None
        data = found.get("data", {})
        return KeyPair(*(base64.b64decode(data.get(key, "")) for key in ("tls.crt", "tls.key")))

    def deliver(self) -> None:
        """Put what the Secret holds into the volume, as a kubelet does."""
        if pair := self.secret(names.SECRET_SERVING):
            write_pair(self.certificate.certificate.parent, pair)

    def call(self) -> str:
        """Have a pod with an ask judged; return why the API server could not, or nothing."""
        self.deliver()
        try:
            webhooks.ask(self.plane)
        except ApiError as error:
            return str(error)
        return ""


@contextmanager
def service(plane: ControlPlane, folder: Path) -> Iterator[Service]:
    """Serve until the block is left. The namespace is there already, the Service is not."""
    certificate = Certificate(folder)
    with _Server(certificate) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        found = Service(plane, certificate, server.server_address[1])
        plane.api.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": names.SERVICE, "namespace": names.NAMESPACE},
                "spec": {"type": "ExternalName", "externalName": "localhost"},
            }
        )
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
