"""Who is late: own time, phases and waiting of each rank, before and during the trouble."""

from collections.abc import Mapping

import numpy as np

from lockstep.analyzer.report import blocks
from lockstep.analyzer.report.blocks import Block
from lockstep.analyzer.report.queries import Sources
from lockstep.analyzer.report.series import MOST_ROWS, Spans, known, median, medians, rest, shown
from lockstep.analyzer.shapes.run import FloatGrid, Grid, Verdict
from lockstep.analyzer.stats.peer_groups import peer_groups
from lockstep.collector.contract.words import PHASES


def lateness(grid: Grid, cut: Spans, sources: Sources, verdict: Verdict) -> Block:
    """The section on who is late; its chart over the steps stands at a glance (`summary`)."""
    own = grid.time["own"]
    picked = _picked(grid, cut)
    over = rest(cut, picked, medians(own, cut.during), "seconds")
    phases = _phases(grid, cut, sources.phases())
    waits = _waits(grid, cut, picked, sources.waits())
    return blocks.section(
        "lateness",
        "Who is late",
        [
            blocks.text(
                "Own time is the part of a step that a rank spends outside collectives. Wall time"
                " does not show who is late: in lockstep everyone's step is as long as the slowest"
                " rank's. The late rank has the longest own time and waits least."
            ),
            *heat(grid, cut, sources.own()),
            _by_rank(grid, cut, picked, sources.own(), _slowdowns(verdict)),
            blocks.text(over) if over else None,
            *phases,
            *waits,
        ],
    )


def _picked(grid: Grid, cut: Spans) -> list[int]:
    return shown(cut, against_stratum(grid, cut))


def _slowdowns(verdict: Verdict) -> dict[int, float]:
    """Rank -> its slowdown as the verdict has it: one number for one thing."""
    pairs = ((culprit.rank, culprit.slowdown) for culprit in verdict.culprits)
    return {rank: slow for rank, slow in pairs if rank is not None and slow is not None}


def _by_rank(
    grid: Grid, cut: Spans, picked: list[int], source: str, slowdowns: Mapping[int, float]
) -> Block | None:
    own, wait = grid.time["own"], grid.time.get("collective")
    before, during = medians(own, cut.before), medians(own, cut.during)
    waits: list[float | None] = [None] * len(grid.ranks)
    if wait is not None:
        waits = medians(wait, cut.during)
    columns = {"rank": "", "node": "", "gpu": "", "own time before": "seconds"}
    columns |= {"own time during": "seconds", "slowdown": "ratio", "waits": "seconds", "named": ""}
    rows = [
        [
            info.rank,
            info.node,
            info.gpu,
            before[column],
            during[column],
            slowdowns.get(info.rank),
            waits[column],
            "culprit" if column in cut.culprits else "",
        ]
        for column, info in ((column, grid.ranks[column]) for column in picked)
    ]
    if cut.onset is None:
        # Without an onset there is no before.
        kept = [0, 1, 2, 4, 6]
        names = list(columns.items())
        columns = {"own time" if i == 4 else names[i][0]: names[i][1] for i in kept}
        rows = [[row[i] for i in kept] for row in rows]
    return blocks.table("Ranks, medians per step", columns, rows, source=source)


def _phases(grid: Grid, cut: Spans, source: str) -> tuple[Block | None, Block | None]:
    if not cut.culprits or not cut.peers:
        return None, None
    column = cut.culprits[0]
    rows: dict[str, list[float | None]] = {}
    for phase in PHASES:
        values = grid.time.get(phase)
        if values is None:
            continue
        pair = [
            median(values[cut.during, column]),
            median(values[cut.during][:, list(cut.peers)]),
        ]
        if any(pair):
            rows[phase.value] = pair
    names = [f"rank {grid.ranks[column].rank}", "median of peers"]
    title = "Phases of a step"
    chart = blocks.bars(
        title,
        f"Seconds per step in each phase, {names[0]} beside the median of its peers.",
        "seconds",
        dict(zip(names, ("culprit", "peers"), strict=True)),
        rows,
        source=source,
    )
    columns = {"phase": "", **dict.fromkeys(names, "seconds"), "ratio": "ratio"}
    twin = [[phase, *pair, _over(*pair)] for phase, pair in rows.items()]
    return chart, blocks.table(f"{title}, medians", columns, twin)


