"""What the certificate keeper finds in the cluster, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM; whatever a Secret held, so perhaps unusable."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """A Secret's pair and the version (resourceVersion) that a replacement must name."""

    pair: KeyPair
    version: str
    changed: datetime
    """When it was last changed, by the API server's clock."""


@dataclass(frozen=True, slots=True)
class Bundles:
    """The caBundle of every entry of the webhook configuration, by the entry's name."""

    entries: Mapping[str, bytes]
    version: str
    changed: datetime
    """When the configuration was last changed, by the API server's clock."""


@dataclass(frozen=True, slots=True)
class Held:
    """All that the cluster holds of our business; None for what is not there."""

    ca: Stored | None
    serving: Stored | None
    bundles: Bundles | None
