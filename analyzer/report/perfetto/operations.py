"""Operations as slices: of an archive or a trace as they were, and of the ideal run."""

import numpy as np
import pandas as pd

from lockstep.analyzer.operations.whatif.dependencies import build
from lockstep.analyzer.operations.whatif.graph import Graph, ModelError
from lockstep.analyzer.operations.whatif.simulate import timeline
from lockstep.analyzer.operations.whatif.trust import compare
from lockstep.analyzer.operations.whatif.work import split_durations, stratum_ideals
from lockstep.analyzer.report.perfetto.events import COLUMNS, STEPS, slices_of
from lockstep.analyzer.shapes.operations import Floats, Ints, Trace
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
    operations = pd.DataFrame(
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
    return pd.concat([_steps(run, steps), slices_of(operations)], ignore_index=True)


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


GROUPS: dict[str, str] = {
    "forward-send": "pp", "forward-recv": "pp", "backward-send": "pp", "backward-recv": "pp",
    "params-all-gather": "dp", "grads-reduce-scatter": "dp", "separate-grads-all-reduce": "dp",
    "embedding-grads-all-reduce": "pp", "optimizer-clip-main-grad": "world",
}  # fmt: skip
"""Operation -> kind of its group (docs/method/what-if.md)."""


class NoIdealError(ValueError):
    """There is no ideal timeline; the message says why."""


def simulated_slices(trace: Trace, begins: Ints, steps: range) -> pd.DataFrame:
    """The operations of a trace from elsewhere.

    Args:
        trace: The operations.
        begins: (S,) nanoseconds at which each step of the trace begins.
        steps: Numbers of the steps to show.

    Raises:
        NoIdealError: The operations do not make a step, so that nobody knows who waits for whom.
    """
    graph = _graph(trace)
    blocking = split_durations(trace, graph).blocking
    return _slices(trace, begins, steps, trace.start, trace.end, blocking, ideal=False)


def ideal(trace: Trace, begins: Ints, steps: range) -> pd.DataFrame:
    """The operations as they had been had each taken what is usual in its stratum.

    Arguments as `simulated_slices`.

    Raises:
        NoIdealError: The model does not explain this trace.
    """
    graph = _graph(trace)
    work = split_durations(trace, graph)
    objection = compare(trace, graph, work).objection()
    if objection is not None:
        raise NoIdealError(objection)
    healthy = stratum_ideals(trace, work.own)
    simulated = timeline(graph, healthy)
    blocking = np.zeros_like(simulated.end)
    members = [op for unit in graph.units if unit.grouped for op in unit.members]
    blocking[members] = (simulated.end - simulated.start - healthy)[members]
    return _slices(trace, begins, steps, simulated.start, simulated.end, blocking, ideal=True)


def in_turn(trace: Trace) -> Ints:
    """(S,) nanoseconds: the first step of a trace that tells no clock begins at 0."""
    wall = trace.end.max(axis=(0, 1))
    begins: Ints = np.rint(np.concatenate([[0.0], np.cumsum(wall)[:-1]]) * 1e9).astype(np.int64)
    return begins


def on_clock(trace: Trace, run: Run) -> Ints:
    """(S,) unix nanoseconds at which the steps of a Trace of this run begin.

    Told by the forward passes, which are the same in both: folding may have moved the others.

    Raises:
        NoIdealError: A step has no forward pass.
    """
    assert run.ops is not None
    kind = "forward-compute"
    rows = run.ops[run.ops["optype"] == kind]
    keys = ["dp_rank", "stage", "seq_id", "step"]
    ends = rows.groupby(keys)["end_ns"].max().reset_index()
    op = np.flatnonzero(trace.of(kind))
    place = {(int(trace.stage[n]), int(trace.seq[n])): int(n) for n in op}
    number = np.array(
        [place.get(key, -1) for key in zip(ends["stage"], ends["seq_id"], strict=True)]
    )
    column = np.searchsorted(trace.steps, ends["step"])
    column = np.minimum(column, len(trace.steps) - 1)
    same = (number >= 0) & (trace.steps[column] == ends["step"].to_numpy())
    if len(np.unique(column[same])) < len(trace.steps):
        raise NoIdealError("steps without a forward pass have no place on the clock")
    since = trace.end[number[same], ends["dp_rank"].to_numpy()[same], column[same]]
    begins = ends["end_ns"].to_numpy(dtype=np.int64)[same] - np.rint(since * 1e9).astype(np.int64)
    first = int(begins.min())
    middle = pd.Series(begins - first).groupby(column[same]).median()
    found: Ints = middle.to_numpy(dtype=float).astype(np.int64)
    return found + first


def _graph(trace: Trace) -> Graph:
    try:
        return build(trace)
    except ModelError as error:
        raise NoIdealError(str(error)) from error


def _slices(
    trace: Trace, begins: Ints, steps: range, start: Floats, end: Floats, blocking: Floats,
    *, ideal: bool,
) -> pd.DataFrame:  # fmt: skip
    chosen = np.flatnonzero((trace.steps >= steps.start) & (trace.steps < steps.stop))
    op, dp, step = (
        axis.reshape(-1) for axis in np.indices((len(trace.optype), trace.layout.dp, len(chosen)))
    )
    cell = op, dp, chosen[step]
    begin = begins[chosen[step]]
    first = begin + np.rint(start[cell] * 1e9).astype(np.int64)
    last = begin + np.rint(end[cell] * 1e9).astype(np.int64)
    duration = np.maximum(last - first, 0)
    waited = np.rint(blocking[cell] * 1e9).astype(np.int64)
    ops = pd.DataFrame(
        {
            "rank": trace.ranks[dp, trace.stage[op]],
            "ideal": ideal,
            "track": np.array([GROUPS.get(name, "") for name in trace.optype], dtype=object)[op],
            "name": trace.optype.astype(object)[op],
            "start_ns": first,
            "duration_ns": duration,
            "wait_ns": np.clip(waited, 0, duration),
            "step": trace.steps[chosen[step]],
            "micro_batch": trace.micro_batch[op],
            "chunk": trace.chunk[op],
            "bytes": -1,
            "sequence": -1,
        }
    )
    return pd.concat([_trace_steps(trace, begins, chosen, end, ideal=ideal), slices_of(ops)],
                     ignore_index=True)  # fmt: skip


def _trace_steps(
    trace: Trace, begins: Ints, chosen: Ints, end: Floats, *, ideal: bool
) -> pd.DataFrame:
    """A step on every worker, until the last of them has ended."""
    ranks = np.repeat(trace.ranks.reshape(-1), len(chosen))
    step = np.tile(trace.steps[chosen], trace.ranks.size)
    wall = np.rint(end.max(axis=(0, 1))[chosen] * 1e9).astype(np.int64)
    return pd.DataFrame(
        {
            "rank": ranks, "ideal": ideal, "track": STEPS,
            "name": [f"step {number}" for number in step], "kind": "step",
            "start_ns": np.tile(begins[chosen], trace.ranks.size),
            "duration_ns": np.tile(wall, trace.ranks.size), "step": step,
            **dict.fromkeys(("micro_batch", "chunk", "bytes", "sequence"), -1),
        }
    )[list(COLUMNS)]  # fmt: skip
