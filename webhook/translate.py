"""From asks to grants: what every container of a pod gets, and its resources rewritten so."""

from collections.abc import Mapping
from dataclasses import dataclass

from vgpu import names
from webhook import asks, notes, resources
from webhook.asks import Ask, Grant
from webhook.config import Config
from webhook.notes import Notes
from webhook.pod import Container, Fault, Json, containers, with_bodies
from webhook.resources import Reading


@dataclass(frozen=True, slots=True)
class Decision:
    """What one container gets."""

    container: Container
    reading: Reading
    noted: Ask | None
    """The annotation's ask, if it is this container's."""
    grant: Grant | None
    faults: tuple[Fault, ...] = ()

    @property
    def ask(self) -> Ask | None:
        """The ask, from wherever; where there are several they are equal, or there is a fault."""
        return next(iter((*self.reading.asks, *((self.noted,) if self.noted else ()))), None)


@dataclass(frozen=True, slots=True)
class Translation:
    """What all containers of a pod get."""

    decisions: tuple[Decision, ...]
    notes: Notes
    faults: tuple[Fault, ...]
    warnings: tuple[str, ...]

    @property
    def has_grant(self) -> bool:
        """Whether any container is granted something."""
        return any(decision.grant for decision in self.decisions)


Held = Mapping[str, tuple[Grant, ...]]
"""Grants by container name, as an object holds them."""


def held(pod: Json | None, at: str) -> Held:
    """Return the grants that a stored pod or template holds."""
    if pod is None:
        return {}
    return {item.name: resources.read(item).grants for item in containers(pod, at)}


def translate(pod: Json, at: str, stored: Held, config: Config, *, annotated: bool) -> Translation:
    """Decide what each container gets.

    `stored` are the grants before an update: an ask wins over them, an annotation's only where
    `annotated` says that it is moved into resources, which is in pods. Faults are returned, not
    raised, but for wrong JSON types (Denied).
    """
    listed = containers(pod, at)
    readings = [resources.read(container) for container in listed]
    said = notes.read(pod, at, listed)
    noted, warnings = _addressed(said, listed, readings, config)

    def replaceable(item: Container, reading: Reading) -> tuple[Grant, ...]:
        return stored.get(item.name, ()) if reading.asks or annotated else ()

    decisions = tuple(
        _decide(item, reading, noted.get(item.name), replaceable(item, reading), config)
        for item, reading in zip(listed, readings, strict=True)
    )
    faults = (*said.faults, *(fault for decision in decisions for fault in decision.faults))
    rounded = (_rounding(decision) for decision in decisions)
    return Translation(
        decisions, said, faults, (*said.warnings, *warnings, *(text for text in rounded if text))
    )


def rewritten(pod: Json, translation: Translation, *, annotated: bool) -> Json:
    """Return the pod with grants in place of asks; those of annotations too, if `annotated`.

    Containers with a fault stay as they are.
    """
    bodies = {}
    for decision in translation.decisions:
        if decision.faults or not (decision.reading.ask_keys or (annotated and decision.noted)):
            continue
        item = decision.container
        body = resources.granted(item, decision.reading.ask_keys, decision.grant)
        if body is not item.body:
            bodies[(item.section, item.index)] = body
    return with_bodies(pod, bodies)


def _addressed(
    said: Notes, listed: list[Container], readings: list[Reading], config: Config
) -> tuple[dict[str, Ask], list[str]]:
    """Return the annotation's asks by the names of the containers that they are for."""
    unnamed = said.asks.get("")
    if unnamed is None:
        return said.asks, []
    candidates = [item for item in listed if item.section == "containers"]
    holders = [
        item
        for item, reading in zip(listed, readings, strict=True)
        if item.section == "containers" and _holds(reading, unnamed, config)
    ]
    main, guessed = asks.main_container(candidates, holders, said.default_container)
    if main is None:
        return {}, []
    warning = (
        f"{names.ANNOTATION_ASK}: {unnamed.text} goes to {main.name!r}, the first of "
        f"{len(candidates)} containers; to choose write {main.name}={unnamed.text}"
    )
    return {main.name: unnamed}, [warning] if guessed else []


def _holds(reading: Reading, ask: Ask, config: Config) -> bool:
    if any(other.value == ask.value for other in reading.asks):
        return True
    try:
        return asks.grant(ask, whole_cards=config.whole_cards) in reading.grants
    except ValueError:
        return False


def _decide(
    item: Container, reading: Reading, noted: Ask | None, stored: tuple[Grant, ...], config: Config
) -> Decision:
    written = (*reading.asks, *((noted,) if noted else ()))
    faults = list(reading.faults)
    wanted: Grant | None = None
    for ask in written:
        try:
            wanted = asks.grant(ask, whole_cards=config.whole_cards)
        except ValueError as fault:
            faults.append(ask.blame(item, str(fault)))
    if not written:
        wanted = next(iter(reading.grants), None)
    if not faults:
        faults += _conflict(item, reading, written, wanted, stored)
    return Decision(item, reading, noted, wanted, tuple(faults))


def _conflict(
    item: Container,
    reading: Reading,
    written: tuple[Ask, ...],
    wanted: Grant | None,
    stored: tuple[Grant, ...],
) -> list[Fault]:
    """Return the fault of a container that would get two things, or different things."""
    if len({ask.value for ask in written}) > 1:
        both = " and ".join(f"{ask.field}: {ask.text}" for ask in written)
        return [item.fault("", f"two different asks: {both}; keep one")]
    replaceable = stored if written else ()
    rivals = [str(grant) for grant in reading.grants if grant not in (wanted, *replaceable)]
    if wanted is not None:
        rivals += reading.others
    if not rivals:
        return []
    mine = written[0].text if written else str(wanted)
    text = f"{mine} beside {', '.join(rivals)}; a container gets one GPU resource, keep one"
    return [written[0].blame(item, text) if written else item.fault("resources.limits", text)]


def _rounding(decision: Decision) -> str | None:
    ask = decision.ask
    if ask is None or decision.faults:
        return None
    text = asks.rounding(ask, decision.grant)
    return text and f"container {decision.container.name}: {text}"
