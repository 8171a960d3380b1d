"""Which stored grants an update takes back: those whose ask, or whose place, is gone.

A grant in a template is the webhook's, no manifest owns it, so nobody but the webhook can notice
that the ask which made it has been removed. What a manifest declared is read where the two kinds
of apply keep it: kubectl's last-applied annotation, and the `Apply` entries of managedFields
(`Update` entries keep a field for ever, so they prove nothing).
"""

import json
from collections.abc import Collection, Iterable, Iterator
from itertools import product
from typing import Any

from vgpu import names
from webhook.asks import number
from webhook.pod import SECTIONS, Container, Json, containers, with_bodies
from webhook.review import Review
from webhook.templates import Item, Path, get

_ASKS = (*names.ASK_KEYS, names.NVIDIA_GPU)
_GRANTS = set(names.GRANT_KEYS)
Claims = set[tuple[str, str]]
"""What a manifest declares: containers' names, each with a resource in its limits or requests.

One of which it wants 0 is none."""
Claimed = tuple[Claims, Claims]


def released(template: Json, stored: Json, at: str, gone: Claims) -> Json:
    """Return the template without stored grants that nobody wants any more.

    Those are the grants in `gone`, and what is left in requests when a person has changed or
    removed the limit beside it.
    """
    before = {item.name: item for item in containers(stored, at)}
    bodies = (_released(item, before.get(item.name), gone) for item in containers(template, at))
    return with_bodies(template, bodies)


def _released(item: Container, before: Container | None, gone: Claims) -> Json:
    if before is None:
        return item.body
    limits, _ = sides = item.sides()
    kept = []
    for values, had in zip(sides, before.sides(), strict=True):
        stale = {
            key
            for key in _GRANTS & values.keys() & had.keys()
            if values[key] == had[key]
            and ((item.name, key) in gone or limits.get(key) != values[key])
        }
        kept.append({key: value for key, value in values.items() if key not in stale})
    return item.with_sides(*kept)


def removed(review: Review, paths: Iterable[Path]) -> Iterator[Claimed]:
    """Yield, for each template, the stored grants that go with this update, and the declared ones.

    A count that a manifest declares never goes.
    """
    new, old = review.object, review.old or {}
    manifests = [_last_applied(each) for each in (old, new)]
    for path in paths:
        before, after = (_resources(get(each, path)) for each in manifests)
        # What an entry owns has no value there.
        applied = _applied(new, path) - _resources(get(new, path), of_none=True)
        mine = _applied(old, path, review.manager)
        gone = _named(mine, _ASKS) - _named(applied, _ASKS)
        if isinstance(get(manifests[1], path), dict):
            gone |= _named(before, _ASKS) - _named(after, _ASKS)
        # Another GPU resource that is new, as Helm brings it.
        came = _resources(get(new, path)) - _resources(get(old, path))
        gone |= _named(came, {key for _, key in came if names.is_gpu_resource(key)} - _GRANTS)
        declared = {claim for claim in applied | after if claim[1] in _GRANTS}
        yield set(product(gone, _GRANTS)) - declared, declared


def _named(claims: Claims, keys: Collection[str]) -> set[str]:
    return {name for name, key in claims if key in keys}


def _last_applied(document: Json) -> Any:
    text = get(document, ("metadata", "annotations", names.ANNOTATION_LAST_APPLIED))
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _applied(document: Json, path: Path, manager: str | None = None) -> Claims:
    """Return what the appliers of a document own, or one of them, by their `Apply` entries.

    KEP-555: `f:` stands before a field, `k:` before an item. A list whose schema names no key is
    owned whole: nothing can be read below it, and whoever applies it again replaces its grants.
    """
    found: Claims = set()
    entries = get(document, ("metadata", "managedFields"))
    for entry in entries if isinstance(entries, list) else ():
        by, kind = (get(entry, (key,)) for key in ("manager", "operation"))
        if kind != "Apply" or manager not in (None, by):
            continue
        spec = get(entry, ("fieldsV1", *map(_field, (*path, "spec"))))
        for section in SECTIONS:
            listed = get(spec, (f"f:{section}",))
            for key, fields in listed.items() if isinstance(listed, dict) else ():
                found |= _claims(_item_name(key), get(fields, ("f:resources",)), "f:")
    return found


def _field(step: str | Item) -> str:
    if isinstance(step, str):
        return f"f:{step}"
    return f'k:{{"name":{json.dumps(step.name, ensure_ascii=False)}}}'


def _resources(pod: Any, *, of_none: bool = False) -> Claims:
    found: Claims = set()
    for section in SECTIONS:
        listed = get(pod, ("spec", section))
        for item in listed if isinstance(listed, list) else ():
            name, resources = (get(item, (key,)) for key in ("name", "resources"))
            found |= _claims(name, resources, of_none=of_none)
    return found


def _claims(name: Any, resources: Any, prefix: str = "", *, of_none: bool = False) -> Claims:
    sides = [get(resources, (prefix + side,)) for side in ("limits", "requests")]
    found = {key: side[key] for side in sides if isinstance(side, dict) for key in side}
    # With a prefix they are fields that somebody owns, and have no values.
    wanted = {key for key in found if prefix or (number(found[key]) == 0) is of_none}
    keys = (key.removeprefix(prefix) for key in wanted)
    return {(name, key) for key in keys if isinstance(name, str)}


def _item_name(key: str) -> Any:
    try:
        return json.loads(key.removeprefix("k:"))["name"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
