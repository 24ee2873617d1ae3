"""Operations of an archive: collectives, arrivals, one by one, and as a trace for Perfetto."""

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
from numpy.typing import NDArray

from lockstep.analyzer.read.archive.files import LATEST
from lockstep.analyzer.read.archive.table import Table
from lockstep.analyzer.report.perfetto.operations import MEMBERS, SENDER
from lockstep.analyzer.report.perfetto.timeline import TimelineError, of_run
from lockstep.analyzer.shapes.run import RankInfo, Run
from lockstep.analyzer.shapes.windows import from_steps
from lockstep.collector.contract import archive
from lockstep.collector.contract.bandwidth import bus_factor
from lockstep.collector.contract.words import COLLECTIVE_OPS
from lockstep.dashboard.shapes import Floats, Matrix, Span
from lockstep.dashboard.sources.archive.ranks import names
from lockstep.dashboard.trouble import Kind, TroubleError

NANO = 1e9
MOST_OPERATIONS = 5000
MOST_WINDOWS = 300
MOST_ROWS = 4_000_000
"""Operations that are looked at for one answer; of more, the newest steps."""
KINDS = {"all-reduce": "all_reduce", "all-gather": "all_gather", "broadcast": "broadcast",
         "reduce-scatter": "reduce_scatter"}  # fmt: skip
"""How operations end -> the word of contract.bandwidth; others go over the bus once."""
COLUMNS = ("rank", "step", "optype", "group", "sequence", "bytes", "start_ns", "end_ns", "stage",
           "dp_rank", "tp_rank")  # fmt: skip
SHOWN = ("op", "group", "step", "sequence", "start", "seconds", "bytes")
TABLE = ("op", "group", "count", "bytes", "median_seconds", "p95_seconds", "total_seconds",
         "busbw", "late_rank", "late_seconds")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Calls:
    """Collectives, the rows of each call together.

    Attributes:
        rows: COLUMNS, sorted by call.
        begin: (C,) first row of each call.
        members: (C,) how many ranks took part in it.
        late: (rows,) seconds after the first arrival.
        carried: (C,) seconds from the last arrival to the end: the time of the transfer itself.
    """

    rows: pd.DataFrame
    begin: NDArray[np.int64]
    members: NDArray[np.int64]
    late: Floats
    carried: Floats


