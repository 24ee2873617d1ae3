"""Ranks of a run: one row a rank, some of them over time, and their collectives."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.read.prometheus.promql import lasting, one_of, series, window
from lockstep.analyzer.read.prometheus.questions import own_per_step
from lockstep.analyzer.shapes.labels import number
from lockstep.analyzer.shapes.waits import all_known
from lockstep.analyzer.shapes.windows import PHASE_COLUMNS
from lockstep.analyzer.stragglers.peers import group_numbers, over_peers
from lockstep.collector.contract import metrics as m
from lockstep.dashboard.shapes import Floats, Matrix, Span
from lockstep.dashboard.sources.grid import Grid
from lockstep.dashboard.sources.prometheus.asking import Asking
from lockstep.dashboard.sources.prometheus.directory import MOST_SERIES, Member, sample

COLUMNS = (
    "rank", "node", "gpu", "uuid", "dp", "pp", "tp", "steps", "wall_seconds", "own_seconds",
    "slowdown", "wait_share", *PHASE_COLUMNS,
)  # fmt: skip
MOST_SAMPLES = 2_000_000
"""Samples of one counter that are read for one look; of more ranks a shorter time."""
UNTIMED = "a collective of theirs was not timed; lockstep.recorder() times them"
MOST_PHASES = 2048
"""Ranks of which the phases are asked: eight series each."""


def ranks(
    asking: Asking, run: str, members: Sequence[Member], span: Span, scrape: float
) -> pd.DataFrame:
    """protocol.Source.ranks: means over the end of the span, not medians; `attrs["note"]` says it.

    Args:
        asking: The Prometheus.
        run: The run.
        members: Its ranks.
        span: Where to look.
        scrape: Seconds between two scrapes.
    """
    longest = max(4 * scrape, MOST_SAMPLES / max(1, len(members)) * scrape)
    seconds = min(max(span.seconds, 4 * scrape), longest)
    mine, back = series("", run=run), lasting(seconds)

    def of(metric: m.Metric, by: str = "rank") -> list[tuple[Mapping[str, str], float]]:
        query = f"sum by ({by}) (increase({metric.name}{mine}[{back}]))"
        return asking.instant(query, span.end)

    def column(metric: m.Metric) -> pd.Series:
        rows = {number(labels, "rank"): value for labels, value in of(metric)}
        return pd.Series({rank: rows.get(rank, np.nan) for rank in index}, dtype=float)

    index = [member.rank for member in members]
    steps = column(m.TRAIN_STEPS).where(lambda count: count > 0)
    known = all_known(column(m.TRAIN_KNOWN_STEPS).to_numpy(), steps.to_numpy())
    own = (column(m.TRAIN_OWN) / steps).where(known)
    # Where not every collective was timed, their time is not known, either.
    waits = (column(m.TRAIN_COLLECTIVE) / steps).where(known)
    place = {rank: row for row, rank in enumerate(index)}
    seconds_of = np.full((len(index), len(PHASE_COLUMNS)), np.nan)
    if len(index) <= MOST_PHASES:
        for labels, value in of(m.TRAIN_PHASE, "rank, phase"):
            rank, name = number(labels, "rank"), f"{labels.get('phase')}_seconds"
            if name in PHASE_COLUMNS and rank in place:
                seconds_of[place[rank], PHASE_COLUMNS.index(name)] = value
    phases = pd.DataFrame(seconds_of, index, list(PHASE_COLUMNS)).div(steps, axis=0)
    # Without phases: a step is own time and collectives (contract TRAIN_OWN).
    wall = phases.sum(axis=1, min_count=len(PHASE_COLUMNS)).fillna(own + waits)
    frame = pd.DataFrame(
        {
            "rank": index,
            "node": [member.node for member in members],
            "gpu": pd.array([member.gpu for member in members], dtype="Int32"),
            "uuid": [member.uuid for member in members],
            **{name: [getattr(member, name) for member in members] for name in ("dp", "pp", "tp")},
            "steps": steps.fillna(0).round().astype(int).to_numpy(),
            "wall_seconds": wall.to_numpy(),
            "own_seconds": own.to_numpy(),
            "wait_share": (waits / wall).to_numpy(),
            **{name: phases[name].to_numpy() for name in PHASE_COLUMNS},
        }
    )
    frame["slowdown"] = over_peers(own.to_numpy(), _groups(members, np.isfinite(own.to_numpy())))
    frame = frame.sort_values("slowdown", ascending=False, kind="stable", ignore_index=True)
    frame = frame[list(COLUMNS)]
    note = f"means over the last {seconds:.0f} s of the range"
    if unknown := int(np.isnan(frame["own_seconds"]).sum()):
        note += f"; own time of {unknown:,} of {len(frame):,} ranks is unknown: {UNTIMED}"
    frame.attrs["note"] = note
    return frame


def rank_times(
    asking: Asking,
    run: str,
    members: Sequence[Member],
    grid: Grid,
    scrape: float,
    first: Sequence[int],
) -> Matrix:
    """Own time over that of the peers by window, of MOST_SERIES ranks.

    Args:
        asking: The Prometheus.
        run: The run.
        members: Its ranks.
        grid: The windows.
        scrape: Seconds between two scrapes.
        first: Ranks that must be among them, as the slowest.
    """
    wanted = set(first[: MOST_SERIES // 2])
    must = [member for member in members if member.rank in wanted]
    others = [member for member in members if member.rank not in wanted]
    chosen = sorted([*must, *sample(others, MOST_SERIES - len(must))], key=lambda one: one.rank)
    mine = series("", "rank=~" + one_of([str(one.rank) for one in chosen]), run=run)
    rate = window(grid.step, scrape)
    query = own_per_step(rate, mine)
    by_rank = {number(course.labels, "rank"): course.values for course in asking.over(query, grid)}
    nothing = np.full(len(grid.times), np.nan)
    values = np.stack([by_rank.get(one.rank, nothing) for one in chosen]) if chosen else _none(grid)
    values = over_peers(values.T, _groups(chosen, np.isfinite(values).any(axis=1))).T
    names = tuple(name(one) for one in chosen)
    return Matrix("Own time over peers", "ratio", names, grid.times, None, values)


def _groups(members: Sequence[Member], told: NDArray[np.bool_]) -> NDArray[np.int64]:
    return group_numbers([(member.pp, member.tp) for member in members], told)


def name(member: Member) -> str:
    """A rank for people."""
    gpu = "" if member.gpu is None else f", GPU {member.gpu}"
    return f"rank {member.rank} ({member.node}{gpu})"


def _none(grid: Grid) -> Floats:
    return np.empty((0, len(grid.times)))


# Collectives of a run: from NCCL's Inspector where it tells, else from the ranks' counters.

COLLECTIVE_COLUMNS = [
    "op", "group", "count", "bytes", "median_seconds", "p95_seconds", "total_seconds", "busbw",
    "late_rank", "late_seconds",
]  # fmt: skip
LONGEST = 6 * 3600.0
"""Seconds before the end that are read."""
ALL = "all operations"


def collectives(
    asking: Asking, run: str, members: Sequence[Member], span: Span, scrape: float
) -> pd.DataFrame:
    """protocol.Source.collectives; `late_rank` is who waits least (docs/method/waits.md)."""
    back = lasting(min(LONGEST, max(span.seconds, 4 * scrape)))
    rows = _counted(asking, run, members, span.end, back) + _inspected(asking, run, span.end, back)
    frame = pd.DataFrame(rows, columns=COLLECTIVE_COLUMNS).astype({"late_rank": "Int64"})
    return frame.sort_values("total_seconds", ascending=False, ignore_index=True)


def _counted(
    asking: Asking, run: str, members: Sequence[Member], at: float, back: str
) -> list[tuple[object, ...]]:
    """By group: seconds from arrival to completion, over the ranks that are asked."""
    ranks = "rank=~" + one_of([str(member.rank) for member in sample(members)])
    sums: list[dict[tuple[str, int], float]] = []
    for metric in (m.TRAIN_COLLECTIVE, m.TRAIN_COLLECTIVES):
        query = f"sum by (group, rank) (increase({series(metric.name, ranks, run=run)}[{back}]))"
        sums.append({
            (labels.get("group", ""), rank): value
            for labels, value in asking.instant(query, at)
            if (rank := number(labels, "rank")) is not None
        })  # fmt: skip
    seconds, counts = sums
    rows: list[tuple[object, ...]] = []
    for group in sorted({group for group, _ in counts}):
        mean = {
            rank: seconds.get((of, rank), np.nan) / count
            for (of, rank), count in counts.items()
            if of == group and count > 0
        }
        known = {rank: value for rank, value in mean.items() if np.isfinite(value)}
        if not known:
            continue
        values = np.array(list(known.values()))
        late = min(known, key=lambda rank: known[rank])
        count = max(value for (of, _), value in counts.items() if of == group)
        total = max(value for (of, _), value in seconds.items() if of == group)
        behind = float(np.median(values) - known[late])
        middle, high = np.quantile(values, (0.5, 0.95)).tolist()
        rows.append(
            (ALL, group, round(count), np.nan, middle, high, total, np.nan, late, behind)
        )  # fmt: skip
    return rows


def _inspected(asking: Asking, run: str, at: float, back: str) -> list[tuple[object, ...]]:
    by = "op, group, size_bucket"

    def instant(query: str) -> dict[tuple[str, str, str], float]:
        return {
            (labels.get("op", ""), labels.get("group", ""), labels.get("size_bucket", "")): value
            for labels, value in asking.instant(query, at)
        }

    def grown(metric: m.Metric) -> dict[tuple[str, str, str], float]:
        return instant(f"sum by ({by}) (increase({series(metric.name, run=run)}[{back}]))")

    counts = grown(m.NCCL_COLLECTIVES)
    if not counts:
        return []
    sizes = grown(m.NCCL_BYTES)
    bandwidth = instant(f"avg by ({by}) ({series(m.NCCL_BUS_BANDWIDTH.name, run=run)})")
    whole_name = m.NCCL_DURATION.name
    buckets = (
        f"sum by (le, op, group) (increase({series(whole_name + '_bucket', run=run)}[{back}]))"
    )
    middle, high = (instant(f"histogram_quantile({q}, {buckets})") for q in (0.5, 0.95))
    rows: list[tuple[object, ...]] = []
    for (op, group, size), count in counts.items():
        if count <= 0:
            continue
        median = middle.get((op, group, ""), np.nan)
        rows.append((
            op, group, round(count), sizes.get((op, group, size), np.nan) / count, median,
            high.get((op, group, ""), np.nan), median * count,
            bandwidth.get((op, group, size), np.nan), None, np.nan,
        ))  # fmt: skip
    return rows
