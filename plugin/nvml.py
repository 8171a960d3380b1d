"""Real cards, as NVIDIA's driver library knows them. The only importer of `pynvml`."""

import contextlib
from collections.abc import Callable
from typing import Any

import pynvml

from plugin.gpu import Gpu, InventoryError, Probe

# With these there is nothing that could be broken: no card or no driver, perhaps not yet.
_ABSENT = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver library (libnvidia-ml.so.1) is found",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "the NVIDIA driver finds no card",
}
# How an older driver, or a card, says that it does not know a call or its second version.
_UNKNOWN = {
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    pynvml.NVML_ERROR_NOT_SUPPORTED,
}


class NvmlInventory:
    """Keeps NVML open from look to look.

    After one that missed a card it is opened anew: what is lost to a session stays lost to it.
    """

    def __init__(self) -> None:
        self._open = False

    def probe(self) -> Probe:
        """Look at all cards; one that does not answer is left out with a note."""
        try:
            if not self._open:
                pynvml.nvmlInit()
                self._open = True
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self.close()
            if error.value in _ABSENT:
                return Probe(notes=(_ABSENT[error.value],))
            raise InventoryError(f"the NVIDIA driver does not answer: {error}") from error
        probe = _look(count)
        if probe.notes:
            self.close()
        if count and not probe.gpus:
            raise InventoryError("; ".join(probe.notes))
        return probe

    def close(self) -> None:
        """Shut NVML down; the next look opens it again."""
        if self._open:
            self._open = False
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()


def _look(count: int) -> Probe:
    gpus, notes = [], [] if count else [_ABSENT[pynvml.NVML_ERROR_GPU_NOT_FOUND]]
    for index in range(count):
        try:
            gpus.append(_gpu(index))
        except (pynvml.NVMLError, UnicodeDecodeError) as error:
            notes.append(f"card {index} does not answer: {error}")
    return Probe(tuple(gpus), tuple(notes))


def _gpu(index: int) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = _if_known(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    reserved = memory.reserved if memory else 0
    mig = _if_known(pynvml.nvmlDeviceGetMigMode, handle)
    return Gpu(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        index=index,
        minor=_if_known(pynvml.nvmlDeviceGetMinorNumber, handle),
        model=pynvml.nvmlDeviceGetName(handle),
        memory_total=(memory or pynvml.nvmlDeviceGetMemoryInfo(handle)).total,
        memory_reserved=reserved,
        mig=mig is not None and mig[0] == pynvml.NVML_DEVICE_MIG_ENABLE,
    )


def _if_known(call: Callable[..., Any], *args: Any) -> Any:
    """Return what a call answers, or None where the driver or the card does not know it."""
    try:
        return call(*args)
    except pynvml.NVMLError as error:
        if error.value not in _UNKNOWN:
            raise
        return None
