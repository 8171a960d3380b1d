"""Which stored grants an update takes back: those whose ask, or whose place, is gone.

A grant in a template is the webhook's, no manifest owns it, so nobody but the webhook can notice
that the ask which made it has been removed. What a manifest declared is read where the two kinds
of apply keep it: kubectl's last-applied annotation, and the `Apply` entries of managedFields
(`Update` entries keep a field for ever, so they prove nothing).
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from vgpu import names
from webhook import templates
from webhook.pod import SECTIONS, Container, Json, containers, with_bodies
from webhook.review import Review

_ASKS = frozenset({*names.ASK_KEYS, names.NVIDIA_GPU})
Claims = Mapping[str, frozenset[str]]
"""By container name, the resources that a manifest declares, in limits or in requests."""


def released(template: Json, stored: Json, at: str, gone: frozenset[str]) -> Json:
    """Return the template without stored grants that nobody wants any more.

    Those are the grants of the containers in `gone`, and what is left in requests when a person
    has changed or removed the limit beside it.
    """
    before = {item.name: item for item in containers(stored, at)}
    return with_bodies(
        template,
        (_released(item, before.get(item.name), gone) for item in containers(template, at)),
    )


def _released(item: Container, before: Container | None, gone: frozenset[str]) -> Json:
    if before is None:
        return item.body
    resources, had = item.mapping("resources"), before.mapping("resources")
    sides = {side: resources.get(side) or {} for side in ("limits", "requests")}
    changed = {}
    for side, values in sides.items():
        stale = {
            key
            for key in names.GRANT_KEYS
            if key in values
            and values[key] == (had.get(side) or {}).get(key)
            and (item.name in gone or sides["limits"].get(key) != values[key])
        }
        if stale:
            changed[side] = {key: value for key, value in values.items() if key not in stale}
    return {**item.body, "resources": {**resources, **changed}} if changed else item.body


def removed(review: Review, path: templates.Path) -> frozenset[str]:
    """Return the names of the containers whose stored grant goes with this update.

    A count that a manifest declares never goes.
    """
    new, old = review.object, review.old or {}
    before, after = _last_applied(old, path), _last_applied(new, path)
    applied = [_owned(entry, path) for entry in _applies(new)]
    gone: set[str] = set()
    if before is not None and after is not None:
        gone |= _asking(before) - _asking(after)
    mine = [
        _owned(entry, path) for entry in _applies(old) if entry.get("manager") == review.manager
    ]
    gone |= {name for claims in mine for name in _asking(claims)} - {
        name for claims in applied for name in _asking(claims)
    }
    gone |= _replaced(new, old, path)
    declared = (*applied, after or {})
    kept = {name for claims in declared for name in claims if _holds(claims, name, _GRANTS)}
    return frozenset(gone - kept)


_GRANTS = frozenset(names.GRANT_KEYS)


def _asking(claims: Claims) -> set[str]:
    return {name for name in claims if _holds(claims, name, _ASKS)}


def _holds(claims: Claims, name: str, keys: frozenset[str]) -> bool:
    return not keys.isdisjoint(claims.get(name, ()))


def _replaced(new: Json, old: Json, path: templates.Path) -> set[str]:
    """Return the containers in which another GPU resource is new, as Helm brings it."""
    before, after = _resources(templates.get(old, path)), _resources(templates.get(new, path))
    return {
        name
        for name, keys in after.items()
        if any(
            names.is_gpu_resource(key) and key not in _GRANTS
            for key in keys - before.get(name, frozenset())
        )
    }


def _last_applied(document: Json, path: templates.Path) -> Claims | None:
    text = templates.get(document, ("metadata", "annotations", names.ANNOTATION_LAST_APPLIED))
    if not isinstance(text, str):
        return None
    try:
        template = templates.get(json.loads(text), path)
    except (ValueError, RecursionError):
        return None
    return _resources(template) if isinstance(template, dict) else None


def _resources(pod: Any) -> Claims:
    found: dict[str, frozenset[str]] = {}
    for section in SECTIONS:
        listed = templates.get(pod, ("spec", section))
        for item in listed if isinstance(listed, list) else ():
            name, keys = templates.get(item, ("name",)), _keys(templates.get(item, ("resources",)))
            if isinstance(name, str):
                found[name] = found.get(name, frozenset()) | keys
    return found


def _keys(resources: Any, prefix: str = "") -> frozenset[str]:
    sides = (templates.get(resources, (prefix + side,)) for side in ("limits", "requests"))
    return frozenset(
        key.removeprefix(prefix) for side in sides if isinstance(side, dict) for key in side
    )


def _applies(document: Json) -> Iterator[Json]:
    entries = templates.get(document, ("metadata", "managedFields"))
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("operation") == "Apply":
            yield entry


def _owned(entry: Json, path: templates.Path) -> Claims:
    """Read the fields that an entry owns (KEP-555: `f:` before a field, `k:` before an item)."""
    spec = templates.get(entry, ("fieldsV1", *(f"f:{key}" for key in (*path, "spec"))))
    found: dict[str, frozenset[str]] = {}
    for section in SECTIONS:
        listed = templates.get(spec, (f"f:{section}",))
        for key, fields in listed.items() if isinstance(listed, dict) else ():
            name = _item_name(key)
            if name is not None:
                keys = _keys(templates.get(fields, ("f:resources",)), "f:")
                found[name] = found.get(name, frozenset()) | keys
    return found


def _item_name(key: str) -> str | None:
    try:
        name = json.loads(key.removeprefix("k:"))["name"]
    except (ValueError, TypeError, KeyError):
        return None
    return name if isinstance(name, str) else None
