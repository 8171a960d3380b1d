"""A second opinion: what design sections 3 and 4 say about one review.

Where the design is silent it has no opinion (`Silent`), which is counted. What may change in an
object beside its grants is in `changes.py`.
"""

import json
import math
import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.fuzz.pods import (
    APPLIED_NOTE,
    ASK_NOTE,
    ASKS,
    CARDS,
    FRAMEWORK_NOTE,
    GPUS,
    MAIN_NOTE,
    NVIDIA,
    SLOTS,
    WAYS,
    Json,
    Place,
    Pod,
    Settings,
    Sides,
    Silent,
    child,
    held,
    number,
)

MOST_CARDS = 100
"""More are taken for a slip, such as 300M for 300m."""
Grant = dict[str, Fraction]
"""A container's slots or whole cards, by the resource's name; empty: none."""


class Wrong(Exception):
    """The user's fault; its arguments tell it from another."""


@dataclass
class Verdict:
    """What the answer has to be."""

    faults: set[Any] = field(default_factory=set)
    """Empty: allowed."""
    grants: dict[Place, Grant | None] = field(default_factory=dict)
    """What the containers have afterwards, None without an opinion; others stay as they are."""


def judge(request: Json, settings: Settings) -> Verdict:
    """Return what the answer to a CREATE or UPDATE has to be; raise Silent without an opinion."""
    kind, new, old = request["kind"]["kind"], request["object"], request.get("oldObject")
    way = WAYS[request["kind"]["group"], kind]
    pod = Pod(held(new, way))
    owners = child(child(new, "metadata"), "ownerReferences", list)
    owners = [owner for owner in owners if owner.get("controller") is True]
    asking = any(asks(side) for place in pod for side in pod.sides(place))
    by_deployment = kind == "ReplicaSet" and any(
        (o["kind"], o["apiVersion"]) == ("Deployment", "apps/v1") for o in owners
    )
    if kind != "Pod" and owners and (by_deployment or not asking):
        return Verdict()
    if request["operation"] == "CREATE" or old is None:
        return on_create(pod, settings, is_pod=kind == "Pod")
    was = Pod(held(old, way))
    if kind == "Pod":
        return on_pod_update(pod, was, settings)
    manager = child(request, "options").get("fieldManager", "")
    updates = {
        place: Update(old, new, way, manager, bool(owners), at) for at, place in pod.places.items()
    }
    return on_template_update(pod, was, settings, updates)


# Asks and grants.


def thousandths(value: object) -> Fraction | None:
    """Return the number of a quantity, rounded up as by an API server."""
    size = number(value)
    return None if size is None else Fraction(math.ceil(size * 1000), 1000)


def asks(side: Json) -> dict[str, Fraction | None]:
    """Return the asks in limits or requests; None where one is no number."""
    found = {key: thousandths(side[key]) for key in ASKS if key in side}
    return {k: ask for k, ask in found.items() if k != NVIDIA or ask is None or ask % 1}


def counts(side: Json) -> Grant:
    """Return the counts in limits or requests, good ones and bad ones."""
    found = {key: thousandths(side[key]) for key in (SLOTS, CARDS) if key in side}
    if 0 in found.values():
        raise Silent("a count of 0")
    if None in found.values():
        raise Wrong("a count is no number", str(side))
    return {key: count for key, count in found.items() if count is not None}


def gpus(side: Json) -> Grant:
    """Return the GPU resources in limits or requests; one of 0 is none."""
    found = {key: thousandths(size) for key, size in side.items() if GPUS.fullmatch(key)}
    if None in found.values():
        raise Silent("a GPU resource is no number")
    return {key: size for key, size in found.items() if size}


def granted(ask: Fraction) -> Grant:
    """Return what a good ask becomes; a share is rounded up to hundredths of a card."""
    if ask == 0:
        return {}
    return {SLOTS: Fraction(math.ceil(ask * 100))} if ask < 1 else {CARDS: ask}


