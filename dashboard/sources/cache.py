"""A source whose answers are kept for a while and shared between sessions; the only cache."""

import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd

from lockstep.dashboard.protocol import Source
from lockstep.dashboard.shapes import (
    Answer,
    Event,
    FindingRow,
    FleetMetric,
    FleetSnapshot,
    Health,
    LedgerRow,
    Lines,
    Matrix,
    NodeFacts,
    RunRow,
    Span,
)
from lockstep.dashboard.sources.grid import UNKNOWN_SCRAPE, step_of
from lockstep.dashboard.trouble import TroubleError

T = TypeVar("T")

MOST_ENTRIES = 512
MOST_BYTES = 96 << 20
"""Of all answers: the dashboard's process shall stay below 400 MB with 10,000 GPUs (issue 10)."""
SMALL = 64
"""Bytes of an answer that holds nothing of size."""
TROUBLE_SECONDS = 5.0
"""So long a source that is in trouble is left alone."""
STILL_SECONDS = 300.0
"""For what does not go on: until something changes in its folder, at most so long."""
LOOK_SECONDS = 2.0
"""Between two looks whether something changed."""
DEPTH = 3
"""Folders below the first that are looked at: `OUT/<run>/<finding>/samples.parquet`."""
MOST_FOLDERS = 5000


