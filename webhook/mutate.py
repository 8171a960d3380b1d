"""The decision: what an object is to look like. Pure and idempotent, on raw JSON."""

from collections.abc import Iterator
from dataclasses import dataclass

from vgpu import names
from webhook import templates
from webhook.complete import complete
from webhook.config import Config
from webhook.findings import Code, Denied, Finding, path
from webhook.notes import unknown
from webhook.pod import Json, annotations, controller
from webhook.removal import released, removed
from webhook.review import Review
from webhook.settle import restored, settled
from webhook.translate import Translation, rewritten, translate


@dataclass(frozen=True, slots=True)
class Desired:
    """The answer: the object, the very one that was sent if nothing changes, and warnings."""

    object: Json
    warnings: list[Finding]
    faults: list[Finding]
    """None, in what `desired` returns."""


def desired(review: Review, config: Config) -> Desired:
    """Return what the object is to be; untouched parts are shared with it, which stays as it is.

    Raises Denied with every fault that this request brings.
    """
    place = templates.PATHS.get((review.group, review.kind))
    if place is None:
        text = f"kind {review.kind} is not one that is translated"
        return Desired(review.object, [Finding(Code.UNTRANSLATED, "", "kind", text)], [])
    made = _made(review, place, config)
    if review.old is not None and (made.faults or made.warnings):
        before = Review(review.group, review.kind, review.old, None)
        made = _news(made, _made(before, place, config))
    if made.faults:
        raise Denied(*made.faults, warnings=made.warnings)
    # Nobody reads the warnings on what a controller makes.
    return Desired(made.object, [] if controller(review.object) else made.warnings, [])


def _news(made: Desired, before: Desired) -> Desired:
    """Keep only the faults and warnings that an update brings."""
    known = {*before.warnings, *before.faults}
    warnings, faults = (
        [finding for finding in found if finding not in known]
        for found in (made.warnings, made.faults)
    )
    return Desired(made.object, warnings, faults)


def _made(review: Review, place: templates.Path, config: Config) -> Desired:
    return _template(review, place, config) if place else _pod(review.object, review.old, config)


def _pod(document: Json, old: Json | None, config: Config) -> Desired:
    """Give a new pod everything; let a stored one keep what it has."""
    if old is not None:
        document = restored(document, old)
    translation = translate(document, "", old, config, annotated=True)
    pod = rewritten(document, translation, annotated=True)
    pod, warnings = complete(pod, "", translation, config)
    warnings, faults = [*translation.warnings, *warnings], translation.faults
    if old is not None:
        pod = settled(document, pod, old)
        faults = [*faults, *_changed_shares(translation, document, old)]
    return Desired(pod, warnings, faults)


def _changed_shares(translation: Translation, document: Json, old: Json) -> Iterator[Finding]:
    """Find asks that this update brings and that differ from what the pod has."""
    note, old_note = (annotations(pod, "").get(names.ANNOTATION_ASK) for pod in (document, old))
    for decision in translation.decisions:
        had, ask = decision.stored, decision.ask
        if had is None or ask is None or decision.faults:
            continue
        is_new = set(decision.reading.ask_keys) - set(had.ask_keys)
        if not is_new and not (decision.noted and note != old_note):
            continue
        if had.grants != ([decision.grant] if decision.grant else []):
            has = " and ".join(map(str, had.grants)) or "none"
            text = f"{ask.text}: a pod's share cannot change (it has {has})"
            text += "; delete the pod and create it again"
            yield ask.finding(Code.SHARE_CHANGED, decision.reading.container, text)


def _template(review: Review, place: templates.Path, config: Config) -> Desired:
    """Translate only the resources of a template; its pods get the rest when they are made."""
    document, at = review.object, path(*place)
    template, stored = (templates.get(each, place) for each in (document, review.old))
    owner = controller(document)
    if not isinstance(template, dict) or _is_deployment(owner):
        return Desired(document, [], [])
    sent, stored = template, stored if isinstance(stored, dict) else None
    if stored and not owner:
        template = released(template, stored, at, removed(review, place))
    # A stored template never changes by itself: a Job's may not, a Deployment's would roll out.
    if template == stored:
        return Desired(document, _misplaced(document, template, place), [])
    translation = translate(template, at, stored, config, annotated=False)
    if owner and not any(decision.reading.ask_keys for decision in translation.decisions):
        return Desired(document, [], [])
    pod = rewritten(template, translation, annotated=True)
    _, warnings = complete(pod, at, translation, config)
    warnings = [*_misplaced(document, template, place), *translation.warnings, *warnings]
    translated = rewritten(template, translation, annotated=False)
    if translated is not sent:
        document = templates.replaced(document, place, translated)
    return Desired(document, warnings, translation.faults)


def _is_deployment(owner: Json) -> bool:
    """Whether it makes another ReplicaSet, without end, where it finds its own one changed."""
    return owner.get("kind") == "Deployment" and str(owner.get("apiVersion")).startswith("apps/")


def _misplaced(document: Json, template: Json, place: templates.Path) -> list[Finding]:
    """Return warnings of annotations on a workload that belong on its pods."""
    wanted = annotations(template, path(*place))
    warnings: list[Finding] = []
    # A CronJob's jobTemplate has metadata; `spec` has not, but looking there finds nothing.
    for holder in (place[:depth] for depth in range(len(place))):
        found, at = (
            annotations(templates.get(document, holder) or {}, path(*holder)),
            path(*holder, "metadata"),
        )
        text = f"annotation {{}} on {at} has no effect; it belongs on {path(*place, 'metadata')}"
        warnings += unknown(found, at)
        warnings += [
            Finding(Code.MISPLACED_ANNOTATION, at, f"annotations[{key}]", text.format(key))
            for key in names.ANNOTATIONS_READ
            if key in found and key not in wanted
        ]
    return warnings
