"""Whether a layout and the rows of a trace tell the same."""

import numpy as np

from lockstep.analyzer.read.optrace.rows import Rows
from lockstep.analyzer.shapes.operations import Layout
from lockstep.analyzer.shapes.run import LoadError


def seen_layout(rows: Rows) -> Layout:
    """The layout that the rows show; tp from the distance between the ranks of workers."""
    apart = np.diff(np.unique(rows.rank))
    return Layout(
        dp=int(rows.dp.max()) + 1,
        pp=int(rows.stage.max()) + 1,
        tp=int(apart.min()) if apart.size else 1,
        vpp=max(1, int(rows.chunk.max()) + 1),
    )


def check_layout(rows: Rows, layout: Layout, seen: Layout, source: str) -> None:
    """Refuse rows that another layout made.

    Args:
        rows: The operations.
        layout: What they should be of.
        seen: Of `seen_layout`.
        source: What to call the rows.

    Raises:
        LoadError: A part contradicts, or a worker told nothing.
    """
    if layout.workers > len(rows.dp):
        raise LoadError(
            f"dp={layout.dp},pp={layout.pp} makes {layout.workers} workers, but {source} has only"
            f" {len(rows.dp)} operations"
        )
    for column, part, size, ids in (
        ("dp_rank", "dp", layout.dp, rows.dp), ("stage", "pp", layout.pp, rows.stage),
    ):  # fmt: skip
        highest = int(ids.max())
        if highest >= size:
            raise LoadError(
                f"the layout says {part}={size}, but {source} has {column} up to {highest};"
                f" {part}={highest + 1} would fit"
            )
        there = np.bincount(ids, minlength=size) > 0
        if not there.all():
            absent = np.flatnonzero(~there)
            more = f" and {len(absent) - 8} more" if len(absent) > 8 else ""
            raise LoadError(
                f"the layout says {part}={size}, but {source} has no operations of {column}"
                f" {', '.join(map(str, absent[:8]))}{more}"
            )
    cells = np.bincount(rows.dp * layout.pp + rows.stage, minlength=layout.workers)
    if (workers := int((cells > 0).sum())) < layout.workers:
        raise LoadError(
            f"{source} has operations of {workers} workers; dp={layout.dp},pp={layout.pp}"
            f" makes {layout.workers}"
        )
    if seen.vpp > layout.vpp:
        raise LoadError(
            f"the layout says vpp={layout.vpp}, but {source} has chunks (mc) up to {seen.vpp - 1};"
            f" vpp={seen.vpp} would fit"
        )
    if (highest := int(rows.rank.max())) >= layout.world:
        raise LoadError(
            f"the layout makes {layout.world} ranks, but {source} has rank {highest};"
            f" tp={seen.tp} would fit the distance between its ranks"
        )
