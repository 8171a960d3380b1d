"""What an ask becomes and why, step by step: told by the webhook's decisions and its objects."""

import dataclasses
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TypeAlias

from milligpu.remarks import completed, creation, findings, supposing
from milligpu.running import cards, state
from milligpu.workloads import role
from vgpu import names, quantity, slots
from webhook import serving, templates
from webhook.config import LEAST_CPUS, Config
from webhook.findings import path
from webhook.mutate import desired
from webhook.pod import Container, Json, containers
from webhook.translate import Decision, translate

Step: TypeAlias = tuple[str, str]
"""A word, and what there is to say about it."""
Steps: TypeAlias = Iterator[Step]
Locate: TypeAlias = Callable[[str], str]
"""Returns file and line of a field path, after a comma; nothing where there is no file."""

REFUSED = "refused"
_CARD = f"{names.ENV_VISIBLE_DEVICES} and {names.ENV_GPU_UUID}"
_ADVISORY = "a share is advisory: its slots are exact, all on one card; its memory is limited as"
_ADVISORY += " far as the framework does what it is told; its computing is not limited"


def explained(document: Json, config: Config, locate: Locate) -> Iterator[tuple[str, list[Step]]]:
    """Yield headings and the steps below each. Raises Denied for a pod that would be refused."""
    review = creation(document)
    if document["kind"] == "Pod" and "uid" in (document.get("metadata") or {}):
        review = dataclasses.replace(review, old=document)
    found = findings(review, config)
    if any(each.code.level == "error" for each in found):
        told = [each for each in found if each.code.level != "note"]
        pods = "" if templates.patterns(review, config.template_paths) else "its pods are "
        yield f"{pods}{REFUSED}", [(each.code.level, f"{each}{locate(each.path)}") for each in told]
        return
    said = [(each, (each.code.level, each.text + locate(each.path))) for each in found]
    made = desired(review, config).object
    patterns = templates.patterns(review, supposing(review, config).template_paths)
    places = templates.places(document, patterns)
    for place in places:
        written, kept, old = (templates.get(each, place) for each in (document, made, review.old))
        at, pod = templates.spelled(place), completed(written, config, old)
        decisions = translate(written, at, old, config, annotated=True).decisions
        each_of = zip(decisions, containers(kept, at), containers(pod, at), strict=True)
        for decision, stored, item in each_of:
            steps = [*_asked(decision, locate), *_given(decision, stored, item, config)]
            steps += cards(pod, item) if decision.grant else ()
            here = (each for each in said if each[0].at.startswith(at and f"{at}."))
            steps += [step for each, step in here if each.container == item.name]
            whose = f" of {at}" if len(places) > 1 else ""
            yield f"{role(item) or 'container'} {item.name}{whose}", steps
        if grants := [each.grant for each in decisions if each.grant]:
            steps = [*_scheduled(written, pod), *state(pod)]
            steps += [("not held", _ADVISORY)] if any(each.share for each in grants) else []
            yield f"pods of {at}" if at else "pod", steps
    yield "besides", [step for each, step in said if not each.container]


def _asked(decision: Decision, locate: Locate) -> Steps:
    """Yield where an ask stands and what it means exactly."""
    ask, grant = decision.ask, decision.grant
    if ask:
        yield "ask", f"{ask.text} in {ask.field}{locate(path(ask.at, ask.field))}"
    if grant and grant.share:
        exact = f"{quantity.decimal(ask.value, 6)} of a card: " if ask else ""
        text = f"{exact}{grant.number} of the {slots.PER_CARD} slots of one card, {grant.number} %"
        yield "means", text
    elif grant:
        yield "means", f"{grant.number} whole card{'s' * (grant.number > 1)}"
    elif ask:
        yield "means", "no share: the ask is taken out"
    for other in decision.reading.others:
        yield "gpu", f"{other} is another plugin's and stays"


def _given(decision: Decision, stored: Container, item: Container, config: Config) -> Steps:
    """Yield what is stored for a container, and what it gets in a pod."""
    grant, keys = decision.grant, ", ".join(decision.reading.ask_keys)
    if grant is None:
        if {"name": names.ENV_VISIBLE_DEVICES, "value": names.VOID} in item.env():
            yield "void", f"{names.ENV_VISIBLE_DEVICES}={names.VOID}: it sees no card"
    elif grant.resource in stored.sides()[0]:
        instead = f" in place of {keys}" if keys else ""
        yield "stored", f"{grant} in limits and requests{instead}; the scheduler counts these"
    else:
        yield "stored", f"as it is written; its pods get {grant}, and the scheduler counts these"
    if grant and grant.share:
        is_own = names.CPU in decision.reading.container.sides()[0]
        yield from _shared(item, grant.share, None if is_own else config)
    elif grant:
        yield "plugin", f"sets {_CARD} (cards of the node that no other pod has)"


def _shared(item: Container, share: Fraction, config: Config | None) -> Steps:
    """Yield what a pod's container has with its share; a CPU limit without `config` is its own."""
    part = quantity.decimal(share, 2)
    for entry in item.env():
        if entry.get("name") == names.ENV_FRACTION:
            text = f"{names.ENV_FRACTION}={entry.get('value')}, for frameworks that read it"
            yield "memory", text
    if serving.OURS in item.texts("args"):
        yield "args", f"{serving.OURS}: TensorFlow Serving reads no variable"
    limits, requests = item.sides()
    if cpu := limits.get(names.CPU):
        why = _bounded(share, str(cpu), config) if config else ""
        yield "cpu", f"limit {cpu}, request {requests.get(names.CPU, cpu)}{why}"
    else:
        yield "cpu", f"none: {names.ANNOTATION_THROTTLE}: off, or the pod has resources of its own"
    given = f"{names.ENV_SLOTS}={share * slots.PER_CARD}, {names.ENV_SHARE}={part}"
    memory = f"{names.ENV_MEMORY_MIB} and {names.ENV_MEMORY_FRACTION} (its part of the memory)"
    yield "plugin", f"sets {_CARD} (a card of the node), {given}, {memory}"


def _bounded(share: Fraction, cpu: str, config: Config) -> str:
    product = quantity.milli(share * config.cpus_per_gpu)
    text = f": {quantity.decimal(share, 2)} x {config.cpus_per_gpu} CPUs for a card"
    least, most = quantity.milli(LEAST_CPUS), quantity.milli(config.cpu_limit_max)
    bounds = f" = {product}, but at least {least} and its request, at most {most}"
    return text if cpu == product else text + bounds


def _scheduled(written: Json, pod: Json) -> Steps:
    """Yield what lets a pod go to nodes with GPUs."""
    before, after = (each.get("spec") or {} for each in (written, pod))
    for each in after.get("tolerations") or []:
        if each not in (before.get("tolerations") or []):
            yield "tolerates", " ".join(each.values())
    if (name := after.get("runtimeClassName")) != before.get("runtimeClassName"):
        yield "runtime", f"class {name}"
