"""What several questions of one page need: the nodes, the extent, and the scrape interval."""

import math
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from lockstep.analyzer.read.prometheus.discovery import LOOK_BACK
from lockstep.analyzer.read.prometheus.promql import lasting, series
from lockstep.analyzer.shapes.labels import Target
from lockstep.collector.contract.metrics import BUILD_INFO, NODE_EXPECTED
from lockstep.dashboard.shapes import Span
from lockstep.dashboard.sources.grid import MOST_POINTS, UNKNOWN_SCRAPE, Grid, grid
from lockstep.dashboard.sources.prometheus.asking import Asking
from lockstep.dashboard.sources.prometheus.directory import Directory, Member, directory, members
from lockstep.dashboard.sources.prometheus.fleet import Places, places
from lockstep.dashboard.sources.prometheus.runs import GOES_ON, RunOnGrid, refined, seen
from lockstep.dashboard.trouble import Kind, TroubleError

# From when until when a Prometheus knows anything, without reading all of it.

NOW_SECONDS = 300.0
"""How far back an instant query looks (Prometheus: `--query.lookback-delta`)."""
COARSE = 3600.0
"""Between two looks over LOOK_BACK; what began last is looked at finely."""


def scrape_seconds(asking: Asking, target: Target, at: float) -> float:
    """Between two scrapes of a target: the median of the last five minutes."""
    page = series(BUILD_INFO.name, job=target[0], instance=target[1])
    times = asking.scrapes(f"{page}[{lasting(NOW_SECONDS)}]", at)
    if len(times) < 2:
        return UNKNOWN_SCRAPE
    seconds = float(np.median(np.diff(times)))
    return round(seconds, 1) if seconds < 5 else float(round(seconds))


def latest(asking: Asking, now: float) -> float | None:
    """When a collector told last; None = none did in LOOK_BACK."""
    rows = asking.instant(f"max(timestamp({BUILD_INFO.name}))", now)
    if rows:
        return rows[0][1]
    before = _there(asking, now - LOOK_BACK, now, COARSE)
    if before is None:
        return None
    fine = _there(asking, before.end - COARSE, before.end, 10.0)
    rows = asking.instant(f"max(timestamp({BUILD_INFO.name}))", fine.end if fine else before.end)
    return rows[0][1] if rows else before.end


def extent(asking: Asking, now: float) -> Span:
    """Both ends of what a Prometheus knows, in the last LOOK_BACK.

    Raises:
        TroubleError: It knows nothing of Lockstep.
    """
    last = latest(asking, now)
    if last is None:
        raise TroubleError(
            Kind.EMPTY, f"{asking.url} has nothing of Lockstep's collectors.",
            "Let it scrape them: deploy/standalone/prometheus.yml shows how.",
        )  # fmt: skip
    # One look an hour reads five minutes of each: cheap. What is in between is looked at once.
    grid = Grid(last - LOOK_BACK, last, COARSE)
    counts = asking.over(f"count({BUILD_INFO.name})", grid)
    known_at = np.flatnonzero(np.isfinite(counts[0].values)) if counts else np.empty(0, dtype=int)
    first = float(grid.times[known_at[0]]) if known_at.size else last
    fine = _there(asking, first - COARSE, first, 10.0)
    return Span(min(first, fine.start if fine else first), last)


def _there(asking: Asking, start: float, end: float, part: float) -> Span | None:
    """The first and the last part of a time in which a collector told anything."""
    grid = Grid(start + part, end + part, part)
    query = f"count(present_over_time({BUILD_INFO.name}[{lasting(part)}]))"
    courses = asking.over(query, grid)
    told = np.flatnonzero(np.isfinite(courses[0].values)) if courses else np.empty(0, dtype=int)
    if not told.size:
        return None
    return Span(float(grid.times[told[0]]) - part, float(grid.times[told[-1]]))


KEEP_SECONDS = 15.0
"""So long it is not asked again."""
SHOWN = 20
T = TypeVar("T")


class Known:
    """Of one Prometheus; every method may raise TroubleError."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._kept: dict[object, tuple[float, Any]] = {}
        self._lock = threading.Lock()

    def extent(self) -> Span:
        """From when until when anything is known."""
        return self._for_a_while("extent", lambda: extent(self._asking, self._asking.now()))

    def grid(self, span: Span) -> Grid:
        """Of the lines of a page."""
        return grid(span, self.scrape(), now=self._asking.now())

    def life(self, run: str) -> Span:
        """When a run was there, to a scrape; one that goes on is there until now.

        What was seen of it is kept for KEEP_SECONDS, in which its end moves on.
        """
        mine, last = self.seen(run).span, self.at(None)
        on = last - mine.end <= KEEP_SECONDS + GOES_ON * self.scrape()
        return Span(mine.start, max(mine.end, last)) if on else mine

    def known_part(self, run: str, span: Span) -> Span:
        """The part of a span in which the run was there, without length if it was not.

        Every question about a run is asked of this part: in a longer one rates would be those of
        the time without it, and steps of a grid would be longer than the run.
        """
        life = self.life(run)
        start, end = max(span.start, life.start), min(span.end, life.end)
        return Span(start, end) if end > start else Span(span.start, span.start)

    def seen(self, run: str) -> RunOnGrid:
        """A run wherever it is; an unknown id is trouble."""
        whole, scrape = self.extent(), self.scrape()

        def look() -> RunOnGrid:
            runs = seen(self._asking, whole, scrape, run) if run else []
            if runs:
                step = grid(whole, scrape, MOST_POINTS).step
                return refined(self._asking, runs[0], scrape, step)
            others = tuple(on_grid.run for on_grid in seen(self._asking, whole, scrape))
            raise TroubleError(
                Kind.UNKNOWN_ID,
                f"{self._asking.url} has no run {run!r}.",
                "Choose one.",
                others[:SHOWN],
            )

        return self._for_a_while(("run", run), look)

    def members(self, run: str, at: float) -> tuple[Member, ...]:
        """The ranks of a run that told who they are shortly before a moment."""
        moment = math.floor(at / KEEP_SECONDS) * KEEP_SECONDS + KEEP_SECONDS
        key = "members", run, moment
        return self._for_a_while(
            key, lambda: members(self._asking, self.directory(at), run, min(moment, at + 1.0))
        )

    def members_in(self, run: str, span: Span) -> tuple[Member, ...]:
        """Those at the end of a span, or at the end of the run."""
        members = self.members(run, min(span.end, self.seen(run).span.end))
        return members or self.members(run, self.seen(run).span.end)

    def targets(self, node: str, at: float) -> tuple[Target, ...]:
        """The pages of a node; an unknown name is trouble."""
        known = self.directory(at)
        if node not in known.targets:
            raise TroubleError(
                Kind.UNKNOWN_ID, f"{self._asking.url} has no node {node!r}.", "Choose one.",
                known.nodes[:SHOWN],
            )  # fmt: skip
        return known.targets[node]

    def silent(self) -> tuple[str, ...]:
        """Nodes that are known and did not answer the last scrape."""
        at = self.at(None)

        def look() -> tuple[str, ...]:
            known = self.directory(at)
            up = {
                known.name(labels)
                for labels, value in self._asking.instant("up == 1", at)
                if value > 0
            }
            expected = {
                labels.get("exported_node") or labels.get("node", "")
                for labels, _ in self._asking.instant(NODE_EXPECTED.name, at)
            }
            return tuple(sorted(({*known.nodes} | expected) - up - {""}))

        return self._for_a_while("silent", look)

    def directory(self, at: float) -> Directory:
        """The nodes at a moment."""
        moment = math.ceil(at / KEEP_SECONDS) * KEEP_SECONDS
        return self._for_a_while(
            ("directory", moment), lambda: directory(self._asking, min(moment, at + 1.0))
        )

    def at(self, span: Span | None) -> float:
        """The end of a span, or the last that is known where that is earlier.

        Raises:
            TroubleError: Nothing is known.
        """
        last = self.latest()
        last = self.extent().end if last is None else last
        return last if span is None else min(span.end, last)

    def places(self, at: float) -> Places:
        """Every place of the map at a moment: the same for all metrics."""
        moment = math.ceil(at / KEEP_SECONDS) * KEEP_SECONDS
        return self._for_a_while(
            ("places", moment), lambda: places(self._asking, self.directory(at), at)
        )

    def latest(self) -> float | None:
        """When a collector told last; None = in two weeks none did."""
        return self._for_a_while("latest", lambda: latest(self._asking, self._asking.now()), 1.0)

    def scrape(self) -> float:
        """Seconds between two scrapes."""

        def look() -> float:
            last = self.latest()
            known = () if last is None else tuple(self.directory(last).node_of)
            if last is None or not known:
                return UNKNOWN_SCRAPE
            return scrape_seconds(self._asking, known[0], last)

        return self._for_a_while("scrape", look, 60.0)

    def _for_a_while(self, key: object, ask: Callable[[], T], seconds: float = KEEP_SECONDS) -> T:
        """An answer that several questions of one page need; small ones only."""
        with self._lock:
            entry = self._kept.get(key)
            if entry is not None and time.monotonic() - entry[0] < seconds:
                kept: T = entry[1]
                return kept
        value = ask()
        with self._lock:
            if len(self._kept) > 64:
                self._kept.clear()
            self._kept[key] = time.monotonic(), value
        return value
