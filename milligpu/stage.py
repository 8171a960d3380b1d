"""The demo's stage: the real webhook and plugin, and stand-ins for what is around them."""

import asyncio
import json
import tempfile
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import jsonpatch

from milligpu import processes, workloads
from milligpu.kubelet import Grant, Kubelet, pod_key
from milligpu.processes import ProgramError, Webhook
from plugin.checkpoint import NAME as CHECKPOINT
from plugin.config import Config as PluginConfig
from vgpu import names, slots
from webhook.config import Config as WebhookConfig
from webhook.pod import Json

_OWN = {"host", "port", "tls_dir", "drain_seconds"}
"""Settings of the webhook that are the stage's to say."""

_SIMULATED = {"inventory": "simulated", "inventory_file": "two-t4-one-l4", "settle_seconds": 0}
"""Settings of the plugin that may be others."""


class PendingError(Exception):
    """The scheduler finds no room for a pod; the message is what it says."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The running programs, and the pods on the only node."""

    webhook: Webhook
    kubelet: Kubelet

    async def create(self, document: Json) -> tuple[Json, Json]:
        """Return what is made of an object at its creation, and the webhook's response.

        Raises ProgramError without one.
        """
        try:
            review = await asyncio.to_thread(self.webhook.review, workloads.review(document))
        except OSError as fault:
            raise ProgramError(f"no answer from the webhook: {fault}") from fault
        response = review["response"]
        patch = json.loads(b64decode(response["patch"])) if "patch" in response else []
        return jsonpatch.apply_patch(document, patch), response

    async def run(self, pod: Json) -> tuple[Grant, ...]:
        """Schedule a pod and start it. Raises PendingError, or the kubelet's AdmissionError."""
        self.kubelet.pods.pop(pod_key(pod), None)  # a second one of this name takes its place
        self._write_down()
        for name in names.GRANT_KEYS:
            if workloads.needs(pod, name) > len(self.kubelet.free(name)):
                raise PendingError(f"0/1 nodes are available: 1 Insufficient {name}.")
        grants = await self.kubelet.admit(pod)
        self._write_down()
        return grants

    def _write_down(self) -> None:
        """Write down who has what, where the plugin reads it, in the kubelet's own form."""
        every = (grant for grants in self.kubelet.pods.values() for grant in grants)
        entries = [{"ResourceName": e.resource, "DeviceIDs": {"-1": sorted(e.ids)}} for e in every]
        data = {"PodDeviceEntries": entries, "RegisteredDevices": {}}
        (self.kubelet.folder / CHECKPOINT).write_text(json.dumps({"Data": data}))

    def cards(self) -> dict[str, Counter[str]]:
        """Return for each card how many of its slots each pod holds."""
        cards = map(slots.parse, self.kubelet.devices[names.WHOLE])
        held = {each.card: Counter[str]() for each in cards}
        for key, grants in self.kubelet.pods.items():
            for device in map(slots.parse, {each for grant in grants for each in grant.ids}):
                held[device.card][key] += 1 if isinstance(device, slots.Slot) else slots.PER_CARD
        return held


def settings_for(environ: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the webhook's and the plugin's settings of an environment; the programs check them.

    What neither knows goes to the webhook, which refuses it.
    """
    ours = names.ENV_OURS
    said = {k.removeprefix(ours).lower(): v for k, v in environ.items() if k.startswith(ours)}
    webhook, plugin = ({each.name for each in fields(of)} for of in (WebhookConfig, PluginConfig))
    first, second = said.keys() - (plugin - webhook) - _OWN, said.keys() & plugin
    return {name: said[name] for name in first}, {name: said[name] for name in second}


@asynccontextmanager
async def set_up(environ: Mapping[str, str]) -> AsyncIterator[Stage]:
    """Start everything with the settings of an environment; end it when the block is left.

    Raises ProgramError with what a program said that did not start.
    """
    webhook, plugin = settings_for(environ)
    with tempfile.TemporaryDirectory(prefix="milligpu-") as home:
        folder = Path(home)
        place = {"host": processes.HOST, "port": 0, "device_plugin_dir": folder}
        place |= {"pod_resources": folder / "none", "simulate_beside_gpus": "true"}
        simulated = {**_SIMULATED, **plugin, **place}
        async with Kubelet(folder) as kubelet:
            plugged = processes.running("-m", "plugin", output=folder / "log", settings=simulated)
            with processes.webhook(folder, wait=False, **webhook) as started, plugged as cards:
                await asyncio.to_thread(started.program.wait_until, started.ready)
                both = set(names.GRANT_KEYS)
                await asyncio.to_thread(cards.wait_until, lambda: kubelet.devices.keys() == both)
                yield Stage(started, kubelet)
