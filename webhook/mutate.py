"""The decision: what an object is to look like. Pure and idempotent, on raw JSON."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import TypeAlias

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

Made: TypeAlias = tuple[Json, list[Finding]]
"""An object as it is to be, and what there is to say of it."""


@dataclass(frozen=True, slots=True)
class Desired:
    """The answer: the object, the very one that was sent if nothing changes, and warnings."""

    object: Json
    warnings: list[Finding]


def desired(review: Review, config: Config) -> Desired:
    """Return what the object is to be; untouched parts are shared with it, which stays as it is.

    Raises Denied with every fault that this request brings.
    """
    found = templates.patterns(review, config.template_paths)
    if found and not found[0]:
        made, findings = _pod(review.object, review.old, config)
    else:
        made, findings = _templates(review, found, config)
    if any(finding.code.level == "error" for finding in findings):
        raise Denied(*findings)
    # Nobody reads the warnings on what a controller makes.
    return Desired(made, [] if controller(review.object) else findings)


def _pod(document: Json, old: Json | None, config: Config, *, news: bool = True) -> Made:
    """Give a new pod everything; let a stored one keep what it has."""
    if old is not None:
        document = restored(document, old)
    translation = translate(document, "", old, config, annotated=True)
    pod, findings = complete(document, "", translation, config)
    if old is None:
        return pod, findings
    findings += _changed_shares(translation, document, old)
    if findings and news:
        known = set(_pod(old, old, config, news=False)[1])
        findings = [each for each in findings if each not in known]
    return settled(document, pod, old), findings


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


def _templates(review: Review, found: list[Pattern], config: Config) -> Made:
    """Translate an object's templates, one after the other."""
    document, owner = review.object, controller(review.object)
    places = templates.places(document, found)
    if _is_deployment(owner):
        return document, []
    why = "" if found else f"kind {review.kind} is not one that is translated"
    if len(places) > templates.MOST_TEMPLATES:
        why = f"{review.kind}: over {templates.MOST_TEMPLATES} templates; none is translated"
    if why:
        return document, [Finding(Code.UNTRANSLATED, "", "kind", why)]
    findings = _misplaced(document, found, places)
    if review.old is not None and findings:
        known = _misplaced(review.old, found, places)
        findings = [finding for finding in findings if finding not in known]
    kept = repeat((Claims(), Claims()))
    let_go = removed(review, places) if review.old and not owner else kept
    for place, claimed in zip(places, let_go, strict=False):
        template, stored = (templates.get(each, place) for each in (document, review.old))
        stored = stored if isinstance(stored, dict) else None
        at = templates.spelled(place)
        made, said = _template(template, stored, at, claimed, bool(owner), config)
        if made is not template:
            document = templates.replaced(document, place, made)
        findings += said
    return document, findings


def _template(
    sent: Json, stored: Json | None, at: str, claimed: Claimed, owned: bool, config: Config
) -> Made:
    """Translate only the resources of a template; its pods get the rest when they are made."""
    try:
        gone, declared = claimed
        template = released(sent, stored, at, gone) if stored and not owned else sent
        # A stored template never changes by itself: a Job's may not, a Deployment's would roll out.
        if template == stored:
            return sent, []
        # An ask replaces what an earlier one made, not what the manifest declares beside it.
        made_by_us = released(stored, stored, at, declared) if stored else None
        translation = translate(template, at, made_by_us, config, annotated=False)
        if owned and not any(decision.reading.ask_keys for decision in translation.decisions):
            return sent, []
        _, findings = complete(template, at, translation, config)
        made = rewritten(template, translation, annotated=False)
    except Denied as denial:
        made, findings = sent, list(denial.findings)
    if stored and findings:
        known = set(_template(stored, None, at, claimed, False, config)[1])
        findings = [each for each in findings if each not in known]
    return made, findings


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
    found = templates.get(document, (*holder, "metadata", "annotations"))
    return found if isinstance(found, dict) else {}
