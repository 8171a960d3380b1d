"""What is asked of us."""

from dataclasses import dataclass

from webhook.pod import Json

MAX_BODY = 7 * 2**20
"""Longest review, in bytes: it may hold two objects of 3 MiB, the API server's own limit."""


@dataclass(frozen=True, slots=True)
class Review:
    """An object on its way into the cluster."""

    group: str
    kind: str
    object: Json
    old: Json | None
    """The stored object on UPDATE, None on CREATE."""
    manager: str = ""
    """The request's field manager, as in managedFields."""
    resource: str = ""
    """The kind's plural name, as in the API's paths; empty where only the kind is known."""
