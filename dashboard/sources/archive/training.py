"""The charts of training: loss, throughput, step time, model FLOPs and phases, over the steps."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from collector.contract.words import PHASES
from dashboard.shapes import Floats, Lines
from dashboard.sources.archive.steps import Steps, quantiles
from dashboard.sources.downsample import thin
from workloads.outcome.peak import Peak

PHASE_COLUMNS = tuple(f"{phase}_seconds" for phase in PHASES)
COLUMNS = ("own_seconds", "loss", "samples", "tokens", "flops", *PHASE_COLUMNS)
QUANTILES = {"p5": 0.05, "median": 0.5, "p95": 0.95}
GAP_STEPS = 3.5
"""SOURCE: analyzer.load.windows.MAX_GAP: longer than so many steps nothing is known."""
GAP_SECONDS = 1.0
"""Shorter pauses are no gap: a run with steps of 20 ms often pauses for some of them."""


def lines(steps: Steps, peak: Peak | None) -> tuple[Lines, ...]:
    """loss, throughput, step, mfu and phases; one that nobody told of has no values."""
    charts = (_loss(steps), _throughput(steps), _step(steps), _flops(steps, peak), _phases(steps))
    return tuple(thin(_broken(each, steps)) for each in charts)


def mean(values: Floats) -> Floats:
    """(W,) over ranks that told; NaN where nobody did."""
    told = np.isfinite(values)
    count = told.sum(axis=1)
    total = np.where(told, values, 0.0).sum(axis=1)
    found: Floats = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return found


def total(values: Floats) -> Floats:
    """(W,) over ranks; NaN where nobody told."""
    found: Floats = mean(values) * np.isfinite(values).sum(axis=1)
    return found


def _chart(
    steps: Steps, key: str, title: str, unit: str, values: Mapping[str, Floats], **told: str
) -> Lines:
    there = {name: line for name, line in values.items() if np.isfinite(line).any()}
    if not there:
        empty = np.zeros(0)
        return Lines(key, title, unit, empty, dict.fromkeys(values, empty), empty, **told)  # type: ignore[arg-type]
    return Lines(key, title, unit, steps.start, there, steps.steps.astype(np.float64), **told)  # type: ignore[arg-type]


def _loss(steps: Steps) -> Lines:
    return _chart(
        steps, "loss", "Training loss", "nats", {"mean over ranks": mean(steps.cells["loss"])},
        query="steps.parquet: mean loss by step",
        help="Falls while the model learns. A jump up, or no value (NaN), is a matter of the model"
        " or its data; a slow node does not change it.",
    )  # fmt: skip


def _throughput(steps: Steps) -> Lines:
    tokens = total(steps.cells["tokens"])
    what = "tokens" if np.nan_to_num(tokens).any() else "samples"
    done = tokens if what == "tokens" else total(steps.cells["samples"])
    rate = np.where((steps.wall > 0) & (done > 0), done / np.where(steps.wall > 0, steps.wall, 1.0),
                    np.nan)  # fmt: skip
    return _chart(
        steps, "throughput", "Throughput of the run", f"{what}/s", {"all ranks": rate},
        query=f"steps.parquet: sum of {what} over wall_seconds",
        help="What the run gets done. It falls with every longer step: look for the event or the"
        " rank at the same moment.",
    )  # fmt: skip


def _step(steps: Steps) -> Lines:
    wall = steps.cells["wall_seconds"]
    values = dict(zip(QUANTILES, quantiles(wall, list(QUANTILES.values())), strict=True))
    slowest = np.fmax.reduce(wall, axis=1) if wall.shape[1] else steps.wall
    chart = _chart(
        steps, "step", "Step time", "s", values | {"slowest rank": slowest},
        query="steps.parquet: wall_seconds, quantiles over ranks",
        help="All ranks wait for each other, so their steps take alike; the band is wide where one"
        " rank is measured late or stands outside the collectives.",
    )  # fmt: skip
    return replace(chart, band=("p5", "p95"))


def _flops(steps: Steps, peak: Peak | None) -> Lines:
    flops = mean(steps.cells["flops"])
    rate = np.where((steps.wall > 0) & (flops > 0),
                    flops / np.where(steps.wall > 0, steps.wall, 1.0), np.nan)  # fmt: skip
    query = "steps.parquet: flops over wall_seconds, mean over ranks"
    if peak is None or not peak.flops > 0:
        return _chart(
            steps, "mfu", "Model FLOPs of a rank", "FLOP/s", {"mean over ranks": rate}, query=query,
            help="By Megatron's formula. No peak of this device is known, so there is no share.",
        )  # fmt: skip
    return _chart(
        steps, "mfu", peak.words[:1].upper() + peak.words[1:], "ratio",
        {"mean over ranks": rate / peak.flops}, query=query,
        help="Model FLOPs (Megatron's formula) of a rank over the most its device can do. It falls"
        " with every longer step.",
    )  # fmt: skip


def _phases(steps: Steps) -> Lines:
    sums = {phase.value: mean(steps.cells[column])
            for phase, column in zip(PHASES, PHASE_COLUMNS, strict=True)}  # fmt: skip
    sums = {name: values for name, values in sums.items() if np.nan_to_num(values).any()}
    if not sums:
        return replace(_chart(steps, "phases", "Where a step goes", "ratio", {}), stacked=True)
    whole = np.sum(list(sums.values()), axis=0)
    known = np.where(whole > 0, whole, np.nan)
    chart = _chart(
        steps, "phases", "Where a step goes", "ratio",
        {name: values / known for name, values in sums.items()},
        query="steps.parquet: <phase>_seconds, means over ranks, over their sum",
        help="Shares of a step. grad_sync is waiting for the others and the network: it grows on"
        " everybody but the one who is late.",
    )  # fmt: skip
    return replace(chart, stacked=True)


def _broken(chart: Lines, steps: Steps) -> Lines:
    """With a moment of nothing wherever nothing is known for long."""
    if len(chart.times) < 2:
        return chart
    ends = steps.start[:-1] + np.nan_to_num(steps.wall[:-1])
    pause = steps.start[1:] - ends
    known = steps.wall[np.isfinite(steps.wall)]
    limit = max(GAP_STEPS * float(np.median(known)), GAP_SECONDS) if known.size else GAP_SECONDS
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
