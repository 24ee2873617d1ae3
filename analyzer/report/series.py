"""Values over steps as lines and bands for charts: thinned so that no spike is lost."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.report import blocks
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.spans import Spans, by_row
from lockstep.analyzer.shapes.run import FloatGrid, Grid

MAX_BUCKETS = 200
TWIN_ROWS = 24
MOST_LINES = 4
"""Culprits that are drawn; more lines cannot be told apart."""


def against_peers(
    grid: Grid,
    cut: Spans,
    values: FloatGrid,
    *,
    title: str,
    unit: str,
    what: str,
    source: str,
    marks: Sequence[Mapping[str, Any]] = (),
) -> tuple[Block | None, Block | None]:
    """Culprits as lines over the band of their peers, and the table twin.

    Args:
        grid: Gives the steps.
        cut: Which ranks are culprits.
        values: (W, R), NaN = did not answer.
        title: Of the chart.
        unit: Of the values.
        what: What the values are, as the subject of the text alternative.
        source: Where they come from (report.queries).
        marks: Vertical marks beside the onset (report.blocks.lines).

    Returns:
        Chart and table, None where nothing answered.
    """
    # Steps that are slow by design would hide what is slow by fault.
    answered = np.isfinite(values).any(axis=1) & ~grid.masked
    if not answered.any():
        return None, None
    step, shown = grid.from_step[answered], values[answered]
    middle = by_row(shown[:, list(cut.peers)], np.nanmedian)
    culprits = list(cut.culprits[:MOST_LINES])
    names = [f"rank {grid.ranks[column].rank}" for column in culprits]
    drawn = [
        _line(name, "culprit", step, shown[:, column])
        for name, column in zip(names, culprits, strict=True)
    ]
    if cut.peers:
        drawn.append(_line("median of peers" if names else "median", "peers", step, middle))
    low = by_row(shown[:, list(cut.peers)], np.nanmin)
    high = by_row(shown[:, list(cut.peers)], np.nanmax)
    onset = [] if cut.onset is None else [{"step": cut.onset, "label": "onset"}]
    chart = blocks.lines(
        title,
        f"{what} over steps {step[0]} to {step[-1]}"
        + (f": {', '.join(names)} against the range of the other ranks." if names else "."),
        unit,
        drawn,
        band=_band("range of peers" if names else "range of ranks", step, low, high),
        marks=[*onset, *marks],
        source=source,
    )
    columns = {"step": "count", **dict.fromkeys(names, unit)}
    columns |= {"peers' median": unit, "peers' lowest": unit, "peers' highest": unit}
    picked = np.unique(np.linspace(0, len(step) - 1, TWIN_ROWS).astype(int))
    rows = [
        [
            int(step[i]),
            *known(shown[i, culprits]),
            *known(np.array([middle[i], low[i], high[i]])),
        ]
        for i in picked
    ]
    return chart, blocks.table(f"{title}: values", columns, rows, collapsed=True)


def known(values: FloatGrid) -> list[float | None]:
    """An array as a list with None for what did not answer, rounded to 6 significant digits."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values]


def _line(label: str, role: str, step: NDArray[np.int64], values: FloatGrid) -> Block:
    picked = thinned(values)
    return blocks.line(label, role, [int(each) for each in step[picked]], known(values[picked]))


def _band(label: str, step: NDArray[np.int64], low: FloatGrid, high: FloatGrid) -> Block | None:
    edges = _buckets(len(step))
    lows = [float(_extreme(low[a:b], np.nanmin)) for a, b in edges]
    highs = [float(_extreme(high[a:b], np.nanmax)) for a, b in edges]
    if not np.isfinite(lows).any():
        return None
    return {
        "label": label,
        "x": [int(step[a]) for a, _ in edges],
        "low": known(np.array(lows)),
        "high": known(np.array(highs)),
    }


def _buckets(count: int) -> list[tuple[int, int]]:
    edges = np.unique(np.linspace(0, count, min(count, MAX_BUCKETS) + 1).astype(int))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def thinned(values: FloatGrid) -> list[int]:
    """Positions of the lowest and the highest value of each bucket, in order."""
    picked: set[int] = set()
    for begin, end in _buckets(len(values)):
        part = values[begin:end]
        if np.isfinite(part).any():
            picked |= {begin + int(np.nanargmin(part)), begin + int(np.nanargmax(part))}
        else:
            picked.add(begin)  # a gap stays a gap
    return sorted(picked)


def _extreme(row: FloatGrid, reduce: Callable[[FloatGrid], Any]) -> float:
    # numpy warns about rows in which nothing answered; here that is an ordinary gap.
    return float(reduce(row)) if np.isfinite(row).any() else np.nan