def cached(
    source: Source,
    *,
    stamp: Callable[[], Hashable] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> "Cached":
    """A source whose answers are kept.

    Args:
        source: Whom to ask.
        stamp: Changes when the source's answers would; None = they do with time only.
        clock: Seconds, rising.
    """
    return Cached(source, stamp, clock)


class Cached:
    """A Source that asks another one, and the same thing only once in a while.

    Spans of a live source are rounded outward to its step: who looks a second later sees the same.
    """

    def __init__(
        self, source: Source, stamp: Callable[[], Hashable] | None, clock: Callable[[], float]
    ) -> None:
        self._source, self._stamp, self._clock = source, stamp, clock
        self._kept = Cache(clock=clock)
        self._seen: Hashable = stamp() if stamp else None
        self._next_look = clock() + LOOK_SECONDS
        self.name = source.name
        self.live = source.live

    def answer(self, span: Span | None = None, run: str = "") -> Answer:
        return self._get(self._source.answer, self._rounded(span), run)

    def extent(self) -> Span:
        return self._get(self._source.extent)

    def runs(self, span: Span | None = None) -> tuple[RunRow, ...]:
        return self._get(self._source.runs, self._rounded(span))

    def run(self, run: str) -> RunRow:
        return self._get(self._source.run, run)

    def spec(self, run: str) -> Mapping[str, Any]:
        return self._get(self._source.spec, run)

    def verdict(self, run: str) -> Mapping[str, Any] | None:
        return self._get(self._source.verdict, run)

    def findings(self, span: Span, run: str = "") -> tuple[FindingRow, ...]:
        return self._get(self._source.findings, self._rounded(span), run)

    def events(self, span: Span, run: str = "", node: str = "") -> tuple[Event, ...]:
        return self._get(self._source.events, self._rounded(span), run, node)

    def run_lines(self, run: str, span: Span) -> tuple[Lines, ...]:
        return self._get(self._source.run_lines, run, self._rounded(span))

    def ranks(self, run: str, span: Span) -> pd.DataFrame:
        return self._get(self._source.ranks, run, self._rounded(span))

    def rank_times(self, run: str, span: Span) -> Matrix:
        return self._get(self._source.rank_times, run, self._rounded(span))

    def collectives(self, run: str, span: Span) -> pd.DataFrame:
        return self._get(self._source.collectives, run, self._rounded(span))

    def arrivals(self, run: str, span: Span) -> Matrix:
        return self._get(self._source.arrivals, run, self._rounded(span))

    def operations(self, run: str, rank: int, span: Span) -> pd.DataFrame:
        return self._get(self._source.operations, run, rank, self._rounded(span))

    def trace(self, run: str, span: Span) -> bytes:
        return self._get(self._source.trace, run, self._rounded(span))

    def fleet(self, metric: FleetMetric, at: float | None = None) -> FleetSnapshot:
        if at is not None and self.live:
            at = math.ceil(at / self._scrape()) * self._scrape()
        return self._get(self._source.fleet, metric, at)

    def nodes(self) -> tuple[str, ...]:
        return self._get(self._source.nodes)

    def node(self, node: str, span: Span) -> NodeFacts:
        return self._get(self._source.node, node, self._rounded(span))

    def node_lines(self, node: str, span: Span) -> tuple[Lines, ...]:
        return self._get(self._source.node_lines, node, self._rounded(span))

    def gpu_lines(self, node: str, gpu: int, span: Span) -> tuple[Lines, ...]:
        return self._get(self._source.gpu_lines, node, gpu, self._rounded(span))

    def health(self, run: str = "") -> Health:
        return self._get(self._source.health, run)

    def ledgers(self, span: Span, run: str = "") -> tuple[LedgerRow, ...]:
        return self._get(self._source.ledgers, self._rounded(span), run)

    def folder(self, run: str) -> Path | None:
        return self._get(self._source.folder, run)

    def _get(self, ask: Callable[..., T], *words: Any) -> T:
        self._look()
        seconds = self._scrape() if self.live else STILL_SECONDS
        return self._kept.get((ask.__name__, *words), lambda: ask(*words), seconds)

    def _scrape(self) -> float:
        """Seconds between two scrapes, known for as long as the source."""
        answer: Answer = self._kept.get(("scrape",), self._source.answer, STILL_SECONDS)
        known = answer.scrape_seconds
        return max(1.0, known) if math.isfinite(known) else UNKNOWN_SCRAPE

    def _rounded(self, span: Span | None) -> Span | None:
        if span is None or not self.live:
            return span
        step = step_of(span.seconds, self._scrape())
        return Span(math.floor(span.start / step) * step, math.ceil(span.end / step) * step)

    def _look(self) -> None:
        """Forget everything where the files have changed."""
        if self._stamp is None or self._clock() < self._next_look:
            return
        self._next_look = self._clock() + LOOK_SECONDS
        seen = self._stamp()
        if seen != self._seen:
            self._seen = seen
            self._kept.clear()


@dataclass(slots=True)
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    until: float = float("-inf")
    value: Any = None
    trouble: TroubleError | None = None
    size: int = 0


class Cache:
    """Answers by key, the least recently used left out first.

    They are handed out as they are, not copied: nobody changes an answer (dashboard.protocol).
    `st.cache_data` would pickle each and unpickle it at every look.

    Args:
        entries: At most so many.
        most_bytes: At most so much memory, about.
        clock: Seconds, rising.
    """

    def __init__(
        self,
        entries: int = MOST_ENTRIES,
        most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._most_entries, self._most_bytes = entries, most_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._bytes = 0

    def get(self, key: Hashable, ask: Callable[[], T], seconds: float) -> T:
        """The answer of `ask`, not older than so many seconds.

        Who asks while somebody else is asking the same waits for that answer.

        Raises:
            TroubleError: `ask` raised it, now or in the last TROUBLE_SECONDS.
        """
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
        with entry.lock:
            if self._clock() >= entry.until:
                self._ask(key, entry, ask, seconds)
            if entry.trouble is not None:
                old = entry.trouble
                raise TroubleError(old.kind, old.sentence, old.next_step, old.choices)
            return cast("T", entry.value)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def _ask(self, key: Hashable, entry: _Entry, ask: Callable[[], Any], seconds: float) -> None:
        value, trouble = None, None
        try:
            value = ask()
        except TroubleError as error:
            trouble = error
        entry.value, entry.trouble = value, trouble
        entry.until = self._clock() + (seconds if trouble is None else TROUBLE_SECONDS)
        with self._lock:
            before, entry.size = entry.size, size(value)
            if self._entries.get(key) is not entry:  # cleared in the meantime
                return
            self._bytes += entry.size - before
            while len(self._entries) > self._most_entries or (
                self._bytes > self._most_bytes and len(self._entries) > 1
            ):
                _, oldest = self._entries.popitem(last=False)
                self._bytes -= oldest.size


def size(answer: Any) -> int:
    """Bytes that an answer takes, about: those of arrays, frames and texts are counted."""
    if isinstance(answer, np.ndarray):
        return SMALL + answer.nbytes
    if isinstance(answer, pd.DataFrame):
        return SMALL + int(answer.memory_usage(index=True, deep=True).sum())
    if isinstance(answer, str | bytes):
        return SMALL + len(answer)
    if isinstance(answer, Mapping):
        return SMALL + sum(size(key) + size(value) for key, value in answer.items())
    if isinstance(answer, tuple | list):
        return SMALL + sum(map(size, answer))
    if is_dataclass(answer):
        return SMALL + sum(size(getattr(answer, part.name)) for part in fields(answer))
    return SMALL


def newest_change(folder: Path) -> tuple[int, int]:
    """The newest change of a folder, or of one in it, in nanoseconds, and how many there are.

    A file that appears, is replaced by a rename or goes changes its folder: archives are written
    so. Files and links are not looked at, folders that cannot be read count as empty.
    """
    newest, count, level = _changed(folder), 1, [str(folder)]
    for _ in range(DEPTH):
        level = [inner for outer in level for inner in _folders(outer)][: MOST_FOLDERS - count]
        count += len(level)
        newest = max([newest, *(_changed(one) for one in level)])
    return newest, count


def _changed(folder: str | Path) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return [one.path for one in found if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []
