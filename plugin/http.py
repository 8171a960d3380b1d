"""`/metrics`, `/healthz` and `/readyz`, on the event loop: an answer shows that it turns."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

import structlog
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0

from plugin.metrics import Metrics
from plugin.node import Node
from plugin.servicer import DevicePlugin

MAX_REQUEST: Final = 8192
"""Bytes of a request's head."""
SECONDS: Final = 2.0
"""How long a client may take."""

log = structlog.get_logger()


class PortError(Exception):
    """The address cannot be listened on; the message says which and why."""


class Http:
    """Answers GET with what the node and the servicer say of themselves."""

    def __init__(self, node: Node, servicer: DevicePlugin, metrics: Metrics) -> None:
        self._node = node
        self._servicer = servicer
        self._metrics = metrics

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Listen, and give the port. Raises PortError."""
        try:
            server = await asyncio.start_server(self._serve, host or None, port, limit=MAX_REQUEST)
        except OSError as error:
            raise PortError(f"cannot listen for HTTP: {error.strerror}") from error
        async with server:
            yield server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head))
                await writer.drain()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # the client went away, is too slow or no HTTP client
        finally:
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        status, kind, body = self._page(*head.split(b" ", 2)[:2])
        lines = (
            f"HTTP/1.1 {status.value} {status.phrase}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Connection: close",
            "\r\n",
        )
        return "\r\n".join(lines).encode() + body

    def _page(self, method: bytes, target: bytes = b"") -> tuple[HTTPStatus, str, bytes]:
        match method, target.split(b"?")[0]:
            case b"GET", b"/metrics":
                return HTTPStatus.OK, CONTENT_TYPE_PLAIN_1_0_0, self._metrics.exposition()
            case b"GET", b"/healthz":
                return self._state(HTTPStatus.OK)
            case b"GET", b"/readyz":
                return self._state(HTTPStatus.OK if self.ready else HTTPStatus.SERVICE_UNAVAILABLE)
        return HTTPStatus.NOT_FOUND, "text/plain", b"/metrics, /healthz or /readyz\n"

    @property
    def ready(self) -> bool:
        """Whether the plugin does all that it can: nothing without cards, else with a listener."""
        return self._node.state == "idle" or (
            self._node.state == "serving" and self._servicer.watchers > 0
        )

    def _state(self, status: HTTPStatus) -> tuple[HTTPStatus, str, bytes]:
        state: dict[str, Any] = {
            "state": self._node.state,
            "notes": self._node.notes,
            "kubelet_listens": self._servicer.watchers > 0,
            "gpus": [
                {"uuid": card.gpu.uuid, "model": card.gpu.model, "fault": card.fault or None}
                for card in self._node.offer.cards
            ],
        }
        return status, "application/json", json.dumps(state).encode() + b"\n"
