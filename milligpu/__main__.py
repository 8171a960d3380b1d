"""The command line. What a command needs is imported when it runs: the others start without it."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeAlias

from vgpu.names import ENV_OURS

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
    except OSError as fault:  # nothing more can be printed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(fault, BrokenPipeError):  # such as `milligpu demo | head`
            return 1
        print(f"milligpu {options.command}: {fault}", file=sys.stderr)
        return UNUSABLE
    except ModuleNotFoundError as fault:  # installed without what its programs need
        make = f"{fault.name} is not installed here; make {options.command} in a checkout brings it"
        print(f"milligpu {options.command}: {make}", file=sys.stderr)
        return UNUSABLE
    except _unusable() as fault:
        print(f"milligpu {options.command}: {fault}", file=sys.stderr)
        return UNUSABLE
    return status


def _module(options: argparse.Namespace) -> int:
    """Run the module that is named as the command, with the options that it takes."""
    module = import_module(f"milligpu.{options.command}")
    if "more" in options:
        options.files += options.more
        if not options.files:
            options.parser.error(f"{options.command}: name a FILE, or - for the standard input")
    status: int = module.main(*(getattr(options, name) for name in options.takes))
    return status


def _unusable() -> tuple[type[Exception], ...]:
    from milligpu.manifests import ManifestError
    from vgpu.settings import SettingsError

    return ManifestError, SettingsError, RecursionError


def _parser() -> argparse.ArgumentParser:
    is_plugin = Path(sys.argv[0]).name.startswith("kubectl-")
    parser = argparse.ArgumentParser(
        prog="kubectl milligpu" if is_plugin else "milligpu",
        description="Share a GPU between containers: `gpu: 300m` in a manifest.",
    )
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


def _take_files(command: argparse.ArgumentParser) -> None:
    """Let a command take files as they stand, and as kubectl takes them."""
    command.add_argument("files", nargs="*", type=Path, metavar="FILE", help="- is standard input")
    option = command.add_argument("-f", "--filename", dest="more", action="append", type=Path)
    option.default, option.metavar, option.help = [], "FILE", "the same"


def _mutate(commands: Commands) -> None:
    command = commands.add_parser(
        "mutate",
        help="print manifests as the webhook would make them",
        description="Prints the documents of manifests, in which only what the webhook would"
        " change is different. Messages go to the standard error. If an object would be denied or"
        f" a file cannot be read, nothing is printed. {ENV_OURS}* variables are settings, as the"
        " webhook has them.",
    )
    _take_files(command)
    command.add_argument(
        "--as",
        dest="form",
        choices=("object", "pod"),
        default="object",
        help="pod: print only the pods that would be made of their templates",
    )
    command.set_defaults(takes=("files", "form"))


def _revert(commands: Commands) -> None:
    command = commands.add_parser(
        "revert",
        help="turn translated manifests back",
        description="Prints the documents of manifests, in which what the webhook has made of asks"
        " is turned back. Messages, settings and exit status are those of mutate. Of an object that"
        " comes from a cluster: kubectl get -o yaml | milligpu revert - | kubectl replace -f -",
    )
    _take_files(command)
    command.add_argument(
        "--to",
        choices=("ask", "whole", "none"),
        default="ask",
        help="ask: the asks again; whole: cards of NVIDIA's own plugin in place of all asks and"
        " grants; none: nothing of ours is left",
    )
    command.add_argument(
        "--only-changed", dest="only", action="store_true", help="print no other objects"
    )
    command.set_defaults(takes=("files", "to", "only"))


def _lint(commands: Commands) -> None:
    command = commands.add_parser(
        "lint",
        help="find what is wrong in manifests",
        description="Prints what the webhook would say of manifests, with file and line, and asks"
        f" that nobody reads. {ENV_OURS}* variables are settings, as the webhook has them. Exit"
        " status: 0, 1 with findings (notes are none), 2 where a file cannot be read.",
    )
    _take_files(command)
    command.add_argument("--format", choices=("text", "json", "sarif"), default="text")
    command.set_defaults(takes=("files", "format"))


def _explain(commands: Commands) -> None:
    command = commands.add_parser(
        "explain",
        help="tell what an ask becomes and why",
        usage="%(prog)s (FILE... | pod NAME [-n NAMESPACE] [--context CONTEXT])",
        description="Tells step by step what becomes of the asks in files, by the settings in"
        f" {ENV_OURS}* variables, or what a pod in the cluster has, as kubectl reads it.",
    )
    _take_files(command)
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
    command = commands.add_parser(
        "render",
        help="fit milligpu's own manifest to its setting of template paths",
        description="Prints deploy/webhook.yaml with the entries of the webhook configuration that"
        f" {ENV_OURS}TEMPLATE_PATHS in its ConfigMap needs; all else stays as it is.",
    )
    command.add_argument("file", type=Path, metavar="FILE", help="- is standard input")
    command.set_defaults(takes=("file",))


def _demo(commands: Commands) -> None:
    command = commands.add_parser(
        "demo",
        help="see what becomes of manifests: no cluster, no GPU, no root",
        description="Starts the webhook and the device plugin on this machine, with simulated"
        f" cards, sends manifests through them and shows the answers. {ENV_OURS}* variables are"
        " passed on as the programs' settings, but for where they listen.",
    )
    command.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="default: the examples"
    )
    command.set_defaults(takes=("files",))


def _completion(commands: Commands) -> None:
    command = commands.add_parser(
        "completion",
        help="print what a shell needs to complete this command",
        description='For bash, for example: eval "$(milligpu completion bash)"',
    )
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
