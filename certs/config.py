"""The certificate keeper's settings."""

import re
from dataclasses import dataclass
from datetime import timedelta

from vgpu.names import ENV_OURS
from vgpu.settings import SettingsError, level, setting

TRUST_DELAY = timedelta(seconds=5)
"""Time in which every API server has read a changed caBundle; a second is usual."""
_BAD = f"bad settings:\n  {ENV_OURS}LEAF_LIFE: "
_SECOND = timedelta(seconds=1)
_UNITS = {"s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND, "d": 86400 * _SECOND}


def _duration(text: str) -> timedelta:
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text)
    if match is None:
        raise ValueError("must be a time such as 90s, 10m, 12h or 90d")
    return int(match[1]) * _UNITS[match[2]]


def _text(time: timedelta) -> str:
    return [f"{time // one}{unit}" for unit, one in _UNITS.items() if not time % one][-1]


@dataclass(frozen=True, slots=True)
class Config:
    """Read once, at start, by `vgpu.settings.read`; `MILLIGPU_<FIELD>` sets a field."""

    interval: timedelta = setting(timedelta(seconds=15), _duration)
    """Time between two looks at the cluster."""
    ca_life: timedelta = setting(timedelta(days=1095), _duration)
    """Life of the CA; it is renewed at two thirds of it."""
    leaf_life: timedelta = setting(timedelta(days=90), _duration)
    """Life of the serving certificate; at most a third of the CA's, so that the CA lives longer."""
    secret_delay: timedelta = setting(timedelta(minutes=2), _duration)
    """Time that a changed Secret may take into the pods; a kubelet by default takes 60 to 90 s."""
    log_level: str = setting("info", level)

    def __post_init__(self) -> None:
        if self.leaf_life * 3 > self.ca_life:
            raise SettingsError(f"{_BAD}must be at most a third of {ENV_OURS}CA_LIFE")
        # One look may fail, and when the CA is new as well its leaf has to wait.
        needed = 2 * self.interval + TRUST_DELAY + self.secret_delay
        if self.leaf_life < 3 * needed:
            raise SettingsError(
                f"{_BAD}{_text(self.leaf_life)} is too short, it must be at least"
                f" {_text(3 * needed)}: a renewal has a third of it and may take {_text(needed)},"
                f" twice {ENV_OURS}INTERVAL ({_text(self.interval)}), {_text(TRUST_DELAY)} for a"
                f" new CA, and {ENV_OURS}SECRET_DELAY ({_text(self.secret_delay)})"
            )
