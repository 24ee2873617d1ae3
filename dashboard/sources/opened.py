"""The source that the command names, with its answers kept: the only cache of the dashboard."""

import math
import os
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from lockstep.collector.contract import bounded_json
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
from lockstep.dashboard.sources.cache import Cache
from lockstep.dashboard.sources.grid import UNKNOWN_SCRAPE, step_of
from lockstep.dashboard.trouble import Kind, TroubleError

SOURCE = "LOCKSTEP_DASHBOARD_SOURCE"
"""Environment variable: JSON, `{"kind": "archive|folder|prometheus", ...}`."""
STILL_SECONDS = 300.0
"""For what does not go on: until something changes in its folder, at most so long."""
LOOK_SECONDS = 2.0
"""Between two looks whether something changed."""
NO_SOURCE = "Start it with one: lockstep dashboard DIR, or lockstep dashboard --prometheus URL"

T = TypeVar("T")
_OPEN: dict[str, "Cached"] = {}
_LOCK = threading.Lock()


def opened(environment: Mapping[str, str] | None = None) -> "Cached":
    """The source of this process, the same one for all sessions.

    Args:
        environment: Holds SOURCE, and the credentials; None = the process'.

    Raises:
        TroubleError: None is named, or it cannot be opened.
    """
    environment = os.environ if environment is None else environment
    text = environment.get(SOURCE, "")
    with _LOCK:
        if text not in _OPEN:
            _OPEN[text] = _open(text, environment)
        return _OPEN[text]


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
        told: Answer = self._kept.get(("scrape",), self._source.answer, STILL_SECONDS)
        known = told.scrape_seconds
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


def _open(text: str, environment: Mapping[str, str]) -> Cached:
    try:
        told = bounded_json.loads(text) if text else {}
        kind = str(told.get("kind", ""))
    except (ValueError, AttributeError) as error:
        raise TroubleError(
            Kind.NO_SOURCE, f"{SOURCE} is no JSON object that names a source.", NO_SOURCE
        ) from error
    if kind == "":
        raise TroubleError(Kind.NO_SOURCE, "The dashboard was started without a source.", NO_SOURCE)
    if kind not in _OPENERS:
        known = ", ".join(_OPENERS)
        raise TroubleError(
            Kind.NO_SOURCE, f"{SOURCE} names the kind {kind!r}; it must be one of {known}.",
            NO_SOURCE,
        )  # fmt: skip
    try:
        return _OPENERS[kind](told, environment)
    except (KeyError, TypeError, ValueError) as error:
        raise TroubleError(
            Kind.NO_SOURCE, f"{SOURCE} does not say what a source of kind {kind} needs.", NO_SOURCE
        ) from error


def _archive(told: Mapping[str, Any], _: Mapping[str, str]) -> Cached:
    from lockstep.dashboard.sources.archive.source import ArchiveSource

    path = Path(told["path"])
    return cached(ArchiveSource(path), stamp=lambda: newest_change(path))


def _folder(told: Mapping[str, Any], _: Mapping[str, str]) -> Cached:
    from lockstep.dashboard.sources.folder import FolderSource

    path = Path(told["path"])
    return cached(FolderSource(path), stamp=lambda: newest_change(path))


def _prometheus(told: Mapping[str, Any], environment: Mapping[str, str]) -> Cached:
    from lockstep.dashboard.sources.prometheus.source import PrometheusSource

    findings = told.get("findings")
    where = Path(findings) if findings else None
    return cached(PrometheusSource(str(told["url"]), where, environment))


_OPENERS: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, str]], Cached]] = {
    "archive": _archive,
    "folder": _folder,
    "prometheus": _prometheus,
}


DEPTH = 3
"""Folders below the first that are looked at: `OUT/<run>/<finding>/samples.parquet`."""
MOST_FOLDERS = 5000


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
