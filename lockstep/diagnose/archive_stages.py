"""The stages behind those of a run: what stands beside it in its archive changes the verdict.

`analyzer.verdict.pipeline.STAGES` come first and see the run alone. Nothing else changes a verdict.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lockstep.analyzer.read import verdicts
from lockstep.analyzer.rules.recording_rules.suspects import answered_of
from lockstep.analyzer.rules.recording_rules.whole_run import of_whole_run
from lockstep.analyzer.shapes.run import Verdict
from lockstep.analyzer.verdict.pipeline import Diagnosis
from lockstep.analyzer.verdict.recurrence import recurrence
from lockstep.diagnose import history


@dataclass(frozen=True, slots=True)
class ArchiveFolder:
    """Where a run is stored.

    Attributes:
        path: The folder; its siblings are past runs.
        finding: What its finding.json says, not trusted; None = it is the archive of no finding.
    """

    path: Path
    finding: Mapping[str, Any] | None = None


Stage = Callable[[Diagnosis, ArchiveFolder], Diagnosis]


def all_ranks(diagnosis: Diagnosis, folder: ArchiveFolder) -> Diagnosis:
    """Coverage and cost of all ranks, where the archive holds some (docs/method/alerting.md)."""
    answered = answered_of(diagnosis.run.meta)
    if answered is None:
        return diagnosis
    return replace(diagnosis, verdict=of_whole_run(diagnosis, answered))


def cost_until_closed(diagnosis: Diagnosis, folder: ArchiveFolder) -> Diagnosis:
    """The cost until `lockstep watch` closed the finding, which is later than the archive ends."""
    if folder.finding is None:
        return diagnosis
    verdict = history.with_whole_loss(diagnosis.verdict, diagnosis.grid, folder.finding)
    return replace(diagnosis, verdict=verdict)


def earlier_finding(diagnosis: Diagnosis, folder: ArchiveFolder) -> Diagnosis:
    """What people were told when the archive was written; the sentence says where it differs."""
    verdict = with_finding(diagnosis.verdict, folder.finding)
    return replace(diagnosis, verdict=verdict)


def past_culprits(diagnosis: Diagnosis, folder: ArchiveFolder) -> Diagnosis:
    """How often the culprits were culprits in the archives of the same folder.

    Nothing is read where nobody was named; what could not be read is counted in `missing`.
    """
    verdict, grid = diagnosis.verdict, diagnosis.grid
    ends = grid.end[np.isfinite(grid.end)]
    if not ends.size or not any(culprit.node for culprit in verdict.culprits):
        return diagnosis
    past = verdicts.siblings(folder.path)
    emulated = diagnosis.run.meta.get("emulated_nodes") is True
    counts = recurrence(verdict, past, ended=float(ends.max()), emulated=emulated)
    missing = list(verdict.missing)
    if past.skipped:
        missing.append(f"{past.skipped} past runs in the same folder cannot be read")
    if past.left_out:
        missing.append(f"{past.left_out} older folders beside this run were not looked at")
    return replace(diagnosis, verdict=replace(verdict, recurrence=counts, missing=tuple(missing)))


RUN_STAGES: tuple[Stage, ...] = (all_ranks,)
"""Behind `pipeline.STAGES`, by what run.json says."""
HISTORY_STAGES: tuple[Stage, ...] = (cost_until_closed, earlier_finding, past_culprits)
"""Behind these, by what was said of the run and of its nodes at other times."""


def through(stages: tuple[Stage, ...], diagnosis: Diagnosis, archive: Path) -> Diagnosis:
    """The diagnosis after some stages, in their order."""
    folder = ArchiveFolder(archive, history.read_finding(archive))
    for stage in stages:
        diagnosis = stage(diagnosis, folder)
    return diagnosis


def with_finding(verdict: Verdict, finding: Mapping[str, Any] | None) -> Verdict:
    """The verdict with the history of a finding.json; as it is where there is none."""
    return verdict if finding is None else history.with_history(verdict, finding)


def undiagnosed(archive: Path, why: str) -> Verdict:
    """The verdict about an archive that cannot be diagnosed: unknown, and why."""
    finding = history.read_finding(archive)
    run = (finding or {}).get("run")
    words = f"This archive cannot be diagnosed: {why.rstrip('.')}."
    name = run if isinstance(run, str) else ""
    return with_finding(Verdict(name, "unknown", words, None, None, None, coverage=0.0), finding)
