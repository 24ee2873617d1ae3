"""Slices as the JSON that ui.perfetto.dev and chrome://tracing open.

SOURCE: the Trace Event Format; of it, complete events (`X`) and metadata (`M`), times in
microseconds.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lockstep.analyzer.shapes.run import RankInfo

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
    lane_of = np.zeros(len(slices), dtype=np.int64)
    order = np.lexsort((-slices["duration_ns"], slices["start_ns"]))
    keys = slices.groupby(["rank", "ideal", "track"]).ngroup().to_numpy()
    start = slices["start_ns"].to_numpy(dtype=np.int64)
    stop = start + slices["duration_ns"].to_numpy(dtype=np.int64)
    free: dict[int, list[int]] = {}
    for index in order.tolist():
        ends = free.setdefault(int(keys[index]), [])
        lane = next((n for n, end in enumerate(ends) if end <= start[index]), len(ends))
        if lane == len(ends):
            ends.append(0)
        ends[lane] = int(stop[index])
        lane_of[index] = lane
    return lane_of


TRACKS: tuple[str, ...] = (STEPS, COMPUTE)
"""The first tracks of a rank; the groups follow by name."""
SHOWN: tuple[str, ...] = (
    "name", "kind", "start_ns", "duration_ns", "rank", "ideal", "track", "lane", "step",
)  # fmt: skip
TOLD: tuple[str, ...] = ("micro_batch", "chunk", "bytes", "sequence")


def document(
    slices: pd.DataFrame, ranks: Sequence[RankInfo], more: Mapping[str, Any]
) -> Iterator[str]:
    """The file in parts: a process a rank, actual above ideal, a thread a track.

    Times count from the first slice, whose unix time stands in `otherData.begin_unix_ns`.

    Args:
        slices: slices.COLUMNS.
        ranks: Who the ranks are.
        more: More for `otherData`.
    """
    begin = int(slices["start_ns"].min()) if len(slices) else 0
    slices = slices.assign(lane=lanes(slices)).sort_values(
        ["rank", "ideal", "start_ns", "duration_ns"], kind="stable"
    )
    tracks = slices[["rank", "ideal", "track", "lane"]].drop_duplicates()
    thread = _threads(tracks)
    other = {"begin_unix_ns": begin, **more}
    yield f'{{"displayTimeUnit":"ms","otherData":{_json(other)},"traceEvents":[\n'
    yield ",\n".join(map(_json, _names(tracks, thread, {info.rank: info for info in ranks})))
    for name, kind, start, duration, rank, ideal, track, lane, step, *rest in zip(
        *(slices[column].tolist() for column in (*SHOWN, *TOLD)), strict=True
    ):
        event = {
            "name": name, "cat": kind, "ph": "X",
            "ts": (start - begin) / 1000, "dur": duration / 1000,
            "pid": _process(rank, ideal), "tid": thread[rank, ideal, track, lane],
            "args": {"step": step}
            | {key: value for key, value in zip(TOLD, rest, strict=True) if value >= 0},
        }  # fmt: skip
        yield ",\n" + _json(event)
    yield "\n]}\n"


def _process(rank: int, ideal: bool) -> int:
    return 2 * rank + (2 if ideal else 1)


def _threads(tracks: pd.DataFrame) -> dict[tuple[int, bool, str, int], int]:
    """A number for each lane of a track: unique in the file, in the order to show."""

    def order(key: tuple[int, bool, str, int]) -> tuple[int, bool, int, str, int]:
        rank, ideal, track, lane = key
        first = TRACKS.index(track) if track in TRACKS else len(TRACKS)
        return rank, ideal, first, track, lane

    keys = [(int(r), bool(i), str(t), int(n)) for r, i, t, n in tracks.itertuples(index=False)]
    return {key: number for number, key in enumerate(sorted(keys, key=order), start=1)}


def _names(
    tracks: pd.DataFrame,
    thread: Mapping[tuple[int, bool, str, int], int],
    ranks: Mapping[int, RankInfo],
) -> Iterator[dict[str, Any]]:
    """Metadata events: the names and places of processes and threads."""
    for rank, ideal in tracks[["rank", "ideal"]].drop_duplicates().itertuples(index=False):
        pid = _process(int(rank), bool(ideal))
        info = ranks.get(int(rank))
        who = f"rank {rank}" if info is None else (
            f"rank {rank} ({info.node}, dp {info.dp}, pp {info.pp}, tp {info.tp})"
        )  # fmt: skip
        name = f"rank {rank}, ideal" if ideal else who
        yield _meta("process_name", pid, None, {"name": name})
        yield _meta("process_sort_index", pid, None, {"sort_index": pid})
    for (rank, ideal, track, lane), tid in thread.items():
        pid = _process(rank, ideal)
        name = track if track in TRACKS else f"{track} collectives"
        yield _meta("thread_name", pid, tid, {"name": f"{name} {lane + 1}" if lane else name})
        yield _meta("thread_sort_index", pid, tid, {"sort_index": tid})


def _meta(name: str, pid: int, tid: int | None, args: Mapping[str, Any]) -> dict[str, Any]:
    where = {"pid": pid} if tid is None else {"pid": pid, "tid": tid}
    return {"name": name, "ph": "M", **where, "args": dict(args)}


def _json(tree: Mapping[str, Any]) -> str:
    return json.dumps(tree, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
