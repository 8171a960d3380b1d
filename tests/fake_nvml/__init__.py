"""A fake NVIDIA driver: `libnvidia-ml.so.1`, built by gcc, that answers as a scenario file says.

The library is found as the real one is, by the dynamic loader, once in a process: whatever uses it
is a process of its own, started with `Driver.variables()`.
"""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
LIBRARY = "libnvidia-ml.so.1"
SOURCES = (str(HERE / "nvml.c"), str(HERE / "scenario.c"))
COMPILE = (
    *("gcc", "-shared", "-fPIC", "-std=gnu11", "-O1", "-pthread", "-Wall", "-Wextra", "-Werror"),
    *("-fvisibility=hidden", f"-Wl,-soname,{LIBRARY}"),
)
# Symbols that came after the driver branch R450 (2020).
AFTER_R450 = (
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGet*RunningProcesses_v2",
    "nvmlDeviceGet*RunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetRunningProcessDetailList",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetHandleByUUIDV",
    "nvmlDeviceGetPciInfoExt",
)


def build(folder: Path, without: Iterable[str] = (), version: str = "") -> Path:
    """Build the library into a folder, without some symbols (patterns), and return its path.

    With a version it is of that driver, and refuses to work with another. Raises RuntimeError with
    the compiler's message.
    """
    script = folder / "symbols.map"
    script.write_text("{ local: none; " + " ".join(f"{symbol};" for symbol in without) + " };\n")
    library = folder / LIBRARY
    defines = [f'-DDRIVER_VERSION="{version}"'] if version else []
    linking = [f"-Wl,--version-script={script}", "-o", str(library)]
    command = [*COMPILE, *defines, *linking, *SOURCES]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise RuntimeError(
            "the fake driver is built with gcc; on Debian or Ubuntu: apt-get install gcc libc6-dev"
        ) from None
    if done.returncode:
        raise RuntimeError(f"gcc cannot build the fake driver:\n{done.stderr}")
    return library


def build_unloadable(folder: Path) -> Path:
    """Put a file in the library's place that does not load, whatever the machine has elsewhere."""
    library = folder / LIBRARY
    library.write_bytes(b"")
    return library


def statement(verb: str, *words: str, **fields: object) -> str:
    """Return a line of a scenario (the language is described in scenario.h)."""
    pairs = [f'{key}="{value}"' for key, value in fields.items()]
    return " ".join([verb, *words, *pairs])


@dataclass(frozen=True)
class Driver:
    """A driver as one test sees it."""

    library: Path
    folder: Path
    """Where the scenario and the log of calls are."""

    def says(self, *statements: str) -> None:
        """Change what the driver answers, at once and for every process."""
        fresh = self.folder / "scenario.new"
        fresh.write_text("".join(f"{line}\n" for line in statements))
        fresh.replace(self._scenario)

    def variables(self) -> dict[str, str]:
        """Return what a process needs in its environment to find this driver."""
        return {
            "LD_LIBRARY_PATH": str(self.library.parent),
            "FAKE_NVML_SCENARIO": str(self._scenario),
            "FAKE_NVML_LOG": str(self._log),
        }

    def calls(self) -> list[str]:
        """Return the names of the functions that were called so far, in order."""
        return self._log.read_text().split() if self._log.exists() else []

    @property
    def _scenario(self) -> Path:
        return self.folder / "scenario"

    @property
    def _log(self) -> Path:
        return self.folder / "calls"
