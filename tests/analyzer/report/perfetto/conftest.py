"""A slowed pipeline as an op trace, and the same as an archive's operations."""

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.read.optrace.load import run_of_trace
from lockstep.analyzer.report.perfetto.operations import GROUPS
from lockstep.analyzer.shapes.run import Run
from lockstep.evaluation.synth import traces as synth

EPOCH = 1_760_000_000_000_000_000


@pytest.fixture(scope="session")
def trace():
    """dp 2, pp 2, 3 micro-batches, 4 steps; worker (dp 1, stage 0) takes half as long again."""
    slow = (synth.Slow(dp=1, stage=0, factor=1.5),)
    return synth.trace(synth.Scene(dp=2, pp=2, micro_batches=3, steps=4, slow=slow, seed=3))


@pytest.fixture
def archived(trace) -> Run:
    """The trace as an archive has it; steps begin one after the other from EPOCH."""
    wall = trace.end.max(axis=(0, 1))
    begin = EPOCH + np.rint(1e9 * np.concatenate([[0.0], np.cumsum(wall)[:-1]])).astype(np.int64)
    op, dp, step = (axis.reshape(-1) for axis in np.indices(trace.start.shape))
    optype = trace.optype[op]
    transfer = np.char.endswith(optype, "-send") | np.char.endswith(optype, "-recv")
    tags = [f"c0.m{number}" if is_transfer else "" for number, is_transfer in
            zip(trace.seq[op], transfer, strict=True)]  # fmt: skip
    ops = pd.DataFrame(
        {
            "dp_rank": dp, "stage": trace.stage[op], "rank": trace.ranks[dp, trace.stage[op]],
            "step": trace.steps[step], "optype": optype.astype(object),
            "start_ts": trace.start.reshape(-1), "duration": trace.duration.reshape(-1),
            "seq_id": trace.seq[op], "mc": trace.chunk[op],
            "gmc": np.where(transfer, trace.stage[op], trace.global_chunk[op]),
            "mb_id": trace.micro_batch[op], "tp_rank": 0,
            "group": [GROUPS.get(name, "") for name in optype],
            "sequence": trace.seq[op] + 100 * step, "bytes": 8,
            "start_ns": begin[step] + np.rint(1e9 * trace.start.reshape(-1)).astype(np.int64),
            "end_ns": begin[step] + np.rint(1e9 * trace.end.reshape(-1)).astype(np.int64),
            "flags": "", "tag": tags,
        }
    )  # fmt: skip
    run = run_of_trace(trace)
    windows = run.windows.assign(start=run.windows["start"] + EPOCH / 1e9)
    layout = {"dp": 2, "pp": 2, "tp": 1}
    return Run("archived", {"layout": layout}, run.ranks, windows, run.samples, ops)
