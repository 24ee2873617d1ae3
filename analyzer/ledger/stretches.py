"""The time of an attempt, rank by rank, in stretches without overlap or gap.

Closure is by construction: edges are put in order inside [launched, end], and what a stretch is
reported to hold is scaled to its length (docs/method/ledger.md#closure).
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lockstep.analyzer.ledger.attempt import FINISHED, INTERRUPTED, Attempt
from lockstep.analyzer.ledger.buckets import BUCKETS, INDEX, Bucket
from lockstep.analyzer.ledger.energy import Course, courses
from lockstep.analyzer.ledger.starting import PARTS, Marks, marks, pod_times
from lockstep.analyzer.shapes.labels import UP
from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import StartPart


@dataclass(frozen=True, slots=True)
class Spent:
    """Where the time and the energy of an attempt went, in the order of `attempt.run.ranks`.

    Attributes:
        seconds: (R, len(BUCKETS) + len(attempt.excesses)), those of each culprit behind the
            buckets; each row sums to the attempt's seconds. The bucket `straggler` is 0: its
            seconds are the culprits'.
        joules: Alike, as far as the energy of the rank's GPU was reported.
        reported: (R,) seconds of which it was.
        starting: (R, len(PARTS)) what the bucket `starting` was; each row sums to it.
        measured: Parts of it that were measured on some rank.
    """

    seconds: FloatGrid
    joules: FloatGrid
    reported: FloatGrid
    starting: FloatGrid
    measured: frozenset[StartPart]


class _Row:
    """One rank, filled stretch by stretch."""

    def __init__(self, columns: int, energy: Course | None, marks: Marks) -> None:
        self.seconds = np.zeros(columns)
        self.joules = np.zeros(columns)
        self.reported = 0.0
        self.starting = np.zeros(len(PARTS))
        self._energy = energy
        self._marks = marks
        self._first = True

    def put(self, bucket: Bucket, begin: float, end: float) -> None:
        """A stretch that is all of one bucket."""
        length = end - begin
        self.seconds[INDEX[bucket]] += length
        if bucket is Bucket.STARTING:
            self.starting += self._marks.between(begin, end)
        if self._energy is not None and length > 0:
            joules, told = self._energy.between(np.array([begin]), np.array([end]))
            self.joules[INDEX[bucket]] += joules[0]
            self.reported += float(told[0])

    def put_windows(self, held: FloatGrid, start: FloatGrid, end: FloatGrid) -> None:
        """Windows, whose energy is shared as their time is: within one nobody reports more.

        What they hold of starting is of warm-up steps, or between them.
        """
        self.seconds += held.sum(axis=0)
        warming = held[:, INDEX[Bucket.STARTING]]
        for place in np.flatnonzero(warming):
            self.starting += self._marks.of_warm_up(
                float(start[place]), float(warming[place]), first=self._first and place == 0
            )
        self._first = False
        if self._energy is None:
            return
        joules, told = self._energy.between(start, end)
        length = held.sum(axis=1)
        share = np.divide(held, length[:, None], out=np.zeros_like(held), where=length[:, None] > 0)
        self.joules += (share * joules[:, None]).sum(axis=0)
        self.reported += float(told.sum())


def spent(attempt: Attempt, done_until: int) -> Spent:
    """Seconds and joules of each rank in each bucket, those of each culprit behind them.

    Args:
        attempt: One launch.
        done_until: Steps that earlier attempts have done on every rank, exclusive.
    """
    columns = len(BUCKETS) + len(attempt.excesses)
    windows = _in_order(attempt)
    held = _steps(attempt, windows, done_until)
    by_rank = dict(list(windows.groupby("rank").indices.items()))
    ups = _processes(attempt)
    inside = _collectives(attempt)
    energy = courses(attempt.run)
    restored = _restored(attempt)
    pods = pod_times(attempt.run.meta)
    table: list[_Row] = []
    measured: frozenset[StartPart] = frozenset()
    for info in attempt.run.ranks:
        mine = by_rank.get(info.rank)
        first = float("nan"), float("nan")
        if mine is not None:
            one = windows.iloc[mine[0]]
            first = float(one["start"]), float(one["end"])
        known = marks(attempt.run.meta, pods, info, attempt.launched, first, attempt.end)
        measured |= known.reported
        row = _Row(columns, energy.get(info.rank), known)
        table.append(row)
        row.put(Bucket.QUEUED, attempt.begin, attempt.launched)
        if mine is None:
            _silent(row, attempt, windows)
            continue
        rows = windows.iloc[mine]
        start, end = rows["start"].to_numpy(), rows["end"].to_numpy()
        row.put_windows(held[mine], start, end)
        _before(row, attempt, rows, start[0], restored.get(info.rank))
        _between(row, rows, start, end, ups.get(info.rank, {}), inside.get(info.rank))
        row.put(_tail(attempt), end[-1], attempt.end)
    return Spent(
        np.array([row.seconds for row in table]).reshape(-1, columns),
        np.array([row.joules for row in table]).reshape(-1, columns),
        np.array([row.reported for row in table]),
        np.array([row.starting for row in table]).reshape(-1, len(PARTS)),
        measured,
    )


def _in_order(attempt: Attempt) -> pd.DataFrame:
    """The windows by rank and time, cut so that none overlaps the next or leaves the attempt."""
    told = attempt.run.windows
    told = told[np.isfinite(told["start"].astype(float))].sort_values(
        ["rank", "start", "attempt", "from_step"]
    )
    rank = told["rank"].to_numpy()
    start = np.clip(told["start"].to_numpy(dtype=float), attempt.launched, attempt.end)
    end = told["end"].to_numpy(dtype=float)
    end = np.clip(np.where(np.isfinite(end), end, start), start, attempt.end)
    if len(told):
        last = np.append(rank[1:] != rank[:-1], True)
        end = np.minimum(end, np.where(last, attempt.end, np.append(start[1:], 0.0)))
    return told.assign(start=start, end=np.maximum(start, end)).reset_index(drop=True)


def _steps(attempt: Attempt, windows: pd.DataFrame, done_until: int) -> FloatGrid:
    """(N, columns) what each window holds; each row sums to the window's length."""
    count, columns = len(windows), len(BUCKETS) + len(attempt.excesses)
    held = np.zeros((count, columns))
    if not count:
        return held
    length = (windows["end"] - windows["start"]).to_numpy()
    wall = _numbers(windows, "wall_seconds")
    steps = np.maximum(_numbers(windows, "steps"), 1.0)
    held[:, INDEX[Bucket.SAVED]] = _seconds(windows, "checkpoint_seconds")
    held[:, INDEX[Bucket.EVALUATION]] = _seconds(windows, "eval_seconds")
    apart = held.sum(axis=1)
    own = _numbers(windows, "own_seconds")
    timed = np.isfinite(own)
    left = np.maximum(np.nan_to_num(wall) - apart, 0.0)
    # Where nobody timed the collectives of a step, it is useful as a whole.
    computing = np.where(timed, np.clip(np.nan_to_num(own) - apart, 0.0, left), left)
    waiting = left - computing
    warm = windows["tags"].astype(str).str.contains("warmup").to_numpy()
    compiling = _warming(windows, left / steps, warm) * steps
    held[:, INDEX[Bucket.STARTING]] = compiling
    computing, waiting = _taken(computing, waiting, compiling, first=np.ones(count, dtype=bool))
    place = _window_of(attempt, windows["start"].to_numpy())
    ranks = windows["rank"].to_numpy()
    for number, excess in enumerate(attempt.excesses):
        lost = np.where(place >= 0, excess.seconds[place], 0.0) if len(excess.seconds) else 0.0
        lost = np.minimum(lost * steps * ~warm, computing + waiting)
        held[:, len(BUCKETS) + number] = lost
        slow = np.isin(ranks, list(excess.ranks))
        computing, waiting = _taken(computing, waiting, lost, first=slow)
    held[:, INDEX[Bucket.USEFUL]] = computing
    held[:, INDEX[Bucket.COMMUNICATION]] = waiting
    # A window of several steps can begin before what is done again ends.
    first = windows["from_step"].to_numpy(dtype=float)
    again = np.clip((done_until - first) / np.maximum(steps, 1.0), 0.0, 1.0)
    again = np.maximum(again, _again(windows))
    replayed = held.sum(axis=1) * again
    held *= (1.0 - again)[:, None]
    held[:, INDEX[Bucket.REPLAYED]] = replayed
    known = held.sum(axis=1)
    scale = np.divide(np.minimum(known, length), known, out=np.zeros(count), where=known > 0)
    held *= scale[:, None]
    held[:, INDEX[Bucket.UNKNOWN]] += np.maximum(length - held.sum(axis=1), 0.0)
    return held


