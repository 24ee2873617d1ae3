"""A run beside its baseline: only what differs, with an interval; the rest is counted."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.report import blocks, figures
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.sections.health import READINGS, signal
from lockstep.analyzer.report.sections.training import per_second
from lockstep.analyzer.report.series import by_row, spans
from lockstep.analyzer.shapes.run import FloatGrid, Grid, Run
from lockstep.analyzer.stats.changepoint import BLOCKS_AT_MOST, OUTSIDE_AT_LEAST
from lockstep.collector.contract.words import PHASES

if TYPE_CHECKING:
    from lockstep.analyzer.verdict.pipeline import Diagnosis


NOT_COMPARED = ("schema_version", "run", "id", "started", "ended", "command", "clock", "recording",
                "spec.run", "outcome", "measured_peak_flops")  # fmt: skip
"""Of run.json: what differs between any two runs."""


def differing(
    there: Mapping[str, Any], here: Mapping[str, Any]
) -> list[tuple[str, str | None, str | None]]:
    """Path as `spec.layout.dp`, value there, value here; None = it is not said there."""
    old, new = dict(_flat(there)), dict(_flat(here))
    keys = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    return [(key, old.get(key), new.get(key)) for key in keys]


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        name = f"{above}{key}"
        if name in NOT_COMPARED:
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            yield name, str(value)


STEPS_AT_LEAST = OUTSIDE_AT_LEAST
"""Of either series: fewer say nothing of their noise."""
RESAMPLES = 2000
WORTH_TELLING = 0.01
"""A certain difference of less than 1 % is not told."""


def ratio(values: FloatGrid, other: FloatGrid) -> tuple[float, float, float] | None:
    """The ratio of the medians and its 95 % interval; None with too few steps, or zeros.

    Args:
        values: (T,) finite values in the order of their steps.
        other: (U,) the values to hold them against.
    """
    if min(len(values), len(other)) < STEPS_AT_LEAST or not (
        np.median(other) and np.median(values)
    ):
        return None
    dice = np.random.default_rng(0)
    ratios = _resampled(values, dice) / _resampled(other, dice)
    if not np.isfinite(ratios).all():
        return None
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(np.median(values) / np.median(other)), float(low), float(high)


def middles(values: FloatGrid) -> FloatGrid:
    """(B,) medians of at most BLOCKS_AT_MOST groups of neighbouring steps.

    Steps beside each other are not independent; groups of them nearly are.
    """
    groups = np.array_split(values, min(BLOCKS_AT_MOST, len(values)))
    return np.array([np.median(group) for group in groups])


def _resampled(values: FloatGrid, dice: np.random.Generator) -> FloatGrid:
    """(RESAMPLES,) medians over groups that were drawn with repeats."""
    middle = middles(values)
    drawn: NDArray[np.int64] = dice.integers(len(middle), size=(RESAMPLES, len(middle)))
    medians: FloatGrid = np.median(middle[drawn], axis=1)
    return medians


MOST_KEYS = 40
HOW = (
    "Medians over steps that are not slow by design; of this run only the steps of the trouble,"
    " if there is one. 95 % intervals by a bootstrap over groups of neighbouring steps."
)


def comparison(diagnosis: "Diagnosis", baseline: "Diagnosis") -> Block:
    """The section on the difference between two runs.

    Args:
        diagnosis: This run.
        baseline: The run to hold it against.
    """
    here, there = _measures(diagnosis), _measures(baseline)
    rows: list[list[Any]] = []
    alike, unsure = list[str](), list[str]()
    for name in (name for name in here if name in there):
        compared = ratio(here[name][0], there[name][0])
        if compared is None:
            unsure.append(name)
            continue
        middle, low, high = compared
        if low <= 1.0 <= high or abs(middle - 1.0) < WORTH_TELLING:
            alike.append(name)
            continue
        unit = here[name][1]
        values = (
            figures.cell(float(np.median(measures[name][0])), unit) for measures in (there, here)
        )
        rows.append([name, *values, middle - 1.0, low - 1.0, high - 1.0])
    rows.sort(key=lambda row: -abs(row[3]))
    this_run = f"this run ({diagnosis.run.name})"
    baseline_run = f"baseline ({baseline.run.name})"
    columns = {"what": "", baseline_run: "", this_run: "", "difference": "percentage",
               "at least": "percentage", "at most": "percentage"}  # fmt: skip
    return blocks.section(
        "comparison",
        "Against the baseline",
        [
            blocks.text(HOW),
            blocks.table("What differs", columns, rows,
                         source="steps.parquet and samples.parquet of both archives"),
            blocks.text("Nothing that was measured differs.") if alike and not rows else None,
            blocks.text(_rest(alike, unsure)) if alike or unsure else None,
            *_loss(diagnosis.run, baseline.run),
            blocks.table("Configuration that differs", {"what": "", baseline_run: "", this_run: ""},
                         _settings(baseline.run.meta, diagnosis.run.meta), source="run.json"),
            _nodes(diagnosis.grid, baseline.grid),
        ],
    )  # fmt: skip


def _measures(diagnosis: "Diagnosis") -> dict[str, tuple[FloatGrid, str]]:
    """Name -> (values by window, NaN left out, and their unit)."""
    return {
        name: (values[np.isfinite(values)], unit)
        for name, values, unit in _series(diagnosis)
        if np.isfinite(values).any()
    }


def _series(diagnosis: "Diagnosis") -> Iterator[tuple[str, FloatGrid, str]]:
    run, grid = diagnosis.run, diagnosis.grid
    chosen = spans(grid, diagnosis.verdict).during
    for name, what in (("wall", "step time"), ("own", "own time, slowest rank"),
                       ("collective", "waiting in collectives")):  # fmt: skip
        reduce = np.nanmax if name == "own" else np.nanmedian
        yield what, by_row(grid.time[name], reduce)[chosen], "seconds"
    for column, what, unit in (("tokens", "tokens", "per second"),
                               ("flops", "model FLOPs", "flops")):  # fmt: skip
        if column in run.windows and np.nan_to_num(run.windows[column].to_numpy(float)).any():
            yield what, per_second(run, grid, column)[chosen], unit
    for phase in PHASES:
        values = grid.time.get(phase)
        if values is not None and np.nan_to_num(values).any():
            yield f"phase {phase}", by_row(values, np.nanmedian)[chosen], "seconds"
    for reading in READINGS:
        values = signal(grid, reading)
        if values is not None and not reading.accumulates:
            unit = reading.unit
            yield reading.heading, by_row(values, np.nanmedian)[chosen], unit


def _rest(alike: list[str], unsure: list[str]) -> str:
    parts = [f"No certain difference: {', '.join(sorted(alike))}"] if alike else []
    parts += [f"too few steps to compare: {', '.join(sorted(unsure))}"] if unsure else []
    words = "; ".join(parts)
    return f"{words[0].upper()}{words[1:]}."


def _loss(run: Run, baseline: Run) -> list[Block | None]:
    """The loss where both have seen as many tokens: does the model learn as it did?"""
    course, base_course = _course(run), _course(baseline)
    if course is None or base_course is None:
        return []
    tokens = min(course[0][-1], base_course[0][-1])
    here, there = (float(np.interp(tokens, *curve)) for curve in (course, base_course))
    words = f"After {figures.cell(tokens, 'count')} tokens the loss is"
    words += f" {figures.cell(here, 'nats')}, the baseline's {figures.cell(there, 'nats')}."
    return [blocks.text(words)]


def _course(run: Run) -> tuple[FloatGrid, FloatGrid] | None:
    """(tokens seen, loss), smoothed over a twentieth of the steps."""
    steps = run.windows.groupby("from_step").agg({"tokens": "sum", "loss": "mean"})
    tokens = steps["tokens"].cumsum()
    loss = steps["loss"].rolling(max(1, len(steps) // 20), min_periods=1).mean()
    known = loss.notna() & (tokens > 0)
    if not known.any():
        return None
    return tokens[known].to_numpy(np.float64), loss[known].to_numpy(np.float64)


def _settings(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[list[str]]:
    rows = [
        [key, figures.cell(old, ""), figures.cell(new, "")]
        for key, old, new in differing(there, here)
    ]
    more = len(rows) - MOST_KEYS
    return rows[:MOST_KEYS] + ([[f"{more} more", "", ""]] if more > 0 else [])


def _nodes(here: Grid, there: Grid) -> Block | None:
    new = sorted({info.node for info in here.ranks} - {info.node for info in there.ranks})
    old = sorted({info.node for info in there.ranks} - {info.node for info in here.ranks})
    rows = [
        [what, len(names), ", ".join(names[:8]) + (", …" if len(names) > 8 else "")]
        for what, names in (("only in this run", new), ("only in the baseline", old))
        if names
    ]
    return blocks.table("Nodes that differ", {"": "", "nodes": "count", "which": ""}, rows,
                        source="ranks.parquet")  # fmt: skip
