"""One attempt: a run as one launch of it left it; and which attempts are one job.

A job is the attempts of one run id, and those that resumed from a checkpoint of another's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lockstep.analyzer.hangs.run_end import FINISHED as FINISHED
from lockstep.analyzer.hangs.run_end import INTERRUPTED as INTERRUPTED
from lockstep.analyzer.hangs.run_end import ended
from lockstep.analyzer.ledger.excess import Excess, excesses
from lockstep.analyzer.ledger.starting import pod_times
from lockstep.analyzer.shapes.run import Run, Verdict
from lockstep.analyzer.verdict.pipeline import Diagnosis
from lockstep.collector.contract import metrics

FROM_PROMETHEUS = "prometheus"
"""`source` in run.json of the archive of a finding."""
OF_THE_RUN = (metrics.RANK_INFO.name, metrics.RANK_UP.name, metrics.TRAIN_STEPS.name)
"""Series that are there only while the run is; a node's are there before it."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is known of one launch.

    Attributes:
        name: Of its archive, or the run id.
        run: As it was read.
        begin: Unix seconds at which it was submitted, or else launched.
        launched: Unix seconds; `begin` where nobody recorded when it was submitted.
        end: Unix seconds of its end, or the last that is known of it.
        ending: How run.json says it ended; None = it goes on, was killed, or nobody says.
        excesses: What its culprits cost.
        window_start: (W,) unix seconds of the windows that `Excess.seconds` is about.
        masked: (W,) of those, slow by design.
        verdict: What was concluded.
        span: Whether it reports a span of the run only, as the archive of a finding does: neither
            how the run began nor how it ended.
        ended_by: Nodes of the ranks whose end was the first failure, or that hang.
        instead_of: Names of shorter ones of the same time, which were left out for it.
    """

    name: str
    run: Run
    begin: float
    launched: float
    end: float
    ending: str | None
    excesses: tuple[Excess, ...]
    window_start: NDArray[np.float64]
    masked: NDArray[np.bool_]
    verdict: Verdict
    span: bool = False
    ended_by: frozenset[str] = frozenset()
    instead_of: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """From its begin to its end."""
        return self.end - self.begin

    @property
    def failed(self) -> bool:
        """Whether it crashed, hung or vanished; what its user ended did not fail.

        Of a span nobody knows how it went on.
        """
        return self.ending not in (FINISHED, INTERRUPTED) and not self.span


def attempt_of(diagnosis: Diagnosis, name: str | None = None) -> Attempt:
    """The attempt that a diagnosed run is.

    Its begin is that of run.json, its end when the last rank was gone, or else that of run.json,
    which is when the archive was closed; where it has none, the first and the last that a window
    or a sample has. Of a finding's archive `started` is where its reading began, which is no
    launch.
    """
    run, grid = diagnosis.whole or diagnosis.run, diagnosis.grid
    span = run.meta.get("source") == FROM_PROMETHEUS
    begin = None if span else _moment(run.meta, "started")
    end = _moment(run.meta, "ranks_ended")
    end = _moment(run.meta, "ended") if end is None else end
    first, last = _seen(run)
    begin = first if begin is None else begin
    end = max(begin, last if end is None else end)
    submitted = _moment(run.meta, "submitted")
    # From when its first pod was placed on it starts; before it was in a queue.
    placed = [placed for placed, _ in pod_times(run.meta).values()]
    launched = begin
    if submitted is not None and placed:
        launched = min(begin, max(submitted, min(placed)))
    return Attempt(
        name=run.name if name is None else name,
        run=run,
        begin=begin if submitted is None else min(submitted, begin),
        launched=launched,
        end=end,
        ending=ended(grid).word,
        excesses=excesses(diagnosis),
        window_start=np.asarray(grid.start, dtype=float),
        masked=np.asarray(grid.masked, dtype=bool),
        verdict=diagnosis.verdict,
        span=span,
        ended_by=_ended_by(diagnosis),
    )


def _ended_by(diagnosis: Diagnosis) -> frozenset[str]:
    """By the launcher's word, or else by findings of hangs; who was only slow ended nothing."""
    grid = diagnosis.grid
    ranks = {info.rank for info, first in zip(grid.ranks, ended(grid).first, strict=True) if first}
    if not ranks:
        ranks = {int(one.rank) for one in diagnosis.findings
                 if one.kind == "hang" and one.rank is not None}  # fmt: skip
    return frozenset(info.node for info in grid.ranks if info.rank in ranks)


