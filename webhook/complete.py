"""What a pod gets at its creation, beside its resources: all of it follows from its grants."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from vgpu import names, quantity
from webhook import asks, serving
from webhook.asks import Grant
from webhook.config import Config
from webhook.pod import Container, Json, annotations, containers, mapping, sequence, with_bodies
from webhook.translate import Decision, Translation

_encode = json.JSONEncoder(separators=(",", ":")).encode
_LEAST_CPU = Fraction(1, 10)
"""In CPUs: the least limit that is set, below which a container hardly starts."""
_REQUEST_PART = Fraction(1, 10)
"""Part of an added CPU limit that is requested, so that shares do not book the node out."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A pod and what to tell the person who wrote it."""

    pod: Json
    warnings: tuple[str, ...]


def complete(pod: Json, at: str, translation: Translation, config: Config) -> Completed:
    """Return a translated pod with environment, arguments, CPU limits, record and scheduling.

    A pod without a grant gets nothing.
    """
    if not translation.has_grant:
        return Completed(_recorded(pod, at, translation), ())
    warnings: list[str] = []
    throttle = translation.notes.throttle and not mapping(pod, "spec", at).get("resources")
    bodies = {}
    for item, decision in zip(containers(pod, at), translation.decisions, strict=True):
        body = _container(item, decision, translation, throttle, config, warnings)
        if body is not item.body:
            bodies[(item.section, item.index)] = body
    pod = _scheduled(with_bodies(pod, bodies), at, config)
    return Completed(_recorded(pod, at, translation), tuple(warnings))


def _container(
    item: Container,
    decision: Decision,
    translation: Translation,
    throttle: bool,
    config: Config,
    warnings: list[str],
) -> Json:
    if decision.grant is None:
        return item.body if decision.reading.has_gpu else _void(item, warnings)
    if item.body.get("envFrom"):
        warnings.append(
            f"container {item.name}: envFrom cannot be seen into; "
            f"{names.ENV_VISIBLE_DEVICES} or CUDA_VISIBLE_DEVICES there would break the share"
        )
    steps: list[Callable[[Container], Json]] = [lambda at: _unreserved(at, warnings)]
    if decision.grant.is_share:
        share = decision.grant.share
        framework = _framework(decision, translation)
        steps += [
            lambda at: _fraction(at, share, warnings),
            lambda at: _served(at, framework, share, warnings),
        ]
        if throttle:
            steps.append(lambda at: _throttled(at, share, config, warnings))
    for step in steps:
        body = step(item)
        if body is not item.body:
            item = Container(item.section, item.index, item.at, item.name, body)
    return item.body


def _with_env(item: Container, env: list[Json]) -> Json:
    return {**item.body, "env": env}


def _void(item: Container, warnings: list[str]) -> Json:
    """Hide the cards from a container without a GPU: an image may ask for all of them."""
    env = item.env()
    own = [entry for entry in env if entry.get("name") == names.ENV_VISIBLE_DEVICES]
    wanted = {"name": names.ENV_VISIBLE_DEVICES, "value": names.VOID}
    if own == [wanted]:
        return item.body
    if own:
        warnings.append(
            f"container {item.name}: {names.ENV_VISIBLE_DEVICES} is set to {names.VOID}; "
            "the container has no GPU of its own in a pod with a share"
        )
    return _with_env(item, _with_entry(env, wanted))


def _unreserved(item: Container, warnings: list[str]) -> Json:
    """Remove the variables that would beat the plugin's: a pod's own come last."""
    env = item.env()
    gone = [entry for entry in env if names.is_reserved(str(entry.get("name")))]
    if not gone:
        return item.body
    named = ", ".join(asks.shown(entry["name"]) for entry in gone)
    warnings.append(f"container {item.name}: {named} removed; the share decides what it sees")
    kept = [entry for entry in env if not names.is_reserved(str(entry.get("name")))]
    return _with_env(item, kept)


def _fraction(item: Container, share: Fraction, warnings: list[str]) -> Json:
    env = item.env()
    own = [entry for entry in env if entry.get("name") == names.ENV_FRACTION]
    value = quantity.decimal(share, 2)
    if own and all(_within(entry.get("value"), share) for entry in own):
        return item.body
    if own:
        shown = asks.shown(own[-1].get("value", "from elsewhere"))
        warnings.append(
            f"container {item.name}: {names.ENV_FRACTION} {shown} replaced by {value}, its share"
        )
    return _with_env(item, _with_entry(env, {"name": names.ENV_FRACTION, "value": value}))


