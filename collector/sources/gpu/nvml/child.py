"""The process that speaks NVML: one thread a GPU, so that a GPU that hangs hangs its own only.

It reads `tick` lines and writes JSON lines, and ends when its input ends, that is, with its parent.
The main thread never calls the driver. What was found at the start is what is read; when GPUs or
MIG devices come or go, the process ends with CHANGED and its parent starts it anew, because NVML
knows the machine as of its initialisation.
"""

import ctypes
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

from lockstep.collector.sources.gpu.nvml.calls import GpuLostError, LibraryGoneError
from lockstep.collector.sources.gpu.nvml.device import Device
from lockstep.collector.sources.gpu.nvml.process import CHANGED, FAILED, NO_BINDING
from lockstep.collector.sources.gpu.nvml.xid_watch import XidWatch

# One GPU's readings as messages: what is due when, and what is sent when it does not answer.


class MessageSink(Protocol):
    """Where messages go."""

    def say(self, message: Mapping[str, Any]) -> None:
        """Tell the parent."""
        ...

    def end(self, message: Mapping[str, Any], code: int) -> NoReturn:
        """Tell the parent and end the process."""
        ...


class GpuPolling:
    """Readings of one GPU."""

    def __init__(self, index: int, mouth: MessageSink, watch: XidWatch, slow_period: float) -> None:
        self._index = index
        self._mouth = mouth
        self._watch = watch
        self._slow_period = slow_period
        self._slow_at = -math.inf
        self._device: Device | None = None
        self._watched: dict[str, str] = {}

    def turn(self) -> None:
        """Read what is due and say it."""
        index, now = self._index, time.monotonic()
        message: dict[str, Any] = {"gpu": index, "at": now}
        try:
            message |= self._read(now)
        except GpuLostError as error:
            message |= {"lost": str(error), "errors": self._detach()}
        except LibraryGoneError as error:
            self._mouth.end({"failed": str(error), "message": f"GPU {index}: {error}"}, FAILED)
        except Exception as error:
            import logging  # 2 MB that only a bug needs

            log = logging.getLogger(__name__)
            log.exception("GPU %d could not be read; this is a bug", index)
            message |= {"lost": f"internal: {error!r}", "errors": self._detach()}
        self._mouth.say(message)

    def _read(self, now: float) -> dict[str, Any]:
        device = self._device
        if device is None:
            device = self._device = Device(self._index)
        elif device.gpu.changed():
            what = f"GPU {self._index} or its MIG devices"
            self._mouth.end({"changed": what}, CHANGED)
        said: dict[str, Any] = {}
        due = now - self._slow_at >= self._slow_period
        if due:
            device.learn()
            said |= device.gpu.identity()
            said["slow"] = device.slow()
        said["fast"] = device.fast()
        said["mig"] = [device.fast_mig(part) for part in device.gpu.migs]
        if due:
            self._slow_at = now
            self._watch_for_xids(device, said["info"].get("pci_bus_id"))
        return said | {"errors": device.failures()}

    def _watch_for_xids(self, device: Device, bus: str | None) -> None:
        who = {"bus": bus, "uuid": device.gpu.uuid} if bus is not None else {}
        if who != self._watched:
            self._watch.add(self._index, device.gpu.handle, who)
            self._watched = who

    def _detach(self) -> dict[str, int]:
        """Start anew with the next turn: what is known of a GPU that was reset may be wrong."""
        device, self._device = self._device, None
        self._slow_at, self._watched = -math.inf, {}
        return {} if device is None else device.gpu.close()


TURN_SECONDS = 0.005
_PR_SET_PDEATHSIG = 1


def main(argv: Sequence[str]) -> int:
    """Serve ticks until the input ends.

    Args:
        argv: Path of the library, seconds between slow readings, the parent's process id.
    """
    library, slow_period, parent = argv
    _end_with(int(parent))
    session = Session(Path(library), float(slow_period), _own_output())
    threading.excepthook = session.fail
    threading.Thread(target=session.attach, daemon=True).start()
    for _ in sys.stdin.buffer:
        session.tick()
    os._exit(0)  # threads that hang inside the driver are left behind


