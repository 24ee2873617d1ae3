"""Run -> Grid: windows and telemetry on the same axes (window, rank), gaps left as NaN."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.align.telemetry import Telemetry, telemetry
from lockstep.analyzer.align.versions import versions, with_models
from lockstep.analyzer.shapes.run import FloatGrid, Grid, RankInfo, Run
from lockstep.analyzer.shapes.windows import PHASE_COLUMNS
from lockstep.collector.contract.metrics import GPU_XID_LAST, TRAIN_STEPS

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
    """(W, R) of the measure that most ranks report, the first of equals; NaN where it is not."""
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


def _silent(own: FloatGrid, ranks: tuple[RankInfo, ...], scraped: Telemetry) -> list[str]:
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
            for info, until in zip(ranks, scraped.scraped_until, strict=True)
            if np.isnan(until)
        }
    )
    if unscraped:
        words.append(f"no telemetry of {', '.join(unscraped)}")
    return words


# Where a node's own clock is wrong, its samples get the clock of the run's steps: they say how many
# steps its ranks had done, and all ranks end a synchronous step together, so the moment at which
# the run had done as many is what the sample's time should be.

READ_SECONDS = 2.0
"""By which a sample may be older than its scrape (collector.config, fast_period) and a step's end
may be reported early or late: less than this, beside the step itself, is no wrong clock."""
LEAST, AGREE = 5, 0.8
"""Scrapes of a node, and the share of samples that must report the same error: a counter that is
stuck or began elsewhere is no clock."""
MOST_SECONDS = 600.0
"""A clock that is wrong by more is no clock that drifted: the counter is another one."""
MOMENTS = (GPU_XID_LAST.name,)
"""Gauges whose value is a moment by the node's clock."""


def on_one_clock(samples: pd.DataFrame, to_step: NDArray[np.int64], end: FloatGrid) -> pd.DataFrame:
    """The samples, those of nodes whose clock is wrong with their times mended.

    Args:
        samples: contract.archive.SAMPLES.
        to_step: (W,) steps done by the end of each window.
        end: (W,) unix seconds.
    """
    if len(to_step) < 2 or (np.diff(to_step) <= 0).any() or not np.isfinite(end).all():
        return samples
    told = samples[(samples["metric"] == TRAIN_STEPS.name).to_numpy(dtype=bool)]
    told = told.sort_values("time")
    done = told["value"].to_numpy(dtype=float)
    restarted = set(told["node"][told.groupby("rank")["value"].diff() < 0])
    within = (done >= to_step[0]) & (done < to_step[-1])
    told, done = told[within], done[within]
    if told.empty:
        return samples
    begun, over = (np.interp(done + more, to_step, end) for more in (0.0, 1.0))
    ahead = pd.DataFrame({
        "node": told["node"].to_numpy(dtype=object),
        "scrape": told["time"].to_numpy(dtype=float),
        "ahead": told["time"].to_numpy(dtype=float) - (begun + over) / 2.0,
        "slack": (over - begun) / 2.0,
    })  # fmt: skip
    nodes = ahead.groupby("node").agg(ahead=("ahead", "median"), count=("scrape", "nunique"))
    slack = ahead["slack"] + READ_SECONDS
    ahead["agrees"] = (ahead["ahead"] - ahead["node"].map(nodes["ahead"])).abs() <= slack
    nodes["agree"] = ahead.groupby("node")["agrees"].mean()
    nodes["slack"] = ahead.groupby("node")["slack"].median() + READ_SECONDS
    nodes["ahead"] -= nodes["ahead"].median()
    clear = (nodes["count"] >= LEAST) & (nodes["agree"] >= AGREE) & ~nodes.index.isin(restarted)
    size = nodes["ahead"].abs()
    wrong = nodes.loc[clear & (size > nodes["slack"]) & (size <= MOST_SECONDS), "ahead"]
    if wrong.empty:
        return samples
    error = samples["node"].astype(object).map(wrong).fillna(0.0).to_numpy(dtype=float)
    value = samples["value"].to_numpy(dtype=float)
    moments = samples["metric"].isin(MOMENTS).to_numpy(dtype=bool)
    return samples.assign(
        time=samples["time"].to_numpy(dtype=float) - error,
        value=np.where(moments, value - error, value),
    )


GARBAGE = "gc"
"""The operation of contract.words.OPS."""


def garbage(
    ops: pd.DataFrame | None, ranks: Sequence[RankInfo], from_step: NDArray[np.int64]
) -> FloatGrid:
    """(W, R) seconds per step; NaN where nobody reported.

    A run in which no rank ever reported a collection does not record them. Windows of a length
    other than one step, or of several attempts, are not distinguished: all NaN.

    Args:
        ops: contract.archive.OPS, or None.
        ranks: The columns.
        from_step: (W,) first step of each window of one step, ascending.
    """
    cells = np.full((len(from_step), len(ranks)), np.nan)
    if ops is None or not len(from_step) or (np.diff(from_step) != 1).any():
        return cells
    collections = ops[ops["optype"] == GARBAGE]
    if collections.empty:
        return cells
    column_of = {info.rank: column for column, info in enumerate(ranks)}
    for rank, steps in ops.groupby("rank")["step"].agg(["min", "max"]).iterrows():
        column = column_of.get(int(str(rank)))
        if column is not None:
            told = (from_step >= steps["min"]) & (from_step <= steps["max"])
            cells[told, column] = 0.0
    columns = collections["rank"].map(column_of)
    rows = collections["step"].to_numpy(dtype=np.int64) - from_step[0]
    known = columns.notna().to_numpy() & (rows >= 0) & (rows < len(from_step))
    place = rows[known], columns[known].to_numpy(dtype=np.int64)
    np.add.at(cells, place, collections["duration"].to_numpy(dtype=float)[known])
    return cells
