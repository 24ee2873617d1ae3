"""The archive of a finding: the verdict about it, and beside it what people were told."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.diagnose.diagnosis import diagnose_archive

if TYPE_CHECKING:
    from lockstep.analyzer.shapes.run import Verdict
    from lockstep.analyzer.verdict.pipeline import Diagnosis


def diagnose_watched(
    archive: Path, gpu_hour_price: float | None = None, topology: Path | None = None
) -> "Diagnosis":
    """The diagnosis of an archive, with what its finding.json says beside the verdict.

    Arguments and errors as `diagnosis.diagnose_archive`; an archive may be of no finding.
    """
    from lockstep.watch import finding_folders
    from lockstep.watch.judge import history

    diagnosed = diagnose_archive(archive, gpu_hour_price, topology)
    finding = finding_folders.read(archive)
    if finding is None:
        return diagnosed
    whole = history.with_whole_loss(diagnosed.verdict, diagnosed.grid, finding)
    return replace(diagnosed, verdict=history.with_history(whole, finding))


def undiagnosed(archive: Path, why: str) -> "Verdict":
    """The verdict about an archive that cannot be diagnosed: unknown, and why."""
    from lockstep.analyzer.shapes.run import Verdict
    from lockstep.watch import finding_folders

    finding = finding_folders.read(archive) or {}
    run = finding.get("run")
    words = f"This archive cannot be diagnosed: {why.rstrip('.')}."
    name = run if isinstance(run, str) else ""
    return with_history(Verdict(name, "unknown", words, None, None, None, coverage=0.0), archive)


def with_history(verdict: "Verdict", archive: Path) -> "Verdict":
    """The verdict about an archive with the history of its finding; as it is without a finding."""
    from lockstep.watch import finding_folders
    from lockstep.watch.judge import history

    finding = finding_folders.read(archive)
    return verdict if finding is None else history.with_history(verdict, finding)
