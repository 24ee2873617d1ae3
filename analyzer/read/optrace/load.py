"""Operations of a run as a Trace: a foreign Parquet file, or our own archive.

Only this package folds tensor-parallel ranks into workers.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lockstep.analyzer.read.optrace.fold import fold, timed
from lockstep.analyzer.read.optrace.planes import to_trace
from lockstep.analyzer.read.optrace.rows import read
from lockstep.analyzer.shapes.operations import Layout, Trace
from lockstep.analyzer.shapes.run import LoadError, Run

BY_DESIGN = "slow by design and left out"
SLOW_BY_DESIGN = ("warmup", "checkpoint", "eval")
"""Tags of steps that are no example of the others; garbage collection is an operation."""


def load_trace(path: Path, layout: Layout | None = None) -> Trace:
    """The op trace in one Parquet file of the public schema.

    Args:
        path: The file.
        layout: Of `parse_layout` or `read_meta`; None = what the rows show.

    Raises:
        LoadError: The file is no op trace, or contradicts itself or the layout.
    """
    return to_trace(read(path), layout, str(path))


def trace_of_run(run: Run) -> Trace:
    """The operations of a run archive; steps that are slow by design are left out.

    Raises:
        LoadError: The run has no operations, or no step of which every replica told all.
    """
    if run.ops is None or run.ops.empty:
        raise LoadError(f"{run.name} has no operations (ops.parquet); its windows can be analyzed")
    tags = run.windows["tags"].str.split(",").explode()
    masked = set(run.windows["from_step"].loc[tags[tags.isin(SLOW_BY_DESIGN)].index])
    ops = run.ops[~run.ops["step"].isin(masked)]
    if ops.empty:
        raise LoadError(f"{run.name} has operations only of steps that are slow by design")
    if not (whole := len(timed(ops))):
        raise LoadError(f"{run.name} has no operation with a start and a duration; all are NaN")
    rows = fold(ops)
    if rows.empty:
        raise LoadError(f"{run.name} has no whole step of operations that the model knows")
    trace = to_trace(rows, _layout(run.meta, run), run.name)
    notes = [f"{len(masked)} steps are {BY_DESIGN}"] if masked else []
    if whole < len(ops):
        notes.append(f"{len(ops) - whole} operations have no times")
    wall = run.windows.groupby("from_step")["wall_seconds"].mean().reindex(trace.steps)
    observed = None if wall.isna().any() else wall.to_numpy(dtype=float, copy=True)
    return replace(
        trace,
        observed=observed,
        clock_error=_clock_error(run.meta),
        missing=(*trace.missing, *notes),
    )


def _clock_error(meta: Mapping[str, Any]) -> float:
    clock = meta.get("clock")
    told = clock.get("offset_error_seconds") if isinstance(clock, Mapping) else None
    if isinstance(told, int | float) and 0 < told <= sys.float_info.max:
        return float(told)
    return 0.0


def _layout(meta: Mapping[str, Any], run: Run) -> Layout | None:
    told = meta.get("layout")
    assert run.ops is not None
    if not isinstance(told, Mapping):
        return None
    sizes = {part: int(told[part]) for part in ("dp", "pp", "tp") if part in told}
    if not {"dp", "pp"} <= sizes.keys():
        return None
    return Layout(**sizes, vpp=max(1, int(run.ops["mc"].max()) + 1))
