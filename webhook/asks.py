"""What a user asked for, and the grant that it becomes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from vgpu import names, quantity, slots
from webhook.pod import Container, Fault

_ALLOWED = (
    "allowed: a share above 0 and below 1 such as 300m or 0.3, "
    "or, where they are served, whole cards such as 1 or 2"
)


@dataclass(frozen=True, slots=True)
class Ask:
    """An ask as it was written."""

    field: str
    """Path of the field, below the container or below `at`."""
    text: str
    value: Fraction
    at: str | None = None
    """Path of the metadata, for an ask in an annotation."""

    def blame(self, container: Container, text: str) -> Fault:
        """Return a fault of this ask, which is a container's."""
        return Fault(self.at or container.at, self.field, text, container.name)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a container gets: so many of one resource."""

    resource: str
    """`milligpu.io/vgpu` (slots of one card) or `milligpu.io/pgpu` (whole cards)."""
    number: int

    @property
    def is_share(self) -> bool:
        """Whether it is a part of one card."""
        return self.resource == names.COUNT

    @property
    def share(self) -> Fraction:
        """The part of a card, for a share."""
        return slots.share(self.number)

    def __str__(self) -> str:
        return f"{self.resource}: {self.number}"


def shown(value: Any) -> str:
    """Return a value for a message: as written, cut where it is long."""
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def number(value: Any) -> Fraction:
    """Return the exact number of a quantity in JSON, text or number. Raises ValueError."""
    if isinstance(value, str):
        return quantity.parse(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return quantity.parse(str(value))
    raise ValueError("not a quantity")


def read(field: str, value: Any) -> Ask:
    """Read an ask. Raises ValueError with the value and what is allowed."""
    try:
        exact = number(value)
    except ValueError as fault:
        raise ValueError(f"{shown(value)!r}: {fault}; {_ALLOWED}") from fault
    return Ask(field, shown(value), exact)


def read_annotated(at: str, field: str, text: str) -> Ask:
    """Read an ask of an annotation, where `30%` is understood too. Raises ValueError."""
    if not text.endswith("%"):
        return replace(read(field, text), at=at)
    try:
        percent = quantity.plain(text[:-1].rstrip())
    except ValueError as fault:
        allowed = "allowed: a percentage such as 30%"
        raise ValueError(f"{shown(text)!r}: {fault} before %; {allowed}") from fault
    return Ask(field, shown(text), percent / 100, at)


def grant(ask: Ask, *, whole_cards: bool) -> Grant | None:
    """Return the grant of an ask, None for an ask of 0. Raises ValueError where there is none."""
    if ask.value < 0:
        raise ValueError(f"{ask.text} is below 0; {_ALLOWED}")
    if ask.value == 0:
        return None
    if ask.value < 1:
        return Grant(names.COUNT, slots.count(ask.value))
    if ask.value.denominator != 1:
        raise ValueError(f"{ask.text}: above one card only whole numbers; {_ALLOWED}")
    if not whole_cards:
        raise ValueError(
            f"{ask.text}: whole cards are not served here; ask for a share below 1, "
            f"or for {names.NVIDIA_GPU}"
        )
    return Grant(names.WHOLE, int(ask.value))


def rounding(ask: Ask, granted: Grant | None) -> str | None:
    """Return the warning for an ask that is no whole number of slots."""
    if granted is None or not granted.is_share or granted.share == ask.value:
        return None
    share = quantity.decimal(granted.share, 2)
    slots_of = "slot" if granted.number == 1 else "slots"
    return f"{ask.text} is rounded up to {granted.number} {slots_of} ({share} of a card)"


def by_name(text: str) -> dict[str, str]:
    """Read an annotation's value: `300m` as {"": "300m"}, `a=500m,b=100m` by container name.

    Raises ValueError for mixed forms, empty parts and a name that comes twice.
    """
    if "=" not in text:
        return {"": text.strip()}
    parts: dict[str, str] = {}
    for part in text.split(","):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not (name and sign and value):
            fault = f"{shown(part)!r} is not of the form container=value"
            raise ValueError(f"{shown(text)!r}: {fault}")
        if name in parts:
            raise ValueError(f"{shown(text)!r}: names {shown(name)!r} twice; name it once")
        parts[name] = value
    return parts


def main_container(
    candidates: Sequence[Container], holders: Sequence[Container], default: str | None
) -> tuple[Container | None, bool]:
    """Choose the container that an annotation without a name means.

    `holders` are those that hold this ask or its grant already; `default` is the value of
    kubectl's default-container annotation. The second value is whether it was a guess.
    """
    if holders:
        return holders[0], False
    for container in candidates:
        if container.name == default:
            return container, False
    if not candidates:
        return None, False
    return candidates[0], len(candidates) > 1
