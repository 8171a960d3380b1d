"""Asks that stand where the webhook does not read them: what only a reader of files can see."""

from collections.abc import Iterator
from typing import TypeAlias

from vgpu import names
from webhook import asks
from webhook.findings import Code, Finding, path
from webhook.pod import Json

Holder: TypeAlias = tuple[str, ...]
"""The last two keys on the way to an entry."""

_RESOURCES = {("resources", "limits"), ("resources", "requests")}
_ANNOTATIONS, _LABELS = ("metadata", "annotations"), ("metadata", "labels")
_QUOTAS = {("spec", "hard")} | {
    ("limits", key) for key in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
}
"""Of ResourceQuota and LimitRange, which look at what pods have after their translation."""


def unread(document: Json, *, translated: bool) -> Iterator[Finding]:
    """Yield what to say of the asks that an object holds after its translation.

    `translated` says whether its kind is one that has any.
    """
    kind, group = str(document.get("kind")), str(document.get("apiVersion")).rpartition("/")[0]
    is_custom = not translated and "." in group and not group.endswith(".k8s.io")
    is_stored = "uid" in (document.get("metadata") or {})
    for holder, at, key, value in _entries(document):
        code, text = Code.MISPLACED_ASK, f"{key}: {asks.shown(value)}"
        if holder == _ANNOTATIONS and key == names.ANNOTATION_SHARE and not is_stored:
            code, text = Code.RECORD, f"the webhook writes {key} and never reads it; leave it out"
        elif not _is_ask(holder, key, value) or (translated and _is_read(holder, key)):
            continue
        elif holder in _QUOTAS:
            text += f" counts nothing: pods hold {names.COUNT} by then, 100 for a card"
        elif is_custom:
            code = Code.CUSTOM_RESOURCE
            text += f" counts when pods are made of this {kind}; should {kind} itself be refused"
            text += f" for it, name its templates in {names.ENV_OURS}TEMPLATE_PATHS"
        else:
            text += " has no effect here; it belongs in the resources.limits of a container"
            text += f" or in the annotation {names.ANNOTATION_ASK} of a pod or pod template"
        yield Finding(code, "", f"{at}[{key}]", text)


def _entries(
    value: object, holder: Holder = (), at: str = ""
) -> Iterator[tuple[Holder, str, str, object]]:
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
        return key.removeprefix("requests.").removeprefix("limits.") in names.ASK_KEYS
    return holder == _LABELS and key == names.ANNOTATION_ASK


def _is_read(holder: Holder, key: str) -> bool:
    return (holder, key) == (_ANNOTATIONS, names.ANNOTATION_ASK)
