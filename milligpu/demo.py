"""The demo: manifests go through the real webhook and plugin; a person sees what comes back.

Nothing is computed here that those decide.
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path

from milligpu import kubeyaml, manifests, workloads
from milligpu.kubelet import AdmissionError, Grant, pod_key
from milligpu.manifests import File, ManifestError
from milligpu.processes import NotStartedError
from milligpu.show import Screen
from milligpu.stage import Answer, PendingError, Stage, StageError, set_up, settings_for
from vgpu import names, slots
from webhook.findings import Denied
from webhook.pod import Container, Json, containers

EXAMPLES = Path(__file__).parent.parent / "examples"
INTERRUPTED = 130
_TOP, _OBJECT, _CONTAINER = 12, 14, 16
"""Columns of texts about everything, an object, and one of its containers."""
_NO_SHARE = (
    "nothing in {} asks for a share: write `gpu: 300m` into a container's limits, or annotate its"
    f" pod with `{names.ANNOTATION_ASK}: '300m'`"
)
_NEXT = (
    "make demo EXAMPLE=my.yaml  your own manifest",
    "make test                  the tests, with a real kube-apiserver",
    "README.md                  what you may write, how to install it",
)


def main(paths: Sequence[Path]) -> int:
    """Show the files, or the shipped examples, and return the exit status."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # manifests may hold any character
    try:
        files = [manifests.read(path).named() for path in paths or _shipped()]
        asyncio.run(_until_signal(files, Screen.of(sys.stdout, os.environ)))
    except (ManifestError, StageError, NotStartedError) as fault:
        print(f"milligpu demo: {fault}", file=sys.stderr)
        return 1
    except asyncio.CancelledError:
        print("\nmilligpu demo: interrupted; everything is stopped", file=sys.stderr)
        return INTERRUPTED
    return 0


def _shipped() -> list[Path]:
    found = [*sorted(EXAMPLES.glob("*.yaml")), *sorted(EXAMPLES.glob("refused/*.yaml"))]
    if not found:
        raise ManifestError("the examples are not installed here: name a file")
    return [Path(os.path.relpath(path)) for path in found]


async def _until_signal(files: list[File], screen: Screen) -> None:
    running = asyncio.ensure_future(_run(files, screen))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    await running


async def _run(files: list[File], screen: Screen) -> None:
    webhook, plugin = settings_for(os.environ)
    with tempfile.TemporaryDirectory(prefix="milligpu-") as folder:
        print("starting the webhook and the device plugin ...", flush=True)
        async with set_up(Path(folder), webhook, plugin) as stage:
            await Demo(screen, stage).show(files)


