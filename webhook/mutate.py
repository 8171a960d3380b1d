"""The decision: what an object is to look like. Pure and idempotent, on raw JSON."""

from collections.abc import Iterator
from dataclasses import dataclass

from vgpu import names
from webhook import resources, templates
from webhook.complete import complete
from webhook.config import Config
from webhook.notes import unknown
from webhook.pod import Denied, Fault, Json, annotations, containers, controller
from webhook.settle import settled
from webhook.translate import Translation, held, rewritten, translate


@dataclass(frozen=True, slots=True)
class Review:
    """What is asked of us: an object on its way into the cluster."""

    operation: str
    """`CREATE` or `UPDATE`; anything else changes nothing."""
    group: str
    kind: str
    object: Json
    old: Json | None
    """The stored object, on UPDATE."""


@dataclass(frozen=True, slots=True)
class Desired:
    """The answer: the object, the very one that was sent if nothing changes, and warnings."""

    object: Json
    warnings: tuple[str, ...] = ()


def desired(review: Review, config: Config) -> Desired:
    """Return what the object is to be; untouched parts are shared with it, which stays as it is.

    Raises Denied with every fault that this request brings.
    """
    path = templates.PATHS.get((review.group, review.kind))
    if path is None:
        return Desired(review.object, (f"kind {review.kind} is not one that is translated",))
    if review.operation not in ("CREATE", "UPDATE"):
        return Desired(review.object)
    made = _made(review.object, review.old, path, config)
    if review.old is not None and (made.faults or made.warnings):
        made = _news(made, _made(review.old, None, path, config))
    if made.faults:
        raise Denied(list(made.faults))
    # Nobody reads the warnings on what a controller makes.
    return Desired(made.object, () if controller(review.object) else made.warnings)


@dataclass(frozen=True, slots=True)
class _Made:
    object: Json
    faults: tuple[Fault, ...] = ()
    warnings: tuple[str, ...] = ()


def _news(made: _Made, before: _Made) -> _Made:
    """Keep only the faults and warnings that an update brings."""
    known = {fault.identity for fault in before.faults}
    return _Made(
        made.object,
        tuple(fault for fault in made.faults if fault.identity not in known),
        tuple(text for text in made.warnings if text not in before.warnings),
    )


def _made(document: Json, old: Json | None, path: tuple[str, ...], config: Config) -> _Made:
    return _template(document, old, path, config) if path else _pod(document, old, config)


def _pod(document: Json, old: Json | None, config: Config) -> _Made:
    """Give a new pod everything; let a stored one keep what it has."""
    translation = translate(document, "", held(old, ""), config, annotated=True)
    completed = complete(rewritten(document, translation, annotated=True), "", translation, config)
    warnings = (*translation.warnings, *completed.warnings)
    if old is None:
        return _Made(completed.pod, translation.faults, warnings)
    faults = (*translation.faults, *_changed_shares(translation, document, old))
    return _Made(settled(document, completed.pod, old), faults, warnings)


def _changed_shares(translation: Translation, document: Json, old: Json) -> Iterator[Fault]:
    """Find asks that this update brings and that differ from what the pod has."""
    before = {item.name: resources.read(item) for item in containers(old, "")}
    noted = annotations(document, "").get(names.ANNOTATION_ASK)
    note_is_new = noted != annotations(old, "").get(names.ANNOTATION_ASK)
    for decision in translation.decisions:
        had = before.get(decision.container.name)
        if had is None or decision.faults or decision.ask is None:
            continue
        is_new = set(decision.reading.ask_keys) - set(had.ask_keys)
        if not is_new and not (decision.noted and note_is_new):
            continue
        if tuple(had.grants) != ((decision.grant,) if decision.grant else ()):
            has = " and ".join(str(grant) for grant in had.grants) or "none"
            text = f"{decision.ask.text}: a pod's share cannot change (it has {has})"
            yield decision.ask.blame(
                decision.container, f"{text}; delete the pod and create it again"
            )


def _template(document: Json, old: Json | None, path: tuple[str, ...], config: Config) -> _Made:
    """Translate only the resources of a template; its pods get the rest when they are made."""
    template, at = templates.get(document, path), ".".join(path)
    owner = controller(document)
    if not isinstance(template, dict) or _is_deployment(owner):
        return _Made(document)
    before = templates.get(old, path)
    # A stored template never changes by itself: a Job's may not, a Deployment's would roll out.
    if template == before:
        return _Made(document, (), tuple(_misplaced(document, template, path)))
    stored = held(before, at) if isinstance(before, dict) else {}
    translation = translate(template, at, stored, config, annotated=False)
    if owner and not any(decision.reading.ask_keys for decision in translation.decisions):
        return _Made(document)
    translated = rewritten(template, translation, annotated=False)
    pods = complete(translated, at, translation, config)
    return _Made(
        document if translated is template else templates.replaced(document, path, translated),
        translation.faults,
        (*_misplaced(document, template, path), *translation.warnings, *pods.warnings),
    )


def _is_deployment(owner: Json) -> bool:
    """Whether it makes another ReplicaSet, without end, where it finds its own one changed."""
    return owner.get("kind") == "Deployment" and str(owner.get("apiVersion")).startswith("apps/")


def _misplaced(document: Json, template: Json, path: tuple[str, ...]) -> Iterator[str]:
    """Warn of annotations on a workload that belong on its pods."""
    wanted = annotations(template, ".".join(path))
    for holder in templates.holders(path):
        at = ".".join(holder)
        found = annotations(templates.get(document, holder) or {}, at)
        yield from unknown(found)
        for key in names.ANNOTATIONS_READ:
            if key in found and key not in wanted:
                place = f"{at}.metadata" if at else "metadata"
                yield (
                    f"annotation {key} on {place} has no effect; "
                    f"it belongs on {'.'.join(path)}.metadata"
                )
