"""The command line: `milligpu demo`; later mutate, lint, explain."""

import sys


def main() -> int:
    """Run the command line and return its exit status."""
    print("nothing here yet", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