def _end_with(parent: int) -> None:
    """Have the kernel end this process with its parent, also while it cannot read its input.

    The parent blocks signals in its threads, which a child inherits; it alone hears Ctrl-C.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        sys.stderr.write(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}\n")
    if os.getppid() != parent:  # it ended before the kernel knew
        os._exit(0)


def _own_output() -> int:
    """The pipe to the parent, where only we write: what the driver prints goes to stderr."""
    output = os.dup(1)
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return output


class Worker:
    """A thread that takes a turn when it is rung, unless it still is in the one before."""

    def __init__(self, turn: Callable[[], None]) -> None:
        self._turn = turn
        # Locks, not events: two of these a GPU and second were a fifth of this process's time.
        self._bell, self._busy = threading.Lock(), threading.Lock()
        self._bell.acquire()
        threading.Thread(target=self._run, daemon=True).start()

    def ring(self) -> None:
        """Have it take a turn, and wait a moment for it: side by side they wait for the GIL."""
        if self._busy.acquire(blocking=False):
            self._bell.release()
            if self._busy.acquire(timeout=TURN_SECONDS):
                self._busy.release()

    def _run(self) -> None:
        while True:
            self._bell.acquire()
            self._turn()
            self._busy.release()


class Session:
    """All GPUs as of the start of this process."""

    def __init__(self, library: Path, slow_period: float, output: int) -> None:
        self._library = library
        self._slow_period = slow_period
        self._output = output
        self._out = threading.Lock()
        self._gathers = False
        self._unsaid: list[bytes] = []
        self._workers: list[Worker] = []

    def tick(self) -> None:
        """Have every GPU that is not being read be read; what is quick is said at one go."""
        self._gathers = True
        for worker in self._workers:
            worker.ring()
        self._gathers = False
        with self._out:
            self._write()

    def attach(self) -> None:
        """Initialise NVML, tell how many GPUs there are, and start the threads."""
        try:
            from lockstep.collector.sources.gpu.nvml import binding
        except ImportError:
            self.end({"failed": "no_binding", "message": "nvidia-ml-py is missing"}, NO_BINDING)
        from lockstep.collector.sources.gpu.nvml.child import GpuPolling
        from lockstep.collector.sources.gpu.nvml.xid_watch import XidWatch

        try:
            binding.load(self._library)
            count = binding.call("nvmlDeviceGetCount")
        except binding.NvmlError as error:
            self.end({"failed": error.word, "message": str(error)}, FAILED)

        def recount() -> None:
            try:
                now = binding.call("nvmlDeviceGetCount")
            except binding.NvmlError as error:
                self.end({"failed": error.word, "message": str(error)}, FAILED)
            if now != count:
                self.end({"changed": f"{count} GPUs before, {now} now"}, CHANGED)

        watch = XidWatch(self.say)
        turns = [GpuPolling(index, self, watch, self._slow_period).turn for index in range(count)]
        self._workers = [Worker(turn) for turn in (recount, *turns)]
        self.say({"present": count})

    def say(self, message: Mapping[str, Any]) -> None:
        """Write one line, at the end of the tick if there is one."""
        line = _line(message)
        with self._out:
            self._unsaid.append(line)
            if not self._gathers:
                self._write()

    def fail(self, thread: threading.ExceptHookArgs) -> None:
        """A thread failed, which is a bug: the process ends, and its parent starts it anew."""
        sys.excepthook(thread.exc_type, thread.exc_value or thread.exc_type(), thread.exc_traceback)
        self.end({"failed": "internal", "message": f"a bug: {thread.exc_value!r}"}, FAILED)

    def end(self, message: Mapping[str, Any], code: int) -> NoReturn:
        """Say a last word and end the process."""
        line = _line(message)
        with self._out:
            self._unsaid.append(line)
            self._write()
            os._exit(code)

    def _write(self) -> None:
        text = b"".join(self._unsaid)
        self._unsaid.clear()
        try:
            while text:
                text = text[os.write(self._output, text) :]
        except BrokenPipeError:  # nobody listens any more
            os._exit(0)


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