def _again(windows: pd.DataFrame) -> FloatGrid:
    """(N,) share of a window that an earlier attempt of the same archive had done on every rank."""
    again = np.zeros(len(windows))
    attempts = windows["attempt"].to_numpy()
    done = 0
    for number in np.unique(attempts):
        mine = attempts == number
        first = windows["from_step"].to_numpy(dtype=float)[mine]
        steps = np.maximum(_numbers(windows, "steps")[mine], 1.0)
        again[mine] = np.clip((done - first) / steps, 0.0, 1.0)
        done = max(done, int(windows[mine].groupby("rank")["to_step"].max().min()))
    return again


def _warming(windows: pd.DataFrame, left: FloatGrid, warm: NDArray[np.bool_]) -> FloatGrid:
    """(N,) seconds a step that a warm-up step takes beyond the rank's ordinary one."""
    beyond = np.zeros(len(windows))
    ordinary = pd.Series(np.where(warm, np.nan, left)).groupby(windows["rank"].to_numpy())
    usual = ordinary.transform("median").to_numpy()
    known = warm & np.isfinite(usual)
    beyond[known] = np.maximum(left - usual, 0.0)[known]
    return beyond


def _taken(
    computing: FloatGrid, waiting: FloatGrid, amount: FloatGrid, first: NDArray[np.bool_]
) -> tuple[FloatGrid, FloatGrid]:
    """What is left of both after `amount` went, where `first` from computing before waiting."""
    from_computing = np.where(
        first, np.minimum(amount, computing), np.maximum(amount - waiting, 0.0)
    )
    from_waiting = amount - from_computing
    return (
        np.maximum(computing - from_computing, 0.0),
        np.maximum(waiting - from_waiting, 0.0),
    )


