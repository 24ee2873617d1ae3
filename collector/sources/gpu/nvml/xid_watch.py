"""XID events as NVML tells them: a thread that waits for them, and for nothing else.

What happens while no process waits is not told afterwards; the kernel log has it.
"""

import ctypes
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from lockstep.collector.sources.gpu.nvml import binding
from lockstep.collector.sources.gpu.nvml.binding import Handle, NvmlError

WAIT_SECONDS = 1.0
GATHER_SECONDS = 0.05
"""GPUs that come together are registered together: a wait is not cut short for the next one."""


class XidWatch:
    """Waits for the XID events of the GPUs that were added, in a thread of its own.

    A GPU is registered by that thread once it has answered to another: should the driver hang in
    here, no reading is late. The set of events is made anew whenever a GPU comes (again), because
    its old registration may be dead and NVML cannot tell.

    Args:
        say: Takes a message for the parent.
    """

    def __init__(self, say: Callable[[Mapping[str, Any]], None]) -> None:
        self._say = say
        self._came = threading.Event()
        self._gpus: dict[int, tuple[Handle, dict[str, str]]] = {}
        self._complaints: set[str] = set()
        threading.Thread(target=self._run, daemon=True).start()

    def add(self, index: int, handle: Handle, who: dict[str, str]) -> None:
        """Watch this GPU from now on; `who` has its `bus` and `uuid`."""
        self._gpus[index] = (handle, who)
        self._came.set()

    def _run(self) -> None:
        while True:
            self._came.wait()
            time.sleep(GATHER_SECONDS)
            self._came.clear()
            try:
                self._watch(dict(self._gpus))
            except NvmlError as error:
                self._complain(error)
                time.sleep(WAIT_SECONDS)  # a GPU that is lost fails every wait at once
                self._came.set()

    def _watch(self, gpus: Mapping[int, tuple[Handle, dict[str, str]]]) -> None:
        """Pass on events until a GPU comes."""
        events = binding.found("nvmlEventSetCreate")
        if events is None:  # a platform without events
            return
        try:
            registered = [self._register(handle, events) for handle, _ in gpus.values()]
            who = {_address(handle): words for handle, words in gpus.values()}
            while any(registered) and not self._came.is_set():
                self._pass_on(events, who)
        finally:
            binding.call("nvmlEventSetFree", events)

    def _register(self, handle: Handle, events: Any) -> bool:
        try:
            kinds = binding.found("nvmlDeviceGetSupportedEventTypes", handle) or 0
            if not kinds & binding.XID_EVENT:
                return False
            binding.call("nvmlDeviceRegisterEvents", handle, binding.XID_EVENT, events)
        except NvmlError as error:  # the others are watched nevertheless
            self._complain(error)
            return False
        return True

    def _pass_on(self, events: Any, who: Mapping[int | None, dict[str, str]]) -> None:
        try:
            event = binding.call("nvmlEventSetWait_v2", events, int(WAIT_SECONDS * 1000))
        except NvmlError as error:
            if error.code == binding.TIMEOUT:
                return
            raise
        at = time.monotonic()
        if not event.eventType & binding.XID_EVENT:
            return
        message: dict[str, Any] = {"xid": event.eventData, "at": at, "bus": "", "uuid": ""}
        message |= who.get(_address(event.device), {})
        if event.gpuInstanceId != binding.NO_INSTANCE:
            message["gpu_instance"] = event.gpuInstanceId
        if event.computeInstanceId != binding.NO_INSTANCE:
            message["compute_instance"] = event.computeInstanceId
        self._say(message)

    def _complain(self, error: NvmlError) -> None:
        """Say it once: it will be so at every attempt."""
        if error.word not in self._complaints:
            self._complaints.add(error.word)
            self._say({"failing": error.word, "message": f"XID events: {error}"})


def _address(handle: Handle) -> int | None:
    """What tells two handles apart."""
    return ctypes.cast(handle, ctypes.c_void_p).value
