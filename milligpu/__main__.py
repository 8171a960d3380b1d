"""The command line: `milligpu demo`; later mutate, lint, explain.

What a command needs is imported when it runs: the others start without it.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from vgpu.names import ENV_OURS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="milligpu", description="Share a GPU between containers: `gpu: 300m` in a manifest."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
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
    options = parser.parse_args(arguments)
    try:
        from milligpu import demo

        return demo.main(options.files)
    except KeyboardInterrupt:  # before the command could see to it
        return 130
    except BrokenPipeError:  # such as `milligpu demo | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
