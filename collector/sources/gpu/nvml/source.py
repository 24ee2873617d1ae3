"""NVIDIA GPUs through NVML, which runs in a process of its own: a driver that hangs hangs alone."""

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep.collector.clock import Clock
from lockstep.collector.readings.gpu import Gpu, GpuReading
from lockstep.collector.readings.kernel import XidEvent, pci_bus_id
from lockstep.collector.readings.source import Rejected, SourceError
from lockstep.collector.sources.gpu.nvml import library
from lockstep.collector.sources.gpu.nvml.last_reading import GpuSlot
from lockstep.collector.sources.gpu.nvml.process import Child

__all__ = ["Limits", "Nvml"]

MAX_REJECTED = 1000
"""Failures that wait for a reading that succeeds."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds.

    Attributes:
        answer: How long a reading waits for GPUs that have not answered yet.
        start: How long a reading waits for a process that was just started.
        stall: A GPU that has not answered for so long is stalled.
        kill: The process is killed when no GPU has answered for so long; one that was lost
            already is asked about only if all are.
        attach: The process is killed when NVML's initialisation takes so long.
    """

    answer: float = 0.4
    start: float = 1.2
    stall: float = 3.0
    kill: float = 6.0
    attach: float = 30.0


class Nvml:
    """Source of GpuReading, and of the XID events that NVML tells.

    One thread reads; XID events may be taken by another. The process ends with the thread that
    reads, because the kernel ends it with the thread that started it.

    Args:
        search: Finds the copies of libnvidia-ml; the first is used.
        child: The process.
    """

    name = "nvml"

    def __init__(
        self,
        proc: Path,
        sys: Path,
        clock: Clock,
        slow_period: float = 30.0,
        limits: Limits | None = None,
        search: Callable[[], list[Path]] = lambda: library.search(os.environ),
        child: Child | None = None,
    ) -> None:
        self._proc, self._sys, self._clock = proc, sys, clock
        self._slow_period = slow_period
        self._limits = limits or Limits()
        self._search = search
        self._child = child or Child(slow_period)
        self._hearing = threading.Lock()
        self._signature: tuple[str, ...] | None = None
        self._driver = ""
        self._copies: list[Path] = []
        self._gpus: dict[int, GpuSlot] = {}
        self._roster = Roster()
        self._xids = XidInbox()
        self._present: int | None = None
        self._attached = False
        self._attached_at = -math.inf
        self._on_the_bus: int | None = None
        self._bus_at = -math.inf
        self._failure: SourceError | None = None
        self._rejected: deque[Rejected] = deque(maxlen=MAX_REJECTED)
        self.restarts = 0
        """Times that the process crashed, or hung and was killed."""

    def available(self) -> bool:
        """Whether the driver's library is on this machine."""
        return self._child.runs or bool(self._search())

    def why_not(self) -> str:
        """What is missing."""
        return f"{library.NAME} is in none of {library.searched(os.environ)}"

    def read(self) -> GpuReading:
        """Ask every GPU that is not stalled, and wait for the answers for a short while.

        Raises:
            SourceError: NVML cannot be used: the message says why and what would help.
        """
        with self._hearing:
            return self._read()

    def _read(self) -> GpuReading:
        now = self._clock.monotonic()
        self._notice_driver(now)
        for _ in range(2):  # a process that ends because the machine changed is started at once
            if not self._child.runs and self._child.start(self._library(), now):
                self._attached, self._failure = False, None
                self._hear_until(now + self._limits.start, lambda: self._attached)
            self._ask(now)
            self._hear_until(
                self._clock.monotonic() + self._limits.answer, lambda: self._told_since(now)
            )
            if self._child.runs:
                break
        if self._failure is not None and not self._child.runs:
            raise self._failure
        self._end_what_hangs()
        return self._reading()

    def xid_events(self) -> tuple[XidEvent, ...]:
        """The XID events told since the last call.

        Listens itself, so that an event need not wait for the next reading. What happened while the
        process was down or hung is not among them: the kernel log has it.
        """
        if self._hearing.acquire(blocking=False):  # a reading under way hears them
            try:
                self._hear_what_is_there()
            finally:
                self._hearing.release()
        return self._xids.taken()

    def close(self) -> None:
        """End the process."""
        with self._hearing:
            self._child.end(self._clock.monotonic())

    def _library(self) -> Path:
        copies = self._search()
        if not copies:
            raise SourceError("missing", f"{library.NAME} is not on this machine")
        if len(copies) > 1 and copies != self._copies:
            others = ", ".join(str(path) for path in copies[1:])
            text = f"{copies[0]} is used; there are other copies: {others}"
            self._reject("two_libraries", text)
        self._copies = copies
        return copies[0]

    def _notice_driver(self, now: float) -> None:
        signature = library.signature(self._proc)
        if signature == self._signature:
            return
        if self._signature is not None:  # NVML knows the machine as of its initialisation
            self._child.end(now)
            self._child.hurry()
            self._bus_at = -math.inf
        self._signature, version = signature, signature[0]
        if version and self._driver and version != self._driver:
            self._roster.forget()
        self._driver = version or self._driver

    def _hear_what_is_there(self) -> None:
        for message in self._child.hear(0):
            self._take(message)

    def _ask(self, now: float) -> None:
        self._hear_what_is_there()  # what came late is no answer to what is asked now
        if self._child.runs:
            for seen in self._gpus.values():
                seen.ask(now)
            self._child.tick()

    def _told_since(self, asked: float) -> bool:
        """Whether all have answered that were asked then; who was asked before keeps nobody."""
        return self._attached and not any(
            seen.asked_at is not None and seen.asked_at >= asked for seen in self._gpus.values()
        )

    def _hear_until(self, end: float, enough: Callable[[], bool]) -> None:
        while self._child.runs and not enough():
            left = end - self._clock.monotonic()
            if left <= 0:
                return
            for message in self._child.hear(left):
                self._take(message)

    def _take(self, message: Mapping[str, Any]) -> None:
        now = self._clock.monotonic()
        match message:
            case {"gpu": index}:
                self._take_gpu(index, message)
            case {"xid": _}:
                self._rejected += self._xids.put(message)
            case {"present": present}:
                self._attach(present, now)
            case {"changed": _}:
                self._child.end(now)
                self._child.hurry()
            case {"failed": word}:
                self._child.end(now)
                self._gpus, self._present = {}, None
                text, module = message["message"], library.kernel_module(self._proc)
                self._failure = library.explained(word, text, self._copies[0], module)
            case {"ended": _}:
                self._child.end(now)
                self._ended_unasked("crashed", "the process that asks the driver crashed")
                for seen in self._gpus.values():
                    seen.ask(now)
            case {"failing": word}:
                self._reject(word, message["message"])
            case _:
                text = message.get("garbled", message)
                self._reject("garbled", f"the process that asks the driver wrote {text!r}")

    def _attach(self, present: int, now: float) -> None:
        self._attached, self._attached_at = True, now
        if present != self._present:  # who is at which place is not known any more
            self._gpus = {index: GpuSlot(index) for index in range(present)}
        self._present = present
        self._roster.counted(present)
        for seen in self._gpus.values():  # one that hung stays stalled until it answers
            seen.ask(now)

    def _take_gpu(self, index: int, message: Mapping[str, Any]) -> None:
        seen = self._gpus.get(index)
        if seen is None:
            return
        self._child.well(self._clock.monotonic())
        self._rejected += seen.take(message)
        if seen.lost is None:
            self._roster.saw(seen.uuid, index)

    def _end_what_hangs(self) -> None:
        now = self._clock.monotonic()
        if not self._child.runs:
            return
        known = self._gpus.values()
        asked = [seen.asked_at for seen in known if seen.lost is None]
        asked = asked or [seen.asked_at for seen in known]
        since = [at for at in asked if at is not None]
        hangs = (
            bool(since)
            and len(since) == len(asked)
            and now - max(*since, self._attached_at) > self._limits.kill
        )
        slow_start = not self._attached and now - self._child.started_at > self._limits.attach
        if hangs or slow_start:
            ends = self._child.end(now)
            self._ended_unasked("killed", "the driver does not answer; its process is killed")
            if not ends:
                self._reject("unkillable", "the process that asks the driver does not end")

    def _ended_unasked(self, reason: str, what: str) -> None:
        self.restarts += 1
        text = (
            f"{what}: it ended with {self._child.ended_with} and is started again"
            f" {self._child.wait_seconds:g} s later"
        )
        self._rejected.append(Rejected(reason, text, each=True))

    def _reading(self) -> GpuReading:
        now = self._clock.monotonic()
        here = {seen.uuid for seen in self._gpus.values()}
        gpus: list[Gpu] = []
        halted: list[bool] = []
        waits = False
        for seen in self._gpus.values():
            stalled = seen.stalled(now, self._limits.stall)
            halted.append(stalled)
            if stalled or seen.lost is not None:
                gpus.append(seen.down(stalled=stalled))
            elif seen.at > -math.inf:
                gpus += seen.gpus()
            waits |= not stalled and seen.at < self._attached_at
        if self._attached and not waits:
            self._roster.compare(here)
        gpus += self._roster.missing(here)
        starts = not self._attached and now - self._child.started_at > self._limits.stall
        rejected = tuple(self._rejected)
        self._rejected.clear()
        return GpuReading(
            gpus=tuple(gpus),
            rejected=rejected,
            expected=self._roster.expected(self._counted_on_the_bus(now)),
            present=self._present,
            stalled=starts or self._child.dying or (bool(halted) and all(halted)),
        )

    def _counted_on_the_bus(self, now: float) -> int | None:
        if now - self._bus_at >= self._slow_period:
            self._on_the_bus, self._bus_at = library.on_the_bus(self._sys), now
        return self._on_the_bus

    def _reject(self, reason: str, message: str) -> None:
        self._rejected.append(Rejected(reason, message))


