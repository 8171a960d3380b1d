"""What a user asked for, and the grant that it becomes."""

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from vgpu import names, quantity, slots
from webhook.config import Config
from webhook.findings import Code, Finding
from webhook.pod import Container

_PARTS = 1000
_MOST_CARDS = 100  # more than any node has: who asks for 300, or 300M, means 300m


@dataclass(frozen=True, slots=True)
class Grant:
    """What a container gets: so many of one resource."""

    resource: str
    """`milligpu.io/vgpu` (slots of one card) or `milligpu.io/pgpu` (whole cards)."""
    number: int

    @property
    def share(self) -> Fraction | None:
        """The part of one card, None for whole cards."""
        return slots.share(self.number) if self.resource == names.COUNT else None

    def __str__(self) -> str:
        return f"{self.resource}: {self.number}"


@dataclass(frozen=True, slots=True)
class Ask:
    """An ask as it was written."""

    at: str
    """Path of the container, or of the metadata for an ask in an annotation."""
    field: str
    """Rest of the path."""
    text: str
    value: Fraction

    def finding(self, code: Code, container: Container, text: str) -> Finding:
        """Return a finding about this ask, which is a container's."""
        return Finding(code, self.at, self.field, text, container.name)

    @property
    def grant(self) -> Grant | None:
        """What it becomes, if it is not refused; None for an ask of 0."""
        if self.value.numerator >= self.value.denominator:
            return Grant(names.WHOLE, int(self.value))
        return Grant(names.COUNT, slots.count(self.value)) if self.value else None

    def refusals(self, container: Container, had: list[Grant], config: Config) -> list[Finding]:
        """Return why there is no grant for it; nothing if there is. What it `had` is served."""
        value, code = self.value, Code.ASK
        if 0 <= value.numerator < value.denominator:  # a share; to compare a Fraction takes longer
            return []
        text = f"{self.text} is not allowed; {_allowed(config)}"
        if value > _MOST_CARDS:
            text = f"{self.text} is more than {_MOST_CARDS} cards; {_allowed(config)}"
        elif value.denominator == 1 and value > 0:
            if config.whole_cards or self.grant in had:
                return []
            other = f"ask for a share below 1, or for {names.NVIDIA_GPU}"
            code, text = Code.WHOLE_CARDS, f"{self.text}: whole cards are not served here; {other}"
        return [self.finding(code, container, text)]

    def rounding(self, container: Container) -> list[Finding]:
        """Return what to say of a share that is no whole number of slots; nothing of others."""
        if slots.PER_CARD % self.value.denominator == 0:
            return []
        number = slots.count(self.value)
        part = f"{number} {'slot' if number == 1 else 'slots'} ({slots.decimal(number)} of a card)"
        return [self.finding(Code.ROUNDED, container, f"{self.text} is rounded up to {part}")]


def shown(value: Any) -> str:
    """Return a value for a message: as written, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def number(value: Any) -> Fraction | None:
    """Return the number of a quantity in JSON, text or number; None if it is none.

    It is rounded up to thousandths and null is 0, as an API server reads it.
    """
    try:
        return _number(value)
    except ValueError:
        return None


def _number(value: Any) -> Fraction:
    if isinstance(value, str | int | float | None) and not isinstance(value, bool):
        exact = quantity.parse("0" if value is None else str(value))
        if _PARTS % exact.denominator == 0:  # as nearly always
            return exact
        return Fraction(-(-exact.numerator * _PARTS // exact.denominator), _PARTS)
    raise ValueError("not a quantity")


def _allowed(config: Config) -> str:
    whole = ", or whole cards such as 1 or 2" if config.whole_cards else ""
    return f"allowed: a share above 0 and below 1 such as 300m or 0.3{whole}"


def read(at: str, field: str, value: Any, config: Config) -> Ask:
    """Read an ask. Raises ValueError with the value and what is allowed."""
    text = shown(value)
    try:
        return Ask(at, field, text, _number(value))
    except ValueError as fault:
        why = "a percentage is for the annotation only" if text.endswith("%") else fault
        raise ValueError(f"{text!r}: {why}; {_allowed(config)}") from fault


def read_annotated(at: str, config: Config, text: str) -> Ask:
    """Read an ask of an annotation, where `30%` is understood too. Raises ValueError."""
    field = f"annotations[{names.ANNOTATION_ASK}]"
    if not text.endswith("%"):
        return read(at, field, text, config)
    try:
        return Ask(at, field, shown(text), quantity.plain(text[:-1].rstrip()) / 100)
    except ValueError as fault:
        allowed = "allowed: a percentage such as 30%"
        raise ValueError(f"{shown(text)!r}: {fault} before %; {allowed}") from fault


def is_within(value: Any, share: Fraction) -> bool:
    """Whether a user's own memory fraction, a plain number as text, is no more than the share."""
    try:
        return isinstance(value, str) and 0 < quantity.plain(value) <= share
    except ValueError:
        return False
