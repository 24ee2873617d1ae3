"""Own time of every rank against its peers, as a map of stages and replicas, or nodes and GPUs."""

from collections.abc import Mapping

import numpy as np

from analyzer.report import blocks
from analyzer.report.blocks import Block
from analyzer.report.series import known
from analyzer.report.shown import MOST_ROWS
from analyzer.report.spans import Spans, medians
from analyzer.run import FloatGrid, Grid
from analyzer.slowness.peer_groups import peer_groups

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
    for value, place in zip(ratio.tolist(), places, strict=True):
        cells[place] = value
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
    groups: Mapping[tuple[int, int | None], np.ndarray] = peer_groups(grid)
    for columns in groups.values():
        told = own[columns]
        if np.isfinite(told).any():
            ratio[columns] = told / np.nanmedian(told)
    return ratio


def _stages(grid: Grid) -> list[tuple[str, int]]:
    wide = len({info.tp for info in grid.ranks}) > 1
    return [
        (f"stage {info.pp}" + (f", tp {info.tp}" if wide else ""), info.dp) for info in grid.ranks
    ]


def _nodes(grid: Grid) -> list[tuple[str, int]]:
    return [(info.node, info.local_rank) for info in grid.ranks]
