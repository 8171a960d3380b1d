"""What there is to say of an object: by the webhook, and of asks that it does not read."""

import dataclasses
from collections.abc import Iterator
from typing import TypeAlias

from vgpu import names
from webhook import asks, templates
from webhook.config import Config
from webhook.findings import Code, Denied, Finding, path
from webhook.mutate import desired
from webhook.pod import Json
from webhook.review import Review
from webhook.templates import Pattern, TemplatePath

Holder: TypeAlias = tuple[str, ...]
"""The last two keys on the way to an entry."""

_LIMITS = ("resources", "limits")
_RESOURCES = {_LIMITS, ("resources", "requests")}
_ANNOTATIONS, _LABELS = ("metadata", "annotations"), ("metadata", "labels")
_HARD = ("spec", "hard")
_QUOTAS = {_HARD} | {
    ("limits", key) for key in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
}
"""Of ResourceQuota and LimitRange, which look at what pods have after their translation."""


def creation(document: Json) -> Review:
    """Return the review of an object that is created as it is written."""
    group = document["apiVersion"].rpartition("/")[0]
    return Review(group, document["kind"], document, None)


def supposing(review: Review, config: Config) -> Config:
    """Return settings under which a custom resource is looked into, wherever it has pods in it."""
    if templates.patterns(review, config.template_paths):
        return config
    version, plural = review.object["apiVersion"].rpartition("/")[2], templates.guessed(review.kind)
    ways = dict.fromkeys(_templates(review.object))
    found = tuple(TemplatePath(review.group, version, plural, way) for way in ways)
    return dataclasses.replace(config, template_paths=found)


def _templates(value: object, way: Pattern = ()) -> Iterator[Pattern]:
    if isinstance(value, list):
        for item in value:
            yield from _templates(item, (*way, templates.EVERY_ITEM))
    elif isinstance(value, dict):
        spec = value.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield way
        for key, held in value.items():
            yield from _templates(held, (*way, key))


def findings(review: Review, config: Config, *, deep: bool = False) -> list[Finding]:
    """Return all that there is to say of an object; if `deep`, of the pods in a custom one, too."""
    said, left = _judged(review, config)
    translated = all(each.code is not Code.UNTRANSLATED for each in said)
    if deep and not translated:
        said, _ = _judged(review, supposing(review, config))
    # Whether a custom resource's annotations get to its pods, its own controller decides.
    unsure = () if translated else (Code.UNTRANSLATED, Code.MISPLACED_ANNOTATION)
    said = [each for each in said if each.code not in unsure]
    return [*said, *_unread(review, left, translated=translated)]


def _judged(review: Review, config: Config) -> tuple[list[Finding], Json]:
    """Return what the webhook says, and the object after it; none if it is denied."""
    try:
        made = desired(review, config)
    except Denied as denial:
        return [*denial.findings, *denial.warnings], {}
    return made.warnings, made.object


def _unread(review: Review, left: Json, *, translated: bool) -> Iterator[Finding]:
    """Yield what to say of asks that are `left` by a translation, or in a kind that has none."""
    document, group = review.object, review.group
    is_stored = "uid" in (document.get("metadata") or {})
    is_custom = not translated and "." in group and not group.endswith(".k8s.io")
    remain = set(_entries(left))
    for entry in _entries(document):
        holder, at, key, value = entry
        is_read = translated and holder == _ANNOTATIONS and key == names.ANNOTATION_ASK
        is_twin = (_LIMITS, f"{at.removesuffix('requests')}limits", key, value) in remain
        if holder == _ANNOTATIONS and key == names.ANNOTATION_SHARE and not is_stored:
            text = f"the webhook writes {key} and never reads it; leave it out"
            yield Finding(Code.RECORD, "", f"{at}[{key}]", text)
        elif entry in remain and not (is_read or is_twin) and _is_ask(holder, key, value):
            code, why = _fault(holder, review.kind if is_custom else "")
            yield Finding(code, "", f"{at}[{key}]", f"{key}: {asks.shown(value)} {why}")


def _fault(holder: Holder, custom: str) -> tuple[Code, str]:
    """Return what is wrong with an ask by its place, which may be in a custom kind."""
    if holder in _QUOTAS:
        right = f"requests.{names.COUNT} in a quota, {names.COUNT} in a LimitRange, 100 for a card"
        return Code.MISPLACED_ASK, f"counts nothing; write {right}"
    if custom:
        later = f"counts when pods are made of this {custom}; should {custom} itself be refused"
        setting = f"for it, name its templates in {names.ENV_OURS}TEMPLATE_PATHS"
        return Code.CUSTOM_RESOURCE, f"{later} {setting}"
    limits = "has no effect here; it belongs in the resources.limits of a container"
    note = f"or in the annotation {names.ANNOTATION_ASK} of a pod or pod template"
    return Code.MISPLACED_ASK, f"{limits} {note}"


def _entries(
    value: object, holder: Holder = (), at: str = ""
) -> Iterator[tuple[Holder, str, str, str | float]]:
    """Yield the texts and numbers below a value: holder, its path, key and value of each."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _entries(item, holder, f"{at}[{index}]")
    elif isinstance(value, dict):
        for key, held in value.items():
            if isinstance(held, str | int | float):
                yield holder, at, key, held
            else:
                yield from _entries(held, (*holder[-1:], key), path(at, key))


def _is_ask(holder: Holder, key: str, value: object) -> bool:
    """Whether an entry was meant as an ask, by where it stands."""
    exact = asks.number(value)
    if holder in _RESOURCES:
        is_fraction = exact is not None and exact.denominator != 1
        return key in names.ASK_KEYS or (key == names.NVIDIA_GPU and is_fraction)
    if holder == _ANNOTATIONS:
        is_share = exact is not None and 0 < exact < 1
        return key == names.ANNOTATION_ASK or (key == names.ASK and is_share)
    if holder in _QUOTAS:
        resource = key.removeprefix("requests.").removeprefix("limits.")
        is_ignored = holder == _HARD and not key.startswith("requests.")
        return resource in names.ASK_KEYS or (is_ignored and resource in names.GRANT_KEYS)
    return holder == _LABELS and key == names.ANNOTATION_ASK
