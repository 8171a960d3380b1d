"""What there is to say of an object: by the webhook, and of asks that it does not read."""

import dataclasses
from collections.abc import Iterator
from typing import TypeAlias

from milligpu.unread import unread
from webhook import templates
from webhook.config import Config
from webhook.findings import Code, Denied, Finding
from webhook.mutate import desired
from webhook.pod import Json
from webhook.review import Review
from webhook.templates import Pattern, TemplatePath

Decided: TypeAlias = tuple[Json | None, list[Finding]]


def creation(document: Json) -> Review:
    """Return the review of an object that is created as it is written."""
    group = document["apiVersion"].rpartition("/")[0]
    return Review(group, document["kind"], document, None)


def completed(pod: Json, config: Config, old: Json | None = None) -> Json:
    """Return a pod, or what has a pod's parts, as the webhook completes it. Raises Denied."""
    return desired(Review("", "Pod", pod, old), config).object


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


def findings(review: Review, config: Config) -> list[Finding]:
    """Return all that there is to say of an object, of the pods in a custom one, too."""
    return decided(review, config, deep=True)[1]


def decided(review: Review, config: Config, *, deep: bool = False) -> Decided:
    """Return what an object is to be, None if it is denied, and what there is to say of it.

    If `deep`, of the pods in a custom one, too.
    """
    (made, said), supposed = _judged(review, config), supposing(review, config)
    translated = all(each.code is not Code.UNTRANSLATED for each in said)
    if deep and not translated:
        said = _judged(review, supposed)[1]
    # Whether a custom resource's annotations get to its pods, its own controller decides.
    unsure = () if translated else (Code.UNTRANSLATED, Code.MISPLACED_ANNOTATION)
    said = [each for each in said if each.code not in unsure]
    found = templates.places(review.object, templates.patterns(review, supposed.template_paths))
    rest = unread(review, [*map(templates.spelled, found)], translated=translated)
    # An ask that its pods are refused for does not count in them.
    refused = any(each.code.level == "error" for each in said)
    return made, said + [each for each in rest if not (refused and each.code.level == "note")]


def _judged(review: Review, config: Config) -> Decided:
    try:
        made = desired(review, config)
    except Denied as denial:
        return None, [*denial.findings, *denial.warnings]
    return made.object, made.warnings
