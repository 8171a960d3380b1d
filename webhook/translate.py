"""From asks to grants: what every container of a pod gets, and its resources rewritten so."""

from dataclasses import dataclass

from vgpu import names
from webhook import notes, resources
from webhook.asks import Ask, Grant
from webhook.config import Config
from webhook.findings import Code, Finding
from webhook.notes import Notes
from webhook.pod import Json, containers, with_bodies
from webhook.resources import Reading


@dataclass(frozen=True, slots=True)
class Decision:
    """What one container gets."""

    reading: Reading
    noted: Ask | None
    """The annotation's ask, if it is this container's."""
    stored: Reading | None
    """What the container of this name had before an update, if there was one."""
    grant: Grant | None
    faults: list[Finding]

    @property
    def ask(self) -> Ask | None:
        """The ask, from wherever; where there are several they are equal, or there is a fault."""
        return next(iter(self.reading.asks), self.noted)


@dataclass(frozen=True, slots=True)
class Translation:
    """What all containers of a pod get."""

    decisions: list[Decision]
    notes: Notes
    findings: list[Finding]


def translate(
    pod: Json, at: str, stored: Json | None, config: Config, *, annotated: bool
) -> Translation:
    """Decide what each container gets.

    An ask wins over the grants of the `stored` pod, an annotation's only where `annotated` says
    that it is moved into resources, which is in pods. Faults are returned, not raised, but for
    wrong JSON types (Denied).
    """
    had = containers(stored, at) if stored else []
    before = {item.name: resources.read(item, config) for item in had}
    listed = containers(pod, at)
    readings = [resources.read(item, config) for item in listed]
    said = notes.read(pod, at, listed, config)
    noted, guessed = _addressed(said, readings)
    findings, decisions = [*said.findings, *guessed], []
    for reading in readings:
        name = reading.container.name
        decision = _decide(reading, noted.get(name), before.get(name), config, annotated)
        decisions.append(decision)
        findings += decision.faults
        if decision.ask and not decision.faults:
            findings += decision.ask.rounding(reading.container)
    return Translation(decisions, said, findings)


def rewritten(pod: Json, translation: Translation, *, annotated: bool) -> Json:
    """Return the pod with grants in place of asks; those of annotations too, if `annotated`.

    Containers with a fault stay as they are.
    """
    return with_bodies(pod, (_rewritten(each, annotated) for each in translation.decisions))


def _rewritten(decision: Decision, annotated: bool) -> Json:
    reading = decision.reading
    if decision.faults or not (reading.ask_keys or (annotated and decision.noted)):
        return reading.container.body
    return resources.granted(reading, decision.grant)


def _addressed(said: Notes, readings: list[Reading]) -> tuple[dict[str, Ask], list[Finding]]:
    """Return the annotation's asks by the names of the containers that they are for.

    One without a name is for the main container: the one that holds this ask or its grant already,
    else the one that kubectl would take, else, with a warning, the first.
    """
    unnamed = said.asks.get("")
    if unnamed is None:
        return said.asks, []
    apps = {
        each.container.name: each for each in readings if each.container.section == "containers"
    }
    holders = [
        name
        for name, reading in apps.items()
        if unnamed.grant in reading.grants or unnamed.value in (ask.value for ask in reading.asks)
    ]
    chosen = [*holders, *(name for name in apps if name == said.default_container)]
    main = next(iter((*chosen, *apps)), "")
    if chosen or len(apps) < 2:
        return {main: unnamed}, []
    text = (
        f"{names.ANNOTATION_ASK}: {unnamed.text} goes to {main!r}, the first of "
        f"{len(apps)} containers; to choose write {main}={unnamed.text}"
    )
    return {main: unnamed}, [Finding(Code.MAIN_CONTAINER, unnamed.at, unnamed.field, text)]


def _decide(
    reading: Reading, noted: Ask | None, stored: Reading | None, config: Config, annotated: bool
) -> Decision:
    asks = [*reading.asks, *([noted] if noted else [])]
    had = stored.grants if stored else []
    # What is stored stays, also where whole cards have been switched off since.
    refused = [each for ask in asks for each in ask.refusals(reading.container, had, config)]
    grants = [] if refused else [ask.grant for ask in asks[:1]] or reading.grants
    grant, faults = next(iter(grants), None), [*reading.faults, *refused]
    if not faults:
        replaced = had if reading.asks or (annotated and noted) else []
        faults = _conflicts(reading, asks, grant, replaced)
    return Decision(reading, noted, stored, grant, faults)


def _conflicts(
    reading: Reading, asks: list[Ask], grant: Grant | None, replaced: list[Grant]
) -> list[Finding]:
    """Return the fault of a container that would get two things, or different things."""
    item = reading.container
    if any(ask.value != asks[0].value for ask in asks[1:]):
        both = " and ".join(f"{ask.field}: {ask.text}" for ask in asks)
        return [item.finding(Code.CONFLICT, "", f"two different asks: {both}; keep one")]
    rivals = [str(other) for other in reading.grants if other not in (grant, *replaced)]
    if grant is not None:
        rivals += reading.others
    if not rivals:
        return []
    mine = asks[0].text if asks else str(grant)
    text = f"{mine} beside {', '.join(rivals)}; a container gets one GPU resource, keep one"
    if asks:
        return [asks[0].finding(Code.CONFLICT, item, text)]
    return [item.finding(Code.CONFLICT, "resources.limits", text)]
