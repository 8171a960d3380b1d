"""A process that loads the fake driver and evaluates what a test sends it, line by line."""

import ast
import json
import os
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

from tests.fake_nvml import HERE, Driver

REPOSITORY = HERE.parent.parent


class Raised(Exception):
    """The expression raised; the message is `Type: text`."""


class Client:
    """Evaluates Python in a process with the fake driver, where pynvml's names are at hand.

    What is assigned in one call is there in the next.
    """

    def __init__(self, driver: Driver) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.fake_nvml.client"],
            cwd=REPOSITORY,
            env=os.environ | driver.variables(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._process.communicate(timeout=10)

    def do(self, code: str) -> Any:
        """Run statements; return the value of the last one if it is an expression.

        Raises Raised with what the code raised, RuntimeError when the process died.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(code), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(self._process.communicate(timeout=10)[1])
        value, error = json.loads(answer)
        if error:
            raise Raised(error)
        return value


def evaluate(code: str, names: dict[str, object]) -> object:
    """Execute all statements; return the last one's value if it is an expression."""
    *before, last = ast.parse(code).body
    if not isinstance(last, ast.Expr):
        before.append(last)
    whole = ast.Module(before, [])
    exec(compile(whole, "<test>", "exec"), names)  # noqa: S102 - code of the test's own
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "<test>", "eval"), names)  # noqa: S307 - likewise


def main() -> None:
    """Answer each line of code with `[value, null]` or `[null, error]`."""
    names: dict[str, object] = {}
    evaluate("import ctypes, pynvml\nfrom pynvml import *", names)
    for line in sys.stdin:
        try:
            answer = json.dumps([evaluate(json.loads(line), names), None])
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shall see it
            answer = json.dumps([None, f"{type(error).__name__}: {error}"])
        print(answer, flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