def _window_of(attempt: Attempt, start: FloatGrid) -> NDArray[np.int64]:
    """The Grid's window in which a step began: the last that began before its middle; -1 = none."""
    if not attempt.excesses or not len(attempt.window_start):
        return np.full(len(start), -1)
    order = np.argsort(attempt.window_start, kind="stable")
    edges = attempt.window_start[order]
    # `start` of a window is the median over its ranks: half a window is the tolerance.
    half = np.append(np.diff(edges), 0.0) / 2
    place = np.searchsorted(edges - np.append(half[:1], half[:-1]), start, side="right") - 1
    return np.where(place >= 0, order[np.maximum(place, 0)], -1)


def _before(
    row: _Row, attempt: Attempt, rows: pd.DataFrame, first: float,
    restored: tuple[float, float] | None,
) -> None:  # fmt: skip
    """From the launch to the first step; unknown where that step may not be the first."""
    bucket = Bucket.STARTING if _is_first(attempt, rows.iloc[0]) else Bucket.UNKNOWN
    begin, end = restored if restored is not None else (first, first)
    begin, end = (min(max(edge, attempt.launched), first) for edge in (begin, end))
    row.put(bucket, attempt.launched, begin)
    row.put(Bucket.RESTORED, begin, end)
    row.put(bucket, end, first)


def _restored(attempt: Attempt) -> dict[int, tuple[float, float]]:
    """Rank -> unix seconds between which it read its checkpoint, as run.json reports it."""
    told = attempt.run.meta.get("restored")
    found: dict[int, tuple[float, float]] = {}
    for rank, span in told.items() if isinstance(told, dict) else ():
        try:
            begin, end = float(span[0]), float(span[1])
            if begin <= end and np.isfinite([begin, end]).all():
                found[int(rank)] = begin, end
        except (TypeError, ValueError, IndexError, KeyError):
            continue
    return found