def _moment(meta: Mapping[str, Any], name: str) -> float | None:
    """Unix seconds of a time of run.json; None where it reports none that can be read."""
    try:
        return datetime.fromisoformat(str(meta[name])).timestamp()
    except (KeyError, ValueError, OverflowError, OSError):
        return None


def _seen(run: Run) -> tuple[float, float]:
    """The first and the last moment that windows or samples have; 0, 0 without any.

    The first is of the run's own series, where it has them: its nodes were there before it.
    """
    told = [
        run.windows[name].to_numpy(dtype=float) for name in ("start", "end") if len(run.windows)
    ]
    own = told
    if len(run.samples):
        times = run.samples["time"].to_numpy(dtype=float)
        mine = run.samples["metric"].isin(OF_THE_RUN).to_numpy()
        told, own = [*told, times], [*told, times[mine] if mine.any() else times]
    last = _known(told)
    first = _known(own)
    return (float(first.min()), float(last.max())) if first.size else (0.0, 0.0)


def _known(parts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    moments = np.concatenate(parts) if parts else np.zeros(0)
    return moments[np.isfinite(moments)]


CHECKPOINTS = "checkpoints"
"""Folder of an archive that holds its checkpoints."""


def chains(attempts: Sequence[Attempt]) -> tuple[tuple[Attempt, ...], ...]:
    """The attempts of each job by their begin; the jobs by that of their first attempt.

    Attempts are of one job if they have one run id, for a run keeps its id over restarts; or if one
    went on from a checkpoint in the other's archive after the job had ended. What went on from it
    while it still ran is a job of its own. Of archives of one run at the same time the longest
    counts.
    """
    ordered = sorted(attempts, key=lambda one: (one.begin, one.name))
    jobs: list[list[Attempt]] = []
    for attempt in ordered:
        parent = _by_id(jobs, attempt) or _by_checkpoint(jobs, attempt)
        if parent is None:
            jobs.append([attempt])
        else:
            parent.append(attempt)
    return tuple(apart(job) for job in jobs)


def apart(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """Attempts of one job by their begin, none of which overlaps another in time.

    Of those that do the longest is kept, and names the others in `instead_of`.
    """
    kept: list[Attempt] = []
    for one in sorted(attempts, key=lambda each: (-each.seconds, each.begin, each.name)):
        place = next(
            (n for n, each in enumerate(kept) if one.begin < each.end and each.begin < one.end),
            None,
        )
        if place is None:
            kept.append(one)
        else:
            longer = kept[place]
            kept[place] = replace(longer, instead_of=(*longer.instead_of, one.name))
    return tuple(sorted(kept, key=lambda each: (each.begin, each.end, each.name)))


def _by_id(jobs: Sequence[list[Attempt]], attempt: Attempt) -> list[Attempt] | None:
    return next((job for job in jobs if any(one.run.name == attempt.run.name for one in job)), None)


def _by_checkpoint(jobs: Sequence[list[Attempt]], attempt: Attempt) -> list[Attempt] | None:
    before = resumed_from(attempt)
    for job in jobs:
        ended = max(one.end for one in job)
        if any(one.name == before for one in job) and attempt.begin >= ended:
            return job
    return None


def resumed_from(attempt: Attempt) -> str | None:
    """The folder of the archive whose checkpoint an attempt went on from; None = it began anew."""
    spec = attempt.run.meta.get("spec")
    training = spec.get("training") if isinstance(spec, dict) else None
    told = training.get("resume") if isinstance(training, dict) else None
    if not isinstance(told, str):
        return None
    parts = PurePath(told).parts
    if CHECKPOINTS not in parts[1:]:
        return told
    return parts[len(parts) - 1 - parts[::-1].index(CHECKPOINTS) - 1]
