"""Run -> Grid: windows and telemetry on the same axes (window, rank), gaps left as NaN."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.align.garbage import garbage
from lockstep.analyzer.align.one_clock import on_one_clock
from lockstep.analyzer.align.telemetry import Telemetry, telemetry
from lockstep.analyzer.align.versions import versions, with_models
from lockstep.analyzer.shapes.run import FloatGrid, Grid, RankInfo, Run
from lockstep.analyzer.shapes.windows import PHASE_COLUMNS

WARMUP_SHARE = 0.02
WARMUP_STEPS = 3
"""Without a `warmup` tag the first 2 % of the steps, at least 3, are taken as warm-up."""

STEP_BITS = 40

TIMES: Mapping[str, str] = {
    "wall": "wall_seconds",
    "own": "own_seconds",
    "cpu": "cpu_seconds",
    "collective": "collective_seconds",
    **{column.removesuffix("_seconds"): column for column in PHASE_COLUMNS},
}


def align(run: Run) -> Grid:
    """The Grid of a run; shapes are (windows, ranks), times in seconds per step.

    Windows of all ranks share their edges (the loader's promise); a rank without the window has
    NaN there. Windows with a step tag on any rank are masked for all, and so is warm-up.
    """
    windows = run.windows
    column_of = {info.rank: column for column, info in enumerate(run.ranks)}
    columns = windows["rank"].map(column_of)
    if columns.isna().any():
        windows, columns = windows[columns.notna()], columns[columns.notna()]
    columns_index = columns.to_numpy(dtype=np.int64)
    # One number for (attempt, step): numpy sorts that ten times faster than pairs.
    numbers = windows["attempt"].to_numpy(dtype=np.int64) << STEP_BITS
    numbers = numbers | windows["from_step"].to_numpy(dtype=np.int64)
    ordered, rows = np.unique(numbers, return_inverse=True)
    keys = np.column_stack([ordered >> STEP_BITS, ordered & ((1 << STEP_BITS) - 1)])
    shape = (len(keys), len(run.ranks))

    def grid_of(name: str) -> FloatGrid:
        cells = np.full(shape, np.nan)
        cells[rows, columns_index] = windows[name].to_numpy(dtype=float)
        return cells

    steps = grid_of("steps")
    to_step = np.zeros(len(keys), dtype=np.int64)
    np.maximum.at(to_step, rows, windows["to_step"].to_numpy(dtype=np.int64))
    time = {name: grid_of(column) / steps for name, column in TIMES.items()}
    for name in ("own", "wall"):
        # No step takes no time: a zero is a clock that did not answer.
        time[name] = np.where(time[name] > 0, time[name], np.nan)
    time["gc"] = garbage(run.ops, run.ranks, keys[:, 1])
    begun, ended = grid_of("start"), grid_of("end")
    start, end = _middle(begun), _middle(ended)
    samples = on_one_clock(run.samples, to_step, end)
    clocks = _row_medians((begun - start[:, None]).T)
    own = begun - clocks, ended - clocks
    told = telemetry(samples, run.ranks, (start + end) / 2, own)
    work = _work(*(grid_of(name) / steps for name in ("flops", "tokens") if name in windows))
    masked = _masked(windows, rows, keys[:, 1], to_step)
    answered = np.where(np.isfinite(time["own"]), (to_step - keys[:, 1])[:, None], 0)
    return Grid(
        run=run.name,
        ranks=with_models(samples, run.ranks),
        from_step=keys[:, 1],
        to_step=to_step,
        start=start,
        end=end,
        time=time,
        signals=told.signals,
        last=told.last,
        last_time=told.last_time,
        scraped_until=told.scraped_until,
        masked=masked,
        coverage=_coverage(keys, to_step, answered, masked),
        missing=(*run.missing, *_silent(time["own"], run.ranks, told)),
        meta=run.meta,
        down_since=told.down_since,
        work=None if work is None else _row_medians(work),
        work_by_rank=work,
        scrape_seconds=told.scrape_seconds,
        versions=versions(samples, run.ranks, (start + end) / 2),
    )


def _work(*measures: FloatGrid) -> FloatGrid | None:
    """(W, R) of the measure that most ranks tell, the first of equals; NaN where it is not."""
    told = [np.where(np.isfinite(each) & (each > 0), each, np.nan) for each in measures]
    ranks = [int(np.isfinite(each).any(axis=0).sum()) for each in told]
    return told[ranks.index(max(ranks))] if any(ranks) else None


def _row_medians(cells: FloatGrid) -> FloatGrid:
    each = [row[np.isfinite(row)] for row in cells]
    return np.array([np.median(row) if row.size else np.nan for row in each])


def _middle(cells: FloatGrid) -> FloatGrid:
    """(W,) median over the ranks that answered; every window has at least one."""
    if cells.size == 0:
        return np.zeros(len(cells))
    middle: FloatGrid = np.nanmedian(cells, axis=1)
    return middle


def _masked(
    windows: pd.DataFrame,
    rows: NDArray[np.int64],
    from_step: NDArray[np.int64],
    to_step: NDArray[np.int64],
) -> NDArray[np.bool_]:
    masked = np.zeros(len(from_step), dtype=bool)
    tags = windows["tags"].to_numpy(dtype=str)
    masked[rows[tags != ""]] = True
    if len(from_step) and not np.any(np.char.find(tags, "warmup") >= 0):
        first = from_step[0]
        length = max(WARMUP_STEPS, WARMUP_SHARE * (to_step.max() - first))
        masked |= from_step < first + length
    return masked


def _coverage(
    keys: NDArray[np.int64],
    to_step: NDArray[np.int64],
    answered: NDArray[np.int64],
    masked: NDArray[np.bool_],
) -> float:
    """Steps of which own time is known over those that every rank did, over all attempts.

    Steps that are slow by design are no example and do not count, unless there are no others.
    """
    counts = ~masked if not masked.all() else masked
    steps = to_step - keys[:, 1]
    missed = 0
    for attempt in np.unique(keys[:, 0]):
        mine = keys[:, 0] == attempt
        missed += int(to_step[mine].max() - keys[mine, 1].min() - steps[mine].sum())
    expected = (int(steps[counts].sum()) + missed) * answered.shape[1]
    return float(answered[counts].sum() / expected) if expected else 0.0


def _silent(own: FloatGrid, ranks: tuple[RankInfo, ...], told: Telemetry) -> list[str]:
    words = []
    if len(own):
        gone = [
            str(info.rank) for column, info in enumerate(ranks) if np.isnan(own[:, column]).all()
        ]
        if gone:
            words.append(f"no step times of rank {', '.join(gone)}")
    unscraped = sorted(
        {
            info.node
            for info, until in zip(ranks, told.scraped_until, strict=True)
            if np.isnan(until)
        }
    )
    if unscraped:
        words.append(f"no telemetry of {', '.join(unscraped)}")
    return words
