"""A small run as rows of the public schema, and as a file."""

import numpy as np
import pandas as pd
import pytest

from lockstep.evaluation.synth import traces as synth


@pytest.fixture(scope="session")
def healthy_rows():
    trace = synth.trace(synth.Scene(dp=2, pp=2, micro_batches=2, steps=3, seed=5))
    op, dp, step = (axis.reshape(-1) for axis in np.indices(trace.start.shape))
    return pd.DataFrame(
        {
            "dp_rank": dp,
            "stage": trace.stage[op],
            "rank": 4 * trace.stage[op] + 2 * dp,
            "step": 10 + 5 * step,
            "optype": trace.optype[op],
            "start_ts": trace.start.reshape(-1).astype("float32"),
            "duration": trace.duration.reshape(-1).astype("float32"),
            "seq_id": trace.seq[op],
            "mc": trace.chunk[op],
            "gmc": trace.global_chunk[op],
            "mb_id": trace.micro_batch[op],
        }
    )


@pytest.fixture
def rows(healthy_rows):
    """dp 2, pp 2, tp 2; steps 10, 15, 20."""
    return healthy_rows.copy()


@pytest.fixture
def written(tmp_path):
    """Writes rows and gives the path."""

    def write(rows):
        path = tmp_path / "ops.parquet"
        rows.to_parquet(path)
        return path

    return write