def _is_first(attempt: Attempt, row: "pd.Series[float]") -> bool:
    recording = attempt.run.meta.get("recording")
    whole = isinstance(recording, dict) and not recording.get("lost_steps")
    return whole or int(row["from_step"]) == 0 or "warmup" in str(row["tags"])


def _between(
    row: _Row, rows: pd.DataFrame, start: FloatGrid, end: FloatGrid,
    processes: dict[int, "_Restart"], inside: tuple[FloatGrid, FloatGrid] | None,
) -> None:  # fmt: skip
    """Between windows: another attempt, what follows a warm-up step, collectives, or unknown."""
    gaps = start[1:] - end[:-1]
    number = rows["attempt"].to_numpy()
    warm = rows["tags"].astype(str).str.contains("warmup").to_numpy()[:-1]
    consecutive = rows["to_step"].to_numpy()[:-1] == rows["from_step"].to_numpy()[1:]
    restarted = number[1:] != number[:-1]
    starting = warm & consecutive & ~restarted
    plain = ~starting & ~restarted
    together = np.zeros(len(gaps))
    if inside is not None:
        moments, covered = inside
        reached = np.interp(start[1:], moments, covered) - np.interp(end[:-1], moments, covered)
        together = np.clip(reached, 0.0, gaps) * (plain & consecutive)
    held = np.zeros((len(gaps), len(row.seconds)))
    held[:, INDEX[Bucket.STARTING]] = gaps * starting
    held[:, INDEX[Bucket.COMMUNICATION]] = together
    held[:, INDEX[Bucket.UNKNOWN]] = gaps * plain - together
    row.put_windows(held[~restarted], end[:-1][~restarted], start[1:][~restarted])
    for place in np.flatnonzero(restarted):
        again = processes.get(int(number[place + 1]), _UNSEEN)
        edges = np.clip([again.gone, again.up], end[place], start[place + 1])
        if not np.isfinite(edges).all():
            row.put(Bucket.UNKNOWN, end[place], start[place + 1])
            continue
        gone, up = edges[0], max(edges)
        row.put(Bucket.STALL, end[place], gone)
        row.put(Bucket.WAITING if again.elsewhere else Bucket.STARTING, gone, up)
        row.put(Bucket.STARTING, up, start[place + 1])


def _tail(attempt: Attempt) -> Bucket:
    """What the ranks did after their last completed step."""
    if attempt.ending is None:
        return Bucket.STALL if attempt.verdict.hang is not None else Bucket.UNKNOWN
    if attempt.ending == FINISHED:
        return Bucket.ENDING
    if attempt.ending == INTERRUPTED and attempt.verdict.hang is None:
        return Bucket.ENDING
    return Bucket.STALL


def _silent(row: _Row, attempt: Attempt, windows: pd.DataFrame) -> None:
    """A rank without a step: an attempt that never came to one was starting."""
    ended = attempt.ending is not None and "recording" in attempt.run.meta
    bucket = Bucket.STARTING if ended and windows.empty else Bucket.UNKNOWN
    row.put(bucket, attempt.launched, attempt.end)


@dataclass(frozen=True, slots=True)
class _Restart:
    """How a rank was started again.

    Attributes:
        gone: Unix seconds at which the process before was seen gone.
        up: At which its own was first seen.
        elsewhere: Whether the run waited for a node meanwhile: for one that had no rank before, or
            one that did not answer. Else the launcher, as torchrun, started it again in place.
    """

    gone: float
    up: float
    elsewhere: bool


_UNSEEN = _Restart(np.nan, np.nan, elsewhere=True)
DARK = 0.5
"""Share of the scrapes of a node that failed, from which on it did not answer."""


