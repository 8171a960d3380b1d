"""`milligpu revert`: translated objects as they were, or free of us, without a cluster."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from milligpu import kubeyaml
from milligpu.manifests import File, Manifest
from milligpu.mutate import rewrite, say, say_findings, texts
from milligpu.remarks import completed, creation
from vgpu import names, quantity
from vgpu.settings import read
from webhook import serving, templates
from webhook.asks import Grant
from webhook.config import Config
from webhook.findings import Denied
from webhook.pod import Json, named, with_bodies
from webhook.resources import granted
from webhook.translate import Decision, translate

Way: TypeAlias = tuple[Any, ...]
_HOLDERS = {"annotations", "limits", "requests"}
_ADDED = {"annotations", names.CPU, names.ENV_FRACTION, serving.OURS}
"""What the webhook adds to a pod, or what holds it; of a list's entry its name or text."""
_PLACED = {"runtimeClassName", "tolerations"}
"""What it adds to get the pod to a card, which one with a whole card needs as much."""
_HIDDEN = {names.ENV_VISIBLE_DEVICES}
"""What it adds to hide cards. If it was a person's, a container without it may see them all."""
_NAMES = re.compile(rf"{re.escape(names.PREFIX)}[\w.-]+|{names.ENV_OURS}\w+")


def main(paths: Sequence[Path], form: str, only: bool) -> int:
    """Print the files' documents turned back, or `only` the objects that change.

    Returns 0, or 1 with nothing printed where an object is denied. Raises SettingsError and
    ManifestError.
    """
    config = read(Config, os.environ)
    return rewrite("revert", paths, partial(_made, form, config), _changed if only else texts)


def _changed(_: File, made: Mapping[Manifest, Json]) -> Iterable[str]:
    return (kubeyaml.dump(new) for each, new in made.items() if new is not each.document)


def _made(form: str, config: Config, manifest: Manifest) -> Json | None:
    """Return an object turned back and say so, and what is left in it; None if it is denied."""
    try:
        made = reverted(manifest.document, form, config)
    except Denied as denial:
        say_findings(manifest, denial.findings)
        return None
    namespace = (made.get("metadata") or {}).get("namespace")
    title = f"{manifest.title} in {namespace}" if namespace else manifest.title
    if made is not manifest.document:
        say(manifest, "", f"{title}: turned back")
    found = _NAMES.findall(json.dumps({**made, "metadata": None, "status": None}))
    if left := {name for name in found if form != "ask" or name in names.GRANT_KEYS}:
        say(manifest, "", f"warning: {title}: still holds {', '.join(sorted(left))}")
    return made


def reverted(document: Json, form: str, config: Config) -> Json:
    """Return an object turned back, the very one where nothing changes.

    `ask`: the asks again; `whole`: whole cards of NVIDIA's plugin; `none`: nothing of ours. Raises
    Denied for an object that the webhook would deny; for `none` only for wrong types.
    """
    ways, made = templates.patterns(creation(document), config.template_paths), document
    places = templates.places(document, ways)
    for place in places:
        pod = templates.get(made, place) if place else _bare(made, form, config)
        translation = translate(pod, templates.spelled(place), None, config, annotated=True)
        denial = Denied(*translation.findings)
        if denial.findings and form != "none":
            raise denial
        bodies = (_body(each, form) for each in translation.decisions)
        made = templates.replaced(made, place, with_bodies(pod, bodies))
    made = _free(made) if form == "none" or (form == "whole" and places) else made
    return document if made == document else made


def _body(decision: Decision, form: str) -> Json:
    reading, noted, grant = decision.reading, decision.noted, decision.grant
    if form != "ask":
        number = grant and (1 if grant.share else grant.number)
        new = Grant(names.NVIDIA_GPU, number) if number and form == "whole" else None
        return granted(reading, new)
    # One that differs from an annotated ask in the least would be refused beside it.
    inexact = noted and (noted.value * 1000).denominator > 1
    if grant is None or grant not in reading.grants or inexact:
        return reading.container.body
    # An ask of 1 is for a whole card, not for all slots of one.
    text = f"{min(10 * grant.number, 999)}m" if grant.share else str(grant.number)
    text = quantity.milli(noted.value) if noted else text
    ask = {} if reading.ask_keys else {names.ASK: text}
    limits, requests = ({k: v for k, v in s.items() if k != grant.resource} for s in reading.sides)
    return reading.container.with_sides({**limits, **ask}, requests)


def _bare(pod: Json, form: str, config: Config) -> Json:
    """Return a pod without what the webhook adds: all that comes back once it is taken away."""
    added = _ADDED | {"ask": _PLACED | _HIDDEN, "none": _PLACED, "whole": set()}[form]
    made, ways = pod, [way for way, value in _ways(pod) if _may_be(added, way, value)]
    recorded = any(way[-1] == names.ANNOTATION_SHARE for way in ways)
    # The request that goes with a limit comes before it.
    for way in 2 * ways[::-1] if recorded else ():
        with suppress(Denied, LookupError):  # it went with what it stood in
            tried = _without(pod, way)
            pod = tried if completed(tried, config) == made else pod
    return pod


def _may_be(added: set[str], way: Way, value: Any) -> bool:
    if way[-2:-1] in (("env",), ("args",)):
        return (named(value) or str(value)) in added
    return bool(added & {*way[-2:]})


def _free(document: Json) -> Json:
    """Return an object without what has a name of ours in annotations and resources."""
    for way, _ in reversed([*_ways(document)]):
        if _HOLDERS & {*way[-2:-1]} and str(way[-1]).startswith(names.PREFIX):
            document = _without(document, way)
    return document


def _ways(value: Any, way: Way = ()) -> Iterator[tuple[Way, Any]]:
    """Yield the way to all that is in a value, and it, each after what holds it."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield (*way, key), value[key]
            yield from _ways(value[key], (*way, key))


def _without(value: Any, way: Way) -> Any:
    """Return a value without what lies at a way, nor the objects and lists that this empties."""
    step, rest, changed = way[0], way[1:], value.copy()
    if rest:
        changed[step] = _without(value[step], rest)
    if not rest or not (changed[step] or isinstance(value, list)):
        del changed[step]
    return changed