MAX_KNOWN = 256
"""GPUs remembered; the first ones seen are forgotten first."""


class Roster:
    """Remembers GPUs, so that one that falls off the PCI bus leaves a trace.

    A GPU that was seen and is gone is reported as down until it returns, until another version of
    the driver is loaded, or until the collector starts anew. MIG devices are not remembered: they
    come and go by design.
    """

    def __init__(self) -> None:
        self._indices: dict[str, int] = {}
        self._missing: dict[str, int] = {}
        self._most = 0

    def counted(self, present: int) -> None:
        """So many GPUs were counted by the driver."""
        self._most = max(self._most, present)

    def saw(self, uuid: str, index: int) -> None:
        """This GPU answered."""
        self._indices[uuid] = index
        while len(self._indices) > MAX_KNOWN:
            del self._indices[next(iter(self._indices))]

    def forget(self) -> None:
        """The machine is another one now, by design."""
        self._indices, self._missing, self._most = {}, {}, 0

    def compare(self, here: Set[str]) -> None:
        """These are here now, and no other is on its way."""
        self._missing = {uuid: index for uuid, index in self._indices.items() if uuid not in here}

    def missing(self, here: Set[str]) -> Iterator[Gpu]:
        """Those that were missing at the last comparison and still are."""
        for uuid, index in self._missing.items():
            if uuid not in here:
                yield Gpu(index, uuid, up=False)

    def expected(self, on_the_bus: int | None) -> int | None:
        """GPUs on the bus now, or the most that the driver ever counted: whichever is more."""
        return max(on_the_bus or 0, self._most) if on_the_bus is not None or self._most else None


MAX_EVENTS = 1000
"""Kept at most: the first ones, because what comes first is the cause of what follows."""


class XidInbox:
    """One thread puts events in, another takes them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[XidEvent] = []

    def put(self, message: Mapping[str, Any]) -> Iterator[Rejected]:
        """Keep an event; if it was not kept, why."""
        bus_id = pci_bus_id(message["bus"])
        if bus_id is None:
            yield Rejected("events_dropped", f"XID {message['xid']} of an unknown GPU")
            return
        event = XidEvent(
            monotonic=message["at"],
            pci_bus_id=bus_id,
            xid=message["xid"],
            origin="nvml",
            uuid=message["uuid"],
            gpu_instance=message.get("gpu_instance"),
            compute_instance=message.get("compute_instance"),
        )
        with self._lock:
            if len(self._events) < MAX_EVENTS:
                self._events.append(event)
                return
        text = f"XID {event.xid} of {bus_id}: {MAX_EVENTS} events wait already"
        yield Rejected("events_dropped", text)

    def taken(self) -> tuple[XidEvent, ...]:
        """All that came since the last call."""
        with self._lock:
            events, self._events = self._events, []
        return tuple(events)
