"""The ledger of a run: its attempts in time, and where every second of every rank went."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from lockstep.analyzer.ledger.attempt import Attempt, resumed_from
from lockstep.analyzer.ledger.buckets import BUCKETS, INDEX, PRODUCTIVE, RUNNING, Bucket
from lockstep.analyzer.ledger.starting import PARTS, PLACE
from lockstep.analyzer.ledger.stretches import Spent, spent
from lockstep.analyzer.read.iteration_log import FROM_LOG
from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract.words import StartPart


@dataclass(frozen=True, slots=True)
class Straggler:
    """What a culprit cost.

    Attributes:
        who: The rank, the node or the link.
        node: Its node; None where it has none.
        cause: A word of contract.words.Cause.
        seconds: Rank-seconds of all ranks.
    """

    who: str
    node: str | None
    cause: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where the rank-seconds of one run went.

    Attributes:
        run: The run id of its first attempt.
        attempts: Archives, by their begin.
        launches: How often it was started: what was started again inside one archive is one more.
        ranks: The ranks of its attempts, sorted.
        seconds: (R, len(BUCKETS)) of each rank in each bucket.
        wall_seconds: From the first launch to the last end.
        rank_seconds: Wall times ranks: what all buckets sum to. The sum over attempts and the gaps
            between them of their length times the ranks of the attempt, or of the next one.
        stragglers: The bucket `straggler`, by culprit and cause, the dearest first.
        failures: Attempts that crashed or hung, or vanished and were followed by another; each
            start again inside one archive is one, too.
        running_seconds: Wall seconds of all attempts, without waiting for a node inside an archive.
        repairs: Wall seconds from the last step of each failed attempt to the first step that had
            not been done before; NaN where no attempt came so far.
        repaired_from: Of each repair the nodes that had ended the attempt; none = nobody knows.
        by_node: Node -> (len(BUCKETS),) seconds that its ranks spent.
        missing: What could not be reported, in words.
        provenance: What was emulated or simulated.
        joules: (R, len(BUCKETS)) energy of the ranks' GPUs in each bucket, as far as it was
            reported.
        powered_seconds: Rank-seconds of which it was reported.
        starting: (R, len(PARTS)) what the bucket `starting` was of each rank; rows sum to it.
        measured: Parts of it that somebody measured.
    """

    run: str
    attempts: tuple[Attempt, ...]
    launches: int
    ranks: tuple[int, ...]
    seconds: FloatGrid
    wall_seconds: float
    rank_seconds: float
    stragglers: tuple[Straggler, ...]
    failures: int
    running_seconds: float
    repairs: tuple[float, ...]
    repaired_from: tuple[frozenset[str], ...]
    by_node: Mapping[str, FloatGrid]
    missing: tuple[str, ...]
    provenance: tuple[str, ...]
    joules: FloatGrid
    powered_seconds: float
    starting: FloatGrid
    measured: frozenset[StartPart]

    def parts(self) -> dict[StartPart, float | None]:
        """Rank-seconds of each part of starting; None where nobody measured it."""
        sums = self.starting.sum(axis=0) if len(self.starting) else np.zeros(len(PARTS))
        always = (StartPart.WARMUP, StartPart.UNKNOWN)
        return {
            row.part: float(told) if row.part in self.measured or row.part in always else None
            for row, told in zip(PARTS, sums, strict=True)
        }

    def of(self, bucket: Bucket) -> float:
        """Rank-seconds of all ranks in a bucket."""
        return float(self.seconds[:, INDEX[bucket]].sum())

    def share(self, bucket: Bucket) -> float:
        """Of all rank-seconds; NaN of a run without time."""
        return self.of(bucket) / self.rank_seconds if self.rank_seconds > 0 else float("nan")

    @property
    def goodput(self) -> float:
        """Productive time that was kept, over all time (docs/method/ledger.md#goodput)."""
        return self._sum(PRODUCTIVE)

    @property
    def ettr(self) -> float:
        """Effective training time ratio (docs/method/ledger.md#ettr)."""
        return self._sum(RUNNING)

    def _sum(self, buckets: Sequence[Bucket]) -> float:
        return float(sum(self.share(bucket) for bucket in buckets))


