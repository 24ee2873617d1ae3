"""Threads of ours: none of them ends by an exception, and how often one would have is counted.

Every thread of collector, watch, nodes, API and dashboard is made here (a test looks for others).
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import Sample

LOG = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 1.0
LAST_PAUSE_SECONDS = 60.0
"""Before a loop begins again; pauses double from the first to the last."""
STEADY_SECONDS = 300.0
"""A loop that goes on for so long begins again with the first pause, and counts as healthy."""
UNHEALTHY_FAILURES = 3
"""After so many failures, none of them STEADY_SECONDS after the one before, health says so."""


class Threads:
    """The threads of one process; for many threads.

    Args:
        monotonic: Seconds of a clock that is never stepped.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._alive: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._in_a_row: dict[str, tuple[int, float]] = {}

    def loop(
        self, name: str, work: Callable[[], None], ended: threading.Event | None = None
    ) -> threading.Thread:
        """A daemon that does `work`, and again after every failure; it ends when `work` returns.

        Args:
            name: One of few: it becomes the label of a series.
            work: What it does; it may be called again after it failed anywhere.
            ended: Once it is set, `work` is not begun again.
        """
        over = ended or threading.Event()

        def again() -> None:
            while not over.is_set() and (pause := self._failed(name, work)) is not None:
                LOG.error("thread %s begins again in %g s", name, pause)
                over.wait(pause)

        return self._thread(name, again)

    def task(self, name: str, work: Callable[[], None]) -> threading.Thread:
        """A daemon that does `work` once, whether it succeeds or not."""
        return self._thread(name, lambda: self._failed(name, work))

    def samples(self) -> list[Sample]:
        """Failures of each thread that lives, or that ever failed."""
        with self._lock:
            names = sorted({*self._alive, *self._failures})
            return [m.THREAD_FAILURES(self._failures[name], name) for name in names]

    def unhealthy(self) -> str:
        """Which threads fail again and again, in a sentence; empty = none does."""
        with self._lock:
            since = self._monotonic() - STEADY_SECONDS
            names = sorted(
                name for name, (count, last) in self._in_a_row.items()
                if count >= UNHEALTHY_FAILURES and last > since
            )  # fmt: skip
        return f"threads fail again and again: {', '.join(names)}; the log says why" * bool(names)

    def _thread(self, name: str, run: Callable[[], object]) -> threading.Thread:
        def counted() -> None:
            with self._lock:
                self._alive[name] += 1
            try:
                run()
            finally:
                with self._lock:
                    self._alive -= Counter([name])

        return threading.Thread(target=counted, name=name, daemon=True)

    def _failed(self, name: str, work: Callable[[], None]) -> float | None:
        """Do the work; seconds before it may begin again if it failed, None if it did not."""
        try:
            work()
        except BaseException:  # also SystemExit, which would end a thread without a word
            with self._lock:
                now = self._monotonic()
                count, last = self._in_a_row.get(name, (0, float("-inf")))
                count = 1 if now - last >= STEADY_SECONDS else count + 1
                self._in_a_row[name] = (count, now)
                self._failures[name] += 1
            LOG.exception("thread %s failed; this is a bug", name)
            return min(FIRST_PAUSE_SECONDS * 2.0 ** min(count - 1, 16), LAST_PAUSE_SECONDS)
        return None


THREADS = Threads()
"""Those of this process."""
loop, task, samples, unhealthy = THREADS.loop, THREADS.task, THREADS.samples, THREADS.unhealthy
