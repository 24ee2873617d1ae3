"""Samples on the clock of the run's steps, whatever each node's own clock says.

A node's samples tell how many steps its ranks had done. All ranks end a synchronous step together,
so the moment at which the run had done as many is what the sample's time should be.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analyzer.run import FloatGrid
from collector.contract.metrics import TRAIN_STEPS

READ_SECONDS = 2.0
"""By which a sample may be older than its scrape (collector.config, fast_period) and a step's end
may be told early or late: less than this, beside the step itself, is no wrong clock."""


def on_one_clock(samples: pd.DataFrame, to_step: NDArray[np.int64], end: FloatGrid) -> pd.DataFrame:
    """The samples, those of nodes whose clock is wrong with their times mended.

    Args:
        samples: contract.archive.SAMPLES.
        to_step: (W,) steps done by the end of each window.
        end: (W,) unix seconds.
    """
    if len(to_step) < 2 or (np.diff(to_step) <= 0).any() or not np.isfinite(end).all():
        return samples
    told = samples[(samples["metric"] == TRAIN_STEPS.name).to_numpy(dtype=bool)]
    done = told["value"].to_numpy(dtype=float)
    within = (done >= to_step[0]) & (done < to_step[-1])
    told, done = told[within], done[within]
    if told.empty:
        return samples
    begun, over = (np.interp(done + more, to_step, end) for more in (0.0, 1.0))
    ahead = pd.DataFrame({
        "node": told["node"].to_numpy(dtype=object),
        "ahead": told["time"].to_numpy(dtype=float) - (begun + over) / 2.0,
        "slack": (over - begun) / 2.0,
    }).groupby("node").median()  # fmt: skip
    ahead["ahead"] -= ahead["ahead"].median()
    wrong = ahead[ahead["ahead"].abs() > ahead["slack"] + READ_SECONDS]["ahead"]
    if wrong.empty:
        return samples
    error = samples["node"].astype(object).map(wrong).fillna(0.0).to_numpy(dtype=float)
    return samples.assign(time=samples["time"].to_numpy(dtype=float) - error)
