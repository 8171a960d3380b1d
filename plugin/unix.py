"""Unix sockets as gRPC wants them named."""

from pathlib import Path
from typing import Final
from urllib.parse import quote

AUTHORITY: Final = ("grpc.default_authority", "localhost")
"""Option of a channel: else the escaped path is sent as the authority, which Go servers refuse."""
FRESH: Final = ("grpc.use_local_subchannel_pool", 1)
"""Option of a channel: a new socket at an old path is not the server that was there before."""


def address(socket: Path) -> str:
    """Return the target by which gRPC serves or finds a socket."""
    return f"unix:{quote(str(socket))}"
