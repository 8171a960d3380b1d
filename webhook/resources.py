"""The GPU resources of one container: what is written in its limits and requests."""

from dataclasses import dataclass, field
from typing import Any

from vgpu import names, slots
from webhook import asks
from webhook.asks import Ask, Grant
from webhook.config import Config
from webhook.findings import Code, Denied, Finding
from webhook.pod import Container, Json

_ONE_ANSWER = "write it in limits, once"


@dataclass(slots=True)
class Reading:
    """What a container's resources say of GPUs."""

    container: Container
    sides: tuple[Json, Json]
    """Its limits and requests."""
    asks: list[Ask] = field(default_factory=list)
    ask_keys: list[str] = field(default_factory=list)
    """The keys that hold asks, readable or not."""
    grants: list[Grant] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """Other GPU resources with their values, as in `nvidia.com/gpu: 1`; one of 0 is none."""
    faults: list[Finding] = field(default_factory=list)

    @property
    def has_gpu(self) -> bool:
        """Whether the container gets a GPU from anybody, DRA too, as its resources stand."""
        return bool(self.grants or self.others or self.container.mapping("resources").get("claims"))


def read(container: Container, config: Config) -> Reading:
    """Read a container's resources; unusable values are faults. Raises Denied for wrong types."""
    limits, requests = sides = container.sides()
    reading = Reading(container, sides)
    for key in dict.fromkeys((*limits, *requests)):
        if key not in names.ASK_KEYS and not names.is_gpu_resource(key):
            continue
        try:
            _read(reading, key, limits, requests, config)
        except Denied as denial:
            reading.faults += denial.findings
    return reading


def _read(reading: Reading, key: str, limits: Json, requests: Json, config: Config) -> None:
    container, value = reading.container, limits.get(key, requests.get(key))
    if _is_ask(key, limits, requests):
        reading.ask_keys.append(key)
        reading.asks.append(_ask(container, key, limits, requests, config))
    elif key in names.GRANT_KEYS:
        if (amount := _amount(container, key, value)) != 0:
            _must_agree(container, key, limits, requests)
            reading.grants.append(Grant(key, amount))
    elif asks.number(value) != 0:
        reading.others.append(f"{key}: {asks.shown(value)}")


def _is_ask(key: str, limits: Json, requests: Json) -> bool:
    if key != names.NVIDIA_GPU:
        return key in names.ASK_KEYS
    numbers = [asks.number(side[key]) for side in (limits, requests) if key in side]
    return any(exact is None or exact.denominator != 1 for exact in numbers)


def _ask(container: Container, key: str, limits: Json, requests: Json, config: Config) -> Ask:
    side, values = ("limits", limits) if key in limits else ("requests", requests)
    name = f"resources.{side}[{key}]"
    try:
        ask = asks.read(container.at, name, values[key], config)
    except ValueError as fault:
        raise Denied(container.finding(Code.ASK, name, str(fault))) from fault
    _must_agree(container, key, limits, requests)
    return ask


def _amount(container: Container, key: str, value: Any) -> int:
    exact, most = asks.number(value), slots.PER_CARD if key == names.COUNT else None
    if exact is None or exact < 0 or exact.denominator != 1 or (most and exact > most):
        allowed = f"a whole number from 1 to {most}, the slots of one card" if most else "1, 2, ..."
        text = f"{asks.shown(value)} is not allowed; allowed: {allowed}"
        raise Denied(container.finding(Code.COUNT, f"resources.limits[{key}]", text))
    return int(exact)


def _must_agree(container: Container, key: str, limits: Json, requests: Json) -> None:
    """Raise Denied for a request without a limit, or for one that differs from its limit."""
    if key not in limits:
        text = f"{asks.shown(requests[key])} is a request without a limit; {_ONE_ANSWER}"
    elif key in requests and not _agree(limits[key], requests[key]):
        limit, request = asks.shown(limits[key]), asks.shown(requests[key])
        text = f"{request} differs from the limit {limit}; {_ONE_ANSWER}"
    else:
        return
    raise Denied(container.finding(Code.REQUESTS, f"resources.requests[{key}]", text))


def _agree(one: Any, other: Any) -> bool:
    alike = isinstance(one, str) and one == other  # as nearly always; it need not be read
    return alike or asks.number(one) == asks.number(other)


def granted(reading: Reading, grant: Grant | None) -> Json:
    """Return the container's body with the grant in place of the asks and of any other grant."""
    drop = {*reading.ask_keys, *names.GRANT_KEYS} - {grant and grant.resource}
    sides = []
    for before in reading.sides:
        after = {key: value for key, value in before.items() if key not in drop}
        held = after.get(grant.resource) if grant else None
        if grant and (held is None or asks.number(held) != grant.number):
            after[grant.resource] = str(grant.number)
        sides.append(after)
    return reading.container.with_sides(*sides)
