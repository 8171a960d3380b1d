"""TensorFlow Serving: how a container of it gets its memory fraction.

It reads no environment variable, only a flag; the last of several wins, and the kubelet fills in
`$(MILLIGPU_MEMORY_FRACTION)` from what the plugin answered.
"""

import re
from collections.abc import Callable, Iterator
from fractions import Fraction

from vgpu import names
from webhook.asks import is_within
from webhook.findings import Code
from webhook.pod import Container, Json

Warn = Callable[[Code, str, str], None]
"""Takes a finding about a container: its code, the field and the text."""

FRAMEWORK = "tensorflow-serving"
FLAG = "--per_process_gpu_memory_fraction="
OURS = f"{FLAG}$({names.ENV_MEMORY_FRACTION})"
_UNLIMITED = f"its memory is not limited; add {OURS}"

_PROGRAMS = ("tensorflow_model_server", "tf_serving_entrypoint.sh")
_REPOSITORY = "tensorflow/serving"
_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh", "ksh"})
_IN_TEXT = re.compile(re.escape(FLAG) + r"([^\s'\";&|]*)")


def limited(container: Container, framework: str | None, share: Fraction, warn: Warn) -> Json:
    """Return the container's changed fields: `args` with the flag, where it has to be added.

    `framework` is what the annotation says, None if nothing.
    """
    command, args = container.texts("command"), container.texts("args")
    official = _is_official(container.body.get("image"))
    if not (framework == FRAMEWORK or (framework is None and (official or _runs_it(command)))):
        return {}
    words = [*command, *args]
    if _is_shell(words):
        own = next(reversed(_IN_TEXT.findall(" ".join(words))), "")
        if names.ENV_MEMORY_FRACTION not in own and not is_within(own, share):
            warn(Code.MEMORY_UNLIMITED, "command", f"{_UNLIMITED} to the shell's command line")
        return {}
    own = next((word for word in reversed(words) if word.startswith(FLAG)), "")
    if own == OURS or is_within(own.removeprefix(FLAG), share):
        return {}
    if not (args or _runs_it(command) or (official and not command)):
        text = f"{_UNLIMITED} to the arguments of tensorflow_model_server"
        warn(Code.MEMORY_UNLIMITED, "args", text)
        return {}
    if own:
        warn(Code.MEMORY_FRACTION, "args", f"{own} is overridden by its share")
    return {"args": [*args, OURS]}


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _runs_it(command: list[str]) -> bool:
    return bool(command) and _name(command[0]) in _PROGRAMS


def _is_shell(words: list[str]) -> bool:
    """Whether a shell gets the command as one text: a word appended is not the server's.

    The shell may stand behind others, as in `tini -- sh -c`.
    """
    rest = iter(words)
    shell = (word for word in rest if _name(word) in _SHELLS and word[0] != "-")
    return next(shell, None) is not None and _take_text(rest)


def _take_text(rest: Iterator[str]) -> bool:
    """Whether a shell's options, with which the rest of the words begins, include `-c`."""
    for word in rest:
        if not word.startswith(("-", "+")):
            return False
        if not word.startswith("--") and "c" in word:
            return True
        if word.endswith(("o", "O")):
            next(rest, None)  # as in `-eo pipefail`
    return False


def _is_official(image: object) -> bool:
    if not isinstance(image, str):
        return False
    path, _, last = image.partition("@")[0].rpartition("/")
    repository = f"{path}/{last.partition(':')[0]}"
    return f"/{repository}".endswith(f"/{_REPOSITORY}")
