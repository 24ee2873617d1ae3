"""Operations of a run as a Trace: a foreign Parquet file, or our own archive; a Trace as a Run.

The layout of a foreign trace comes from the command line, or from the meta file beside it. Only
this package folds tensor-parallel ranks into workers.
"""

import reprlib
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lockstep.analyzer.read.optrace.fold import fold, timed
from lockstep.analyzer.read.optrace.planes import to_trace
from lockstep.analyzer.read.optrace.rows import read
from lockstep.analyzer.shapes.operations import Floats, Layout, Trace
from lockstep.analyzer.shapes.run import LoadError, RankInfo, Run
from lockstep.analyzer.shapes.waits import waited
from lockstep.analyzer.shapes.windows import COLUMNS, PHASE_COLUMNS
from lockstep.collector.contract import archive

PARTS = ("dp", "pp", "tp", "dsp", "vpp")
EXAMPLE = "dp=4,pp=4,tp=4,dsp=1,vpp=1"
MOST = 1_000_000
MOST_DIGITS = 20
"""Of a number that is looked at; Python reads none of 4,301."""
META_BYTES = 65536


def parse_layout(text: str) -> Layout:
    """As `dp=4,pp=4,tp=4,dsp=1,vpp=1`; what is left out is 1.

    Raises:
        LoadError: A part is unknown, twice there, or no whole number from 1.
    """
    sizes: dict[str, int] = {}
    for item in text.split(","):
        name, _, value = (part.strip() for part in item.partition("="))
        if name not in PARTS:
            raise LoadError(f"--layout has no part {reprlib.repr(name)}; it reads as {EXAMPLE}")
        if name in sizes:
            raise LoadError(f"--layout gives {name} twice; it reads as {EXAMPLE}")
        sizes[name] = _size(f"--layout: {name}", value)
    return Layout(**sizes)


def read_meta(path: Path) -> Layout:
    """The lines `dp_size: 4` of a public trace's meta file (flat YAML).

    Raises:
        LoadError: The file is not readable, lacks dp_size or pp_size, or contradicts itself.
    """
    try:
        text = path.read_bytes()[:META_BYTES].decode()
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"{path} is not a readable meta file ({error})") from None
    lines = (line.partition("#")[0].partition(":") for line in text.splitlines())
    given = {name.strip(): value.strip() for name, _, value in lines}
    sizes = {
        part: _size(f"{path}: {part}_size", given[f"{part}_size"])
        for part in PARTS
        if f"{part}_size" in given
    }
    absent = [f"{part}_size" for part in ("dp", "pp") if part not in sizes]
    if absent:
        raise LoadError(f"{path} lacks {' and '.join(absent)}; a line reads as dp_size: 4")
    layout = Layout(**sizes)
    if "world_size" in given:
        world = _size(f"{path}: world_size", given["world_size"])
        if world != layout.world:
            raise LoadError(
                f"{path}: world_size is {world}, but dp · pp · tp · dsp is {layout.world}"
            )
    return layout


def _size(what: str, value: str) -> int:
    digits = value.isascii() and value.isdigit() and len(value) <= MOST_DIGITS
    if not digits or not 1 <= int(value) <= MOST:
        told = reprlib.repr(value)
        raise LoadError(f"{what} is {told}; it must be a whole number from 1 to {MOST}")
    return int(value)


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
        LoadError: The run has no operations, or no step of which every replica reported all.
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


PHASE_OF = {
    "data-load": "data_seconds",
    "forward-compute": "forward_seconds",
    "backward-compute": "backward_seconds",
    "grads-reduce-scatter": "grad_sync_seconds",
    "separate-grads-all-reduce": "grad_sync_seconds",
    "embedding-grads-all-reduce": "grad_sync_seconds",
    "layernorm-grads-all-reduce": "grad_sync_seconds",
    "optimizer": "optimizer_seconds",
}
LOCAL = ("data-load", "forward-compute", "backward-compute", "optimizer", "gc")
"""Own time: what waits for nobody."""


def run_of_trace(trace: Trace) -> Run:
    """The run with a window a worker and step; its operations stay in the Trace.

    A trace reports no clock: the first step begins at 0, and each where the one before ended. It
    reports no nodes either: each worker counts as its own, named after its place.
    """
    layout, steps = trace.layout, trace.steps
    wall = trace.end.max(axis=(0, 1)) if trace.observed is None else trace.observed
    begin = np.concatenate([[0.0], np.cumsum(wall)[:-1]])
    dp, stage, step = (axis.reshape(-1) for axis in np.indices((layout.dp, layout.pp, len(steps))))
    told = {name: _sums(trace, trace.of(*(o for o in PHASE_OF if PHASE_OF[o] == name)))
            for name in PHASE_COLUMNS}  # fmt: skip
    own = _sums(trace, trace.of(*LOCAL))
    rest = np.maximum(wall - sum(told.values(), np.zeros_like(own)), 0.0)
    frame = pd.DataFrame(
        {
            "rank": trace.ranks[dp, stage],
            "attempt": 0,
            "from_step": steps[step],
            "to_step": steps[step] + 1,
            "start": begin[step],
            "end": begin[step] + wall[step],
            "steps": 1,
            "collective_seconds": np.maximum(waited(wall, own), 0.0).reshape(-1),
            "tags": "",
            "loss": np.nan,
            "wall_seconds": wall[step],
            "own_seconds": own.reshape(-1),
            "cpu_seconds": np.nan,
            **{name: seconds.reshape(-1) for name, seconds in told.items()},
            "other_seconds": rest.reshape(-1),
            "samples": 0,
            "tokens": 0,
            "flops": np.nan,
        }
    )
    return Run(
        name=trace.name,
        meta={},
        ranks=tuple(sorted(_infos(trace), key=lambda info: info.rank)),
        windows=frame[list(COLUMNS)],
        samples=pd.DataFrame(columns=[column.name for column in archive.SAMPLES]),
        ops=None,
        missing=(*trace.missing, "an op trace has no telemetry of nodes: causes are unknown"),
    )


def _sums(trace: Trace, rows: np.ndarray) -> Floats:
    """(D, P, S) seconds."""
    return np.stack(
        [
            trace.duration[rows & (trace.stage == stage)].sum(axis=0)
            for stage in range(trace.layout.pp)
        ],
        axis=1,
    )


def _infos(trace: Trace) -> list[RankInfo]:
    return [
        RankInfo(
            rank=trace.worker(dp, stage), node=f"dp{dp}-stage{stage}", gpu=None, uuid=None,
            local_rank=0, dp=dp, pp=stage, tp=0,
        )
        for dp in range(trace.layout.dp)
        for stage in range(trace.layout.pp)
    ]  # fmt: skip
