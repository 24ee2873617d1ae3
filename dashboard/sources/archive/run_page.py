"""The charts and the events of a run, from its steps and its samples."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

from lockstep.analyzer.read.archive.growing import Growing
from lockstep.analyzer.read.archive.load import Archive
from lockstep.analyzer.read.archive.parts import whole
from lockstep.analyzer.read.archive.series import COLUMNS, Series, grouped
from lockstep.analyzer.shapes.windows import MAX_GAP
from lockstep.collector.contract.words import PHASES
from lockstep.dashboard.shapes import Event, Floats, Lines, Severity, Span
from lockstep.dashboard.sources.archive import hardware, trouble_events
from lockstep.dashboard.sources.archive.step_log import PHASE_COLUMNS, QUANTILES, StepLog, Summary
from lockstep.dashboard.sources.chart_table import (
    ALL,
    BANDS,
    MEAN,
    RUN_CHARTS,
    SLOWEST,
    share_of_peak,
)
from lockstep.dashboard.sources.grid import thin
from lockstep.workloads.measure.peak import Peak

GAP_SECONDS = 1.0
"""Shorter pauses are no gap: a run with steps of 20 ms often pauses for some of them."""
TAGS_SHOWN = {"checkpoint": "checkpoint", "eval": "evaluation"}
MOST_EVENTS = 500
"""Of a kind; a run that evaluates at each step has no events of it, but a habit."""
PLAIN = frozenset(metric.name for metric in hardware.OF_A_RUN)
KEPT_BYTES = 64 << 20
"""Of rows: three weeks of 16 GPUs at 15 s; of a table with more, each span is read anew."""


class Page:
    """Lines and events of one archive.

    Args:
        log: Its steps.
        archive: It.
    """

    def __init__(self, log: StepLog, archive: Archive) -> None:
        self._log, self._scraped = log, archive.series
        self._samples = SampleLog(archive)

    def lines(self, run: str, cut: Span | None, peak: Peak | None) -> tuple[Lines, ...]:
        """All charts of the page; those of the hardware with the step at each moment."""
        # Both tables at once: neither Arrow nor numpy keeps the other from running.
        with ThreadPoolExecutor(1) as pool:
            series = pool.submit(self._samples.series, cut)
            steps = self._log.summary(cut)
            above = training_lines(steps, peak)
            below = hardware.lines(series.result())
        return (*above, *(numbered(chart, steps) for chart in below))

    def events(
        self, run: str, cut: Span | None, span: Span, node: str, ended: float | None
    ) -> list[Event]:
        """Of the training, where no node is asked for, and of the hardware."""
        events = trouble_events.events(
            self._samples.series(cut), self._scraped.interval(),
            # What a counter had counted before anybody looked says nothing of this span.
            Span(max(span.start, self._scraped.begin()), span.end), run, node, ended,
        )  # fmt: skip
        return events if node else [*training_events(self._log.summary(cut), run), *events]


class SampleLog:
    """Series of PLAIN, and of trouble_events.NAMES what says that something is not well.

    Args:
        archive: Of the run; its series are read anew where memory does not hold them.
    """

    def __init__(self, archive: Archive) -> None:
        self._table, self._scraped = archive.samples, archive.series
        self._growing = Growing(archive.samples, COLUMNS)
        self._lock = threading.Lock()
        self._rows: list[pa.Table] = []
        self._too_many = False

    def series(self, cut: Span | None) -> tuple[Series, ...]:
        """Of a span; None = all.

        Raises:
            TroubleError: The files went away.
        """
        if not self._table.grows or self._too_many:
            return self._scraped.series((*PLAIN, *trouble_events.NAMES), cut, only=_rows)
        with self._lock:
            self._grow()
            rows = list(self._rows)
        if self._too_many:
            return self.series(cut)
        if not rows:
            return ()
        samples = pa.concat_tables(rows)
        if cut is not None:
            samples = samples.filter(
                (ds.field("time") >= cut.start) & (ds.field("time") <= cut.end)
            )
        return tuple(grouped(samples))

    def _grow(self) -> None:
        over, news = self._growing.look()
        if over:
            self._rows = []
        for rows in news:
            for batch in rows.to_batches():
                self._rows.append(pa.Table.from_batches([batch.filter(pa.array(_rows(batch)))]))
            if sum(row.nbytes for row in self._rows) > KEPT_BYTES:
                self._rows, self._too_many = [], True
                return
        if len(self._rows) > 1:
            self._rows = [whole(pa.concat_tables(self._rows))]


def _rows(batch: pa.RecordBatch) -> "NDArray":  # type: ignore[type-arg]
    return trouble_events.rows_to_read(batch, PLAIN)


def training_lines(steps: Summary, peak: Peak | None) -> tuple[Lines, ...]:
    """loss, throughput, step, mfu and phases; one that nobody told of has no values."""
    charts = (_loss(steps), _throughput(steps), _step(steps), _flops(steps, peak), _phases(steps))
    return tuple(thin(_broken(chart, steps)) for chart in charts)


def numbered(chart: Lines, summary: Summary) -> Lines:
    """A chart with the step that ran at each moment; NaN before the first."""
    if not len(summary.start) or not len(chart.times):
        return chart
    place = np.searchsorted(summary.start, chart.times, side="right") - 1
    numbers = np.where(place >= 0, summary.steps[np.maximum(place, 0)].astype(float), np.nan)
    return replace(chart, steps=numbers)


def _chart(
    steps: Summary, key: str, values: Mapping[str, Floats], query: str = "", unit: str = ""
) -> Lines:
    there = {name: line for name, line in values.items() if np.isfinite(line).any()}
    title = RUN_CHARTS[key]
    if not there:
        empty = np.zeros(0)
        chart = Lines(key, title.title, "", empty, dict.fromkeys(values, empty), empty)
    else:
        chart = Lines(key, title.title, "", steps.start, there, steps.steps.astype(np.float64))
    return replace(
        chart, unit=unit or title.unit, stacked=title.stacked, query=query, help=title.help
    )


def _loss(steps: Summary) -> Lines:
    return _chart(steps, "loss", {MEAN: steps.lines["loss"]}, "steps.parquet: mean loss by step")


def _throughput(steps: Summary) -> Lines:
    tokens = steps.lines["tokens"]
    what = "tokens" if np.nan_to_num(tokens).any() else "samples"
    done = tokens if what == "tokens" else steps.lines["samples"]
    rate = np.where((steps.wall > 0) & (done > 0), done / np.where(steps.wall > 0, steps.wall, 1.0),
                    np.nan)  # fmt: skip
    return _chart(
        steps, "throughput", {ALL: rate}, f"steps.parquet: sum of {what} over wall_seconds",
        f"{what}/s",
    )  # fmt: skip


def _step(steps: Summary) -> Lines:
    values = {name: steps.lines[name] for name in QUANTILES}
    chart = _chart(
        steps, "step", values | {SLOWEST: steps.lines["slowest"]},
        "steps.parquet: wall_seconds, quantiles over ranks",
    )  # fmt: skip
    return replace(chart, band=BANDS["step"])


def _flops(steps: Summary, peak: Peak | None) -> Lines:
    flops = steps.lines["flops"]
    rate = np.where((steps.wall > 0) & (flops > 0),
                    flops / np.where(steps.wall > 0, steps.wall, 1.0), np.nan)  # fmt: skip
    query = "steps.parquet: flops over wall_seconds, mean over ranks"
    if peak is None or not peak.flops > 0:
        return _chart(steps, "mfu", {MEAN: rate}, query)
    chart = _chart(steps, "mfu", {MEAN: rate / peak.flops}, query)
    return share_of_peak(chart, peak.words)


def _phases(steps: Summary) -> Lines:
    sums = {phase.value: steps.lines[column]
            for phase, column in zip(PHASES, PHASE_COLUMNS, strict=True)}  # fmt: skip
    sums = {name: values for name, values in sums.items() if np.nan_to_num(values).any()}
    if not sums:
        return _chart(steps, "phases", {})
    whole = np.sum(list(sums.values()), axis=0)
    known = np.where(whole > 0, whole, np.nan)
    return _chart(
        steps, "phases", {name: values / known for name, values in sums.items()},
        "steps.parquet: <phase>_seconds, means over ranks, over their sum",
    )  # fmt: skip


def _broken(chart: Lines, steps: Summary) -> Lines:
    """With a moment of nothing wherever nothing is known for long."""
    if len(chart.times) < 2:
        return chart
    ends = steps.start[:-1] + np.nan_to_num(steps.wall[:-1])
    pause = steps.start[1:] - ends
    known = steps.wall[np.isfinite(steps.wall)]
    limit = max(MAX_GAP * float(np.median(known)), GAP_SECONDS) if known.size else GAP_SECONDS
    gaps = np.flatnonzero(pause > limit)
    if not gaps.size:
        return chart
    assert chart.steps is not None
    return replace(
        chart,
        times=np.insert(chart.times, gaps + 1, ends[gaps]),
        steps=np.insert(chart.steps, gaps + 1, chart.steps[gaps]),
        values={name: np.insert(line, gaps + 1, np.nan) for name, line in chart.values.items()},
    )


def training_events(steps: Summary, run: str) -> list[Event]:
    """Each stretch of tagged steps, and each restart.

    Args:
        steps: Of the run.
        run: Its id.
    """
    events: list[Event] = []
    ends = steps.start + np.nan_to_num(steps.wall)
    for tag, words in TAGS_SHOWN.items():
        stretches = _stretches(steps.tags[tag])
        for begin, end in stretches[:MOST_EVENTS]:
            at, until = float(steps.start[begin]), float(ends[end - 1])
            text = f"{words} at step {steps.steps[begin]}"
            events.append(Event(at, until, tag, Severity.NOTE, text, run))
    for index in np.flatnonzero(np.diff(np.maximum.accumulate(steps.attempts)) > 0) + 1:
        text = f"restart: attempt {steps.attempts[index]} from step {steps.steps[index]}"
        events.append(
            Event(float(steps.start[index]), None, "restart", Severity.WARNING, text, run)
        )
    return events


def _stretches(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