def _waits(
    grid: Grid, cut: Spans, picked: list[int], source: str
) -> tuple[Block | None, Block | None]:
    wait = grid.time.get("collective")
    if wait is None:
        return None, None
    spans = {"during": cut.during} if cut.onset is None else None
    spans = spans or {"before": cut.before, "during": cut.during}
    by_span = [medians(wait, windows) for windows in spans.values()]
    rows = {
        f"rank {info.rank}" + " (culprit)" * (column in cut.culprits): [
            values[column] for values in by_span
        ]
        for column, info in ((column, grid.ranks[column]) for column in picked)
    }
    if not any(value is not None for values in rows.values() for value in values):
        return None, None
    roles = {"before": "reference", "during": "peers"}
    title = "Waiting in collectives per step"
    chart = blocks.bars(
        title,
        "Seconds per step that each rank spends from arriving at collectives to their completion.",
        "seconds",
        {name: roles[name] for name in spans},
        rows,
        source=source,
    )
    columns = {"rank": "", **dict.fromkeys(spans, "seconds")}
    twin = [[label.removeprefix("rank "), *values] for label, values in rows.items()]
    return chart, blocks.table(f"{title}, medians", columns, twin, collapsed=True)


def _over(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


RANKS_AT_LEAST = 6
"""Fewer are told by the table beside."""
CELLS_AT_MOST = 4096
TITLE = "Own time against the median of the peers"


def heat(grid: Grid, cut: Spans, source: str) -> tuple[Block | None, Block | None]:
    """The map and its table twin, sorted; None for a few ranks, or for too many to draw."""
    if not RANKS_AT_LEAST <= len(grid.ranks) <= CELLS_AT_MOST:
        return None, None
    ratio = against_stratum(grid, cut)
    if not np.isfinite(ratio).any():
        return None, None
    stages = len({(info.pp, info.tp) for info in grid.ranks}) > 1
    names, across = (_stages(grid), "data-parallel replica") if stages else (_nodes(grid), "GPU")
    rows = list(dict.fromkeys(row for row, _ in names))
    columns = sorted({column for _, column in names})
    if min(len(rows), len(columns)) == 1 and len(names) <= MOST_ROWS:
        return None, None  # a strip tells no more than the table of ranks
    cells = np.full((len(rows), len(columns)), np.nan)
    places = [(rows.index(row), columns.index(column)) for row, column in names]
    for value, cell in zip(ratio.tolist(), places, strict=True):
        cells[cell] = value
    worst = int(np.nanargmax(ratio))
    info = grid.ranks[worst]
    chart = blocks.cells(
        TITLE,
        f"{'Stages' if stages else 'Nodes'} by {across}: the highest is rank {info.rank} on"
        f" {info.node} with {ratio[worst]:.2f}, the median rank has {np.nanmedian(ratio):.2f}."
        " Culprits are outlined.",
        "ratio",
        {row: known(cells[number]) for number, row in enumerate(rows)},
        [str(column) for column in columns],
        across=across,
        marked=[places[column] for column in cut.culprits],
        source=source,
    )
    order = np.argsort(-np.nan_to_num(ratio), kind="stable")[:MOST_ROWS]
    twin = [
        [grid.ranks[c].rank, grid.ranks[c].node, grid.ranks[c].gpu, *names[c], ratio[c]]
        for c in order.tolist()
    ]
    heads = {"rank": "", "node": "", "gpu": "", "row": "", across: "", "own time": "ratio"}
    return chart, blocks.table(f"{TITLE}: the highest", heads, twin, collapsed=True)


def against_stratum(grid: Grid, cut: Spans) -> FloatGrid:
    """(R,) own time during the trouble over the median of those who must behave alike."""
    own = np.array(medians(grid.time["own"], cut.during), dtype=np.float64)
    ratio = np.full(len(grid.ranks), np.nan)
    for columns in peer_groups(grid).values():
        times = own[columns]
        if np.isfinite(times).any():
            ratio[columns] = times / np.nanmedian(times)
    return ratio


def _stages(grid: Grid) -> list[tuple[str, int]]:
    wide = len({info.tp for info in grid.ranks}) > 1
    return [
        (f"stage {info.pp}" + (f", tp {info.tp}" if wide else ""), info.dp) for info in grid.ranks
    ]


def _nodes(grid: Grid) -> list[tuple[str, int]]:
    return [(info.node, info.local_rank) for info in grid.ranks]
