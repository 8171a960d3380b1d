"""The GPU resources of one container: what is written in its limits and requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from vgpu import names, slots
from webhook import asks
from webhook.asks import Ask, Grant
from webhook.pod import Container, Fault, Json

_ONE_ANSWER = "write it in limits, once"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a container's resources say of GPUs."""

    asks: tuple[Ask, ...] = ()
    grants: tuple[Grant, ...] = ()
    others: tuple[str, ...] = ()
    """Other GPU resources with their values, as in `nvidia.com/gpu: 1`; one of 0 is none."""
    ask_keys: tuple[str, ...] = ()
    """The keys that hold asks, readable or not."""
    faults: tuple[Fault, ...] = ()
    claims: bool = False
    """Whether it has `resources.claims` (DRA)."""

    @property
    def has_gpu(self) -> bool:
        """Whether the container gets a GPU from anybody, as its resources stand."""
        return bool(self.grants or self.others or self.claims)


def read(container: Container) -> Reading:
    """Read a container's resources; unusable values are faults. Raises Denied for wrong types."""
    resources = container.mapping("resources")
    if not resources:
        return Reading()
    both = Container(container.section, container.index, f"{container.at}.resources", "", resources)
    limits, requests = both.mapping("limits"), both.mapping("requests")
    found: list[Ask | Grant | Fault | str] = []
    ask_keys = []
    for key in dict.fromkeys((*limits, *requests)):
        if _is_ask(key, limits, requests):
            ask_keys.append(key)
            found += _ask(container, key, limits, requests)
        elif key in names.GRANT_KEYS:
            found += _grant(container, key, limits, requests)
        elif names.is_gpu_resource(key) and _number(limits.get(key, requests.get(key))) != 0:
            found.append(f"{key}: {asks.shown(limits.get(key, requests.get(key)))}")
    return Reading(
        asks=tuple(item for item in found if isinstance(item, Ask)),
        grants=tuple(item for item in found if isinstance(item, Grant)),
        others=tuple(item for item in found if isinstance(item, str)),
        ask_keys=tuple(ask_keys),
        faults=tuple(item for item in found if isinstance(item, Fault)),
        claims=bool(resources.get("claims")),
    )


def _is_ask(key: str, limits: Json, requests: Json) -> bool:
    if key in names.ASK_KEYS:
        return True
    if key != names.NVIDIA_GPU:
        return False
    return not all(_is_whole(side[key]) for side in (limits, requests) if key in side)


def _is_whole(value: Any) -> bool:
    exact = _number(value)
    return exact is not None and exact.denominator == 1


def _number(value: Any) -> Fraction | None:
    try:
        return asks.number(value)
    except ValueError:
        return None


def _ask(container: Container, key: str, limits: Json, requests: Json) -> list[Ask | Fault]:
    found: list[Ask | Fault] = []
    for side, values in (("limits", limits), ("requests", requests)):
        field = f"resources.{side}[{key}]"
        if key in values:
            try:
                found.append(asks.read(field, values[key]))
            except ValueError as fault:
                return [container.fault(field, str(fault))]
    uneven = _uneven(container, key, limits, requests)
    return [uneven] if uneven else found[:1]


def _grant(container: Container, key: str, limits: Json, requests: Json) -> list[Grant | Fault]:
    value = limits.get(key, requests.get(key))
    most = slots.PER_CARD if key == names.COUNT else None
    exact = _number(value)
    if exact == 0:
        return []
    if exact is None or exact < 0 or exact.denominator != 1 or (most and exact > most):
        allowed = f"a whole number from 1 to {most}, the slots of one card" if most else "1, 2, ..."
        text = f"{asks.shown(value)} is not allowed; allowed: {allowed}"
        return [container.fault(f"resources.limits[{key}]", text)]
    uneven = _uneven(container, key, limits, requests)
    return [uneven] if uneven else [Grant(key, int(exact))]


def _uneven(container: Container, key: str, limits: Json, requests: Json) -> Fault | None:
    """Return the fault of a request without a limit, or of one that differs from its limit."""
    if key not in limits:
        text = f"{asks.shown(requests[key])} is a request without a limit; {_ONE_ANSWER}"
    elif key in requests and _number(limits[key]) != _number(requests[key]):
        limit, request = asks.shown(limits[key]), asks.shown(requests[key])
        text = f"{request} differs from the limit {limit}; {_ONE_ANSWER}"
    else:
        return None
    return container.fault(f"resources.requests[{key}]", text)


def granted(container: Container, ask_keys: tuple[str, ...], grant: Grant | None) -> Json:
    """Return the container's body with the grant in place of the asks and of any other grant."""
    body = container.body
    resources = body.get("resources") or {}
    drop = {*ask_keys, *names.GRANT_KEYS} - ({grant.resource} if grant else set())
    changed = {}
    for side in ("limits", "requests"):
        before: Mapping[str, Any] = resources.get(side) or {}
        after = {key: value for key, value in before.items() if key not in drop}
        if grant and _number(after.get(grant.resource)) != grant.number:
            after[grant.resource] = str(grant.number)
        if after != before:
            changed[side] = after
    return {**body, "resources": {**resources, **changed}} if changed else body
