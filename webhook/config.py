"""The webhook's settings."""

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from vgpu import names, quantity
from vgpu.settings import boolean, integer, level, seconds, setting
from webhook.templates import TemplatePath

_TOLERATION_FIELDS = frozenset({"key", "operator", "value", "effect"})
_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_SUBDOMAIN = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_WORD = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_LABEL = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
_FIELD = r"[A-Za-z_][A-Za-z0-9_-]*"
_GPU_TAINT = {"key": names.NVIDIA_GPU, "operator": "Exists", "effect": "NoSchedule"}
_FORMS = {
    # Every group with pods in it that has no dot is built in.
    "group": (rf"(?=.*\.){_SUBDOMAIN}", "a domain with a dot, such as ray.io"),
    "version": (_LABEL, "a version such as v1"),
    "resource": (_LABEL, "a plural name such as rayclusters"),
    "path": (
        rf"(?!(.*\*){{3}}){_FIELD}(\.({_FIELD}|\*)|\[\*\])*",
        "fields joined by dots, with .* for every value of an object and [*] for every item of a "
        "list, at most two of them, such as spec.workerGroupSpecs[*].template",
    ),
}
LEAST_CPUS = Fraction(1, 10)
"""The least limit that is set: below it a container hardly starts."""
_MOST_CPUS = Fraction(1024)  # more than any machine has


def _cpus(text: str) -> Fraction:
    value = quantity.parse(text)
    if not LEAST_CPUS <= value <= _MOST_CPUS:
        raise ValueError("must be a number of CPUs from 100m to 1024")
    return value


def _template_paths(text: str) -> tuple[TemplatePath, ...]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as fault:
        raise ValueError(f"must be a JSON list of template paths: {fault}") from fault
    if not isinstance(value, list) or any(value.count(item) > 1 for item in value):
        raise ValueError("must be a JSON list of template paths, each of them once")
    return tuple(map(_template_path, value))


def _template_path(item: Any) -> TemplatePath:
    shown = json.dumps(item)
    if not isinstance(item, dict) or item.keys() != _FORMS.keys():
        raise ValueError(f"{shown} must be an object of {', '.join(_FORMS)}")
    for field, (form, meaning) in _FORMS.items():
        if not (isinstance(item[field], str) and re.fullmatch(form, item[field])):
            raise ValueError(f"{field} of {shown} must be {meaning}")
    steps = re.findall(r"[^.[]+|\[\*\]", item["path"])
    return TemplatePath(item["group"], item["version"], item["resource"], tuple(steps))


def _tolerations(text: str) -> tuple[dict[str, str], ...]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as fault:
        raise ValueError(f"must be a JSON list of tolerations: {fault}") from fault
    if not isinstance(value, list) or not all(_is_toleration(item) for item in value):
        example = json.dumps([_GPU_TAINT])
        raise ValueError(f"must be a JSON list of tolerations that a pod may have, as {example}")
    return tuple(value)


def _runtime_class(text: str) -> str:
    if not re.fullmatch(f"({_SUBDOMAIN})?", text):
        raise ValueError("must be the name of a RuntimeClass such as nvidia, or empty")
    return text


def _is_toleration(item: Any) -> bool:
    """Whether the API server takes it; else it would refuse every pod with a grant."""
    if not isinstance(item, dict) or not item.keys() <= _TOLERATION_FIELDS:
        return False
    if not all(isinstance(value, str) for value in item.values()):
        return False
    operator = item.get("operator", "Equal")
    wanted, unwanted = ("operator", "value") if operator == "Exists" else ("key", "")
    return (
        operator in _OPERATORS
        and item.get("effect", "") in _EFFECTS
        and bool(item.get(wanted))
        and not item.get(unwanted)
        and re.fullmatch(f"(({_SUBDOMAIN}/)?{_WORD})?", item.get("key", "")) is not None
        and re.fullmatch(f"({_WORD})?", item.get("value", "")) is not None
    )


@dataclass(frozen=True, slots=True)
class Config:
    """Read once, at start, by `vgpu.settings.read`; `MILLIGPU_<FIELD>` sets a field."""

    cpus_per_gpu: Fraction = setting(Fraction(8), _cpus)
    """CPUs that a whole card stands for; a share's CPU limit is this times the share."""
    cpu_limit_max: Fraction = setting(_MOST_CPUS, _cpus)
    """CPUs that a share's CPU limit is at most, where its request is not above."""
    whole_cards: bool = setting(False, boolean)
    """Whether `gpu: 1` becomes whole cards of our plugin; else it is denied."""
    tolerations: tuple[dict[str, str], ...] = setting((_GPU_TAINT,), _tolerations)
    """Tolerations that a pod with a grant gets, as a JSON list."""
    runtime_class: str = setting("", _runtime_class)
    """Runtime class that a pod with a grant gets if it has none; empty for none."""
    template_paths: tuple[TemplatePath, ...] = setting((), _template_paths)
    """Where custom resources hold pods, as a JSON list of group, version, resource and path."""
    host: str = setting("")
    """Address that the HTTPS server listens on; empty for all."""
    port: int = setting(8443, integer(1, 65535))
    threads: int = setting(8, integer(1, 128))
    drain_seconds: float = setting(5.0, seconds(0, 60))
    """From SIGTERM on: how long new connections are still accepted while not ready any more."""
    tls_dir: Path = setting(Path("/etc/milligpu/tls"), Path)
    """Folder with `tls.crt` and `tls.key`, as a mounted kubernetes.io/tls Secret has them."""
    log_level: str = setting("info", level)
