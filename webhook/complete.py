"""What a pod gets at its creation, beside its resources: all of it follows from its grants."""

from fractions import Fraction
from functools import partial

from vgpu import names, quantity, slots
from webhook import serving
from webhook.asks import Grant, is_within, number, shown
from webhook.config import LEAST_CPUS, Config
from webhook.findings import Code, Finding, path
from webhook.pod import (
    Container,
    Json,
    annotations,
    containers,
    encode,
    mapping,
    sequence,
    with_bodies,
)
from webhook.serving import Warn
from webhook.translate import Translation, rewritten

_REQUEST_PART = Fraction(1, 10)
"""Part of an added CPU limit that is requested, so that shares do not book the node out."""


def complete(
    pod: Json, at: str, translation: Translation, config: Config
) -> tuple[Json, list[Finding]]:
    """Return a pod with its grants and what they bring: variables, arguments, limits, scheduling.

    A pod without a grant gets nothing. The findings are for the person who wrote it.
    """
    pod, findings = rewritten(pod, translation, annotated=True), [*translation.findings]
    if not any(decision.grant for decision in translation.decisions):
        return _recorded(pod, at, translation), findings
    throttle = translation.notes.throttle and not mapping(pod, "spec", at).get("resources")
    throttled, frameworks = config if throttle else None, _frameworks(translation)
    bodies = []
    for item, decision in zip(containers(pod, at), translation.decisions, strict=True):
        warn = partial(_say, findings, item)
        if decision.grant:
            framework = frameworks.get(item.name)
            bodies.append(_granted(item, decision.grant, framework, throttled, warn))
        else:
            bodies.append(item.body if decision.reading.has_gpu else _void(item, warn))
    pod = _scheduled(with_bodies(pod, bodies), at, config)
    return _recorded(pod, at, translation), findings


def _say(found: list[Finding], item: Container, code: Code, field: str, text: str) -> None:
    found.append(item.finding(code, field, text))


def _granted(
    item: Container, grant: Grant, framework: str | None, throttled: Config | None, warn: Warn
) -> Json:
    if item.body.get("envFrom"):
        variables = f"{names.ENV_VISIBLE_DEVICES} or {names.ENV_CUDA_DEVICES}"
        text = f"envFrom cannot be seen into; {variables} there would undo what the plugin gives"
        warn(Code.ENV_FROM, "envFrom", text)
    written = item.env()
    env, changes, share = _unreserved(written, warn), {}, grant.share
    if share:
        env = _with_fraction(env, share, slots.decimal(grant.number), warn)
        changes = serving.limited(item, framework, share, warn)
    if env is not written:
        changes["env"] = env
    body = _throttled(item, share, throttled, warn) if share and throttled else item.body
    return {**body, **changes} if changes else body


def _void(item: Container, warn: Warn) -> Json:
    """Hide the cards from a container without a GPU: an image may ask for all of them."""
    env = item.env()
    own = _named(env, names.ENV_VISIBLE_DEVICES)
    wanted = {"name": names.ENV_VISIBLE_DEVICES, "value": names.VOID}
    if own == [wanted]:
        return item.body
    if own:
        why = "the container has no GPU of its own in a pod with one"
        warn(Code.VOID, "env", f"{names.ENV_VISIBLE_DEVICES} is set to {names.VOID}; {why}")
    return {**item.body, "env": _with_entry(env, wanted)}


def _unreserved(env: list[Json], warn: Warn) -> list[Json]:
    """Remove the variables that would beat the plugin's: a pod's own come last."""
    kept = [entry for entry in env if not names.is_reserved(str(entry.get("name")))]
    if len(kept) == len(env):
        return env
    gone = (shown(entry["name"]) for entry in env if names.is_reserved(str(entry.get("name"))))
    text = f"{', '.join(gone)} removed from the pod; the plugin decides what it sees"
    warn(Code.RESERVED_VARIABLE, "env", text)
    return kept


def _with_fraction(env: list[Json], share: Fraction, value: str, warn: Warn) -> list[Json]:
    own = _named(env, names.ENV_FRACTION)
    # Applied again, a `valueFrom` comes merged with the value that once took its place.
    held = [None if entry.get("valueFrom") else entry.get("value") for entry in own]
    if own and all(is_within(text, share) for text in held):
        return env
    if own:
        was = f"{names.ENV_FRACTION} {shown(held[-1] or 'from elsewhere')}"
        warn(Code.MEMORY_FRACTION, "env", f"{was} replaced by {value}, its share")
    return _with_entry(env, {"name": names.ENV_FRACTION, "value": value})


