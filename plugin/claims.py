"""Which cards other plugins of the node list: those are left to them, unless a setting insists."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from plugin.checkpoint import Checkpoint
from plugin.pods import Pods
from vgpu import names

_UUID: Final = re.compile(r"[A-Z]+-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Claims:
    """Takes in what the kubelet knows of all plugins' devices."""

    def __init__(self) -> None:
        self.served = False
        """Whether our plugin has served this node before, and every card's plugin is known."""
        self._written: dict[str, str] = {}
        """Cards that others have in the checkpoint, by what; it may be old."""
        self._listed: dict[str, str] = {}
        """Those that they have listed since our start: these stay theirs."""
        self._heard = False
        """Whether a list was had."""

    def start(self, checkpoint: Checkpoint) -> None:
        """Take in the checkpoint that a process finds."""
        before = checkpoint.registered
        # After a restart the kubelet forgets which devices were whose until their plugins are back.
        away = any(names.is_gpu_resource(name) and not before[name] for name in _others(before))
        self.served = names.COUNT in before and not away
        self._written = _by_card(checkpoint.registered)

    def polled(self, pods: Pods | None, checkpoint: Checkpoint | None) -> None:
        """Take in one look at both; each is None if it could not be had."""
        if pods:
            self._heard = True
            self._listed = {**_by_card(pods.foreign), **self._listed}
        elif checkpoint:
            self._written = _by_card(checkpoint.registered)

    def of(self, uuid: str, *, settling: bool) -> str:
        """Return as what another plugin lists a card, or may soon list it again; or nothing."""
        written = self._written if settling or not self._heard else {}
        return self._listed.get(uuid) or written.get(uuid, "")


def _others(resources: Iterable[str]) -> list[str]:
    return sorted(set(resources).difference(names.GRANT_KEYS))


def _by_card(foreign: Mapping[str, Iterable[str]]) -> dict[str, str]:
    return {_card_of(id_): name for name in _others(foreign) for id_ in foreign[name]}


def _card_of(device: str) -> str:
    """Return the card of a device id, ours or another plugin's: `GPU-<uuid>` and any suffix."""
    known = _UUID.match(device)
    return known[0] if known else device.partition("::")[0]
