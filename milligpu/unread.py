"""Asks that stand where the webhook does not read them, or not yet."""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from vgpu import names
from webhook import asks, templates
from webhook.findings import Code, Finding, path
from webhook.pod import Json
from webhook.review import Review

_KNOWN = {*names.ASK_KEYS, *names.GRANT_KEYS, names.NVIDIA_GPU}
_RESOURCES = {("resources", "limits"), ("resources", "requests")}
_ANNOTATIONS, _LABELS = ("metadata", "annotations"), ("metadata", "labels")
_HARD = ("spec", "hard")
_RANGES = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_QUOTAS = {_HARD, *(("limits", key) for key in _RANGES)}
"""Of ResourceQuota and LimitRange, which look at what pods have after their translation."""
_SIDES = r"spec\.(containers|initContainers)\[\d+\]\.resources\.(limits|requests)\[.*"
_READ = re.compile(rf"\.?({_SIDES}|metadata\.annotations\[{re.escape(names.ANNOTATION_ASK)}\])")
"""What is read below a pod or a template."""
_OPEN = "labels annotations matchLabels nodeSelector volumes volumeClaimTemplates managedFields"
_FREE = re.compile(rf"\b({'|'.join([*_OPEN.split(), 'status'])})\b")
"""On the way to keys that people choose, or that nobody writes."""
_ELSEWHERE = "has no effect here; it belongs in the resources.limits of a container"
_ELSEWHERE += f" or in the annotation {names.ANNOTATION_ASK} of a pod or pod template"
_UNKNOWN = f"is unknown to this release, and no node offers it; a share is {names.ASK}: 300m"
_UNCOUNTED = f"counts nothing; of shares write requests.{names.COUNT} in a quota, {names.COUNT} in"
_UNCOUNTED += f" a LimitRange, 100 for a card; of whole cards the same with {names.WHOLE}"


class _Entry(NamedTuple):
    """A text or a number of an object."""

    holder: tuple[str, ...]
    """The last two keys on the way to it."""
    at: str
    key: str
    value: str | float

    @property
    def note(self) -> str:
        """Its key, if it is an annotation."""
        return self.key if self.holder == _ANNOTATIONS else ""

    def is_ask(self, *, in_pods: bool) -> bool:
        """Whether it was meant as an ask, by where it stands."""
        key, exact = self.key, asks.number(self.value)
        is_fraction = exact is not None and exact.denominator != 1
        is_named = key in names.ASK_KEYS or (key == names.NVIDIA_GPU and is_fraction)
        if self.holder in _RESOURCES:
            return is_named
        if self.note:
            is_share = exact is not None and 0 < exact < 1
            return key == names.ANNOTATION_ASK or (key == names.ASK and is_share)
        if self.holder in _QUOTAS:
            resource = key.removeprefix("requests.").removeprefix("limits.")
            is_ignored = self.holder == _HARD and not key.startswith("requests.")
            return resource in names.ASK_KEYS or (is_ignored and resource in names.GRANT_KEYS)
        if self.holder == _LABELS:
            return key == names.ANNOTATION_ASK
        return in_pods and is_named and exact is not None and not _FREE.search(self.at)


def unread(review: Review, places: Collection[str], *, translated: bool) -> Iterator[Finding]:
    """Yield what to say of such asks in an object that has pods or templates at these places."""
    is_stored = "uid" in (review.object.get("metadata") or {})
    custom = review.kind if is_custom(review.object) and not translated else ""
    is_workload = (review.group, review.kind) in templates.PATHS
    entries = list(_entries(review.object))
    listed = {each[1:] for each in entries}
    for each in entries:
        holder, at, key, value = each
        if at.endswith("requests") and (f"{at[:-8]}limits", key, value) in listed:
            continue
        place = next((way for way in places if f"{at}.".startswith(way and f"{way}.")), None)
        is_read = place is not None and bool(_READ.fullmatch(f"{at[len(place) :]}[{key}]"))
        said = None
        if each.note == names.ANNOTATION_SHARE and not is_stored:
            said = Code.RECORD, "is written by the webhook and never read; leave it out"
        elif holder in _RESOURCES and key not in _KNOWN and _resembles(key):
            said = Code.UNKNOWN_RESOURCE, _UNKNOWN
        elif each.is_ask(in_pods=is_workload or bool(place)):
            said = _of_ask(each, place, custom, is_read=is_read, translated=translated)
        if said:
            yield Finding(said[0], "", f"{at}[{key}]", f"{key}: {asks.shown(value)} {said[1]}")


def _of_ask(
    each: _Entry, place: str | None, custom: str, *, is_read: bool, translated: bool
) -> tuple[Code, str] | None:
    is_note = each.note == names.ANNOTATION_ASK
    if translated and (is_read or is_note):  # of a note elsewhere the webhook speaks
        return None
    if each.holder in _QUOTAS:
        return Code.MISPLACED_ASK, _UNCOUNTED
    if custom and is_note and not is_read:
        text = f"counts only if the operator of {custom} copies it to its pods; annotate a template"
        return Code.CUSTOM_RESOURCE, text
    if custom and (is_read or (not place and each.holder in _RESOURCES)):
        later = f"counts when pods are made of this {custom}; should {custom} itself be refused"
        setting = f"for it, name its templates in {names.ENV_OURS}TEMPLATE_PATHS"
        return Code.CUSTOM_RESOURCE, f"{later} {setting}"
    return Code.MISPLACED_ASK, _ELSEWHERE


def _resembles(key: str) -> bool:
    """Whether a resource's name was meant to be one that we know, such as `GPU` or `gpus`."""
    return key.startswith(names.PREFIX) or key.lower().removesuffix("s") in _KNOWN


def is_custom(document: Json) -> bool:
    """Whether an object is of a kind that is not Kubernetes' own."""
    group = document["apiVersion"].rpartition("/")[0]
    return "." in group and not group.endswith(".k8s.io")


def _entries(value: object, holder: tuple[str, ...] = (), at: str = "") -> Iterator[_Entry]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _entries(item, holder, f"{at}[{index}]")
    elif isinstance(value, dict):
        for key, held in value.items():
            if isinstance(held, str | int | float):
                yield _Entry(holder, at, key, held)
            else:
                yield from _entries(held, (*holder[-1:], key), path(at, key))
