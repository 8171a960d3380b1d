"""The demo's stage: the real webhook and plugin, and stand-ins for what is around them."""

import asyncio
import http.client
import json
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jsonpatch

from milligpu import processes, workloads
from milligpu.kubelet import Grant, Kubelet, pod_key
from milligpu.processes import Webhook
from plugin.config import Config as PluginConfig
from vgpu import names, slots
from webhook.config import Config as WebhookConfig
from webhook.pod import Json

# Where things are and listen is the stage's to say.
_OWN = {"host", "port", "tls_dir", "drain_seconds", "device_plugin_dir", "simulate_beside_gpus"}

Settings = dict[str, Any]


class StageError(Exception):
    """The webhook gave no answer; the message says what it did."""


class PendingError(Exception):
    """The scheduler finds no room for a pod; the message is what it says."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the webhook made of an object."""

    object: Json
    warnings: tuple[str, ...]
    refusal: str
    """Why it was denied; empty if it was not."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The running programs, and the pods on the only node."""

    webhook: Webhook
    kubelet: Kubelet
    models: Mapping[str, str]
    """Card to model, as the plugin says."""

    async def create(self, document: Json) -> Answer:
        """Send the creation of an object to the webhook. Raises StageError without an answer."""
        try:
            review = await asyncio.to_thread(self.webhook.review, workloads.review(document))
        except (OSError, ValueError) as fault:
            raise StageError(f"no answer from the webhook: {fault}") from fault
        answer = review["response"]
        patch = json.loads(b64decode(answer["patch"])) if "patch" in answer else []
        refusal = "" if answer["allowed"] else answer["status"]["message"]
        made = jsonpatch.apply_patch(document, patch)
        return Answer(made, tuple(answer.get("warnings", ())), refusal)

    async def run(self, pod: Json) -> tuple[Grant, ...]:
        """Schedule a pod and start it.

        Raises Denied for what an API server would not store, PendingError, or the kubelet's
        AdmissionError.
        """
        workloads.check(pod)
        pods, key = self.kubelet.pods, pod_key(pod)
        if key in pods:  # a second one of this name takes its place
            self.kubelet.free(key)
        held = {device for grants in pods.values() for grant in grants for device in grant.ids}
        for name in names.GRANT_KEYS:
            offered = self.kubelet.devices.get(name, {}).items()
            room = sum(healthy and device not in held for device, healthy in offered)
            if workloads.needs(pod, name) > room:
                raise PendingError(f"0/1 nodes are available: 1 Insufficient {name}.")
        return await self.kubelet.admit(pod)

    def cards(self) -> dict[str, dict[str, int]]:
        """Return for each card how many of its slots each pod holds."""
        held: dict[str, dict[str, int]] = {card: Counter() for card in self.models}
        for key, grants in self.kubelet.pods.items():
            for device in {device for grant in grants for device in grant.ids}:
                held[slots.parse(device).card][key] += 1
        return held


def settings_for(environ: Mapping[str, str]) -> tuple[Settings, Settings]:
    """Return the webhook's and the plugin's settings of an environment; the programs check them.

    What neither knows goes to the webhook, which refuses it.
    """
    said = {}
    for variable, text in environ.items():
        name = variable.removeprefix(names.ENV_OURS).lower()
        if variable.startswith(names.ENV_OURS) and name not in _OWN:
            said[name] = text
    webhook, plugin = ({each.name for each in fields(of)} for of in (WebhookConfig, PluginConfig))
    return (
        {name: text for name, text in said.items() if name in webhook or name not in plugin},
        {"inventory": "simulated", **{name: said[name] for name in said.keys() & plugin}},
    )


@asynccontextmanager
async def set_up(folder: Path, webhook: Settings, plugin: Settings) -> AsyncIterator[Stage]:
    """Start everything in a folder with a short path, and end it when the block is left.

    Raises NotStartedError with what the program said that did not start.
    """
    sockets, port, log = folder / "dp", processes.free_port(), folder / "plugin.log"
    sockets.mkdir()
    place = {"host": processes.HOST, "port": port, "device_plugin_dir": sockets}
    plugin = {**plugin, **place, "simulate_beside_gpus": "true"}
    kubelet = Kubelet(sockets)
    try:
        await kubelet.start()
        with (
            processes.webhook(folder, wait=False, **webhook) as started,
            processes.running("-m", "plugin", output=log, settings=plugin) as cards,
        ):
            await asyncio.to_thread(started.program.wait_until, started.ready)
            await asyncio.to_thread(cards.wait_until, lambda: bool(kubelet.devices))
            state = await asyncio.to_thread(_health, port)
            yield Stage(started, kubelet, {gpu["uuid"]: gpu["model"] for gpu in state["gpus"]})
    finally:  # not `async with`: the start may be interrupted too
        await kubelet.stop()


def _health(port: int) -> Json:
    # Not by urllib, which would ask a proxy of the user's for a page of this machine.
    connection = http.client.HTTPConnection(processes.HOST, port, timeout=10)
    connection.request("GET", "/healthz")
    with connection.getresponse() as response:
        answer: Json = json.load(response)
    return answer
