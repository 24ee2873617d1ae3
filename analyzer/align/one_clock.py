"""Samples on the clock of the run's steps where a node's own clock is wrong.

A node's samples tell how many steps its ranks had done. All ranks end a synchronous step together,
so the moment at which the run had done as many is what the sample's time should be.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract.metrics import GPU_XID_LAST, TRAIN_STEPS

READ_SECONDS = 2.0
"""By which a sample may be older than its scrape (collector.config, fast_period) and a step's end
may be told early or late: less than this, beside the step itself, is no wrong clock."""
LEAST, AGREE = 5, 0.8
"""Scrapes of a node, and the share of samples that must tell the same error: a counter that is
stuck or began elsewhere is no clock."""
MOST_SECONDS = 600.0
"""A clock that is wrong by more is no clock that drifted: the counter is another one."""
MOMENTS = (GPU_XID_LAST.name,)
"""Gauges whose value is a moment by the node's clock."""


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
    told = told.sort_values("time")
    done = told["value"].to_numpy(dtype=float)
    restarted = set(told["node"][told.groupby("rank")["value"].diff() < 0])
    within = (done >= to_step[0]) & (done < to_step[-1])
    told, done = told[within], done[within]
    if told.empty:
        return samples
    begun, over = (np.interp(done + more, to_step, end) for more in (0.0, 1.0))
    ahead = pd.DataFrame({
        "node": told["node"].to_numpy(dtype=object),
        "scrape": told["time"].to_numpy(dtype=float),
        "ahead": told["time"].to_numpy(dtype=float) - (begun + over) / 2.0,
        "slack": (over - begun) / 2.0,
    })  # fmt: skip
    nodes = ahead.groupby("node").agg(ahead=("ahead", "median"), count=("scrape", "nunique"))
    slack = ahead["slack"] + READ_SECONDS
    ahead["agrees"] = (ahead["ahead"] - ahead["node"].map(nodes["ahead"])).abs() <= slack
    nodes["agree"] = ahead.groupby("node")["agrees"].mean()
    nodes["slack"] = ahead.groupby("node")["slack"].median() + READ_SECONDS
    nodes["ahead"] -= nodes["ahead"].median()
    clear = (nodes["count"] >= LEAST) & (nodes["agree"] >= AGREE) & ~nodes.index.isin(restarted)
    size = nodes["ahead"].abs()
    wrong = nodes.loc[clear & (size > nodes["slack"]) & (size <= MOST_SECONDS), "ahead"]
    if wrong.empty:
        return samples
    error = samples["node"].astype(object).map(wrong).fillna(0.0).to_numpy(dtype=float)
    value = samples["value"].to_numpy(dtype=float)
    moments = samples["metric"].isin(MOMENTS).to_numpy(dtype=bool)
    return samples.assign(
        time=samples["time"].to_numpy(dtype=float) - error,
        value=np.where(moments, value - error, value),
    )