def good(ask: Fraction | None, settings: Settings) -> bool:
    """Is this nothing, a share, or a number of whole cards where these are served?"""
    if ask is None or ask < 0:
        return False
    return ask < 1 or (ask % 1 == 0 and ask <= MOST_CARDS and settings.whole_cards)


def checked(sides: Sides, note: Fraction | None, settings: Settings) -> Grant:
    """Return what limits, requests and note together ask for; raise Wrong where they may not."""
    limits, requests = sides
    wanted, made = asks(limits), counts(limits)
    for key in {*wanted, *asks(requests), *made, *counts(requests)}:
        if key in requests and (
            key not in limits or thousandths(limits[key]) != thousandths(requests[key])
        ):
            raise Wrong("request and limit", key, str(limits.get(key)), str(requests[key]))
    if any(count % 1 or count < 0 for count in made.values()) or made.get(SLOTS, 0) > 100:
        raise Wrong("count", *map(str, made.items()))
    values = {*wanted.values(), *([] if note is None else [note])}
    if len(values) > 1 or not all(good(value, settings) for value in values):
        raise Wrong("asks", *sorted(map(str, values)))
    if CARDS in made and not settings.whole_cards:
        raise Silent("cards written by hand where none are served")
    return _alone(values.pop() if values else None, sides, made)


def _alone(ask: Fraction | None, sides: Sides, made: Grant) -> Grant:
    """Return what the ask, or else the count, gives, unless there is another GPU beside it."""
    have = gpus(sides[0])
    if (gpus(sides[1]).keys() & {*sides[1]} - {*sides[0]}) - {SLOTS, CARDS}:
        raise Silent("another GPU resource in requests alone, which the API server refuses")
    have = {key: size for key, size in have.items() if key not in asks(sides[0])}
    if ask == 0 and have:
        raise Silent("gpu: 0 beside a GPU")
    wanted = made if ask is None else granted(ask)
    if wanted and have and (have != wanted or len(have) > 1):
        raise Wrong("beside", str(ask), *sorted(map(str, have.items())))
    return wanted


# Notes.


def noted_asks(pod: Pod, settings: Settings, faults: set[Any]) -> dict[Place, Fraction]:
    """Return what the annotation asks for, by container, and add the annotations' faults."""
    found: dict[Place, Fraction] = {}
    try:
        words = noted(pod, FRAMEWORK_NOTE).values()
        if not {"tensorflow-serving", "none"}.issuperset(words):
            faults.add((FRAMEWORK_NOTE, *words))
    except Wrong as wrong:
        faults.add((FRAMEWORK_NOTE, *wrong.args))
    try:
        for name, text in noted(pod, ASK_NOTE).items():
            ask = percent(text)
            if ask is None or not good(ask, settings):
                faults.add((ASK_NOTE, text))
            else:
                found[pod.named[name] if name else main(pod, ask)] = ask
    except Wrong as wrong:
        faults.add((ASK_NOTE, *wrong.args))
    return found


def noted(pod: Pod, key: str) -> dict[str, str]:
    """Return a note's values by container, "" for the main one."""
    if key not in pod.notes:
        return {}
    text: str = pod.notes[key]
    if re.search(r"\s", text) or ("containers", 0) not in pod or not pod.unique:
        raise Silent("blanks in a note, or no containers, or two of one name")
    pairs = [item.split("=") for item in text.split(",")] if "=" in text else [["", text]]
    if any(len(pair) != 2 or not pair[1] for pair in pairs):
        raise Wrong("note", text)
    found = {pair[0]: pair[1] for pair in pairs}
    if len(found) < len(pairs):
        raise Silent("a container is named twice")
    if "=" in text and not found.keys() <= pod.named.keys():
        raise Wrong("names no container", text)
    return found


def percent(text: str) -> Fraction | None:
    """Return an ask in a note, which may be a percentage."""
    if not text.endswith("%"):
        return thousandths(text)
    size = number(text[:-1])
    if size is not None and text[-2:-1].isalpha():
        raise Silent("an exotic percentage")
    return None if size is None else size / 100


