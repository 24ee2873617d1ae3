"""Values of ranks over steps, before and during the trouble: which are shown, as lines and bands.

Lines are thinned so that no spike is lost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.report import blocks, figures
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.shapes.run import FloatGrid, Grid, Verdict


@dataclass(frozen=True, slots=True)
class Spans:
    """Windows by the first culprit's steps.

    Without a culprit, or where the run ended at the onset, every window is `during`.

    Attributes:
        before, during: (W,) masks; windows that are slow by design are in neither.
        culprits: Columns of the culprits' ranks.
        peers: Columns of all others.
        onset: Step at which the trouble began, or None where nothing came after.
    """

    before: NDArray[np.bool_]
    during: NDArray[np.bool_]
    culprits: tuple[int, ...]
    peers: tuple[int, ...]
    onset: int | None


def spans(grid: Grid, verdict: Verdict) -> Spans:
    """Cuts a Grid by its verdict."""
    ranks = {info.rank: column for column, info in enumerate(grid.ranks)}
    guilty = {culprit.rank for culprit in verdict.culprits} | {
        info.rank
        for info in grid.ranks
        for culprit in verdict.culprits
        if culprit.rank is None and culprit.node == info.node
    }
    culprits = tuple(column for rank, column in ranks.items() if rank in guilty)
    open_windows = ~grid.masked
    first = verdict.culprits[0] if verdict.culprits else None
    onset = first.from_step if first else None
    if first is None or onset is None:
        before, during = np.zeros_like(open_windows), open_windows
    else:
        end = np.inf if first.to_step is None else first.to_step
        before = open_windows & (grid.to_step <= onset)
        during = open_windows & (grid.from_step >= onset) & (grid.from_step < end)
        if not during.any():
            # The run stopped there: nothing was slow, and what there is, is the whole run.
            before, during, onset = np.zeros_like(open_windows), open_windows, None
    peers = tuple(column for column in ranks.values() if column not in culprits)
    return Spans(before, during, culprits, peers, onset)


def median(values: FloatGrid) -> float | None:
    """Median of what answered, or None."""
    answered = values[np.isfinite(values)]
    return float(np.median(answered)) if answered.size else None


def by_row(values: FloatGrid, reduce: Callable[..., FloatGrid]) -> FloatGrid:
    """(W, R) values reduced over the ranks that answered, NaN where none did.

    Args:
        values: NaN = did not answer.
        reduce: A function of numpy that leaves NaN out, such as `np.nanmedian`.
    """
    answered = np.isfinite(values).any(axis=1)
    reduced = np.full(len(values), np.nan)
    # numpy warns about rows in which nothing answered; here that is an ordinary gap.
    if answered.any():
        reduced[answered] = reduce(values[answered], axis=1)
    return reduced


def medians(values: FloatGrid, windows: NDArray[np.bool_]) -> list[float | None]:
    """(W, R) values -> the median of each rank over the chosen windows."""
    chosen = by_row(values[windows].T, np.nanmedian)
    return [float(value) if np.isfinite(value) else None for value in chosen]


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


MOST_ROWS = 16
MOST_CULPRITS = 8


def shown(cut: Spans, values: FloatGrid | Sequence[float | None]) -> list[int]:
    """At most MOST_ROWS columns, in order: culprits, then those farthest from the median.

    Args:
        cut: Who the culprits are.
        values: (R,) what the ranks are compared by; NaN or None = did not answer, which is shown
            first: who is silent matters.
    """
    levels = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    if len(levels) <= MOST_ROWS:
        return list(range(len(levels)))
    picked = list(cut.culprits[:MOST_CULPRITS])
    known = levels[np.isfinite(levels)]
    far = np.abs(levels - (np.median(known) if known.size else 0.0))
    far = np.where(np.isfinite(far), far, np.inf)
    others = [int(column) for column in np.argsort(-far, kind="stable") if column not in picked]
    return sorted(picked + others[: MOST_ROWS - len(picked)])


def rest(
    cut: Spans, picked: Sequence[int], values: FloatGrid | Sequence[float | None], unit: str
) -> str | None:
    """A sentence on the ranks that are not shown; None where all are."""
    left = [value for column, value in enumerate(values) if column not in set(picked)]
    if not left:
        return None
    known = [value for value in left if value is not None and np.isfinite(value)]
    guilty = sum(column not in set(picked) for column in cut.culprits)
    words = f"{len(left)} more ranks are not listed"
    words += f", {guilty} of them culprits" if guilty else ""
    if known:
        low, high = (figures.cell(float(bound), unit) for bound in (min(known), max(known)))
        words += f"; theirs lie between {low} and {high}"
    return f"{words}."
