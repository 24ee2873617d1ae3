"""What the hardware of each rank said before and during the trouble."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.report import blocks
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.queries import samples
from lockstep.analyzer.report.sections.checks import checks
from lockstep.analyzer.report.series import Spans, against_peers, by_row, medians, rest, shown
from lockstep.analyzer.shapes.run import FloatGrid, Grid
from lockstep.collector.contract import metrics
from lockstep.collector.contract.archive import SAMPLES_FILE
from lockstep.collector.contract.metrics import Metric


@dataclass(frozen=True, slots=True)
class Reading:
    """One column of the health table: a metric, and which of its label sets.

    `accumulates`: a counter of seconds; the Grid holds its rate, the report its total.
    """

    heading: str
    metric: Metric
    label: str
    unit: str
    accumulates: bool = False
    drawn: bool = False


READINGS: tuple[Reading, ...] = (
    Reading("temperature", metrics.GPU_TEMPERATURE, "", "celsius", drawn=True),
    Reading("SM clock", metrics.GPU_CLOCK, 'domain="sm"', "hertz", drawn=True),
    Reading("power", metrics.GPU_POWER, "", "watts"),
    Reading("throttled by heat", metrics.GPU_CLOCK_EVENT_SECONDS, "thermal", "seconds", True),
    Reading("throttled by power", metrics.GPU_CLOCK_EVENT_SECONDS, "power", "seconds", True),
    Reading("CPU held back by quota", metrics.RANK_THROTTLED, "", "seconds", True),
    Reading("ready without a processor", metrics.RANK_RUN_QUEUE, "", "seconds", True),
    Reading("CPU of the rank", metrics.TRAIN_CPU, "", "share"),
)


def health(grid: Grid, cut: Spans) -> Block:
    """The section on node health."""
    answered = [(each, values) for each in READINGS if (values := signal(grid, each)) is not None]
    charts = [
        block
        for reading, values in answered
        if reading.drawn
        for block in against_peers(
            grid, cut, values, title=f"GPU {reading.heading}", unit=reading.unit,
            what=f"GPU {reading.heading}", source=_source(reading),
        )
    ]  # fmt: skip
    return blocks.section(
        "health",
        "Node health",
        [
            blocks.text("No hardware telemetry answered.") if not answered else None,
            *checks(grid),
            *charts,
            *_table(grid, cut, answered),
        ],
    )


def _source(reading: Reading) -> str:
    return f"{SAMPLES_FILE}: {samples(reading.metric, reading.label)}"


def _table(
    grid: Grid, cut: Spans, answered: list[tuple[Reading, FloatGrid]]
) -> tuple[Block | None, Block | None]:
    # What never throttled stands in the checks.
    answered = [(r, values) for r, values in answered
                if not r.accumulates or np.nan_to_num(values).any()]  # fmt: skip
    if not answered:
        return None, None
    spans = {"whole run": cut.during} if cut.onset is None else None
    spans = spans or {"before": cut.before, "during": cut.during}
    columns = {"rank": "", "node": "", "gpu": "", "when": ""}
    columns |= {reading.heading: reading.unit for reading, _ in answered}
    cells = {
        when: [
            _totals(grid, values, windows) if reading.accumulates else medians(values, windows)
            for reading, values in answered
        ]
        for when, windows in spans.items()
    }
    by = cells[next(reversed(spans))][0]
    picked = shown(cut, by)
    rows = [
        [info.rank, info.node, info.gpu, when, *(column[position] for column in cells[when])]
        for position, info in ((position, grid.ranks[position]) for position in picked)
        for when in spans
    ]
    source = ", ".join(dict.fromkeys(reading.metric.name for reading, _ in answered))
    over = rest(cut, picked, by, answered[0][0].unit)
    return (
        blocks.table("Medians, and totals of throttled time", columns, rows,
                     source=f"{SAMPLES_FILE}: {source}"),
        blocks.text(f"By {answered[0][0].heading}: {over}") if over else None,
    )  # fmt: skip


def _totals(grid: Grid, rates: FloatGrid, windows: NDArray[np.bool_]) -> list[float | None]:
    """Rate per second times window length, summed; None where nothing answered."""
    durations = (grid.end - grid.start)[windows, np.newaxis]
    totals = by_row((rates[windows] * durations).T, np.nansum)
    return [float(each) if np.isfinite(each) else None for each in totals]


def signal(grid: Grid, reading: Reading) -> FloatGrid | None:
    """The metric's values summed over the label sets that were asked for, if any answered."""
    series = [
        values
        for key, values in grid.signals.items()
        if key.partition("{")[0] == reading.metric.name and reading.label in key
    ]
    if not reading.accumulates:
        series = series[:1]
    series = [values for values in series if np.isfinite(values).any()]
    if not series:
        return None
    silent = np.all([np.isnan(values) for values in series], axis=0)
    total: FloatGrid = np.where(silent, np.nan, np.nansum(series, axis=0))
    return total