def main(pod: Pod, ask: Fraction) -> Place:
    """Return the container that an ask without a name is for."""
    if ask == 0 and len(pod) > 1:
        raise Silent("which container none is for")
    for place in pod:
        limits, _ = pod.sides(place)
        if ask in asks(limits).values() or (counts(limits) and counts(limits) == granted(ask)):
            break
    else:
        place = pod.named.get(pod.notes.get(MAIN_NOTE, ""), ("containers", 0))
    if place[0] != "containers" or place not in pod:
        raise Silent("an init container, or none, as the main one")
    return place


# What is new.


def on_create(pod: Pod, settings: Settings, *, is_pod: bool) -> Verdict:
    """Return what is made of a new object: an annotation's ask is moved in pods alone."""
    verdict = Verdict()
    notes = noted_asks(pod, settings, verdict.faults)
    for place, body in pod.items():
        try:
            made = checked(pod.sides(place), notes.get(place), settings)
            verdict.grants[place] = made if is_pod else checked(pod.sides(place), None, settings)
        except Wrong as wrong:
            verdict.faults.add((body["name"], *wrong.args))
    return verdict


# Updates of pods: their share cannot change.


def on_pod_update(pod: Pod, was: Pod, settings: Settings) -> Verdict:
    """Return what becomes of a pod's update."""
    verdict, old_faults = Verdict(), set[Any]()
    notes = noted_asks(pod, settings, verdict.faults)
    noted_asks(was, settings, old_faults)
    verdict.faults -= old_faults
    is_new = pod.notes.get(ASK_NOTE) != was.notes.get(ASK_NOTE)
    for at, place in pod.places.items():
        mine, theirs, note = pod.sides(place), was.sides(was.places.get(at)), notes.get(place)
        if at not in was.places:
            raise Silent("a new container")
        grant = _stored(theirs, settings)
        if is_new and note is not None and granted(note) != grant:
            verdict.faults.add((at[1], "another share", note))
        if note is not None and not is_new and counts(mine[0]) != grant:
            raise Silent("a count that changes beside an old annotation")
        if mine == theirs:
            continue
        try:
            made = _kept(mine, note if is_new else None, grant, settings)
        except Wrong as wrong:
            verdict.faults.add((at[1], *wrong.args))
            continue
        is_stored = [*map(_foreign, mine)] == [*map(_foreign, theirs)]
        if any(map(asks, mine)) or note is not None or not is_stored:
            verdict.grants[place] = made if is_stored else None
    return verdict


def _kept(sides: Sides, note: Fraction | None, grant: Grant, settings: Settings) -> Grant:
    """Return what a pod's container has after an update; raise Wrong for another share."""
    made = checked(sides, note, settings)
    if any(map(asks, sides)) and made != grant:
        raise Wrong("another share", str(made))
    return made


def _stored(sides: Sides, settings: Settings) -> Grant:
    """Return what a stored pod's container has."""
    grant = counts(sides[0])
    if any(map(asks, sides)) or counts(sides[1]) != grant:
        raise Silent("a pod from before the webhook")
    if CARDS in grant and not settings.whole_cards:
        raise Silent("a card from before the setting")
    return grant


def _foreign(side: Json) -> Json:
    return {k: v for k, v in side.items() if k not in (*asks(side), SLOTS, CARDS)}


# Updates of templates: only what they bring is held against them, a removed ask takes its grant.


