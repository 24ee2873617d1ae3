"""The one shape of a timeline: slices of time on tracks, ours or of the ideal run."""

import numpy as np
import pandas as pd

COLUMNS: tuple[str, ...] = (
    "rank", "ideal", "track", "name", "kind", "start_ns", "duration_ns", "step",
    "micro_batch", "chunk", "bytes", "sequence",
)  # fmt: skip
"""`rank` and `ideal` (bool) say whose it is; `kind` is step, compute, wait or transfer; the last
four are -1 where they do not apply."""
COMPUTE = "compute"
STEPS = "steps"


def slices_of(ops: pd.DataFrame) -> pd.DataFrame:
    """Slices of operations: those of a group in two, waiting and transfer.

    Args:
        ops: COLUMNS without `kind`, `track` empty for local work, and `wait_ns`: how long the
            operation waited for the last of its group, at most its duration.
    """
    grouped = ops["track"] != ""
    local = ops[~grouped].assign(track=COMPUTE, kind="compute")
    together = ops[grouped]
    waits = together[together["wait_ns"] > 0]
    waits = waits.assign(name="wait: " + waits["name"], kind="wait", duration_ns=waits["wait_ns"])
    moved = together.assign(
        kind="transfer",
        start_ns=together["start_ns"] + together["wait_ns"],
        duration_ns=together["duration_ns"] - together["wait_ns"],
    )
    return pd.concat([local, waits, moved], ignore_index=True)[list(COLUMNS)]


def lanes(slices: pd.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(N,) for each slice the first lane of its track that is free when it begins.

    Viewers nest the slices of a track; some that overlap in part would be drawn wrong.
    """
    found = np.zeros(len(slices), dtype=np.int64)
    order = np.lexsort((-slices["duration_ns"], slices["start_ns"]))
    keys = slices.groupby(["rank", "ideal", "track"]).ngroup().to_numpy()
    start = slices["start_ns"].to_numpy(dtype=np.int64)
    stop = start + slices["duration_ns"].to_numpy(dtype=np.int64)
    free: dict[int, list[int]] = {}
    for place in order.tolist():
        ends = free.setdefault(int(keys[place]), [])
        lane = next((n for n, end in enumerate(ends) if end <= start[place]), len(ends))
        if lane == len(ends):
            ends.append(0)
        ends[lane] = int(stop[place])
        found[place] = lane
    return found
