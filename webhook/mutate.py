"""The decision: what an object is to look like. Pure and idempotent, on raw JSON."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

from vgpu import names
from webhook import templates
from webhook.complete import complete
from webhook.config import Config
from webhook.findings import Code, Denied, Finding
from webhook.notes import unknown
from webhook.pod import Json, annotations, controller
from webhook.removal import Claimed, Claims, released, removed
from webhook.review import Review
from webhook.settle import restored, settled
from webhook.templates import Path, Pattern
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
    found = templates.patterns(review, config.template_paths)
    if not found:
        return _untranslated(review, f"kind {review.kind} is not one that is translated")
    made = (
        _templates(review, found, config) if found[0] else _pod(review.object, review.old, config)
    )
    if made.faults:
        raise Denied(*made.faults, warnings=made.warnings)
    # Nobody reads the warnings on what a controller makes.
    return Desired(made.object, [] if controller(review.object) else made.warnings, [])


def _untranslated(review: Review, why: str) -> Desired:
    return Desired(review.object, [Finding(Code.UNTRANSLATED, "", "kind", why)], [])


def _news(made: Desired, before: Desired) -> Desired:
    """Keep only the faults and warnings that an update brings."""
    known = {*before.warnings, *before.faults}
    warnings, faults = (
        [finding for finding in found if finding not in known]
        for found in (made.warnings, made.faults)
    )
    return Desired(made.object, warnings, faults)


def _pod(document: Json, old: Json | None, config: Config, *, news: bool = True) -> Desired:
    """Give a new pod everything; let a stored one keep what it has."""
    if old is not None:
        document = restored(document, old)
    translation = translate(document, "", old, config, annotated=True)
    pod = rewritten(document, translation, annotated=True)
    pod, warnings = complete(pod, "", translation, config)
    made = Desired(pod, [*translation.warnings, *warnings], translation.faults)
    if old is None:
        return made
    made.faults.extend(_changed_shares(translation, document, old))
    made = Desired(settled(document, pod, old), made.warnings, made.faults)
    if news and (made.faults or made.warnings):
        return _news(made, _pod(old, old, config, news=False))
    return made


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


def _templates(review: Review, found: list[Pattern], config: Config) -> Desired:
    """Translate an object's templates, one after the other."""
    document, owner = review.object, controller(review.object)
    if _is_deployment(owner):
        return Desired(document, [], [])
    places = templates.places(document, found)
    if len(places) > templates.MOST_TEMPLATES:
        text = f"{review.kind}: over {templates.MOST_TEMPLATES} templates; none is translated"
        return _untranslated(review, text)
    warnings, faults = _misplaced(document, found, places), list[Finding]()
    if review.old is not None and warnings:
        known = _misplaced(review.old, found, places)
        warnings = [warning for warning in warnings if warning not in known]
    kept = repeat((Claims(), Claims()))
    let_go = removed(review, places) if review.old and not owner else kept
    for place, claimed in zip(places, let_go, strict=False):
        template, stored = (templates.get(each, place) for each in (document, review.old))
        stored = stored if isinstance(stored, dict) else None
        made = _template(template, stored, templates.spelled(place), claimed, bool(owner), config)
        if made.object is not template:
            document = templates.replaced(document, place, made.object)
        warnings, faults = warnings + made.warnings, faults + made.faults
    return Desired(document, warnings, faults)


def _template(
    sent: Json, stored: Json | None, at: str, claimed: Claimed, owned: bool, config: Config
) -> Desired:
    """Translate only the resources of a template; its pods get the rest when they are made."""
    try:
        gone, declared = claimed
        template = released(sent, stored, at, gone) if stored and not owned else sent
        # A stored template never changes by itself: a Job's may not, a Deployment's would roll out.
        if template == stored:
            return Desired(sent, [], [])
        # An ask replaces what an earlier one made, not what the manifest declares beside it.
        made_by_us = released(stored, stored, at, declared) if stored else None
        translation = translate(template, at, made_by_us, config, annotated=False)
        if owned and not any(decision.reading.ask_keys for decision in translation.decisions):
            return Desired(sent, [], [])
        pod = rewritten(template, translation, annotated=True)
        _, warnings = complete(pod, at, translation, config)
        translated = rewritten(template, translation, annotated=False)
        made = Desired(translated, [*translation.warnings, *warnings], translation.faults)
    except Denied as denial:
        made = Desired(sent, [], list(denial.findings))
    if stored is None or not (made.faults or made.warnings):
        return made
    return _news(made, _template(stored, None, at, claimed, False, config))


def _is_deployment(owner: Json) -> bool:
    """Whether it makes another ReplicaSet, without end, where it finds its own one changed."""
    return owner.get("kind") == "Deployment" and str(owner.get("apiVersion")).startswith("apps/")


def _misplaced(document: Json, found: list[Pattern], places: list[Path]) -> list[Finding]:
    """Return warnings of annotations on a workload that belong on its pods."""
    belongs = " or ".join(templates.spelled((*pattern, "metadata")) for pattern in found)
    text = f"annotation {{}} on {{}} has no effect; it belongs on {belongs}"
    wanted = {key for place in places for key in _noted(document, place)}
    warnings: list[Finding] = []
    # A CronJob's jobTemplate has metadata; `spec` has not, but looking there finds nothing.
    for holder in dict.fromkeys(place[:depth] for place in places for depth in range(len(place))):
        noted, at = _noted(document, holder), templates.spelled((*holder, "metadata"))
        warnings += unknown(noted, at)
        warnings += [
            Finding(Code.MISPLACED_ANNOTATION, at, f"annotations[{key}]", text.format(key, at))
            for key in names.ANNOTATIONS_READ
            if key in noted and key not in wanted
        ]
    return warnings


def _noted(document: Json, holder: Path) -> Json:
    """Return the annotations of a part; only the object's own are known to be such."""
    if not holder:
        return annotations(document, "")
    found = templates.get(document, (*holder, "metadata", "annotations"))
    return found if isinstance(found, dict) else {}
