"""Whether a card is well: what its driver reported and answered, weighed over time."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from plugin.gpu import Event

LOOKS = 3
"""So many looks without a fault in a row end one that the driver told when it was asked."""
QUIET = 60.0
"""Seconds without another that end a fault by an event; twice as many each time it comes back."""
LONGEST = 3600.0
"""Seconds; the doubling goes no further."""
MEMORY = 86400.0
"""Seconds after which a card that was struck counts as one that never was."""

# Sorted by the actions of NVIDIA's Xid catalog; docs/reference/health.md has the reasons.
APPLICATION = frozenset(
    {8, 11, 13, 25, 31, 32, 39, 40, 41, 43, 45, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84}
    | {85, 86, 88, 89, 94, *range(96, 106), 109, *range(126, 136), 137, 139, 141, 142}
)
"""XIDs of what a program on the card did, or of what ended that program and nothing else."""
INFORMATION = frozenset(
    {14, 37, 38, 44, 63, 66, 67, 78, 92, 93, 106, 107, 108, 121, 152, 153, 154, 157, 160, 161}
    | {162, 163, 164, 165}
)
"""XIDs of what the driver notes or has put right; where more is needed, a look finds it."""
MEANINGS: Mapping[int, str] = {
    46: "the GPU stopped processing",
    **dict.fromkeys((48, 171, 172), "an uncorrectable memory error"),
    **dict.fromkeys((62, 169), "an internal microcontroller halted"),
    64: "a bad memory row or page could not be retired",
    **dict.fromkeys((74, *range(144, 151), 155), "an NVLink error"),
    79: "the GPU has fallen off the bus",
    **dict.fromkeys((95, 140), "a memory error that was not contained"),
    **dict.fromkeys((119, 120), "the GPU's system processor failed"),
    143: "the GPU could not be initialized",
}
"""What the known among all other XIDs say; each, known or not, is a fault of the card."""

Kind = Literal["application", "information", "fault"]


@dataclass(frozen=True, slots=True)
class Record:
    """What is held against a card."""

    polled: str = ""
    """What the driver said when it was last asked; stays for some looks without a fault."""
    xid: int = 0
    """Of the last event that counted; 0 when that is over."""
    quiet: float = 0.0
    """Seconds that must pass without a fault before an event is over; 0 if there never was one."""
    struck: float = 0.0
    """When the last event that counted came."""
    bad: float = 0.0
    """When the card was last seen with any fault."""
    looks: int = 0
    """Without a fault since then, up to those that are needed."""


@dataclass(frozen=True, slots=True)
class Health:
    """The cards' records. All times are seconds of one clock that never goes back."""

    ignored: frozenset[int] = frozenset()
    """XIDs that do not count, beside those known as such."""
    records: Mapping[str, Record] = field(default_factory=dict)
    """By uuid."""


def kind(xid: int, ignored: frozenset[int] = frozenset()) -> Kind:
    """Return what an XID is about; only a `fault` says something against the card."""
    if xid in APPLICATION:
        return "application"
    return "information" if xid in INFORMATION | ignored else "fault"


def struck(health: Health, event: Event, now: float) -> Health:
    """Take in an event of a card.

    One that names no card changes nothing: seven good cards of eight would pay for it, and a look
    finds the bad one.
    """
    if not event.uuid or kind(event.xid, health.ignored) != "fault":
        return health
    old = _settled(health, event.uuid, now)
    quiet = old.quiet
    if not old.xid:  # a burst of events is one fault; what comes after it was over is the next
        again = old.quiet and now - old.struck < MEMORY
        quiet = min(2 * old.quiet, LONGEST) if again else QUIET
    fresh = replace(old, xid=event.xid, quiet=quiet, struck=now, bad=now, looks=0)
    return _with(health, {event.uuid: fresh})


def polled(health: Health, faults: Mapping[str, str], now: float) -> Health:
    """Take in a look at all cards: the half sentences on those with a fault, by uuid."""
    fresh = {}
    for uuid in health.records.keys() | faults.keys():
        old = _settled(health, uuid, now)
        if fault := faults.get(uuid):
            fresh[uuid] = replace(old, polled=fault, bad=now, looks=0)
        else:
            looks = min(old.looks + 1, LOOKS)
            fresh[uuid] = replace(old, looks=looks, polled=old.polled if looks < LOOKS else "")
    return _with(health, fresh)


def fault(health: Health, uuid: str, now: float) -> str:
    """Return why a card is not well, as half a sentence; empty if it is."""
    record = _settled(health, uuid, now)
    reasons = [record.polled] if record.polled else []
    if record.xid:
        meaning = f", {MEANINGS[record.xid]}" if record.xid in MEANINGS else ""
        end = f"well again after {record.quiet:.0f} s without a fault"
        reasons.append(f"XID {record.xid}{meaning}; {end}")
    return "; ".join(reasons)


def _settled(health: Health, uuid: str, now: float) -> Record:
    """Return a card's record, in which an event that is over is no more than a memory."""
    record = health.records.get(uuid, Record())
    over = record.looks >= LOOKS and now - record.bad >= record.quiet
    return replace(record, xid=0) if over else record


def _with(health: Health, fresh: Mapping[str, Record]) -> Health:
    return replace(health, records={**health.records, **fresh})
