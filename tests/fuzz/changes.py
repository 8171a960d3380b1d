"""The other half of the second opinion: whether an answer is right, and what may differ in it.

Written from design sections 2 to 4, without the product, as the oracle is.
"""

import json
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from tests.fuzz.oracle import Grant, Verdict, asks, counts, noted
from tests.fuzz.pods import (
    ASKS,
    CARDS,
    FRAMEWORK_NOTE,
    GPUS,
    NVIDIA,
    SHARE_NOTE,
    SLOTS,
    THROTTLE_NOTE,
    WAYS,
    Json,
    Place,
    Pod,
    Settings,
    Sides,
    Silent,
    child,
    held,
    number,
)

_ABSENT: Any = "(absent)"
_FRACTION, _VISIBLE = "PER_PROCESS_GPU_MEMORY_FRACTION", "NVIDIA_VISIBLE_DEVICES"
_RESERVED = re.compile(
    f"{_VISIBLE}|CUDA_VISIBLE_DEVICES|(CUDA_MPS|NVIDIA_GPU_MEMORY|MILLIGPU)_.*", re.DOTALL
)
_FLAG, _OURS = "--per_process_gpu_memory_fraction", "$(MILLIGPU_MEMORY_FRACTION)"
_CONTAINERS = (("containers",), ("initContainers",))
_MADE = {
    *("metadata", "annotations", "spec", "tolerations"),
    *("resources", "limits", "requests", "env", "args"),
}
Path = tuple[str | int, ...]


