"""Rows of operations as a Trace: the same operations on every replica in every step."""

from collections import Counter

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.read.optrace.rows import Rows, valid_rows
from lockstep.analyzer.shapes.operations import Flags, Floats, Ints, Layout, Trace
from lockstep.analyzer.shapes.run import LoadError
from lockstep.collector.contract.words import OPS


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
        LoadError: A part contradicts, or a worker reported nothing.
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


MOST_CELLS = 500_000_000
"""Operations × replicas × steps; 4 GB an array. Beyond it, ids are not what they should be."""
BACK_SECONDS = 1e-3
"""An operation may begin this much before the one with the number below: rounding of float32."""


def to_trace(frame: pd.DataFrame, layout: Layout | None, source: str) -> Trace:
    """The operations of `frame` (public.COLUMNS) on the axes (operation, replica, step).

    Without a layout, its parts are those that the rows show.

    Steps in which a replica lacks an operation that others have, and steps of another shape than
    most (as with another number of micro-batches), are left out; `Trace.missing` says which.

    Raises:
        LoadError: The rows contradict themselves or the layout, or no step is whole.
    """
    rows, missing = valid_rows(frame, source)
    seen = seen_layout(rows)
    layout = seen if layout is None else layout
    check_layout(rows, layout, seen, source)
    steps, step = np.unique(rows.step, return_inverse=True)
    codes, code = _codes(rows, source)
    shape = (len(codes), layout.dp, len(steps))
    if np.prod([float(size) for size in shape]) > MOST_CELLS:
        raise LoadError(
            f"{source} has {shape[0]} kinds of operations on {shape[1]} replicas in"
            f" {shape[2]} steps; its ids are not those of an op trace"
        )
    cell = (code * layout.dp + rows.dp) * len(steps) + step
    count = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape)
    if count.max() > 1:
        twice = int(np.flatnonzero(count.reshape(-1)[cell] > 1)[0])
        raise LoadError(
            f"{source} has {rows.name(twice)} more than once; an operation has one row"
            " (tensor-parallel ranks are folded into one)"
        )
    ops, kept = _shared(count > 0, steps, missing, source)
    whole = len(ops) == shape[0] and len(kept) == shape[2]

    def on_axes(values: NDArray[np.generic], order: Ints | slice = slice(None)) -> Floats:
        full = np.zeros(shape)
        full.reshape(-1)[cell] = values
        return full[order] if whole else full[ops[order]][:, :, kept]

    first = _first_rows(count, cell, ops, int(kept[0]))
    optype = np.array(OPS)[rows.kind[first]]
    # What takes no time comes before what begins with it.
    end = rows.start[first] + rows.duration[first]
    order = np.lexsort((optype, rows.seq[first], end, rows.start[first], rows.stage[first]))
    first, optype = first[order], optype[order]
    micro_batch = rows.micro_batch[first]
    if np.any(on_axes(rows.micro_batch, order) != micro_batch[:, None, None]):
        missing.append("micro-batch ids differ between replicas or steps and are not used")
        micro_batch = np.full(len(first), -1)
    trace = Trace(
        name=source,
        layout=layout,
        steps=steps[kept],
        optype=optype,
        seq=rows.seq[first],
        stage=rows.stage[first],
        chunk=rows.chunk[first],
        global_chunk=rows.global_chunk[first],
        micro_batch=micro_batch,
        start=on_axes(rows.start, order),
        duration=on_axes(rows.duration, order),
        ranks=_ranks(rows, layout),
        coverage=len(kept) / len(steps),
        missing=tuple(missing),
    )
    _check_time(trace, source)
    return trace


def _codes(rows: Rows, source: str) -> tuple[Ints, Ints]:
    """A number for each (stage, type, seq_id): those that occur, and each row's place in them."""
    most = int(rows.seq.max()) + 1
    span = (int(rows.stage.max()) + 1) * len(OPS) * most
    if span > MOST_CELLS:
        raise LoadError(
            f"{source} has seq_id up to {most - 1}; it counts within a step and worker, from 0"
        )
    code = (rows.stage * len(OPS) + rows.kind) * most + rows.seq
    there = np.bincount(code, minlength=span) > 0
    return np.flatnonzero(there), (np.cumsum(there) - 1)[code]


def _shared(present: Flags, steps: Ints, missing: list[str], source: str) -> tuple[Ints, Ints]:
    """The operations of the commonest shape, and the steps that have it on every replica."""
    if present.all():
        return np.arange(present.shape[0]), np.arange(present.shape[2])
    alike = (present == present[:, :1]).all(axis=(0, 1))
    shapes = [present[:, 0, step].tobytes() if alike[step] else b"" for step in range(len(steps))]
    counted = Counter(shape for shape in shapes if shape)
    if not counted:
        _, dp, step = (int(index[0]) for index in np.nonzero(present != present[:, :1]))
        raise LoadError(
            f"{source} has no step in which every replica has the same operations: in step"
            f" {steps[step]}, dp rank {dp} has {int(present[:, dp, step].sum())} and"
            f" dp rank 0 has {int(present[:, 0, step].sum())}"
        )
    shape = counted.most_common(1)[0][0]
    kept = np.array([index for index, other in enumerate(shapes) if other == shape])
    if torn := int((~alike).sum()):
        missing.append(f"{torn} of {len(steps)} steps lack operations and are left out")
    if other := len(steps) - torn - len(kept):
        missing.append(
            f"{other} of {len(steps)} steps have another shape (as another number of"
            " micro-batches) and are left out"
        )
    return np.flatnonzero(present[:, 0, kept[0]]), kept


def _first_rows(count: Ints, cell: Ints, ops: Ints, step: int) -> Ints:
    """The rows of the first replica in one step, in the order of `ops`."""
    row = np.full(count.size, -1)
    row[cell] = np.arange(len(cell))
    rows: Ints = row.reshape(count.shape)[ops, 0, step]
    return rows


def _ranks(rows: Rows, layout: Layout) -> Ints:
    ranks = np.full((layout.dp, layout.pp), np.iinfo(np.int64).max)
    np.minimum.at(ranks, (rows.dp, rows.stage), rows.rank)
    return ranks


def _check_time(trace: Trace, source: str) -> None:
    """Operations of a type are numbered by their start (docs/method/what-if.md)."""
    order = np.lexsort((trace.seq, trace.optype, trace.stage))
    same = (trace.stage[order][1:] == trace.stage[order][:-1]) & (
        trace.optype[order][1:] == trace.optype[order][:-1]
    )
    after, before = order[1:][same], order[:-1][same]
    back = trace.start[after] < trace.start[before] - BACK_SECONDS
    if back.any():
        op, dp, step = (int(index[0]) for index in np.nonzero(back))
        which = after[op]
        raise LoadError(
            f"{source}: time goes backwards: {trace.optype[which]} {trace.seq[which]} of dp rank"
            f" {dp}, stage {trace.stage[which]} in step {trace.steps[step]} begins before the one"
            " with the number below"
        )
