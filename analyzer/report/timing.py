"""Who is late: own time, phases and waiting of each rank, before and during the trouble."""

from analyzer.report import blocks
from analyzer.report.blocks import Block
from analyzer.report.heat import against_stratum, heat
from analyzer.report.queries import Sources
from analyzer.report.series import against_peers
from analyzer.report.shown import rest, shown
from analyzer.report.spans import Spans, median, medians
from analyzer.run import Grid
from collector.contract.words import PHASES


def lateness(grid: Grid, cut: Spans, sources: Sources) -> Block:
    """The section on who is late."""
    own = grid.time["own"]
    picked = _picked(grid, cut)
    chart, twin = against_peers(
        grid, cut, own, title="Own time per step", unit="seconds",
        what="Own time per step, without waiting in collectives,", source=sources.own(),
    )  # fmt: skip
    over = rest(cut, picked, medians(own, cut.during), "seconds")
    phases = _phases(grid, cut, sources.phases())
    waits = _waits(grid, cut, picked, sources.waits())
    return blocks.section(
        "lateness",
        "Who is late",
        [
            blocks.text(
                "Own time is the part of a step that a rank spends outside collectives. Wall time"
                " cannot tell who is late: in lockstep everyone's step is as long as the slowest"
                " rank's. The late rank has the longest own time and waits least."
            ),
            chart,
            twin,
            *heat(grid, cut, sources.own()),
            _by_rank(grid, cut, picked, sources.own()),
            blocks.text(over) if over else None,
            *phases,
            *waits,
        ],
    )


def _picked(grid: Grid, cut: Spans) -> list[int]:
    return shown(cut, against_stratum(grid, cut))


def _by_rank(grid: Grid, cut: Spans, picked: list[int], source: str) -> Block | None:
    own, wait = grid.time["own"], grid.time.get("collective")
    before, during = medians(own, cut.before), medians(own, cut.during)
    waits: list[float | None] = [None] * len(grid.ranks)
    if wait is not None:
        waits = medians(wait, cut.during)
    columns = {"rank": "", "node": "", "gpu": "", "own time before": "seconds"}
    columns |= {"own time during": "seconds", "change": "ratio", "waits": "seconds", "": ""}
    rows = [
        [
            info.rank,
            info.node,
            info.gpu,
            before[column],
            during[column],
            _over(during[column], before[column]),
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