def ledger(attempts: Sequence[Attempt]) -> Ledger:
    """The ledger of the attempts of one run, by their begin (`attempt.chains`).

    Raises:
        ValueError: There are none, or two of them overlap in time.
    """
    if not attempts:
        raise ValueError("a ledger needs an attempt")
    if any(later.begin < earlier.end for earlier, later in pairwise(attempts)):
        raise ValueError("attempts of one run must not overlap in time")
    rows: dict[int, FloatGrid] = {}
    nodes: dict[str, FloatGrid] = {}
    joules: dict[int, FloatGrid] = {}
    starts: dict[int, FloatGrid] = {}
    measured: frozenset[StartPart] = frozenset()
    unmeasured: list[str] = []
    powered = 0.0
    costs: dict[tuple[str, str | None, str], float] = {}
    done, total, down, failures = 0, 0.0, 0.0, 0
    repairs: list[float] = []
    repaired_from: list[frozenset[str]] = []
    since: list[tuple[float, frozenset[str]]] = []
    previous: Attempt | None = None
    for attempt in attempts:
        world = len(attempt.run.ranks)
        told_of = spent(attempt, done)
        table = told_of.seconds
        waited = 0.0 if previous is None else attempt.begin - previous.end
        # Between two spans of a run it may have gone on.
        gap = Bucket.UNKNOWN if attempt.span else Bucket.WAITING
        for info, told in zip(attempt.run.ranks, table, strict=True):
            mine = told[: len(BUCKETS)].copy()
            mine[INDEX[Bucket.STRAGGLER]] += told[len(BUCKETS) :].sum()
            mine[INDEX[gap]] += waited
            rows[info.rank] = rows.get(info.rank, np.zeros(len(BUCKETS))) + mine
            nodes[info.node] = nodes.get(info.node, np.zeros(len(BUCKETS))) + mine
        for info, told, known in zip(
            attempt.run.ranks, told_of.joules, told_of.reported, strict=True
        ):
            energy = joules.setdefault(info.rank, np.zeros(len(BUCKETS)))
            energy += told[: len(BUCKETS)]
            energy[INDEX[Bucket.STRAGGLER]] += told[len(BUCKETS) :].sum()
            powered += float(known)
        for info, parts in zip(attempt.run.ranks, told_of.starting, strict=True):
            starts[info.rank] = starts.get(info.rank, np.zeros(len(PARTS))) + parts
        measured |= told_of.measured
        unmeasured += _unmeasured(attempt, told_of)
        for excess, lost in zip(
            attempt.excesses, table[:, len(BUCKETS) :].sum(axis=0), strict=True
        ):
            key = (excess.who, excess.node, excess.cause)
            costs[key] = costs.get(key, 0.0) + float(lost)
        total += (attempt.seconds + waited) * world
        down += float(table[:, INDEX[Bucket.WAITING]].mean()) if world else 0.0
        launches = _launches(attempt)
        for number, windows in enumerate(launches):
            onward = _first_new(windows, done)
            if onward is not None:
                repairs += [onward - moment for moment, _ in since]
                repaired_from += [ended_by for _, ended_by in since]
                since = []
            # What was started again in place had failed.
            again = number + 1 < len(launches)
            followed = attempt is not attempts[-1] or attempt.ending is not None
            if again or (attempt.failed and followed):
                failures += 1
                # Of what was started again in place nobody says who had ended it.
                known = not again and attempt.ending is not None
                ended_by = attempt.ended_by if known else frozenset()
                since.append((_last_step(attempt, windows), ended_by))
            done = max(done, _done_by_all(attempt, windows))
        previous = attempt
    ranks = tuple(sorted(rows))
    seconds = np.array([rows[rank] for rank in ranks]).reshape(len(ranks), len(BUCKETS))
    stragglers = [Straggler(*key, lost) for key, lost in costs.items() if lost > 0.0]
    return Ledger(
        run=attempts[0].run.name,
        attempts=tuple(attempts),
        launches=sum(len(_launches(one)) for one in attempts),
        ranks=ranks,
        seconds=seconds,
        wall_seconds=max(one.end for one in attempts) - attempts[0].begin,
        rank_seconds=total,
        stragglers=tuple(sorted(stragglers, key=lambda one: (-one.seconds, one.who))),
        failures=failures,
        running_seconds=sum(one.seconds for one in attempts) - down,
        repairs=(*repairs, *(float("nan") for _ in since)),
        repaired_from=(*repaired_from, *(ended_by for _, ended_by in since)),
        by_node=nodes,
        missing=(*_missing(attempts), *unmeasured),
        provenance=tuple(dict.fromkeys(
            word for one in attempts for word in one.verdict.provenance
        )),
        joules=np.array([joules[rank] for rank in ranks]).reshape(len(ranks), len(BUCKETS)),
        powered_seconds=powered,
        starting=np.array([starts[rank] for rank in ranks]).reshape(len(ranks), len(PARTS)),
        measured=measured,
    )  # fmt: skip


def _launches(attempt: Attempt) -> list[pd.DataFrame]:
    """The windows of each launch that an archive holds; one without windows where it has none."""
    windows = attempt.run.windows
    if not len(windows):
        return [windows]
    return [rows for _, rows in windows.groupby("attempt", sort=True)]


def _done_by_all(attempt: Attempt, windows: pd.DataFrame) -> int:
    """Steps that every rank of a launch completed, exclusive; 0 where one completed none."""
    if not len(windows):
        return 0
    last = windows.groupby("rank")["to_step"].max()
    if {info.rank for info in attempt.run.ranks} - set(last.index.astype(int)):
        return 0
    return int(last.min())


