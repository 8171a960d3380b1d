"""How often the files of a folder are opened, by the kernel's account (inotify)."""

import ctypes
import os
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

IN_OPEN, IN_CLOSE = 0x20, 0x18
"""The second only so that two openings do not come one after the other: they would be told as one.
"""
_HEAD = struct.Struct("iIII")
"""Watch, what happened, cookie, and how long the name is that follows."""


@dataclass(frozen=True, slots=True)
class Opens:
    """A folder that is watched."""

    descriptor: int

    def counted(self) -> Counter[str]:
        """Return how often each file was opened since the last time, by its name."""
        found, data = Counter[str](), self._data()
        while data:
            _, what, _, length = _HEAD.unpack_from(data)
            end = _HEAD.size + length
            found[data[_HEAD.size : end].rstrip(b"\0").decode()] += bool(what & IN_OPEN)
            data = data[end:]
        return found

    def _data(self) -> bytes:
        data = b""
        try:
            while True:
                data += os.read(self.descriptor, 1 << 20)
        except BlockingIOError:
            return data


@contextmanager
def watched(folder: Path) -> Iterator[Opens]:
    """Watch a folder while the block runs."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if library.inotify_add_watch(descriptor, os.fsencode(folder), IN_OPEN | IN_CLOSE) < 0:
            raise OSError(ctypes.get_errno(), f"cannot watch {folder}")
        yield Opens(descriptor)
    finally:
        os.close(descriptor)
