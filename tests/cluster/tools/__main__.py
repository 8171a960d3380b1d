"""`python -m tests.cluster.tools NAME...` builds those programs and prints where they are."""

import sys

from tests.cluster.tools import ToolError, ensure
from tests.cluster.tools.recipes import RECIPES
from tests.cluster.tools.say import say


def main(names: list[str]) -> int:
    try:
        for name, path in ensure(names or RECIPES).items():
            say(f"{name}\t{path}")
    except ToolError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