def by_team(ledgers: Sequence[Ledger]) -> Mapping[str, FloatGrid]:
    """Team -> (len(BUCKETS),) rank-seconds; runs that name no team are of the team ``unknown``."""
    sums: dict[str, FloatGrid] = {}
    for one in ledgers:
        told = sums.setdefault(team_of(one), np.zeros(len(BUCKETS)))
        told += one.seconds.sum(axis=0)
    return sums


def team_of(book: Ledger) -> str:
    """The label `team` of run.json; ``unknown`` where it has none."""
    for attempt in book.attempts:
        labels = attempt.run.meta.get("labels")
        if isinstance(labels, Mapping) and labels.get("team"):
            return str(labels["team"])
    return "unknown"


def _first_new(windows: pd.DataFrame, done: int) -> float | None:
    """Unix seconds at which a launch began the first step that none had done before."""
    if not len(windows):
        return None
    start = windows.loc[windows["to_step"] > done, "start"].to_numpy(dtype=float)
    start = start[np.isfinite(start)]
    return float(start.min()) if start.size else None


def _last_step(attempt: Attempt, windows: pd.DataFrame) -> float:
    """Unix seconds at which its last step ended, on any rank; the begin without one."""
    end = windows["end"].to_numpy(dtype=float) if len(windows) else np.zeros(0)
    end = end[np.isfinite(end)]
    return float(end.max()) if end.size else attempt.begin


def _can_queue(attempt: Attempt) -> bool:
    """Whether somebody else than its launch decided when it started."""
    spec = attempt.run.meta.get("spec")
    launcher = spec.get("launcher") if isinstance(spec, Mapping) else None
    return launcher not in ("local", "mpirun")


LEAST_SHARE = 0.01
"""Of an attempt's rank-seconds; a smaller part of its start that nobody measured is not
reported."""


def _unmeasured(attempt: Attempt, energy: Spent) -> list[str]:
    """Which parts of its start nobody measured, if that was much of it."""
    unknown = float(energy.starting[:, PLACE[StartPart.UNKNOWN]].sum())
    if unknown <= LEAST_SHARE * attempt.seconds * len(attempt.run.ranks):
        return []
    parts = {row.part for row in PARTS} - energy.measured - {StartPart.WARMUP, StartPart.UNKNOWN}
    if not _can_queue(attempt):
        parts.discard(StartPart.IMAGE)
    names = [row.part for row in PARTS if row.part in parts]
    what = f"not measured: {', '.join(names)}" if names else "not all ranks reported"
    said = f"{unknown:.3g} rank-seconds of starting of {attempt.name} are unexplained"
    return [f"{said} ({what})"]


def _counted_from_zero(attempt: Attempt) -> list[str]:
    """That a launch that was started again in place counts its steps from the run's first one."""
    first, *again = _launches(attempt)
    if not again or not len(first):
        return []
    began = int(first["from_step"].min())
    if began < int(first["to_step"].max()) and any(
        int(rows["from_step"].min()) <= began for rows in again
    ):
        words = (
            f"{attempt.name} was started again and counts from step {began} once more, so all of"
            " that is replayed; if it went on from a checkpoint, recorder(first_step=) says from"
            " which step"
        )
        return [words]
    return []


def _missing(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    told: list[str] = []
    names = {one.name for one in attempts}
    for one in attempts:
        told += _counted_from_zero(one)
        before = resumed_from(one)
        told += [
            f"{left} was left out: {one.name} is of the same run and time, and is longer"
            for left in one.instead_of
        ]
        if before is not None and before not in names:
            told.append(f"{one.name} went on from {before}, which was not given or still ran")
        if before is not None and not one.run.meta.get("restored"):
            told.append(
                f"{one.name} did not record how long it read its checkpoint: it is in starting"
            )
        if one.span:
            told.append(f"{one.name} covers a span of its run only: its launch is unknown")
        if one.run.meta.get("source") == FROM_LOG:
            told.append(
                f"{one.name} is a log alone: it counts for every rank. It shows only how long"
                " iterations took; the time before its first and after its last one is unknown"
            )
        if one.ending is None:
            told.append(f"{one.name} has no end: it goes on, was killed, or did not record it")
        windows = one.run.windows
        if len(windows) and not np.isfinite(windows["own_seconds"].to_numpy(dtype=float)).any():
            told.append(
                f"{one.name} did not time its collectives: communication is counted as computing"
            )
        if one.launched == one.begin and _can_queue(one) and not one.span:
            told.append(f"{one.name} does not say when it was submitted: queueing is left out")
        lost = one.run.meta.get("recording")
        if isinstance(lost, Mapping) and lost.get("lost_steps"):
            told.append(f"{lost['lost_steps']} steps of ranks of {one.name} were not recorded")
    return tuple(told)
