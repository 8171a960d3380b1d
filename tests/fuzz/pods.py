"""What the oracle reads of an object: quantities, containers, notes.

It shares no code with the product, not even names and numbers: they are spelled here once more,
from design sections 1 and 2.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Json = dict[str, Any]
Place = tuple[str, int]
"""A container's list, and its index there."""
Sides = tuple[Json, Json]
"""A container's limits and requests."""

SLOTS, CARDS, NVIDIA = "milligpu.io/vgpu", "milligpu.io/pgpu", "nvidia.com/gpu"
ASKS = ("gpu", "milligpu.io/gpu", NVIDIA)
GPUS = re.compile(
    r"nvidia\.com/(gpu|gpu\.shared|mig-.*)|amd\.com/gpu|gpu\.intel\.com/(i915|xe)"
    r"|milligpu\.io/[vp]gpu"
)
ASK_NOTE, FRAMEWORK_NOTE = "milligpu.io/gpu", "milligpu.io/framework"
THROTTLE_NOTE, SHARE_NOTE = "milligpu.io/cpu-throttle", "milligpu.io/share"
MAIN_NOTE = "kubectl.kubernetes.io/default-container"
APPLIED_NOTE = "kubectl.kubernetes.io/last-applied-configuration"

_TEMPLATE = "spec.template"
WAYS = {
    **{("apps", f"{kind}Set"): _TEMPLATE for kind in ("Replica", "Stateful", "Daemon")},
    ("apps", "Deployment"): _TEMPLATE,
    ("", "ReplicationController"): _TEMPLATE,
    ("", "PodTemplate"): "template",
    ("batch", "Job"): _TEMPLATE,
    ("batch", "CronJob"): "spec.jobTemplate.spec.template",
    ("", "Pod"): "",
}
"""The way to what has a pod's metadata and spec, by API group and kind."""


class Silent(Exception):
    """The design does not say, or no API server would send this."""


@dataclass(frozen=True)
class Settings:
    """The settings, as the design names them."""

    cpus_per_gpu: Fraction
    cpu_limit_max: Fraction
    whole_cards: bool
    tolerations: tuple[Json, ...]
    runtime_class: str


def number(value: object) -> Fraction | None:
    """Return the number that a Kubernetes quantity stands for, None if it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Silent(f"a quantity is {type(value).__name__}")
    form = r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:([KMGTPE])i|([numkMGTPE])|[eE]([+-]?[0-9]+))?"
    found = re.fullmatch(form, str(value)) if len(str(value)) <= 32 else None
    if found is None:
        return None
    sign, digits, binary, decimal, exponent = found.groups()
    if exponent and len(exponent.lstrip("+-")) > 2:
        raise Silent("how large an exponent may be")
    whole, _, part = digits.partition(".")
    size = Fraction(int(whole + part), 10 ** len(part))
    size *= Fraction(1024) ** ("KMGTPE".index(binary) + 1 if binary else 0)
    size *= Fraction(1000) ** ("num kMGTPE".index(decimal) - 3 if decimal else 0)
    size *= Fraction(10) ** int(exponent or 0)
    return -size if sign == "-" else size


def child(value: Any, key: str, kind: type = dict) -> Any:
    """Return a field; absent and null are empty, another type is none that could arrive."""
    found = value.get(key)
    if found is not None and not isinstance(found, kind):
        raise Silent(f"{key} is {type(found).__name__}")
    return kind() if found is None else found


def held(obj: Json, way: str) -> Json:
    """Return the part of an object that has a pod's metadata and spec."""
    for key in way.split(".") if way else ():
        obj = child(obj, key)
    return obj


class Pod(dict[Place, Json]):
    """The containers of a pod or of a template, and its notes."""

    def __init__(self, holder: Json) -> None:
        spec = child(holder, "spec")
        for kind in ("initContainers", "containers"):
            for index, body in enumerate(child(spec, kind, list)):
                self[kind, index] = _container(body)
        if len(self) > 1000:
            raise Silent("more containers than can be stored")
        self.notes: Json = child(child(holder, "metadata"), "annotations")
        tolerations, _ = child(spec, "tolerations", list), child(spec, "runtimeClassName", str)
        if not _all(dict, tolerations) or not _all(str, [*self.notes.values()]):
            raise Silent("a toleration or a note is none")
        if self.notes.get(THROTTLE_NOTE, "off") != "off":
            raise Silent("another word for the throttle")
        self.places = {(place[0], body["name"]): place for place, body in self.items()}
        self.named = {body["name"]: place for place, body in self.items()}
        self.unique = len(self.named) == len(self)

    def sides(self, place: Place | None) -> Sides:
        """Return a container's limits and requests; none has neither."""
        resources = child(self[place], "resources") if place else {}
        return child(resources, "limits"), child(resources, "requests")


def _container(body: Any) -> Json:
    if not isinstance(body, dict) or not isinstance(body.get("name"), str):
        raise Silent("a container is none")
    names = [child(entry, "name", str) for entry in child(body, "env", list)]
    lists = [child(body, field, list) for field in ("args", "command")]
    if not all(names) or not _all(str, [child(body, "image", str), *names, *lists[0], *lists[1]]):
        raise Silent("a word is none")
    return body


def _all(kind: type, values: list[Any]) -> bool:
    return all(isinstance(value, kind) for value in values)
