"""Real cards, as NVIDIA's driver library knows them. The only importer of `pynvml`."""

import _ctypes
import contextlib
import ctypes
import time
from collections.abc import Callable, Iterator
from typing import Any

import pynvml

from plugin.gpu import Event, Gpu, InventoryError, Probe

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
# What the driver wants done before a card is used again, by NVML's number of it; 0 is nothing.
_ACTIONS = {
    pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET: "it needs a reset",
    pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT: "its node must be rebooted",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P: "traffic between it and other cards must end",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET: "it must be drained and reset",
}
_EVENTS_AT_ONCE = 100


class NvmlInventory:
    """Keeps NVML open from look to look.

    The look after one that missed a card opens it anew: what is lost to a session stays lost to it.
    """

    def __init__(self) -> None:
        self._open = self._stale = False
        self._handles: dict[str, Any] = {}
        """Of the cards that answered the last look, by uuid."""
        self._known: set[str] = set()
        """Every card that ever answered."""
        self._events: Any = None
        """The session's set of events, made when they are first waited for."""
        self._watched: dict[int, str] = {}
        """The cards of that set: uuids by the addresses of their handles."""

    def probe(self) -> Probe:
        """Look at all cards; one that does not answer is left out with a note."""
        self._handles = {}
        try:
            if self._stale:
                self.close()
            if not self._open:
                pynvml.nvmlInit()
                self._open = True
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self.close()
            if error.value in _ABSENT:
                return Probe(notes=(_ABSENT[error.value],))
            if error.value == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
                _unload()
            raise InventoryError(f"the NVIDIA driver does not answer: {error}") from error
        probe = self._look(count)
        if probe.notes or self._known > self._handles.keys():
            self._events, self._stale = None, True  # a set with a lost card has no other events
        if count and not probe.gpus:
            raise InventoryError("; ".join(probe.notes))
        return probe

    def _look(self, count: int) -> Probe:
        gpus, notes = [], [] if count else [_ABSENT[pynvml.NVML_ERROR_GPU_NOT_FOUND]]
        for index in range(count):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                gpus.append(gpu := _gpu(index, handle))
                self._handles[gpu.uuid] = handle
            except (pynvml.NVMLError, UnicodeDecodeError) as error:
                notes.append(f"card {index} does not answer: {error}")
        self._known.update(self._handles)
        return Probe(tuple(gpus), tuple(notes))

    def faults(self) -> dict[str, str]:
        """Ask the cards of the last look how they are; a known one that it missed has a fault."""
        missed = dict.fromkeys(self._known - self._handles.keys(), "it does not answer")
        asked = {uuid: "; ".join(_faults(handle)) for uuid, handle in self._handles.items()}
        return missed | {uuid: fault for uuid, fault in asked.items() if fault}

    def wait(self, seconds: float) -> tuple[Event, ...]:
        """Wait for events of the cards, at most so long; then return all that are there."""
        events: list[Event] = []
        end = time.monotonic() + seconds
        try:
            self._watch()
            while self._events is not None and len(events) < _EVENTS_AT_ONCE:
                left = 0.0 if events else end - time.monotonic()
                data = pynvml.nvmlEventSetWait_v2(self._events, max(0, int(left * 1000)))
                uuid = self._watched.get(_address(data.device), "")
                events.append(Event(uuid, data.eventData))
        except pynvml.NVMLError as error:
            self._stale = self._stale or error.value != pynvml.NVML_ERROR_TIMEOUT
        if not events:  # also where there is nothing to wait for: the caller asks again at once
            time.sleep(max(0.0, end - time.monotonic()))
        return tuple(events)

    def _watch(self) -> None:
        """Have the events of all cards collected that can have some."""
        if self._handles and self._events is None:
            self._events, self._watched = pynvml.nvmlEventSetCreate(), {}
        xids = pynvml.nvmlEventTypeXidCriticalError
        for uuid, handle in self._handles.items():
            if _address(handle) not in self._watched:
                self._watched[_address(handle)] = uuid
                with contextlib.suppress(pynvml.NVMLError):  # one that has none is no worse for it
                    pynvml.nvmlDeviceRegisterEvents(handle, xids, self._events)

    def close(self) -> None:
        """Shut NVML down; the next look opens it again."""
        self._handles, self._events, self._stale = {}, None, False
        if self._open:
            self._open = False
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()


def _gpu(index: int, handle: Any) -> Gpu:
    memory = _if_known(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    mig = _if_known(pynvml.nvmlDeviceGetMigMode, handle)
    return Gpu(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        index=index,
        minor=_if_known(pynvml.nvmlDeviceGetMinorNumber, handle),
        model=pynvml.nvmlDeviceGetName(handle),
        memory_total=(memory or pynvml.nvmlDeviceGetMemoryInfo(handle)).total,
        memory_reserved=memory.reserved if memory else 0,
        mig=mig is not None and mig[0] == pynvml.NVML_DEVICE_MIG_ENABLE,
    )


def _faults(handle: Any) -> Iterator[str]:
    """Ask a card what keeps it from being used, question by question."""
    try:
        if action := _recovery_action(handle):
            yield _ACTIONS.get(action, f"its driver wants it recovered (action {action})")
        if _if_known(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle):
            yield "a bad memory page is in use until the driver is loaded again"
        # Rows that are pending need no reset: they are out of use, and new programs may start.
        if (rows := _if_known(pynvml.nvmlDeviceGetRemappedRows, handle)) and rows[3]:
            yield "a bad memory row cannot be replaced"
    except pynvml.NVMLError as error:
        if error.value != pynvml.NVML_ERROR_NO_PERMISSION:
            yield f"it does not answer: {error}"


def _recovery_action(handle: Any) -> int:
    """Return what the driver wants done with a card; 0 where it wants nothing, or is too old."""
    fields = [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
    values = _if_known(pynvml.nvmlDeviceGetFieldValues, handle, fields)
    return values[0].value.uiVal if values and values[0].nvmlReturn == 0 else 0


def _if_known(call: Callable[..., Any], *args: Any) -> Any:
    """Return what a call answers, or None where the driver or the card does not know it."""
    try:
        return call(*args)
    except pynvml.NVMLError as error:
        if error.value not in _UNKNOWN:
            raise
        return None


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _unload() -> None:
    """Drop the library, so that the next look loads that of the driver which is there now."""
    _ctypes.dlclose(pynvml.nvmlLib._handle)  # noqa: SLF001
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001 - it points into the old one
