"""The webhook's settings."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

from vgpu import names, quantity
from vgpu.settings import boolean, integer, level, seconds, setting
from webhook.templates import TemplatePath

Forms: TypeAlias = dict[str, tuple[str, str]]
_SUBDOMAIN = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_WORD = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_LABEL = r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"
_FIELD = r"[A-Za-z_][A-Za-z0-9_-]*"
_GPU_TAINT = {"key": names.NVIDIA_GPU, "operator": "Exists", "effect": "NoSchedule"}
_TOLERATION = {
    "key": (f"(({_SUBDOMAIN}/)?{_WORD})?", f"a label's key such as {names.NVIDIA_GPU}"),
    "operator": ("Equal|Exists", "Equal or Exists"),
    "value": (f"({_WORD})?", "a label's value"),
    "effect": ("(NoSchedule|PreferNoSchedule|NoExecute)?", "an effect such as NoSchedule"),
}
_TEMPLATE_PATH = {
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


def _objects(text: str, forms: Forms, needed: frozenset[str]) -> Iterator[dict[str, str]]:
    """Read a JSON list of objects whose fields have these forms."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as fault:
        raise ValueError(f"must be a JSON list of objects: {fault}") from fault
    if not isinstance(found, list) or any(found.count(item) > 1 for item in found):
        raise ValueError("must be a JSON list of objects, each of them once")
    for item in found:
        if not (isinstance(item, dict) and needed <= item.keys() <= forms.keys()):
            raise ValueError(f"{json.dumps(item)} must be an object of {', '.join(forms)}")
        for field, value in item.items():
            form, meaning = forms[field]
            if not (isinstance(value, str) and re.fullmatch(form, value)):
                raise ValueError(f"{field} of {json.dumps(item)} must be {meaning}")
        yield item


def _template_paths(text: str) -> tuple[TemplatePath, ...]:
    return tuple(
        TemplatePath(pattern=tuple(item.pop("path").replace("[*]", ".[*]").split(".")), **item)
        for item in _objects(text, _TEMPLATE_PATH, frozenset(_TEMPLATE_PATH))
    )


def _tolerations(text: str) -> tuple[dict[str, str], ...]:
    found = tuple(_objects(text, _TOLERATION, frozenset()))
    for item in found:  # what the API server refuses, it would refuse in every pod with a grant
        exists = item.get("operator") == "Exists"
        if item.get("value") if exists else not item.get("key"):
            raise ValueError(f"{json.dumps(item)} needs a key, or operator Exists and no value")
    return found


def _runtime_class(text: str) -> str:
    if not re.fullmatch(f"({_SUBDOMAIN})?", text):
        raise ValueError("must be the name of a RuntimeClass such as nvidia, or empty")
    return text


@dataclass(frozen=True, slots=True)
class Config:
    """Read once, at start, by `vgpu.settings.read`; `MILLIGPU_<FIELD>` sets a field."""

    cpus_per_gpu: Fraction = setting(Fraction(8), _cpus)
    """CPUs that a whole card stands for; a share's CPU limit is this times the share."""
    cpu_limit_max: Fraction = setting(_MOST_CPUS, _cpus)
    """CPUs that a share's CPU limit is at most, where its request is not above."""
    whole_cards: bool = setting(True, boolean)
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