def _processes(attempt: Attempt) -> dict[int, dict[int, _Restart]]:
    """Rank -> attempt -> how the process before it went, and its own came.

    Labels count from the run's first launch and windows may count from the first that was seen, so
    they are matched by their order; where there are not as many of both, nobody can report.
    """
    samples = attempt.run.samples
    if not len(samples) or attempt.run.windows["attempt"].nunique() < 2:
        return {}
    metric = samples["metric"].astype(str)
    infos = samples[(metric == metrics.RANK_INFO.name) & samples["rank"].notna()]
    downs = samples[(metric == metrics.RANK_UP.name) & (samples["value"] == 0.0)]
    told = infos["labels"].astype(str).str.extract(r'attempt="(\d+)"')[0].astype(float)
    nodes_of: dict[float, set[str]] = {}
    if "node" in infos:
        nodes_of = {
            float(str(number)): set(rows["node"].dropna().astype(str))
            for number, rows in infos.assign(number=told)
            .dropna(subset=["number"])
            .groupby("number")
        }
    found: dict[int, dict[int, _Restart]] = {}
    for rank, mine in infos.assign(number=told).dropna(subset=["number"]).groupby("rank"):
        firsts = mine.groupby("number")["time"].min()
        gone = downs.loc[downs["rank"] == rank, "time"].to_numpy(dtype=float)
        own: dict[int, _Restart] = {}
        windows = attempt.run.windows
        numbers = np.unique(windows.loc[windows["rank"] == rank, "attempt"].to_numpy())
        if len(numbers) != len(firsts):
            continue
        for earlier, later, number in zip(
            firsts.index[:-1], firsts.index[1:], numbers[1:], strict=True
        ):
            inside = gone[(gone >= firsts[earlier]) & (gone <= firsts[later])]
            seen = float(inside.min()) if inside.size else float("nan")
            up = float(firsts[later])
            nodes = nodes_of.get(earlier, set()), nodes_of.get(later, set())
            own[int(number)] = _Restart(seen, up, _elsewhere(samples, *nodes, seen, up))
        found[int(float(str(rank)))] = own
    return found


def _elsewhere(
    samples: pd.DataFrame, before: set[str], after: set[str], gone: float, up: float
) -> bool:
    """Whether a launch waited for a node; so, too, where nobody reports nodes."""
    if not before or not after or after - before:
        return True
    told = samples[(samples["metric"] == UP) & samples["time"].between(gone, up)]
    told = told[told["node"].astype(str).isin(after)]
    failed = (told["value"] == 0.0).groupby(told["node"].astype(str)).mean()
    return bool((failed > DARK).any())


def _collectives(attempt: Attempt) -> dict[int, tuple[FloatGrid, FloatGrid]]:
    """Rank -> moments, and the seconds that it had been in recorded collectives by then."""
    ops = attempt.run.ops
    if ops is None or not {"rank", "group", "start_ns", "end_ns"} <= set(ops):
        return {}
    mine = ops[ops["group"].astype(str) != ""].sort_values(["rank", "start_ns"])
    found: dict[int, tuple[FloatGrid, FloatGrid]] = {}
    for rank, rows in mine.groupby("rank"):
        start = rows["start_ns"].to_numpy(dtype=float) / 1e9
        # Of those that overlap, what the earlier ones have not covered.
        reach = np.maximum.accumulate(rows["end_ns"].to_numpy(dtype=float) / 1e9)
        begin = np.maximum(start, np.append(-np.inf, reach[:-1]))
        end = np.maximum(reach, begin)
        moments = np.column_stack([begin, end]).ravel()
        spent = np.cumsum(end - begin)
        covered = np.column_stack([spent - (end - begin), spent]).ravel()
        found[int(str(rank))] = (moments, covered)
    return found


def _numbers(windows: pd.DataFrame, name: str) -> FloatGrid:
    """(N,) NaN where nobody reports, or reports what no duration is."""
    values = windows[name].to_numpy(dtype=float, na_value=np.nan)
    numbers: FloatGrid = np.where(np.isfinite(values) & (values >= 0.0), values, np.nan)
    return numbers


def _seconds(windows: pd.DataFrame, name: str) -> FloatGrid:
    """(N,) seconds, 0 where nobody reports."""
    seconds: FloatGrid = np.nan_to_num(_numbers(windows, name))
    return seconds
