"""The demo: manifests go through the real webhook and plugin; a person sees what comes back.

Nothing is computed here that those decide.
"""

import asyncio
import difflib
import os
import re
import signal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from milligpu import kubeyaml, manifests, workloads
from milligpu.kubelet import AdmissionError, Grant, pod_key
from milligpu.manifests import File, ManifestError
from milligpu.processes import ProgramError
from milligpu.show import Screen, bar
from milligpu.stage import PendingError, Stage, set_up
from milligpu.unread import is_custom
from vgpu import names, slots
from webhook.pod import Json

EXAMPLES = Path(__file__).parent.parent / "examples"
_COLUMN = 14
_MARKS = {"+": "green", "-": "red", "@": "cyan", " ": "dim"}
_PASSING = {"Pod", "Job", "CronJob"}
"""Kinds whose pods end by themselves."""


def main(paths: Sequence[Path]) -> int:
    """Show the files, or the shipped examples, and return the exit status.

    Raises ManifestError.
    """
    files = [manifests.read(path).named() for path in paths or _shipped()]
    try:
        asyncio.run(_show(files))
    except ProgramError as fault:
        print(f"milligpu demo: {fault}", file=sys.stderr)
        return 1
    return 0


def _shipped() -> list[Path]:
    found = [*sorted(EXAMPLES.glob("*.yaml")), *sorted(EXAMPLES.glob("refused/*.yaml"))]
    if not found:
        raise ManifestError("the examples are not installed here: name a file")
    return [Path(os.path.relpath(path)) for path in found]


async def _show(files: list[File]) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):  # end as by Ctrl-C, which asyncio sees to
        signal.signal(number, signal.getsignal(signal.SIGINT))
    print("starting the webhook and the device plugin ...", flush=True)
    async with set_up(os.environ) as stage:
        await Demo(Screen.of(sys.stdout, os.environ), stage).show(files)
    command = os.path.relpath(Path(sys.executable).parent / "milligpu")
    print(f"\nnext: {command} lint your.yaml; the README tells the rest")


@dataclass(frozen=True, slots=True)
class Demo:
    """Tells the story on a screen."""

    screen: Screen
    stage: Stage
    passing: set[str] = field(default_factory=set)
    """The pods of the present file that end by themselves."""

    async def show(self, files: list[File]) -> None:
        """Show what becomes of each file, and the cards after it."""
        self._field("webhook", [f"gunicorn with TLS, {self.stage.webhook.url}"])
        for name, ids in sorted(self.stage.kubelet.devices.items(), reverse=True):
            self._field("plugin", [f"offers {len(ids)} x {name}"])
        self._field("around", ["API server, scheduler and kubelet are stand-ins"])
        for number, file in enumerate(files, 1):
            self._end()
            self._say("", self.screen.paint(f"{number}/{len(files)}  {file.path}", "bold"))
            self._say(*re.findall(r"\A#.*", file.pieces[0].text))
            for manifest in file.manifests:
                self._say("", f"  {self.screen.paint(manifest.title, 'bold', 'cyan')}")
                await self._object(manifest.document)
            self._say("")
            self._cards()

    def _say(self, *lines: str) -> None:
        for line in lines:
            print(self.screen.plain(line), flush=True)

    def _field(self, label: str, texts: Iterable[str], *styles: str) -> None:
        self._say(*self.screen.field(label, texts, *styles, column=_COLUMN))

    def _cards(self) -> None:
        for card, held in self.stage.cards().items():
            used = f"{sum(held.values()):>3} of {slots.PER_CARD}"
            self._say(f"  {_short(card)}  {bar(held.values())}  {used}")
            holders = (f"{key.partition('/')[2]}:{count}" for key, count in held.items())
            self._field("", ["  ".join(holders)], "dim")

    def _end(self) -> None:
        for key in sorted(self.passing & self.stage.kubelet.pods.keys()):
            del self.stage.kubelet.pods[key]
            self._field("later", [f"{key} ended"], "dim")
        self.passing.clear()

    async def _object(self, document: Json) -> None:
        if workloads.template(document) is None:
            text = "holds no pods: the webhook is not asked about it"
            if is_custom(document):
                text = "the webhook is not asked about it, but about the pods its operator makes"
            self._field("passed", [text], "dim")
            return
        kind = document["kind"]
        stored = document if kind == "Pod" else await self._create("stored", document)
        pods = list(workloads.pods(stored)) if stored else []
        for number, pod in enumerate(pods, 1):
            if not await self._pod(kind, pod, "pod" if number == 1 else ""):
                rest = len(pods) - number
                self._field("", [f"and {rest} more like it"] if rest else [])
                return

    async def _create(self, label: str, document: Json) -> Json:
        """Return what is made of an object, empty if it is refused; show it if there is a label."""
        sent = workloads.arriving(document)
        made, response = await self.stage.create(sent)
        if not response["allowed"]:
            self._field("refused", [response["status"]["message"]], "red")
        elif label:
            before, after = (kubeyaml.dump(each).splitlines() for each in (sent, made))
            lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
            for number, line in enumerate(lines or [" as it is, nothing changed"]):
                self._field("" if number else label, [line], _MARKS[line[0]])
        if label:
            self._field("warning", response.get("warnings", ()), "yellow")
        return made if response["allowed"] else {}

    async def _pod(self, kind: str, pod: Json, label: str) -> bool:
        """Create and run a pod, and show all of it if there is a label.

        Returns whether another like it is worth a try.
        """
        made = await self._create(label, pod)
        if not made:
            return False
        name = made["metadata"]["name"]
        try:
            grants = await self.stage.run(made)
        except (PendingError, AdmissionError) as fault:
            state = "Pending" if isinstance(fault, PendingError) else "Failed"
            self._state(name, state, str(fault), "red")
            return False
        if not grants:
            self._state(name, "Running", "no share in it", "dim")
        elif kind in _PASSING:
            self.passing.add(pod_key(made))
        for grant in grants:
            self._state(name, "Running", _got(grant), "green")
            env = "  ".join(f"{name}={value}" for name, value in grant.env.items())
            self._field("plugin", [env] if label else [])
        return bool(grants)

    def _state(self, name: str, state: str, text: str, style: str) -> None:
        state = self.screen.paint(state, style)
        self._say(f"    {self.screen.paint(name, 'bold')}  {state}  {text}")


def _got(grant: Grant) -> str:
    """Say what a container got, in the plugin's own numbers."""
    cards = ", ".join(map(_short, grant.env[names.ENV_GPU_UUID].split(",")))
    count, memory = map(grant.env.get, (names.ENV_SLOTS, names.ENV_MEMORY_MIB))
    share = f"{count} slots of {cards}, {memory} MiB"
    return f"{grant.container}: {share if count else f'all of {cards}'}"


def _short(card: str) -> str:
    return card[:12]
