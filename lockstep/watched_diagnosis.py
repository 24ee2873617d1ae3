"""The archive of a finding of `lockstep watch`: what is said of it later agrees with it."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from collector.contract import bounded_json
from collector.contract.archive import VERDICT_FILE
from lockstep.diagnosis import diagnose_archive

if TYPE_CHECKING:
    from analyzer.attribute import Diagnosis

MAX_BYTES = 16 << 20


def diagnose_watched(
    archive: Path, gpu_hour_price: float | None = None, topology: Path | None = None
) -> "Diagnosis":
    """The diagnosis of an archive, which agrees with the finding that it was written for.

    Arguments and errors as `diagnosis.diagnose_archive`; an archive may be of no finding.
    """
    return upheld(diagnose_archive(archive, gpu_hour_price, topology), archive)


def upheld(diagnosed: "Diagnosis", archive: Path) -> "Diagnosis":
    """The diagnosis with the culprits of the finding, if its own are others.

    The archive of a finding may have no samples, or only those after the fault. One without a
    finding stays as it is.
    """
    from analyzer.watch import upheld as verdicts
    from lockstep import finding_folders

    finding = finding_folders.read(archive)
    if finding is None:
        return diagnosed
    try:
        told = bounded_json.read(archive / VERDICT_FILE, limit=MAX_BYTES)
    except (OSError, ValueError):
        told = None
    told = told if isinstance(told, dict) else None
    return replace(diagnosed, verdict=verdicts.upheld(diagnosed.verdict, finding, told))
