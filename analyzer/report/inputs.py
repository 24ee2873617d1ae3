"""What a report shows besides a diagnosis; lockstep.diagnose.report_inputs reads it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockstep.analyzer.verdict.pipeline import Diagnosis


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file, or a folder of part files, of the archive.

    Attributes:
        name: Inside the archive.
        size: Bytes.
        sha256: Of the file; of a folder: of its parts' digests in the order of their names.
    """

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ReportInputs:
    """All that a report shows and a diagnosis does not know.

    Attributes:
        finding: finding.json as `lockstep watch` wrote it; None = nobody watched the run.
        human: Blocks that people wrote into the report.md before (report.human).
        files: What the numbers were read from.
        trace: The timeline for ui.perfetto.dev; None = none was made.
        trace_told: Its steps and ranks in words, or why there is none.
        baseline: The run to compare with.
        command: Line that repeats the run, with what was injected into it; empty = not known.
        missing: What was looked for and could not be read, in words.
    """

    finding: Mapping[str, Any] | None = None
    human: Mapping[str, str] = field(default_factory=dict)
    files: tuple[DataFile, ...] = ()
    trace: DataFile | None = None
    trace_told: str = ""
    baseline: "Diagnosis | None" = None
    missing: tuple[str, ...] = ()
    command: str = ""


NO_INPUTS = ReportInputs()