def differences(before: Any, after: Any, at: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Yield each place that differs; what may come and go is compared with something empty.

    Lists of named things are compared by name, and by the order of those that are in both.
    """
    if at[-1:] and at[-1] in _MADE:
        before, after = _or_empty(before, after), _or_empty(after, before)
    ours, theirs = _members(before), _members(after)
    if None in (ours, theirs) and at[-1:] in _CONTAINERS and len(before) == len(after):
        ours, theirs = dict(enumerate(before)), dict(enumerate(after))
    if ours is None or theirs is None:
        if type(before) is not type(after) or before != after:
            yield at, before, after
        return
    for key in {**ours, **theirs}:
        yield from differences(ours.get(key, _ABSENT), theirs.get(key, _ABSENT), (*at, key))
    if isinstance(before, list):
        orders = [k for k in ours if k in theirs], [k for k in theirs if k in ours]
        if orders[0] != orders[1]:
            yield at, before, after


def _or_empty(value: Any, other: Any) -> Any:
    is_nothing = value is None or value is _ABSENT
    return type(other)() if is_nothing and isinstance(other, dict | list) else value


def _members(value: Any) -> dict[Any, Any] | None:
    """Return a value's fields, or its items by name; None where there are none."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return None
    names = [item.get("name") for item in value]
    if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
        return dict(zip(names, value, strict=True))
    return None


def foreign(request: Json, after: Json) -> Iterator[str]:
    """Yield each change that is not the webhook's to make."""
    before, old = request["object"], request.get("oldObject")
    way = WAYS[request["kind"]["group"], request["kind"]["kind"]]
    steps = tuple(way.split(".")) if way else ()
    for at, was, now in differences(before, after):
        inner = at[len(steps) :]
        mine = at[: len(steps)] == steps and _may(inner, was, is_pod=not way)
        if not way and request["operation"] == "UPDATE":
            mine = (mine or at[-1] == "cpu") and _is_stored(was, now, _at(old, at))
        if not mine:
            yield f"{_text(at)}: {was!r:.80} became {now!r:.80}"


def _text(at: Path) -> str:
    return ".".join(map(str, at))


def _is_stored(was: Any, now: Any, stored: Any) -> bool:
    """Is a pod's field, or each change in a list, what is stored of the pod?"""
    if not any(isinstance(side, list) for side in (was, now)):
        return bool(now == (_ABSENT if stored is None else stored))
    sent, made, old = (side if isinstance(side, list) else [] for side in (was, now, stored))
    come, gone = ([i for i in a if i not in b] for a, b in ((made, sent), (sent, made)))
    return all(item in old for item in come) and not any(item in old for item in gone)


def _at(obj: Any, at: Path) -> Any:
    """Return what is at a place of an object, None where nothing is."""
    for key in at:
        obj = (_members(obj) or {}).get(key)
    return obj


def _may(at: Path, was: Any, *, is_pod: bool) -> bool:
    """Is this a place, below what has the pod's spec, that may differ?"""
    match at:
        case ("spec", "containers" | "initContainers", _, "resources", side, *key):
            return side in ("limits", "requests") and (not key or _may_count(key, was, is_pod))
        case ("spec", "containers" | "initContainers", _, "env" | "args", *_):
            return is_pod
        case ("spec", "tolerations", *_):
            return is_pod
        case ("spec", "runtimeClassName"):
            return is_pod and was in (_ABSENT, None, "")
        case ("metadata", "annotations", note) if note == SHARE_NOTE:
            return is_pod
    return False


def _may_count(key: list[Any], was: Any, is_pod: bool) -> bool:
    (name,) = key
    if name == NVIDIA:
        return bool(asks({NVIDIA: was}))
    return name in (*ASKS, SLOTS, CARDS) or (name == "cpu" and is_pod and was is _ABSENT)


def complaints(request: Json, after: Json, verdict: Verdict, settings: Settings) -> Iterator[str]:
    """Yield where an allowed object is not what the verdict wants."""
    kind = request["kind"]["kind"]
    way = WAYS[request["kind"]["group"], kind]
    before, pod = Pod(held(request["object"], way)), Pod(held(after, way))
    for place in pod:
        given, made = before.sides(place), pod.sides(place)
        if place not in verdict.grants:
            if [*map(_gpus, given)] != [*map(_gpus, made)]:
                yield f"{place}: {given} became {made}, and nobody asked"
            continue
        grant = verdict.grants[place]
        if grant is not None:
            yield from _counted(place, given, made, grant)
    if kind == "Pod" and request["operation"] == "CREATE":
        grants = {place: grant or {} for place, grant in verdict.grants.items()}
        yield from completed(request["object"], after, grants, settings)


def _gpus(side: Json) -> Json:
    return {key: value for key, value in side.items() if GPUS.fullmatch(key) or key in ASKS}


def _counted(place: Place, given: Sides, made: Sides, grant: Grant) -> Iterator[str]:
    left = {key for side in made for key in asks(side)}
    if left:
        yield f"{place}: {left} stays"
    if counts(made[0]) != grant:
        yield f"{place}: limits are {made[0]}, not {grant}"
    wanted = [grant] if any(map(asks, given)) else [grant, counts(given[1])]
    if counts(made[1]) not in wanted:
        yield f"{place}: requests are {made[1]}, not {grant}"


def completed(
    before: Json, after: Json, grants: dict[Place, Grant], settings: Settings
) -> Iterator[str]:
    """Yield what a new pod lacks, or has too much, beside its counts."""
    old, new = Pod(before), Pod(after)
    shares = {place: grant[SLOTS] / 100 for place, grant in grants.items() if SLOTS in grant}
    if not any(grants.values()):
        yield from (
            f"{'.'.join(map(str, at))}: changed though the pod has no grant"
            for at, _, _ in differences(before, after)
            if "resources" not in at and SHARE_NOTE not in at
        )
        return
    for place, body in new.items():
        is_granted = bool(grants[place])
        uses = is_granted or any(
            number(n) != 0 for side in new.sides(place) for n in _gpus(side).values()
        )
        uses = uses or bool(child(child(body, "resources"), "claims", list))
        yield from (
            f"{place} env: {fault}"
            for fault in _environment(
                child(old[place], "env", list),
                child(body, "env", list),
                shares.get(place),
                is_granted=is_granted,
                uses=uses,
            )
        )
        given, made = child(old[place], "args", list), child(body, "args", list)
        if made != given + [f"{_FLAG}={_OURS}"] * _serves(old, place, shares.get(place)):
            yield f"{place}: args {given} became {made}"
        yield from _throttled(place, old, new, shares.get(place), before, settings)
    yield from _scheduled(before, after, settings)
    if new.unique and shares:
        noted = json.loads(new.notes.get(SHARE_NOTE, "{}"))
        slots = {new[place]["name"]: int(share * 100) for place, share in shares.items()}
        if {name: each.get("slots") for name, each in noted.items() if "slots" in each} != slots:
            yield f"{SHARE_NOTE}: {noted}, not {slots}"


def _environment(
    given: list[Json], made: list[Json], share: Fraction | None, *, is_granted: bool, uses: bool
) -> Iterator[str]:
    """Yield what is wrong with a container's variables: ours are right, the others as they were."""

    def ours(name: str) -> bool:
        if is_granted and _RESERVED.fullmatch(name):
            return True
        return (share is not None and name == _FRACTION) or (not uses and name == _VISIBLE)

    rest = [[entry for entry in env if not ours(entry["name"])] for env in (given, made)]
    if rest[0] != rest[1]:
        yield f"{given} became {made}"
    values = {entry["name"]: entry.get("value", "") for entry in made}
    if is_granted and any(map(_RESERVED.fullmatch, values)):
        yield f"a reserved name in {[*values]}"
    if not uses and values.get(_VISIBLE) != "void":
        yield f"not void: {values.get(_VISIBLE)}"
    if share is not None:
        own = [number(e.get("value", "")) for e in given if e["name"] == _FRACTION]
        right = own[0] if own and own[0] and 0 < own[0] <= share else share
        if number(values.get(_FRACTION, "")) != right:
            yield f"{values.get(_FRACTION)}, not {right}, for {share}"


def _serves(pod: Pod, place: Place, share: Fraction | None) -> bool:
    """Is TensorFlow Serving there, which needs an argument, and can take one?"""
    if share is None:
        return False
    if len(pod) > 1 and FRAMEWORK_NOTE in pod.notes and "=" not in pod.notes[FRAMEWORK_NOTE]:
        raise Silent("which container is told to be TensorFlow Serving")
    body = pod[place]
    command, args = (child(body, field, list) for field in ("command", "args"))
    name = str(command[0]).rpartition("/")[2] if command else ""
    if "sh" in (*command, *args):
        raise Silent("a shell")
    runs = name in ("tensorflow_model_server", "tf_serving_entrypoint.sh")
    official = child(body, "image", str).partition(":")[0].endswith("tensorflow/serving")
    said = noted(pod, FRAMEWORK_NOTE)
    word = said.get(body["name"], said.get(""))
    pairs = [each.partition("=") for each in (*command, *args)]
    own = next((value for flag, _, value in reversed(pairs) if flag == _FLAG), "")
    size = number(own)
    if own == _OURS or (size is not None and 0 < size <= share):
        return False
    takes = bool(args) or runs or (official and not command)
    return takes and (word == "tensorflow-serving" or (word is None and (runs or official)))


def _throttled(
    place: Place, old: Pod, new: Pod, share: Fraction | None, pod: Json, settings: Settings
) -> Iterator[str]:
    """Yield what is wrong with a container's CPUs, whose limit and request may be a bit off."""
    (limits, requests), (made, wanted) = old.sides(place), new.sides(place)
    if (
        share is None
        or "cpu" in limits
        or THROTTLE_NOTE in old.notes
        or pod["spec"].get("resources")
    ):
        if (limits.get("cpu"), requests.get("cpu")) != (made.get("cpu"), wanted.get("cpu")):
            yield f"{place}: cpu {limits}, {requests} became {made}, {wanted}"
        return
    request = number(requests.get("cpu", 0))
    if request is None:
        raise Silent("the CPU request is no number")
    throttle = min(share * settings.cpus_per_gpu, settings.cpu_limit_max)
    limit = max(throttle, request, Fraction(1, 10))
    small = request if "cpu" in requests else limit / 10
    for side, right in ((made, limit), (wanted, small)):
        found = number(side.get("cpu", "none"))
        if found is None or abs(found - right) > Fraction(1, 1000):
            yield f"{place}: cpu {side.get('cpu')}, not {right}"


def _scheduled(before: Json, after: Json, settings: Settings) -> Iterator[str]:
    """Yield what is wrong with a sharing pod's tolerations and runtime class."""
    given, made = (child(pod["spec"], "tolerations", list) for pod in (before, after))
    if made[: len(given)] != given or not all(_tolerated(t, made) for t in settings.tolerations):
        yield f"tolerations {given} became {made}"
    if any(t not in settings.tolerations for t in made[len(given) :]):
        yield f"tolerations {made} from nowhere"
    classes = [pod["spec"].get("runtimeClassName") or "" for pod in (before, after)]
    if classes[1] != (classes[0] or settings.runtime_class):
        yield f"runtime class {classes[0]} became {classes[1]}"


def _tolerated(wanted: Json, made: list[Json]) -> bool:
    """Is a toleration there, or one that covers it: of every key, or of every effect?"""
    covering = (
        each
        for each in made
        if each.get("operator") == "Exists"
        and each.get("key") in (None, "", wanted.get("key"))
        and each.get("effect") in (None, "", wanted.get("effect"))
    )
    return wanted in made or any(covering)