def read(table: Table, span: Span | None, columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
    """Operations that began in a span.

    Raises:
        TroubleError: There are none in the archive.
    """
    if not table.parts():
        raise TroubleError(
            Kind.NOT_TOLD, f"No operations were recorded: the archive has no {table.name}.",
            "Runs of lockstep run record them; for others, lockstep watch fetches those of a"
            " finding.",
        )  # fmt: skip
    rows = table.read(columns, _within(span))
    if rows.num_rows > MOST_ROWS:
        step = rows["step"].to_numpy()
        least = np.partition(step, len(step) - MOST_ROWS)[len(step) - MOST_ROWS]
        rows = rows.filter(ds.field("step") > int(least))
    frame: pd.DataFrame = rows.to_pandas()
    kept = frame.dropna(subset=["rank", "step", "start_ns", "end_ns"])
    integers = [name for name in kept if name in (*COLUMNS[:2], "sequence", "bytes", "start_ns",
                                                   "end_ns")]  # fmt: skip
    return kept.fillna({"sequence": 0, "bytes": 0}).astype(dict.fromkeys(integers, np.int64))


def calls(rows: pd.DataFrame) -> Calls:
    """The collectives among operations; transfers between two stages stand beside, not here."""
    together = rows["optype"].isin(COLLECTIVE_OPS - SENDER.keys()) & (rows["sequence"] > 0)
    together |= (rows["group"] != "") & (rows["sequence"] > 0) & ~rows["optype"].isin(list(SENDER))
    rows = rows[together]
    part = np.zeros(len(rows), dtype=np.int64)
    for group, shared in MEMBERS.items():
        mine = (rows["group"] == group).to_numpy()
        for column in shared:
            place = rows[column].fillna(0).to_numpy(np.int64)
            part = np.where(mine, part * 100_003 + place + 1, part)
    keys = [rows["group"].astype(str).to_numpy(), rows["optype"].astype(str).to_numpy()]
    codes = [np.unique(each, return_inverse=True)[1] for each in keys]
    order = np.lexsort((part, rows["sequence"], codes[1], codes[0]))
    rows = rows.iloc[order].reset_index(drop=True)
    key = np.stack([codes[0][order], codes[1][order], rows["sequence"].to_numpy(), part[order]])
    begin = np.flatnonzero(np.concatenate([[True], (np.diff(key, axis=1) != 0).any(axis=0)]))
    if not len(rows):
        none = np.zeros(0)
        return Calls(rows, none.astype(np.int64), none.astype(np.int64), none, none)
    members = np.diff(np.append(begin, len(rows)))
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    first = np.minimum.reduceat(start, begin)
    late = (start - np.repeat(first, members)) / NANO
    carried = np.maximum.reduceat(end, begin) - np.maximum.reduceat(start, begin)
    return Calls(rows, begin, members, late, np.maximum(carried, 0) / NANO)


def collectives(calls: Calls) -> pd.DataFrame:
    """One row an operation, group and size (lockstep.dashboard.protocol.Source.collectives).

    Seconds are what a rank was in it, waiting included; busbw takes the transfer alone, from the
    last arrival on, and is the median over calls.
    """
    if not len(calls.rows):
        return pd.DataFrame(columns=list(TABLE))
    rows, begin = calls.rows, calls.begin
    seconds = (rows["end_ns"] - rows["start_ns"]).to_numpy() / NANO
    call = np.repeat(np.arange(len(begin)), calls.members)
    last = _last(calls)
    calls_read = pd.DataFrame({
        "op": rows["optype"].astype(str).to_numpy()[begin],
        "group": rows["group"].astype(str).to_numpy()[begin],
        "bytes": np.maximum.reduceat(rows["bytes"].to_numpy(), begin),
        "late_rank": rows["rank"].to_numpy()[last], "late": calls.late[last],
    })  # fmt: skip
    # The recorded size is that of the whole tensor, for gathers too.
    factor = [bus_factor(_kind(op), int(count))
              for op, count in zip(calls_read["op"], calls.members, strict=True)]  # fmt: skip
    timed = (calls.carried > 0) & (calls.members > 1) & (calls_read["bytes"].to_numpy() > 0)
    calls_read["busbw"] = np.where(
        timed, calls_read["bytes"] / np.where(timed, calls.carried, 1.0) * factor, np.nan
    )
    calls_read["late_rank"] = calls_read["late_rank"].where(calls.members > 1, -1)
    kind = calls_read.groupby(["op", "group", "bytes"], sort=False).ngroup().to_numpy()
    table = []
    for number in range(int(kind.max()) + 1):
        mine, all_of_it = calls_read[kind == number], seconds[(kind == number)[call]]
        common = mine["late_rank"].value_counts()
        who = int(common.index[0])
        table.append((
            mine["op"].iloc[0], mine["group"].iloc[0], len(mine), int(mine["bytes"].iloc[0]),
            float(np.median(all_of_it)), float(np.quantile(all_of_it, 0.95)),
            float(all_of_it.sum()), float(mine["busbw"].median()), who if who >= 0 else None,
            float(mine["late"][mine["late_rank"] == who].median()) if who >= 0 else np.nan,
        ))  # fmt: skip
    frame = pd.DataFrame(table, columns=list(TABLE)).astype({"late_rank": "Int32"})
    return frame.sort_values("total_seconds", ascending=False, ignore_index=True)


def arrivals(calls: Calls, who: pd.DataFrame) -> Matrix:
    """By how many seconds each rank arrived after the first one, mean by window of steps."""
    rows = calls.rows
    several = np.repeat(calls.members > 1, calls.members)
    step = rows["step"].to_numpy()[several]
    ranks = who["rank"].to_numpy()
    there, which = np.unique(step, return_inverse=True)
    windows = min(len(there), MOST_WINDOWS)
    if not windows:
        none = np.zeros(0)
        return Matrix("Arrival after the first rank", "s", (), none, none, np.zeros((0, 0)))
    edges = np.unique(np.linspace(0, len(there), windows, endpoint=False).astype(np.int64))
    window = np.searchsorted(edges, which.reshape(-1), side="right") - 1
    place = pd.Index(ranks).get_indexer(rows["rank"].to_numpy()[several])
    known = place >= 0
    cell = place[known] * len(edges) + window[known]
    size = len(ranks) * len(edges)
    total = np.bincount(cell, calls.late[several][known], size)
    count = np.bincount(cell, minlength=size)
    start = np.full(len(edges), np.inf)
    np.minimum.at(start, window, rows["start_ns"].to_numpy()[several] / NANO)
    values = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return Matrix(
        "Arrival after the first rank", "s", names(who), start, there[edges].astype(np.float64),
        values.reshape(len(ranks), len(edges)),
    )  # fmt: skip


def of_rank(table: Table, rank: int, span: Span | None) -> pd.DataFrame:
    """Operations of one rank, in the order of time, the first MOST_OPERATIONS."""
    read(table, Span(0.0, 0.0))  # without operations it says so
    mine = ds.field("rank") == rank
    within = _within(span)
    rows = table.read(COLUMNS, mine if within is None else mine & within).to_pandas()
    rows = rows.dropna(subset=["start_ns", "end_ns"]).sort_values("start_ns", kind="stable")
    rows = rows.head(MOST_OPERATIONS)
    return pd.DataFrame({
        "op": rows["optype"].astype(str), "group": rows["group"].astype(str),
        "step": rows["step"], "sequence": rows["sequence"], "start": rows["start_ns"] / NANO,
        "seconds": (rows["end_ns"] - rows["start_ns"]) / NANO, "bytes": rows["bytes"],
    })[list(SHOWN)].reset_index(drop=True)  # fmt: skip


def _last(calls: Calls) -> NDArray[np.int64]:
    """(C,) the row of each call that arrived last."""
    call = np.repeat(np.arange(len(calls.begin)), calls.members)
    order = np.lexsort((calls.late, call))
    last: NDArray[np.int64] = order[np.append(calls.begin[1:], len(calls.rows)) - 1]
    return last


def _kind(op: str) -> str:
    return next((word for end, word in KINDS.items() if op.endswith(end)), op)


def _within(span: Span | None) -> ds.Expression | None:
    if span is None:
        return None
    first, last = (int(min(max(at, 0.0), 9e9) * NANO) for at in (span.start, span.end))
    return (ds.field("start_ns") >= first) & (ds.field("start_ns") < last)


MOST_TRACED = 100_000
"""About 25 MB of JSON, 1.5 MB compressed: browsers open it at once."""
COMPRESSION = 5


def trace(
    ops: Table, steps: Table, who: pd.DataFrame, meta: Mapping[str, Any], run: str, span: Span
) -> bytes:
    """Trace Event JSON, gzip: the first whole steps of the span, up to MOST_TRACED.

    Raises:
        TroubleError: There are no operations in it.
    """
    rows = read(ops, span, [column.name for column in archive.OPS])
    if rows.empty:
        raise TroubleError(
            Kind.EMPTY, "No operation was recorded in this range.",
            "Choose a range in which the run trained.",
        )  # fmt: skip
    count = rows.groupby("step").size().sort_index().cumsum()
    last = int(count.index[max(int(np.searchsorted(count, MOST_TRACED)) - 1, 0)])
    first = int(count.index[0])
    rows = rows[rows["step"] <= last]
    texts = {name: rows[name].astype(object).fillna("").astype(str)
             for name in ("optype", "group", "flags", "tag")}  # fmt: skip
    step_rows = steps.read([column.name for column in archive.STEPS]).to_pandas()
    step_rows = step_rows[
        step_rows["step"].between(first, last) & step_rows["start"].between(0, LATEST)
    ]
    step_rows = step_rows.assign(tags=step_rows["tags"].astype(str))
    infos = tuple(
        RankInfo(int(info["rank"]), info["node"], None if pd.isna(info["gpu"]) else info["gpu"],
                 info["uuid"] or None, int(info["local_rank"]), int(info["dp"]), int(info["pp"]),
                 int(info["tp"]))
        for info in who.to_dict("records")
    )  # fmt: skip
    whole_run = Run(run, meta, infos, from_steps(step_rows), pd.DataFrame(), rows.assign(**texts))
    try:
        parts = "".join(of_run(whole_run, range(first, last + 1)).parts())
    except TimelineError as error:
        raise TroubleError(Kind.EMPTY, f"{error}.", "Choose another range.") from None
    return gzip.compress(parts.encode(), COMPRESSION, mtime=0)
