"""Which attempts are of one job: those of one run id, and those that went on from another's."""

from collections.abc import Sequence
from pathlib import PurePath

from analyzer.ledger.attempt import Attempt

CHECKPOINTS = "checkpoints"
"""Folder of an archive that holds its checkpoints."""


def chains(attempts: Sequence[Attempt]) -> tuple[tuple[Attempt, ...], ...]:
    """The attempts of each job by their begin; the jobs by that of their first attempt.

    An attempt went on from another one if it resumed from a checkpoint in that one's archive, or if
    both have one run id: a run keeps its id over restarts.
    """
    ordered = sorted(attempts, key=lambda one: (one.begin, one.name))
    jobs: list[list[Attempt]] = []
    for attempt in ordered:
        before = resumed_from(attempt)
        parent = next(
            (
                job for job in jobs
                for one in job
                if one.name == before or one.run.name == attempt.run.name
            ),
            None,
        )  # fmt: skip
        if parent is None:
            jobs.append([attempt])
        else:
            parent.append(attempt)
    return tuple(tuple(job) for job in jobs)


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
