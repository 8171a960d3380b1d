"""The update of a pod: what may not change, stays.

A person who applies a bare pod's manifest again sends its asks, its own arguments and what was
removed at creation. The API server would refuse that, although nothing is new. So the mutation of
the creation is run on what was sent, and wherever it arrives at what is stored, that stands.
"""

import json
from typing import Any

from vgpu.names import CPU
from webhook.pod import Container, Json, containers, mapping, named, sequence, with_bodies

_ABSENT: Any = object()


def restored(pod: Json, old: Json) -> Json:
    """Return an updated pod with what of the stored one no manifest can take back.

    Those are its tolerations, of which there can only be more; and its CPUs, where it has none, or
    copies of the limit: server-side apply removes whole maps of resources that it was once told are
    the manifest's, and API defaulting then copies the limits, ours too, into the requests.
    """
    stored = {item.name: [side.get(CPU) for side in item.sides()] for item in containers(old, "")}

    def body(item: Container) -> Json:
        limits, requests = item.sides()
        cpus, had = [limits.get(CPU), requests.get(CPU)], stored.get(item.name, [None])
        if None in had or cpus == had or cpus not in ([None, None], [had[0], had[0]]):
            return item.body
        return item.with_sides({**limits, CPU: had[0]}, {**requests, CPU: had[1]})

    pod = with_bodies(pod, map(body, containers(pod, "")))
    present, before = (_tolerations(each) for each in (pod, old))
    missing = [before[key] for key in before if key not in present]
    if not missing:
        return pod
    spec = mapping(pod, "spec", "")
    sent = sequence(spec, "tolerations", "spec", dict)  # in which one may stand twice
    return {**pod, "spec": {**spec, "tolerations": [*sent, *missing]}}


def _tolerations(pod: Json) -> dict[str, Json]:
    """Return the tolerations by all that cannot change in them."""
    found = sequence(mapping(pod, "spec", ""), "tolerations", "spec", dict)
    fixed = ({key: each[key] for key in each if key != "tolerationSeconds"} for each in found)
    return {json.dumps(key, sort_keys=True): each for key, each in zip(fixed, found, strict=True)}


def settled(sent: Any, made: Any, stored: Any) -> Any:
    """Return what was sent, with those changes of `made` that arrive at the stored value.

    Objects go by key, lists whose items have unique names by name, other lists by item.
    """
    if made is sent or made == sent:
        return sent
    if made == stored:
        return stored
    kinds = {type(value) for value in (sent, made, stored)}
    if kinds == {dict}:
        return _by_key(sent, made, stored)
    return _lists(sent, made, stored) if kinds == {list} else sent


def _by_key(sent: Any, made: Any, stored: Any) -> dict[Any, Any]:
    result = {}
    for key in dict.fromkeys((*sent, *made)):
        value = settled(*(side.get(key, _ABSENT) for side in (sent, made, stored)))
        if value is not _ABSENT:
            result[key] = value
    return result


def _lists(*sides: list[Any]) -> list[Any]:
    sent, made, stored = (_keyed(side) for side in sides)
    if [len(sent), len(made), len(stored)] != list(map(len, sides)):  # something comes twice
        return sides[0]
    result = _by_key(sent, made, stored)
    return [result[key] for key in (stored if result.keys() == stored.keys() else result)]


def _keyed(items: list[Any]) -> dict[str, Any]:
    """Return the items by name, or by their text where they have none."""
    return {
        json.dumps(item, sort_keys=True) if (name := named(item)) is None else name: item
        for item in items
    }
