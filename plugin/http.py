"""`/metrics`, `/healthz` and `/readyz`, on the event loop: an answer shows that it turns."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from plugin.config import UnusableError
from plugin.metrics import Metrics
from plugin.node import Node
from plugin.offer import used
from plugin.servicer import DevicePlugin

MAX_REQUEST: Final = 8192
"""Bytes of a request's head."""
MAX_CLIENTS: Final = 512
"""Who comes on top of them is hung up on: sockets are needed elsewhere."""
SECONDS: Final = 2.0
"""How long a client may take."""

_Page = tuple[HTTPStatus, str, bytes]


@dataclass(frozen=True, slots=True)
class Http:
    """Answers GET with what the node and the servicer say of themselves."""

    node: Node
    resources: Collection[DevicePlugin[Any]]
    metrics: Metrics
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CLIENTS))

    @asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Listen, and give the port. Raises UnusableError."""
        try:
            server = await asyncio.start_server(self._serve, host or None, port, limit=MAX_REQUEST)
        except OSError as error:
            where = f"{host or 'any address'}, port {port}"
            raise UnusableError(f"cannot listen for HTTP on {where}: {error.strerror}") from error
        async with server:
            yield server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.places.locked():
            writer.transport.abort()
            return
        try:
            async with self.places, asyncio.timeout(SECONDS):
                request = await reader.readuntil(b"\r\n\r\n")
                status, kind, body = self._page(*request.split(b" ", 2)[:2])
                head = (
                    f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                )
                writer.write(head.encode() + body)
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # the client went away, is too slow or no HTTP client; or it is we who end
        finally:
            writer.transport.abort()  # whatever a client that does not read has left

    def _page(self, method: bytes, target: bytes = b"") -> _Page:
        match method, target.split(b"?")[0]:
            case b"GET", b"/metrics":
                return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(self.metrics.registry)
            case b"GET", b"/healthz":
                return self._state(well=True)
            case b"GET", b"/readyz":
                # All that it can do: nothing without cards, else with a kubelet that listens.
                listened = self.node.state == "serving" and self._listens()
                return self._state(well=listened or self.node.state == "idle")
        return HTTPStatus.NOT_FOUND, "text/plain", b"/metrics, /healthz or /readyz\n"

    def _listens(self) -> bool:
        return all(each.watchers > 0 for each in self.resources)

    def _state(self, *, well: bool) -> _Page:
        unknown = {each.unknown for each in self.resources if each.unknown and not each.watchers}
        state = {
            "state": self.node.state,
            "notes": [*self.node.notes, *sorted(unknown)],
            "kubelet_listens": self._listens(),
            "gpus": [
                {
                    "uuid": card.gpu.uuid,
                    "model": card.gpu.model,
                    "fault": card.fault or None,
                    "withdrawn": card.withdrawn or None,
                    "held": used(card.gpu.uuid, self.node.ledger.held),
                }
                for card in self.node.offer.cards
            ],
        }
        status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
        return status, "application/json", json.dumps(state).encode() + b"\n"
