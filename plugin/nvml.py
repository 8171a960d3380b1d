"""Real cards, as NVIDIA's driver library knows them. The only importer of `pynvml`."""

import contextlib
from typing import Any

import pynvml

from plugin.gpu import Gpu, InventoryError, Probe

# Without these two there is nothing to be broken: the node has no driver, or not yet.
_ABSENT = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver library (libnvidia-ml.so.1) is found",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
}
# How a driver says that it does not know the second version of a call.
_TOO_OLD = {
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    pynvml.NVML_ERROR_NOT_SUPPORTED,
}


class NvmlInventory:
    """Keeps NVML open between looks, and opens it again after one that failed as a whole."""

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
        gpus, notes = [], []
        for index in range(count):
            try:
                gpus.append(_gpu(index))
            except (pynvml.NVMLError, UnicodeDecodeError) as error:
                notes.append(f"card {index} does not answer: {error}")
        if notes and not gpus:
            self.close()
            raise InventoryError("; ".join(notes))
        return Probe(tuple(gpus), tuple(notes))

    def close(self) -> None:
        """Shut NVML down; the next look opens it again."""
        if self._open:
            self._open = False
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()


def _gpu(index: int) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    total, reserved = _memory(handle)
    return Gpu(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        index=index,
        minor=pynvml.nvmlDeviceGetMinorNumber(handle),
        model=pynvml.nvmlDeviceGetName(handle),
        memory_total=total,
        memory_reserved=reserved,
        mig=_mig(handle),
    )


def _memory(handle: Any) -> tuple[int, int]:
    """Return total and reserved bytes."""
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except pynvml.NVMLError as error:
        if error.value not in _TOO_OLD:
            raise
        return int(pynvml.nvmlDeviceGetMemoryInfo(handle).total), 0
    return int(memory.total), int(memory.reserved)


def _mig(handle: Any) -> bool:
    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except pynvml.NVMLError as error:
        if error.value not in _TOO_OLD:
            raise
        return False
    return bool(current == pynvml.NVML_DEVICE_MIG_ENABLE)
