"""Settings of a program: a frozen dataclass, read once from the environment."""

from collections.abc import Callable, Mapping
from dataclasses import Field, field, fields
from typing import Any, TypeVar

from vgpu.names import ENV_OF_SHARES, ENV_OURS

T = TypeVar("T")


class SettingsError(Exception):
    """The environment does not make a configuration; the message lists every fault."""


def setting(default: Any, parse: Callable[[str], Any] = str) -> Any:
    """Declare a field that `MILLIGPU_<NAME>` sets. `parse` raises ValueError for a bad text."""
    return field(default=default, metadata={"parse": parse})


def variable(item: "Field[Any]") -> str:
    """Return the environment variable that sets a field."""
    return ENV_OURS + item.name.upper()


def read(config: type[T], environ: Mapping[str, str]) -> T:
    """Build a configuration from `MILLIGPU_*` variables.

    Raises SettingsError for unknown variables and unusable values, all in one message.
    """
    known = {variable(item): item for item in fields(config)}  # type: ignore[arg-type]
    faults, values = [], {}
    for name, text in sorted(environ.items()):
        if not name.startswith(ENV_OURS) or name in ENV_OF_SHARES:
            continue
        if name not in known:
            faults.append(f"{name}: no such setting; there are {', '.join(sorted(known))}")
            continue
        try:
            values[known[name].name] = known[name].metadata["parse"](text)
        except ValueError as fault:
            faults.append(f"{name}={text!r}: {fault}")
    if faults:
        raise SettingsError("bad settings:\n  " + "\n  ".join(faults))
    return config(**values)


def boolean(text: str) -> bool:
    """Read `true` or `false`."""
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


def choice(*allowed: str) -> Callable[[str], str]:
    """Return a parser that takes one of the given words."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return parse


def integer(low: int, high: int) -> Callable[[str], int]:
    """Return a parser for a whole number within bounds."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 12 and low <= int(text) <= high):
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(text)

    return parse


def seconds(low: float, high: float) -> Callable[[str], float]:
    """Return a parser for a time in seconds within bounds."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise ValueError(f"must be a number of seconds from {low} to {high}")
        return value

    return parse


level = choice("debug", "info", "warning", "error")
"""Reads the least level of the lines that are logged."""
