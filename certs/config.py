"""The certificate keeper's settings."""

import re
from dataclasses import dataclass
from datetime import timedelta

from vgpu.names import ENV_OURS
from vgpu.settings import SettingsError, level, setting

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _duration(text: str) -> timedelta:
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text)
    if match is None:
        raise ValueError("must be a time such as 90s, 10m, 12h or 90d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


@dataclass(frozen=True, slots=True)
class Config:
    """Read once, at start, by `vgpu.settings.read`; `MILLIGPU_<FIELD>` sets a field."""

    interval: timedelta = setting(timedelta(minutes=1), _duration)
    """Time between two looks at the cluster."""
    ca_life: timedelta = setting(timedelta(days=1095), _duration)
    """Life of the CA; it is renewed at two thirds of it."""
    leaf_life: timedelta = setting(timedelta(days=90), _duration)
    """Life of the serving certificate; at most a third of the CA's, so that the CA lives longer."""
    log_level: str = setting("info", level)

    def __post_init__(self) -> None:
        if self.leaf_life * 3 > self.ca_life:
            fault = f"{ENV_OURS}LEAF_LIFE: must be at most a third of {ENV_OURS}CA_LIFE"
            raise SettingsError(f"bad settings:\n  {fault}")
