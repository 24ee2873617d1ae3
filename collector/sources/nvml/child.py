"""The process that speaks NVML: one thread a GPU, so that a GPU that hangs hangs its own only.

It reads `tick` lines and writes JSON lines, and ends when its input ends, that is, with its parent.
The main thread never calls the driver. What was found at the start is what is read; when GPUs or
MIG devices come or go, the process ends with CHANGED and its parent starts it anew, because NVML
knows the machine as of its initialisation.
"""

import argparse
import json
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from collector.sources.nvml.wire import CHANGED, FAILED, NO_BINDING

LOG = logging.getLogger(__name__)
TURN_SECONDS = 0.005


def main(argv: Sequence[str] | None = None) -> int:
    """Serve ticks until the input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", type=Path)
    parser.add_argument("--slow-period", type=float, default=30.0)
    options = parser.parse_args(argv)
    session = Session(options.library, options.slow_period)
    threading.Thread(target=session.attach, daemon=True).start()
    for _ in sys.stdin.buffer:
        session.tick()
    os._exit(0)  # threads that hang inside the driver are left behind


class Worker:
    """A thread that takes a turn when it is rung, unless it still is in the one before."""

    def __init__(self, turn: Callable[[], None]) -> None:
        self._turn = turn
        self._bell = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        threading.Thread(target=self._run, daemon=True).start()

    def ring(self) -> None:
        """Have it take a turn, and wait a moment for it: side by side they wait for the GIL."""
        if self._idle.is_set():
            self._idle.clear()
            self._bell.set()
            self._idle.wait(TURN_SECONDS)

    def _run(self) -> None:
        while True:
            self._bell.wait()
            self._bell.clear()
            self._turn()
            self._idle.set()


class Session:
    """All GPUs as of the start of this process."""

    def __init__(self, library: Path | None, slow_period: float) -> None:
        self._library = library
        self._slow_period = slow_period
        self._out = threading.Lock()
        self._workers: list[Worker] = []

    def tick(self) -> None:
        """Have every GPU that is not being read be read."""
        for worker in self._workers:
            worker.ring()

    def attach(self) -> None:
        """Initialise NVML, tell how many GPUs there are, and start the threads."""
        try:
            from collector.sources.nvml import binding
        except ImportError:
            self.end({"failed": "no_binding", "message": "nvidia-ml-py is missing"}, NO_BINDING)
        try:
            binding.load(self._library)
            count = binding.call("nvmlDeviceGetCount")
        except binding.NvmlError as error:
            self.end({"failed": error.word, "message": str(error)}, FAILED)
        self.say({"present": count})

        def recount() -> None:
            try:
                now = binding.call("nvmlDeviceGetCount")
            except binding.NvmlError:  # the GPUs' own threads tell
                return
            if now != count:
                self.end({"changed": f"{count} GPUs before, {now} now"}, CHANGED)

        turns = [GpuTurns(index, self, self._slow_period).turn for index in range(count)]
        self._workers = [Worker(turn) for turn in (recount, *turns)]
        self.tick()

    def say(self, message: Mapping[str, Any]) -> None:
        """Write one line."""
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._out:
            try:
                while line:
                    line = line[os.write(1, line) :]
            except BrokenPipeError:  # nobody listens any more
                os._exit(0)

    def end(self, message: Mapping[str, Any], code: int) -> None:
        """Say a last word and end the process."""
        self.say(message)
        os._exit(code)


class GpuTurns:
    """Readings of one GPU."""

    def __init__(self, index: int, session: Session, slow_period: float) -> None:
        self._index = index
        self._session = session
        self._slow_period = slow_period
        self._slow_at = -math.inf
        self._device: Any = None

    def turn(self) -> None:
        """Read what is due and say it."""
        from collector.sources.nvml.device import GpuLostError, LibraryGoneError

        index, now = self._index, time.monotonic()
        message: dict[str, Any] = {"gpu": index, "at": now}
        try:
            message |= self._read(now)
        except GpuLostError as error:
            message["lost"] = str(error)
            self._slow_at = -math.inf
        except LibraryGoneError as error:
            self._session.end({"failed": str(error), "message": f"GPU {index}: {error}"}, FAILED)
        except Exception as error:
            LOG.exception("GPU %d could not be read; this is a bug", index)
            message |= {"fast": {}, "mig": [], "errors": {f"internal: {error!r}": 1}}
        self._session.say(message)

    def _read(self, now: float) -> dict[str, Any]:
        from collector.sources.nvml.device import Device

        said: dict[str, Any] = {}
        if self._device is None:
            device = Device(self._index)
            said |= device.identity()
            self._device = device
        elif self._device.changed():
            what = f"GPU {self._index} or its MIG devices"
            self._session.end({"changed": what}, CHANGED)
        said["fast"] = self._device.fast()
        said["mig"] = [self._device.fast_mig(part) for part in self._device.migs]
        if now - self._slow_at >= self._slow_period:
            said["slow"] = self._device.slow()
            self._slow_at = now
        return said | {"errors": dict(self._device.failures)}


if __name__ == "__main__":
    sys.exit(main())
