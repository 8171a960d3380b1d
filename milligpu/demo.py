"""The demo: manifests go through the real webhook and plugin; a person sees what comes back.

Nothing is computed here that those decide.
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path

from milligpu import manifests, workloads
from milligpu.kubelet import AdmissionError, Grant
from milligpu.manifests import File, Manifest, ManifestError
from milligpu.processes import NotStartedError
from milligpu.show import Screen
from milligpu.stage import Answer, PendingError, Stage, StageError, set_up, settings_for
from vgpu import names, slots
from webhook.pod import Container, Denied, Json, containers

EXAMPLES = Path(__file__).parent.parent / "examples"
INTERRUPTED = 130
_OBJECT, _CONTAINER = 4, 6
"""Columns before what belongs to an object, and to one of its containers."""
_NEXT = (
    ("make demo EXAMPLE=my.yaml", "your own manifest"),
    ("make test", "the tests, with a real kube-apiserver"),
    ("README.md", "what you may write, how to install it"),
)


def main(paths: Sequence[Path]) -> int:
    """Show the files, or the shipped examples, and return the exit status."""
    shipped = [*sorted(EXAMPLES.glob("*.yaml")), *sorted(EXAMPLES.glob("refused/*.yaml"))]
    if not (paths or shipped):
        print("milligpu demo: the examples are not installed here: name a file", file=sys.stderr)
        return 1
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # manifests may hold any character
    try:
        files = [manifests.read(_near(path)) for path in paths or shipped]
        asyncio.run(_until_signal(files, Screen.of(sys.stdout, os.environ)))
    except (ManifestError, StageError, NotStartedError) as fault:
        print(f"milligpu demo: {fault}", file=sys.stderr)
        return 1
    except asyncio.CancelledError:
        print("\nmilligpu demo: interrupted; everything is stopped", file=sys.stderr)
        return INTERRUPTED
    return 0


def _near(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


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

    async def show(self, files: list[File]) -> None:
        """Show all files, and the cards in the end."""
        self._programs()
        for number, file in enumerate(files, 1):
            self._say("", self.screen.rule(f"{number}/{len(files)}  {file.path}"))
            self._say(*(self.screen.paragraph(file.caption) if file.caption else ()))
            passing = await self._file(file)
            if number < len(files):
                self._end(passing)
        await self._summary()

    def _say(self, *lines: str) -> None:
        for line in lines:
            print(self.screen.plain(line), flush=True)

    def _field(self, label: str, texts: Iterable[str], *styles: str, indent: int = 2) -> None:
        self._say(*self.screen.field(label, texts, *styles, indent=indent))

    def _programs(self) -> None:
        offered = self.stage.kubelet.devices.items()
        self._field("webhook", [f"gunicorn with TLS, {self.stage.webhook.url}"])
        self._field("plugin", [f"offers {len(ids)} x {name}" for name, ids in offered])
        self._field("around", ["API server, scheduler and kubelet are stand-ins"], "dim")
        self._cards()

    async def _file(self, file: File) -> list[str]:
        """Show a file's objects; return those of its pods that end by themselves."""
        before, passing = set(self.stage.kubelet.pods), []
        for manifest in file.manifests:
            known = set(self.stage.kubelet.pods)
            try:
                await self._manifest(manifest)
            except (StageError, Denied) as fault:
                raise StageError(f"{manifest.where}: {fault}") from fault
            if manifest.document["kind"] not in workloads.LASTING:
                passing += [key for key in self.stage.kubelet.pods if key not in known]
        if not any(workloads.asked(manifest.document) for manifest in file.manifests):
            hint = f"nothing in {file.path} asks for a share: write `gpu: 300m` into a container's"
            note = f"limits, or annotate its pod with `{names.ANNOTATION_ASK}: '300m'`"
            self._say("", *self.screen.paragraph(f"{hint} {note}", "yellow"))
        if before != set(self.stage.kubelet.pods):
            self._say("")
            self._cards()
        return passing

    def _end(self, keys: list[str]) -> None:
        for key in keys:
            self.stage.end(key)
        if keys:
            who = ", ".join(map(_name, keys))
            self._field("later", [f"{who} ended; its slots are free again"], "dim")

    async def _manifest(self, manifest: Manifest) -> None:
        document = manifest.document
        self._say("", f"  {self.screen.paint(manifest.title, 'bold', 'cyan')}")
        if workloads.template(document) is None:
            passed = "holds no pods: the webhook is not asked about it"
            self._field("passed", [passed], "dim", indent=_OBJECT)
            return
        sent = workloads.arriving(document)
        self._field("ask", workloads.asked(document) or ["none"], "bold", indent=_OBJECT)
        answer = await self.stage.create(sent)
        if answer.refusal:
            self._refused(answer)
            return
        is_pod = document["kind"] == "Pod"
        self._changed("becomes" if is_pod else "stored", sent, answer)
        self._field("warning", answer.warnings, "yellow", indent=_OBJECT)
        if is_pod:
            await self._start(
                document["metadata"].get("name", "generated"), sent, answer, first=True
            )
        else:
            await self._controlled(answer.object)

    def _refused(self, answer: Answer) -> None:
        self._field("refused", [f"✗ {answer.refusal}"], "red", indent=_OBJECT)

    def _changed(self, label: str, sent: Json, answer: Answer) -> None:
        if answer.object == sent:
            self._field(label, ["as it is, nothing changed"], indent=_OBJECT)
            return
        before, after = manifests.dump(sent), manifests.dump(answer.object)
        head, *rest = self.screen.diff(before, after, self.screen.width - _OBJECT - 10)
        self._say(*self.screen.labelled(label, [head, *rest], indent=_OBJECT))

    async def _controlled(self, workload: Json) -> None:
        """Create the pods of a stored workload, as its controller does."""
        pods = list(workloads.pods(workload))
        for number, (name, pod) in enumerate(pods):
            sent = workloads.arriving(pod)
            answer = await self.stage.create(sent)
            if answer.refusal:
                self._refused(answer)
                return
            if number == 0:
                self._changed("its pods", sent, answer)
            if not await self._start(name, sent, answer, first=number == 0):
                rest = len(pods) - number - 1
                self._field("", [f"and {rest} more like it"] if rest else [], indent=_OBJECT)
                return

    async def _start(self, name: str, sent: Json, answer: Answer, *, first: bool) -> bool:
        """Run a pod and show its containers; return whether another like it is worth a try."""
        pod = {**answer.object, "metadata": {**answer.object["metadata"], "name": name}}
        if not any(workloads.needs(pod, resource) for resource in names.GRANT_KEYS):
            self._field(name, ["no share in it"], "dim", indent=_OBJECT)
            return False
        try:
            grants = await self.stage.run(pod)
        except PendingError as fault:
            self._state(name, "Pending", str(fault), "yellow")
            return False
        except AdmissionError as fault:
            self._state(name, "Failed", str(fault), "red")
            return False
        self._running(name, sent, pod, grants, brief=not first)
        return True

    def _running(
        self, name: str, sent: Json, pod: Json, grants: Sequence[Grant], *, brief: bool
    ) -> None:
        """Show what the containers of a running pod got and see; only the former, if brief."""
        listed = containers(pod, "")
        env = {item.name: _of_plugin(item, grants) for item in listed}
        got = [f"{item.name}: {_got(item, env[item.name])}" for item in listed]
        self._state(name, "Running", "; ".join(got) if brief else "", "green")
        if brief:
            return
        written = {item.name: item.env() for item in containers(sent, "")}
        for item, text in zip(listed, got, strict=True):
            name, _, rest = text.partition(":")
            self._say(f"{' ' * _CONTAINER}{self.screen.paint(name, 'bold')}:{rest}")
            seen = workloads.environment(written.get(item.name, []), item.env(), env[item.name])
            self._environment(item, seen)

    def _environment(self, item: Container, seen: Sequence[workloads.Variable]) -> None:
        indent = _CONTAINER
        for origin, style in (("yours", "bold"), ("webhook", "green"), ("plugin", "cyan")):
            words = [f"{each.name}={each.value}" for each in seen if each.origin == origin]
            self._say(*self.screen.packed(origin, words, style, indent=indent))
        values = {each.name: each.value for each in seen}
        args = [workloads.expanded(text, values) for text in item.texts("args")]
        self._say(*self.screen.packed("args", args, indent=indent))

    def _state(self, name: str, state: str, text: str, style: str) -> None:
        title, state = self.screen.paint(name, "bold"), self.screen.paint(state, style)
        self._say(f"{' ' * _OBJECT}{title}  {state}{'  ' if text else ''}{text}")

    def _cards(self) -> None:
        for card, held in self.stage.cards().items():
            bar = self.screen.bar(list(held.values()))
            used = f"{sum(held.values()):>3} of {slots.PER_CARD}"
            self._say(f"  {_short(card)}  {bar}  {used}  {self.stage.models.get(card, '')}")
            words = [f"{_name(key)} {count}" for key, count in held.items()]
            self._say(*self.screen.legend(words, indent=len(_short(card)) + 4))

    async def _summary(self) -> None:
        count, seconds = await self.stage.reviews()
        self._say("", self.screen.rule("in the end"))
        self._cards()
        each = f", {seconds / count * 1000:.1f} ms each" if count else ""
        self._field("webhook", [f"answered {count} reviews{each}"])
        self._field("next", [f"{command.ljust(27)}{text}" for command, text in _NEXT])


def _of_plugin(item: Container, grants: Sequence[Grant]) -> dict[str, str]:
    """Return the variables that the plugin gave a container."""
    mine = (grant.env for grant in grants if grant.container == item.name)
    return {name: text for env in mine for name, text in env.items()}


def _got(item: Container, plugin: dict[str, str]) -> str:
    """Say what a container got, in the plugin's and the webhook's own numbers."""
    role = {"": "", "init": " (init container)", "sidecar": " (sidecar)"}[workloads.role(item)]
    if not plugin:
        return f"no card{role}"
    cpu = (item.mapping("resources").get("limits") or {}).get(names.CPU)
    parts = [
        f"{plugin[names.ENV_SLOTS]} slots of {_short(plugin[names.ENV_GPU_UUID])}{role}",
        f"{plugin[names.ENV_MEMORY_MIB]} MiB",
        *([f"CPU limit {cpu}"] if cpu else []),
    ]
    return ", ".join(parts)


def _short(card: str) -> str:
    return card[:12]


def _name(key: str) -> str:
    return key.partition("/")[2]