@dataclass(frozen=True, slots=True)
class Demo:
    """Tells the story on a screen."""

    screen: Screen
    stage: Stage
    passing: list[str] = field(default_factory=list)
    """The pods of the present file that end by themselves."""

    async def show(self, files: list[File]) -> None:
        """Show all files, and the cards in the end."""
        offered = self.stage.kubelet.devices.items()
        self._field("webhook", [f"gunicorn with TLS, {self.stage.webhook.url}"])
        self._field("plugin", [f"offers {len(ids)} x {name}" for name, ids in offered])
        self._field("around", ["API server, scheduler and kubelet are stand-ins"], "dim")
        self._cards()
        for number, file in enumerate(files, 1):
            self._end()
            self._say("", self.screen.rule(f"{number}/{len(files)}  {file.path}"))
            await self._file(file)
        self._say("", self.screen.rule("in the end"))
        self._cards()
        self._field("next", _NEXT)

    def _say(self, *lines: str) -> None:
        for line in lines:
            print(self.screen.plain(line), flush=True)

    def _field(self, label: str, texts: Iterable[str], *styles: str, column: int = _TOP) -> None:
        self._say(*self.screen.field(label, texts, *styles, column=column))

    def _cards(self) -> None:
        for card, held in self.stage.cards().items():
            bar, used = self.screen.bar(list(held.values())), sum(held.values())
            model = self.stage.models.get(card, "")
            self._say(f"  {_short(card)}  {bar}  {used:>3} of {slots.PER_CARD}  {model}")
            words = (f"{key.partition('/')[2]}:{count}" for key, count in held.items())
            self._say(*self.screen.legend(words, column=len(_short(card)) + 4))

    def _end(self) -> None:
        for key in self.passing:
            self.stage.kubelet.free(key)
        gone = ", ".join(key.partition("/")[2] for key in self.passing)
        self._field("later", [f"{gone} ended; its slots are free again"] if gone else [], "dim")
        self.passing.clear()

    async def _file(self, file: File) -> None:
        self._field("", [file.caption], column=2)
        before = set(self.stage.kubelet.pods)
        for manifest in file.manifests:
            self._say("", f"  {self.screen.paint(manifest.title, 'bold', 'cyan')}")
            try:
                await self._object(manifest.document)
            except (StageError, Denied) as fault:
                raise StageError(f"{manifest.where}: {fault}") from fault
        if not any(workloads.asked(manifest.document) for manifest in file.manifests):
            self._field("", [_NO_SHARE.format(file.path)], "yellow", column=2)
        if before != set(self.stage.kubelet.pods):
            self._say("")
            self._cards()

    async def _object(self, document: Json) -> None:
        if workloads.template(document) is None:
            passed = "holds no pods: the webhook is not asked about it"
            self._field("passed", [passed], "dim", column=_OBJECT)
            return
        self._field("ask", workloads.asked(document) or ["none"], "bold", column=_OBJECT)
        kind, label = document["kind"], "becomes"
        if kind != "Pod":
            label, sent = "its pods", workloads.arriving(document)
            answer = await self.stage.create(sent)
            self._answer("stored", sent, answer)
            if answer.refusal:
                return
            document = answer.object
        pods = list(workloads.pods(document))
        for number, (name, pod) in enumerate(pods):
            if not await self._pod(kind, name, pod, "" if number else label):
                rest = len(pods) - number - 1
                self._field("", [f"and {rest} more like it"] if rest else [], column=_OBJECT)
                return

    def _answer(self, label: str, sent: Json, answer: Answer) -> None:
        if answer.refusal:
            self._field("refused", [f"✗ {answer.refusal}"], "red", column=_OBJECT)
        elif answer.object == sent:
            self._field(label, ["as it is, nothing changed"], column=_OBJECT)
        else:
            before, after = kubeyaml.dump(sent), kubeyaml.dump(answer.object)
            lines = self.screen.diff(before, after, _OBJECT)
            self._say(*self.screen.labelled(label, lines, _OBJECT))
        self._field("warning", answer.warnings, "yellow", column=_OBJECT)

    async def _pod(self, kind: str, name: str, pod: Json, label: str) -> bool:
        """Create and run a pod, and show it in full if it has a label, for its change.

        Returns whether another like it is worth a try.
        """
        sent = workloads.arriving(pod)
        answer = await self.stage.create(sent)
        if label:
            self._answer(label, sent, answer)
        if answer.refusal:
            return False
        made = {**answer.object, "metadata": {**answer.object["metadata"], "name": name}}
        if not any(workloads.needs(made, resource) for resource in names.GRANT_KEYS):
            self._state(name, "no share in it", "", "dim")
            return False
        try:
            grants = await self.stage.run(made)
        except PendingError as fault:
            self._state(name, "Pending", str(fault), "yellow")
            return False
        except AdmissionError as fault:
            self._state(name, "Failed", str(fault), "red")
            return False
        if kind not in workloads.LASTING:
            self.passing.append(pod_key(made))
        self._running(name, sent, made, grants, full=bool(label))
        return True

    def _state(self, name: str, state: str, text: str, style: str) -> None:
        line = f"    {self.screen.paint(name, 'bold')}  {self.screen.paint(state, style)}  {text}"
        self._say(line.rstrip())

    def _running(
        self, name: str, sent: Json, pod: Json, grants: Sequence[Grant], *, full: bool
    ) -> None:
        env = {item.name: dict[str, str]() for item in containers(pod, "")}
        for grant in grants:
            env[grant.container] |= grant.env
        got = {item.name: _got(item, env[item.name]) for item in containers(pod, "")}
        brief = "; ".join(f"{name}: {text}" for name, text in got.items())
        self._state(name, "Running", "" if full else brief, "green")
        if full:
            for was, item in zip(containers(sent, ""), containers(pod, ""), strict=True):
                self._say(f"      {self.screen.paint(item.name, 'bold')}: {got[item.name]}")
                self._sees(item, was.env(), env[item.name])

    def _sees(self, item: Container, written: list[Json], plugin: dict[str, str]) -> None:
        seen = workloads.environment(written, item.env(), plugin)
        for origin, style in (("yours", "bold"), ("webhook", "green"), ("plugin", "cyan")):
            words = [f"{name}={value}" for name, (value, by) in seen.items() if by == origin]
            self._field(origin, ["  ".join(words)], style, column=_CONTAINER)
        values = {name: value for name, (value, _) in seen.items()}
        args = (workloads.expanded(text, values) for text in item.texts("args"))
        self._field("args", ["  ".join(args)], column=_CONTAINER)


def _got(item: Container, plugin: dict[str, str]) -> str:
    """Say what a container got, in the plugin's and the webhook's own numbers."""
    role = f" ({workloads.role(item)})" if workloads.role(item) else ""
    if not plugin:
        return f"no card{role}"
    cpu = item.sides()[0].get(names.CPU)
    card = f"{plugin[names.ENV_SLOTS]} slots of {_short(plugin[names.ENV_GPU_UUID])}{role}"
    memory = f"{plugin[names.ENV_MEMORY_MIB]} MiB"
    return ", ".join([card, memory, *([f"CPU limit {cpu}"] if cpu else [])])


def _short(card: str) -> str:
    return card[:12]
