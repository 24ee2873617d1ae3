"""Which attempts are of one job: those of one run id, and those that went on from another's."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from lockstep.analyzer.ledger.attempt import Attempt

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
