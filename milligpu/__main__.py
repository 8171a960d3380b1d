"""The command line. What a command needs is imported when it runs: the others start without it."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeAlias

UNUSABLE, INTERRUPTED = 2, 130
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as the standard error has it
    parser = _parser()
    options = parser.parse_args(arguments, argparse.Namespace(parser=parser, run=_module))
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:  # before the command could see to it
        return INTERRUPTED
    except _unusable() as fault:
        said = str(fault)
        if isinstance(fault, OSError):  # nothing more can be printed
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(fault, BrokenPipeError):  # such as `milligpu demo | head`
            return 1
        if isinstance(fault, ModuleNotFoundError):  # installed without what its programs need
            said = f"{fault.name} is not installed here; "
            said += f"make {options.command} in a checkout brings it"
        print(f"milligpu {options.command}: {said}", file=sys.stderr)
        return UNUSABLE
    return status


def _module(options: argparse.Namespace) -> int:
    """Run the module that is named as the command, with the options that it takes."""
    module = import_module(f"milligpu.{options.command}")
    if "more" in options:
        options.files += options.more
        if not options.files and "spare" not in options:
            options.parser.error(f"{options.command}: name a FILE, or - for the standard input")
    status: int = module.main(*(getattr(options, name) for name in options.takes))
    return status


def _unusable() -> tuple[type[Exception], ...]:
    from milligpu.manifests import ManifestError
    from vgpu.settings import SettingsError

    return OSError, ModuleNotFoundError, ManifestError, SettingsError, RecursionError


def _parser() -> argparse.ArgumentParser:
    is_plugin = Path(sys.argv[0]).name.startswith("kubectl-")
    prog = "kubectl milligpu" if is_plugin else "milligpu"
    text = "Share a GPU between containers: `gpu: 300m` in a manifest."
    parser = argparse.ArgumentParser(prog=prog, description=text)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (_mutate, _revert, _lint, _explain, _render, _demo, _completion):
        add(commands)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(version("milligpu"))
        parser.exit()


def _command(
    commands: Commands, described: Callable[..., None], tells: str, *takes: str, **more: Any
) -> argparse.ArgumentParser:
    """Add a command, named and described as a function here is; its module takes these options."""
    name, text = described.__name__[1:], " ".join(str(described.__doc__).split())
    command = commands.add_parser(name, help=tells, description=text, **more)
    command.set_defaults(takes=takes)
    if "files" in takes:  # as they stand, and as kubectl takes them
        files = command.add_argument("files", nargs="*", type=Path)
        option = command.add_argument("-f", "--filename", dest="more", action="append", type=Path)
        files.metavar = option.metavar = "FILE"
        files.help, option.help, option.default = "- is the standard input", "the same", []
    return command


def _mutate(commands: Commands) -> None:
    """Prints the documents of manifests, in which only what the webhook would change is different.

    Messages go to the standard error. If an object would be denied or a file cannot be read,
    nothing is printed. MILLIGPU_* variables are settings, as the webhook has them.
    """
    tells = "print manifests as the webhook would make them"
    command = _command(commands, _mutate, tells, "files", "form")
    tells = "pod: print only the pods that would be made of their templates"
    option = command.add_argument("--as", dest="form", choices=("object", "pod"), help=tells)
    option.default = "object"


def _revert(commands: Commands) -> None:
    """Prints the documents of manifests, in which what the webhook made of asks is turned back.

    Messages, settings and exit status are those of mutate. For objects in a cluster:
    kubectl get -o yaml ... | milligpu revert --only-changed - | kubectl replace -f -
    """
    command = _command(commands, _revert, "turn translated manifests back", "files", "to", "only")
    tells = "the asks again, whole cards of NVIDIA's own plugin, or nothing of ours"
    command.add_argument("--to", choices=("ask", "whole", "none"), default="ask", help=tells)
    tells = "print no other objects"
    command.add_argument("--only-changed", dest="only", action="store_true", help=tells)


def _lint(commands: Commands) -> None:
    """Prints what the webhook would say of manifests, with file and line; and unread asks.

    MILLIGPU_* variables are settings, as the webhook has them. Exit status: 0, 1 with findings
    (notes are none), 2 where a file cannot be read.
    """
    command = _command(commands, _lint, "find what is wrong in manifests", "files", "format")
    command.add_argument("--format", choices=("text", "json", "sarif"), default="text")


def _explain(commands: Commands) -> None:
    """Tells step by step what becomes of the asks in files, or what a pod in the cluster has.

    MILLIGPU_* variables are settings, as the webhook has them. The cluster is read by kubectl.
    """
    usage = "%(prog)s (FILE... | pod NAME [-n NAMESPACE] [--context CONTEXT])"
    command = _command(commands, _explain, "tell what an ask becomes and why", "files", usage=usage)
    command.add_argument("-n", "--namespace")
    command.add_argument("--context")

    def run(options: argparse.Namespace) -> int:
        from milligpu import explain

        kind, _, pod = "/".join(map(str, options.files)).partition("/")
        files = options.more if kind == "pod" else options.files + options.more
        asked = {key: vars(options)[key] for key in ("namespace", "context") if vars(options)[key]}
        if bool(files) == (kind == "pod") or (not files and (not pod or "/" in pod)):
            command.error("write FILE... or pod NAME")
        return explain.main(files, pod, [f"--{key}={value}" for key, value in asked.items()])

    command.set_defaults(run=run)


def _render(commands: Commands) -> None:
    """Prints deploy/webhook.yaml with the entries of the webhook configuration that it needs.

    They are those for MILLIGPU_TEMPLATE_PATHS in its ConfigMap; all else stays as it is.
    """
    tells = "fit milligpu's own manifest to its setting of template paths"
    command = _command(commands, _render, tells, "file")
    command.add_argument("file", type=Path, metavar="FILE", help="- is the standard input")


def _demo(commands: Commands) -> None:
    """Starts the webhook and the device plugin on this machine, with simulated cards.

    It sends manifests, by default the examples, through them and shows the answers. MILLIGPU_*
    variables are passed on as the programs' settings, but for where they listen.
    """
    tells = "see what becomes of manifests: no cluster, no GPU, no root"
    _command(commands, _demo, tells, "files").set_defaults(spare=True)  # it has examples


def _completion(commands: Commands) -> None:
    """For bash, for example: eval "$(milligpu completion bash)"."""
    tells = "print what a shell needs to complete this command"
    command = _command(commands, _completion, tells)
    command.add_argument("shell", choices=("bash", "zsh", "fish"))

    def run(options: argparse.Namespace) -> int:
        import shtab

        for each in commands.choices.values():
            for argument in each._actions:  # noqa: SLF001
                if argument.type is Path:
                    argument.complete = shtab.FILE  # type: ignore[attr-defined]
        print(shtab.complete(options.parser, shell=options.shell))
        return 0

    command.set_defaults(run=run)


if __name__ == "__main__":
    sys.exit(main())
