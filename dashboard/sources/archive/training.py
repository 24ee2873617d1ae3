"""The charts of training: loss, throughput, step time, model FLOPs and phases, over the steps."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lockstep.analyzer.shapes.windows import MAX_GAP
from lockstep.collector.contract.words import PHASES
from lockstep.dashboard.shapes import Floats, Lines
from lockstep.dashboard.sources.archive.summary import PHASE_COLUMNS, QUANTILES, Summary
from lockstep.dashboard.sources.chart_table import (
    ALL,
    BANDS,
    MEAN,
    RUN_CHARTS,
    SLOWEST,
    share_of_peak,
)
from lockstep.dashboard.sources.downsample import thin
from lockstep.workloads.measure.peak import Peak

GAP_SECONDS = 1.0
"""Shorter pauses are no gap: a run with steps of 20 ms often pauses for some of them."""


def lines(steps: Summary, peak: Peak | None) -> tuple[Lines, ...]:
    """loss, throughput, step, mfu and phases; one that nobody told of has no values."""
    charts = (_loss(steps), _throughput(steps), _step(steps), _flops(steps, peak), _phases(steps))
    return tuple(thin(_broken(each, steps)) for each in charts)


def numbered(chart: Lines, told: Summary) -> Lines:
    """A chart with the step that ran at each moment; NaN before the first."""
    if not len(told.start) or not len(chart.times):
        return chart
    place = np.searchsorted(told.start, chart.times, side="right") - 1
    numbers = np.where(place >= 0, told.steps[np.maximum(place, 0)].astype(float), np.nan)
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