def _named(env: list[Json], name: str) -> list[Json]:
    return [entry for entry in env if entry.get("name") == name]


def _with_entry(env: list[Json], entry: Json) -> list[Json]:
    """Put an entry where one of its name stood first, or at the end."""
    named, name = [other.get("name") for other in env], entry["name"]
    place = named.index(name) if name in named else len(env)
    return [*env[:place], entry, *(other for other in env[place:] if other.get("name") != name)]


def _frameworks(translation: Translation) -> dict[str, str]:
    """Return the annotated frameworks by the containers' names.

    One without a name is for the container that the annotated ask is for, or for one with a share.
    """
    said, decisions = translation.notes, translation.decisions
    if "" not in said.frameworks:
        return said.frameworks
    noted = [each.reading.container for each in decisions if each.noted and "" in said.asks]
    shares = [each.reading.container for each in decisions if each.grant and each.grant.share]
    apps = [each for each in shares if each.section == "containers"]
    named = [each for each in apps if each.name == said.default_container]
    return {each.name: said.frameworks[""] for each in (*noted, *named, *apps, *shares)[:1]}


def _throttled(item: Container, share: Fraction, config: Config, warn: Warn) -> Json:
    """Add a CPU limit where there is none: never below the request, which is small if added."""
    limits, requests = item.sides()
    own = None if names.CPU in limits else number(requests.get(names.CPU, 0))
    if own is None:  # and what is no number, the API server refuses
        return item.body
    limit = max(min(share * config.cpus_per_gpu, config.cpu_limit_max), own, LEAST_CPUS)
    request = own if names.CPU in requests else limit * _REQUEST_PART
    added = {} if names.CPU in requests else {names.CPU: quantity.milli(request)}
    gets = f"gets a CPU limit of {quantity.milli(limit)} with its share"
    part = f"{quantity.milli(request)} of it requested, unless a LimitRange sets one"
    choose = f"set limits.cpu to choose it, or annotate {names.ANNOTATION_THROTTLE}: 'off'"
    warn(Code.CPU_LIMIT, "resources.limits", f"{gets}, {part}; {choose}")
    return item.with_sides({**limits, names.CPU: quantity.milli(limit)}, {**requests, **added})


def _recorded(pod: Json, at: str, translation: Translation) -> Json:
    """Write the record of the grants; one that was copied from another pod goes."""
    grants = {each.reading.container.name: each.grant for each in translation.decisions}
    record = {name: _record(grant) for name, grant in grants.items() if grant}
    found = annotations(pod, at)
    noted = {key: value for key, value in found.items() if key != names.ANNOTATION_SHARE}
    if record:
        noted[names.ANNOTATION_SHARE] = encode(record)
    if noted == found:
        return pod
    return {**pod, "metadata": {**mapping(pod, "metadata", at), "annotations": noted}}


def _record(grant: Grant) -> Json:
    if grant.share:
        return {"slots": grant.number, "share": slots.decimal(grant.number)}
    return {"cards": grant.number}


def _scheduled(pod: Json, at: str, config: Config) -> Json:
    """Add the settings' tolerations and runtime class where the pod lacks them."""
    spec = mapping(pod, "spec", at)
    present = sequence(spec, "tolerations", path(at, "spec"), dict)
    wanted = config.tolerations
    missing = [each for each in wanted if not any(_covers(other, each) for other in present)]
    added: Json = {"tolerations": [*present, *missing]} if missing else {}
    if config.runtime_class and not spec.get("runtimeClassName"):
        added["runtimeClassName"] = config.runtime_class
    return {**pod, "spec": {**spec, **added}} if added else pod


def _covers(present: Json, wanted: dict[str, str]) -> bool:
    """Whether a toleration of the pod tolerates all that a wanted one does, for ever."""
    effects = (None, "", wanted.get("effect"))
    if present.get("tolerationSeconds") is not None or present.get("effect") not in effects:
        return False
    if present.get("operator") == "Exists":
        return not present.get("key") or present["key"] == wanted.get("key")
    return all(
        (present.get(field) or default) == (wanted.get(field) or default)
        for field, default in (("key", ""), ("operator", "Equal"), ("value", ""))
    )
