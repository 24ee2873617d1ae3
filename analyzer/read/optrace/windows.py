"""A foreign op trace as a Run: its workers as ranks, its steps as windows."""

import numpy as np
import pandas as pd

from lockstep.analyzer.shapes.operations import Floats, Trace
from lockstep.analyzer.shapes.run import RankInfo, Run
from lockstep.analyzer.shapes.waits import waited
from lockstep.analyzer.shapes.windows import COLUMNS, PHASE_COLUMNS
from lockstep.collector.contract import archive

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

    A trace tells no clock: the first step begins at 0, and each where the one before ended. It
    tells no nodes either: each worker counts as its own, named after its place.
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
        missing=(*trace.missing, "an op trace has no telemetry of nodes: causes are not known"),
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
