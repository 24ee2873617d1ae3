"""When the operations of a CUDA stream began and ended, without ever waiting for the device.

Events are recorded on the stream around each operation. A helper thread asks whether they have
passed, and hands what has to the training thread, which alone writes the ring, between steps.
Tests use fake events; on a GPU: `python -m tests.benchmarks shared_gpu`.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any, Protocol

import torch

POLL_SECONDS = 0.002
ANCHOR_NS = 10_000_000_000
"""An anchor is this old at most: CUDA tells times between events as a float of milliseconds, which
after ten seconds is good to a microsecond."""
ANCHOR_READINGS = 5

Write = Callable[..., None]
"""Writes something, given the times of its marks in monotonic nanoseconds."""


class Event(Protocol):
    """torch.cuda.Event, as far as we use it."""

    def record(self) -> None:
        """Put the event into the current stream."""
        ...

    def query(self) -> bool:
        """Whether the stream has passed it."""
        ...

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from this event to a later one."""
        ...


@dataclass(frozen=True, slots=True)
class Anchor:
    """An event whose time is known on the monotonic clock."""

    event: Event
    at_ns: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a stream."""

    event: Event
    anchor: Anchor

    def ns(self) -> int:
        """When the stream passed it."""
        return self.anchor.at_ns + round(1e6 * self.anchor.event.elapsed_time(self.event))


class Timeline:
    """Marks in a stream, and what is written once it has passed them, in the order of `then`.

    `mark`, `then` and `drain` are the training thread's, `poll` is the helper's.
    """

    def __init__(
        self, event: Callable[[], Event], anchor: Callable[[], Anchor],
        now: Callable[[], int] = monotonic_ns,
    ) -> None:  # fmt: skip
        self._event, self._new_anchor, self._now = event, anchor, now
        self._anchor = anchor()
        self._coming: deque[tuple[Write, tuple[Mark, ...]]] = deque()
        self._passed: deque[tuple[Write, tuple[int, ...]]] = deque()
        self._error: Exception | None = None

    def mark(self) -> Mark:
        """Mark the place that the current stream has been given work up to."""
        event = self._event()
        event.record()
        return Mark(event, self._anchor)

    def then(self, write: Write, *marks: Mark) -> None:
        """Call `write` with the times of the marks, once all are passed and all before it done."""
        self._coming.append((write, marks))

    def drain(self) -> bool:
        """Write what has passed; returns whether that was all.

        Raises:
            RuntimeError: The device failed, as the helper thread learned.
        """
        while self._passed:
            write, times = self._passed.popleft()
            write(*times)
        if self._error is not None:
            raise RuntimeError(f"the device failed: {self._error}") from self._error
        return not self._coming and not self._passed

    def poll(self) -> None:
        """Look which marks have passed."""
        try:
            if self._now() - self._anchor.at_ns > ANCHOR_NS:
                self._anchor = self._new_anchor()
            while self._coming:
                write, marks = self._coming[0]
                if not all(mark.event.query() for mark in marks):
                    return
                self._passed.append((write, tuple(mark.ns() for mark in marks)))
                self._coming.popleft()
        except Exception as error:  # noqa: BLE001 - `drain` raises it in the training thread
            self._error = error


def cuda_timeline(device: torch.device) -> Timeline:
    """A timeline of the current stream of a device, polled for as long as the process runs."""
    aside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def new_event() -> torch.cuda.Event:
        return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]

    def anchor() -> Anchor:
        """Waits for a stream that nobody else uses, never for training."""
        readings = []
        for _ in range(ANCHOR_READINGS):
            event = new_event()
            before = monotonic_ns()
            event.record(aside)
            event.synchronize()
            after = monotonic_ns()
            readings.append((after - before, Anchor(event, (before + after) // 2)))
        return min(readings, key=lambda reading: reading[0])[1]

    timeline = Timeline(new_event, anchor)

    def poll() -> None:
        torch.cuda.set_device(device)
        pause = threading.Event()
        while not pause.wait(POLL_SECONDS):
            timeline.poll()

    threading.Thread(target=poll, name="cuda-events", daemon=True).start()
    return timeline
