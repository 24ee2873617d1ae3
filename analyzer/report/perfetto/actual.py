"""What the ranks of an archive did, as slices: every operation on the run's aligned clock."""

import numpy as np
import pandas as pd

from lockstep.analyzer.report.perfetto.slices import COLUMNS, STEPS, slices_of
from lockstep.analyzer.shapes.run import Run

MEMBERS: dict[str, list[str]] = {
    "dp": ["stage", "tp_rank"],
    "pp": ["dp_rank", "tp_rank"],
    "tp": ["dp_rank", "stage"],
}
"""Kind of group -> the coordinates that its members share; other groups hold all ranks."""
SENDER: dict[str, int] = {
    "forward-send": 0, "forward-recv": -1, "backward-send": 0, "backward-recv": 1
}  # fmt: skip
"""Transfer between two stages -> where the sending chunk lies from its own."""


def actual(run: Run, steps: range) -> pd.DataFrame:
    """Slices of the steps and operations of every rank; none without operations."""
    ops = run.ops
    if ops is None:
        return pd.DataFrame(columns=list(COLUMNS))
    ops = ops[ops["step"].between(steps.start, steps.stop - 1)]
    start = ops["start_ns"].to_numpy(dtype=np.int64)
    duration = np.maximum(ops["end_ns"].to_numpy(dtype=np.int64) - start, 0)
    wait = _arrivals(ops) - start
    told = pd.DataFrame(
        {
            "rank": ops["rank"].to_numpy(dtype=np.int64),
            "ideal": False,
            "track": ops["group"].to_numpy(dtype=object),
            "name": ops["optype"].to_numpy(dtype=object),
            "start_ns": start,
            "duration_ns": duration,
            "wait_ns": np.clip(wait, 0, duration),
            "step": ops["step"].to_numpy(dtype=np.int64),
            "micro_batch": ops["mb_id"].to_numpy(dtype=np.int64),
            "chunk": ops["mc"].to_numpy(dtype=np.int64),
            "bytes": ops["bytes"].to_numpy(dtype=np.int64),
            "sequence": ops["sequence"].to_numpy(dtype=np.int64),
        }
    )
    return pd.concat([_steps(run, steps), slices_of(told)], ignore_index=True)


def _arrivals(ops: pd.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(N,) unix nanoseconds at which the last recorded member of each operation's group came."""
    latest = ops["start_ns"].copy()
    between = ops["optype"].isin(SENDER)
    for group, rows in ops[~between].groupby("group"):
        if group == "":
            continue
        shared = MEMBERS.get(str(group), [])
        arrived = rows.groupby(["sequence", "optype", *shared])["start_ns"].transform("max")
        latest.loc[rows.index] = arrived
    pairs = ops[between]
    if len(pairs):
        pairs = pairs.assign(
            sender=pairs["gmc"] + pairs["optype"].map(SENDER),
            direction=pairs["optype"].str.partition("-")[0],
            carried=pairs["tag"].where(pairs["tag"] != "", pairs["seq_id"].astype(str)),
        )
        # A tag names chunk and micro-batch; the chunk of the sender is known from its place.
        pairs = pairs.assign(carried=pairs["carried"].str.rpartition(".")[2])
        keys = ["direction", "step", "dp_rank", "tp_rank", "sender", "carried"]
        latest.loc[pairs.index] = pairs.groupby(keys)["start_ns"].transform("max")
    return latest.to_numpy(dtype=np.int64)


def _steps(run: Run, steps: range) -> pd.DataFrame:
    """Each rank's steps, as the rank counted them."""
    windows = run.windows
    whole = (windows["steps"] == 1) & windows["wall_seconds"].notna()
    rows = windows[whole & windows["from_step"].between(steps.start, steps.stop - 1)]
    step = rows["from_step"].to_numpy(dtype=np.int64)
    return pd.DataFrame(
        {
            "rank": rows["rank"].to_numpy(dtype=np.int64),
            "ideal": False,
            "track": STEPS,
            "name": [f"step {number}" for number in step],
            "kind": "step",
            "start_ns": np.rint(rows["start"].to_numpy(dtype=float) * 1e9).astype(np.int64),
            "duration_ns": np.rint(rows["wall_seconds"].to_numpy(dtype=float) * 1e9).astype(
                np.int64
            ),
            "step": step,
            **dict.fromkeys(("micro_batch", "chunk", "bytes", "sequence"), -1),
        }
    )[list(COLUMNS)]