def _within(value: Any, share: Fraction) -> bool:
    try:
        return isinstance(value, str) and 0 < quantity.plain(value) <= share
    except ValueError:
        return False


def _with_entry(env: list[Json], entry: Json) -> list[Json]:
    """Put an entry where one of its name stood first, or at the end."""
    stood = [index for index, other in enumerate(env) if other.get("name") == entry["name"]]
    if not stood:
        return [*env, entry]
    rest = [other for other in env if other.get("name") != entry["name"]]
    return [*rest[: stood[0]], entry, *rest[stood[0] :]]


def _framework(decision: Decision, translation: Translation) -> str | None:
    said = translation.notes.frameworks
    if "" not in said:
        return said.get(decision.container.name)
    return said[""] if decision is _main(translation) else None


def _main(translation: Translation) -> Decision | None:
    """Return the main container: the one that the ask is for, or one of those with a share."""
    said, decisions = translation.notes, translation.decisions
    if "" in said.asks:
        return next((item for item in decisions if item.noted), None)
    shares = [item for item in decisions if item.grant and item.grant.is_share]
    apps = [item for item in shares if item.container.section == "containers"]
    named = [item for item in apps if item.container.name == said.default_container]
    return next(iter((*named, *apps, *shares)), None)


def _served(item: Container, framework: str | None, share: Fraction, warnings: list[str]) -> Json:
    body, warning = serving.limited(item, framework, share)
    if warning:
        warnings.append(warning)
    return body


def _throttled(item: Container, share: Fraction, config: Config, warnings: list[str]) -> Json:
    """Add a CPU limit where there is none: never below the request, which is small if added."""
    resources = item.mapping("resources")
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    if names.CPU in limits:
        return item.body
    try:
        request = asks.number(requests.get(names.CPU, 0))
    except ValueError:
        return item.body  # the API server refuses it with its own message
    limit = max(share * config.cpus_per_gpu, request, _LEAST_CPU)
    added = {"limits": {**limits, names.CPU: quantity.milli(limit)}}
    if names.CPU not in requests:
        added["requests"] = {**requests, names.CPU: quantity.milli(limit * _REQUEST_PART)}
    warnings.append(
        f"container {item.name}: gets a CPU limit of {quantity.milli(limit)} with its share; "
        f"set limits.cpu to choose it, or annotate {names.ANNOTATION_THROTTLE}: 'off'"
    )
    return {**item.body, "resources": {**resources, **added}}


def _recorded(pod: Json, at: str, translation: Translation) -> Json:
    """Write the record of the grants; one that was copied from another pod goes."""
    record = {
        decision.container.name: _record(decision.grant)
        for decision in translation.decisions
        if decision.grant
    }
    text = _encode(record) if record else None
    found = annotations(pod, at)
    if found.get(names.ANNOTATION_SHARE) == text:
        return pod
    kept = {key: value for key, value in found.items() if key != names.ANNOTATION_SHARE}
    noted = {**kept, names.ANNOTATION_SHARE: text} if text else kept
    return {**pod, "metadata": {**mapping(pod, "metadata", at), "annotations": noted}}


def _record(grant: Grant) -> Json:
    if grant.is_share:
        return {"slots": grant.number, "share": quantity.decimal(grant.share, 2)}
    return {"cards": grant.number}


def _scheduled(pod: Json, at: str, config: Config) -> Json:
    """Add the settings' tolerations and runtime class where the pod lacks them."""
    spec = mapping(pod, "spec", at)
    present = sequence(spec, "tolerations", f"{at}.spec" if at else "spec", dict)
    missing = [
        wanted
        for wanted in config.tolerations
        if not any(_covers(toleration, wanted) for toleration in present)
    ]
    added: Json = {"tolerations": [*present, *missing]} if missing else {}
    if config.runtime_class and not spec.get("runtimeClassName"):
        added["runtimeClassName"] = config.runtime_class
    return {**pod, "spec": {**spec, **added}} if added else pod


def _covers(present: Json, wanted: dict[str, str]) -> bool:
    """Whether a toleration of the pod tolerates all that a wanted one does, for ever."""
    if present.get("tolerationSeconds") is not None:
        return False
    if present.get("effect") and present.get("effect") != wanted.get("effect"):
        return False
    if present.get("operator") == "Exists":
        return not present.get("key") or present["key"] == wanted.get("key")
    return all(
        (present.get(field) or default) == (wanted.get(field) or default)
        for field, default in (("key", ""), ("operator", "Equal"), ("value", ""))
    )
