"""From an archive to a verdict and its files: what analyze, report, demo and score share."""

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.collector.contract.archive import REPORT_STEM, RUN_FILE, VERDICT_FILE
from lockstep.collector.contract.whole_file import write_whole
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail

if TYPE_CHECKING:
    from lockstep.analyzer.shapes.run import Verdict
    from lockstep.analyzer.verdict.pipeline import Diagnosis


FORMATS: tuple[str, ...] = ("html", "md", "json")
"""Formats of a report, known here without importing what makes them."""


def diagnose_archive(
    archive: Path,
    gpu_hour_price: float | None = None,
    topology: Path | None = None,
    *,
    history: bool = False,
) -> "Diagnosis":
    """Loads and diagnoses an archive, or a folder in which NCCL Inspector alone wrote.

    Through `analyzer.verdict.pipeline.STAGES`, then `archive_stages`.

    Args:
        archive: The folder of the run.
        gpu_hour_price: Money per GPU-hour, in any currency; None = cost in hours only.
        topology: A topology.toml in place of the archive's own.
        history: Whether finding.json and past runs in the same folder count, too.

    Raises:
        CommandError: 65, the folder is not an archive of this schema version, or the topology is
            none; 64, not a price.
    """
    if gpu_hour_price is not None and not math.isfinite(gpu_hour_price):
        fail(ExitCode.USAGE, f"--gpu-hour-price {gpu_hour_price} is not a price; give a number")
    # pandas and numpy take most of a second: only those who diagnose pay for them.
    from lockstep.analyzer.read.archive.load import load_archive
    from lockstep.analyzer.read.collectives.load import (
        has_collectives,
        joined,
        load_collectives,
    )
    from lockstep.analyzer.read.places import META_KEY, read
    from lockstep.analyzer.shapes.run import LoadError
    from lockstep.analyzer.verdict import pipeline
    from lockstep.diagnose import archive_stages

    try:
        alone = not (archive / RUN_FILE).exists() and has_collectives(archive)
        run = load_collectives(archive, _unpickled) if alone else load_archive(archive)
        if not alone and run.windows.empty and has_collectives(archive):
            run = joined(run, load_collectives(archive, _unpickled))
        if topology is not None:
            run = dataclasses.replace(run, meta={**run.meta, META_KEY: read(topology)})
        diagnosed = pipeline.diagnose(run, gpu_hour_price=gpu_hour_price)
        diagnosed = archive_stages.through(archive_stages.RUN_STAGES, diagnosed, archive)
    except LoadError as error:
        fail(ExitCode.BAD_INPUT, str(error))
    if not history:
        return diagnosed
    return archive_stages.through(archive_stages.HISTORY_STAGES, diagnosed, archive)


def write_transfers(folder: Path, path: Path) -> None:
    """Who sent to whom, as CSV, of the files of NCCL Inspector or the flight recorder in a folder.

    Raises:
        CommandError: 65, there are none, or the file cannot be written.
    """
    from lockstep.analyzer.read.collectives.load import (
        transfers,
    )
    from lockstep.analyzer.shapes.run import LoadError

    try:
        write_whole(path, transfers(folder, _unpickled).to_csv(index=False))
    except LoadError as error:
        fail(ExitCode.BAD_INPUT, str(error))
    except OSError as error:
        fail(ExitCode.BAD_INPUT, f"{path} cannot be written: {error.strerror}")


def _unpickled(data: bytes) -> bytes:
    """A flight recorder's pickle as JSON, by a bounded process that runs no code of it.

    Raises:
        ValueError: It is no pickle of plain data.
    """
    from lockstep.collector.formats.flight_recorder.pickled import as_json
    from lockstep.collector.readings.source import SourceError

    try:
        return as_json(data)
    except SourceError as error:
        raise ValueError(str(error)) from error


def exit_code(verdict: "Verdict") -> int:
    """What a verdict says by exit code (docs/reference/command-line.md).

    A culprit of either tier is named. A warning names nobody: the whole run is slower, or hardware
    deviates beside a healthy run.
    """
    if verdict.hang is not None or verdict.culprits:
        return ExitCode.CULPRIT
    if verdict.status == "degraded" or (verdict.status == "healthy" and verdict.anomalies):
        return ExitCode.WARNING
    return ExitCode.OK if verdict.status == "healthy" else ExitCode.UNKNOWN


def write_verdict(verdict: "Verdict", folder: Path, name: str = VERDICT_FILE) -> Path:
    """Writes verdict.json, or the same under another name.

    Raises:
        OSError: The folder cannot be written.
    """
    from lockstep.analyzer.shapes.verdict_json import verdict_json

    text = json.dumps(verdict_json(verdict), indent=2, ensure_ascii=False, allow_nan=False)
    return write_whole(folder / name, text + "\n")


def write_reports(
    diagnosis: "Diagnosis",
    folder: Path,
    formats: Sequence[str],
    archive: Path | None = None,
    baseline: "Diagnosis | None" = None,
) -> list[Path]:
    """Writes the report in each of the formats (analyzer.report.FORMATS), and the timeline.

    What people wrote into an earlier report.md in the folder stays.

    Args:
        diagnosis: What was found.
        folder: Where to write.
        formats: Which.
        archive: The run's archive; None = the folder.
        baseline: The run to compare with.

    Raises:
        OSError: The folder cannot be written.
        CommandError: 65, the report.md that is there cannot be kept.
    """
    from lockstep.analyzer.report.document import document
    from lockstep.analyzer.report.render import render
    from lockstep.diagnose import report_inputs

    archive = folder if archive is None else archive
    inputs = report_inputs.read_inputs(diagnosis, archive, folder, baseline)
    tree = document(diagnosis, inputs)
    paths = [write_whole(folder / f"{REPORT_STEM}.{form}", render(tree, form)) for form in formats]
    return paths if inputs.trace is None else [*paths, folder / inputs.trace.name]