@dataclass
class Update:
    """An update of a template, seen from one container."""

    old: Json
    new: Json
    way: str
    manager: str
    owned: bool
    at: tuple[str, str]

    def applied(self, obj: Json) -> Json | None:
        """Return the limits in the manifest of client-side apply; None without a manifest."""
        text = child(child(obj, "metadata"), "annotations").get(APPLIED_NOTE)
        try:
            pod = Pod(held(json.loads(text), self.way))
            return pod.sides(pod.places.get(self.at))[0]
        except (TypeError, ValueError, AttributeError, Silent):
            return None

    def owners(self, obj: Json, keys: set[str]) -> set[str]:
        """Return the managers whose Apply entries own one of the limits."""
        name = "k:" + json.dumps({"name": self.at[1]}, separators=(",", ":"))
        way = [f"f:{step}" for step in (*self.way.split("."), "spec", self.at[0])]
        found = set()
        for entry in child(child(obj, "metadata"), "managedFields", list):
            fields = child(entry, "fieldsV1")
            for step in (*way, name, "f:resources", "f:limits"):
                fields = child(fields, step)
            if entry.get("operation") == "Apply" and any(f"f:{key}" in fields for key in keys):
                found.add(entry.get("manager"))
        return found

    def withdrawn(self, now: Json, was: Json) -> bool:
        """Did the manifest ask, and does it not any more?"""
        had, has = self.applied(self.old), self.applied(self.new)
        if had is not None and has is not None and asks(had) and not asks(has):
            return True
        keys = {key for key in ASKS if key not in was}
        still = {key for key in keys if key not in now or number(now[key]) != 0}
        return self.manager in self.owners(self.old, keys) and not self.owners(self.new, still)

    def declares(self, key: str) -> bool:
        """Does a manifest declare this count?"""
        return key in (self.applied(self.new) or {}) or bool(self.owners(self.new, {key}))

    def left(self, sides: Sides, before: Sides) -> Sides:
        """Return what an update leaves of limits and requests before its asks count."""
        limits, was = sides[0], before[0]
        stored = counts(limits).items() & counts(was).items()
        ours = {key for key, _ in stored if not self.declares(key)}
        if self.owned and any(map(self.declares, counts(limits))):
            raise Silent("a count that the manifest of a controller declares")
        known = {SLOTS, CARDS, *asks(limits), *(key for side in before for key in gpus(side))}
        other = any(key not in known for side in sides for key in gpus(side))
        if asks(limits) or (
            not self.owned and (other or self.withdrawn({**sides[1], **limits}, was))
        ):
            kept = [{k: v for k, v in side.items() if k not in ours} for side in sides]
            return kept[0], kept[1]
        return sides


def on_template_update(
    pod: Pod, was: Pod, settings: Settings, updates: dict[Place, Update]
) -> Verdict:
    """Return what an update makes of a template."""
    verdict, before = Verdict(), on_create(was, settings, is_pod=False)
    notes, old_notes = (noted_asks(each, settings, set()) for each in (pod, was))
    noted_asks(pod, settings, verdict.faults)
    if before.faults:
        raise Silent("what becomes of an old fault")
    for at, place in pod.places.items():
        mine, theirs, note = pod.sides(place), was.sides(was.places.get(at)), notes.get(place)
        try:
            _clear(mine, theirs, note)
            sides = updates[place].left(mine, theirs)
            if mine == sides == theirs and note == old_notes.get(was.places.get(at, place)):
                continue
            checked(sides, note, settings)
            verdict.grants[place] = checked(sides, None, settings)
        except Wrong as wrong:
            verdict.faults.add((at[1], *wrong.args))
    return verdict


def _clear(mine: Sides, theirs: Sides, note: Fraction | None) -> None:
    """Raise Silent where the design does not say what becomes of what is stored."""
    if any(map(asks, theirs)):
        raise Silent("an ask from before the webhook was there")
    texts = [[str(side.get(key, "")) for key in (SLOTS, CARDS)] for side in (*mine, *theirs)]
    late = texts[0] == texts[2] and texts[1] != texts[3]
    if late or any(texts[n + 1] not in (texts[n], ["", ""]) for n in (0, 2)):
        raise Silent("a count in requests that is left from before, or that comes late")
    if note is not None and counts(mine[0]):
        raise Silent("an annotation beside a stored grant")
