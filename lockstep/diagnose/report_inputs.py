"""What a report takes from the folders: people's words, the finding, the files, the timeline."""

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.collector.contract import archive as names
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.whole_file import write_whole
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail

if TYPE_CHECKING:
    from lockstep.analyzer.report.inputs import DataFile, ReportInputs
    from lockstep.analyzer.shapes.run import Run
    from lockstep.analyzer.verdict.pipeline import Diagnosis


READ = (names.RUN_FILE, names.RANKS_FILE, names.STEPS_FILE, names.OPS_FILE, names.SAMPLES_FILE,
        names.FINDING_FILE, names.OPENED_FILE)  # fmt: skip
"""What the numbers of a report come from, in the order of its table."""
MOST_WORDS = 4 << 20
"""Bytes of a report.md that is searched for what people wrote."""
COMPRESSION = 6


def read_inputs(
    diagnosis: "Diagnosis", archive: Path, folder: Path, baseline: "Diagnosis | None"
) -> "ReportInputs":
    """Reads all of it, and writes the timeline.

    Args:
        diagnosis: What was found.
        archive: Of the run.
        folder: Of the report.
        baseline: Passed on.

    Raises:
        OSError: The folder cannot be written.
        CommandError: 65, what people wrote in report.md cannot be told from the rest.
    """
    from lockstep.analyzer.report.inputs import ReportInputs

    # Nothing is written before it is sure that people's words are not lost.
    human = _human(folder / f"{names.REPORT_STEM}.md")
    trace, told = _trace(diagnosis, folder)
    finding, missing = _finding(archive / names.FINDING_FILE)
    files_read = [file for name in READ if (file := _digest(archive / name)) is not None]
    return ReportInputs(
        finding, human, tuple(files_read), trace, told, baseline, missing, _command(archive)
    )


def _finding(path: Path) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """What the file says, and what there is to complain of; an archive without it is ordinary."""
    try:
        tree = bounded_json.read(path, limit=MOST_WORDS)
    except FileNotFoundError:
        return None, ()
    except (OSError, ValueError):
        tree = None
    if not isinstance(tree, dict):
        return None, (f"{path.name} is torn, or is no finding: when it was seen is unknown",)
    return tree, ()


def _command(archive: Path) -> str:
    """The line of truth.json that repeats the run with its faults; empty where there is none."""
    try:
        tree = bounded_json.read(archive / names.TRUTH_FILE)
    except (OSError, ValueError):
        return ""
    command = tree.get("command") if isinstance(tree, dict) else None
    return command if isinstance(command, str) else ""


def _human(path: Path) -> dict[str, str]:
    from lockstep.analyzer.report.human import HumanBlockError, written

    try:
        with path.open("rb") as file:
            text = file.read(MOST_WORDS + 1)
        if len(text) > MOST_WORDS:
            raise HumanBlockError(f"it is over {MOST_WORDS >> 20} MB")
        return written(text.decode())
    except FileNotFoundError:
        return {}
    except (OSError, HumanBlockError, UnicodeDecodeError) as error:
        why = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
        fail(
            ExitCode.BAD_INPUT,
            f"{path} may hold what people wrote, and it would be lost: {why};"
            " mend it or move it away",
        )


def _trace(diagnosis: "Diagnosis", folder: Path) -> "tuple[DataFile | None, str]":
    """The timeline around the onset, and what it shows; None and why where there is none."""
    from lockstep.analyzer.report.inputs import DataFile
    from lockstep.analyzer.report.perfetto.timeline import TimelineError, of_run

    part = excerpt(diagnosis)
    if part is None:
        return None, "the archive holds no operations"
    run, steps, words = part
    try:
        timeline = of_run(run, steps)
    except TimelineError as error:
        return None, str(error)
    text = "".join(timeline.parts()).encode()
    # Without a time in it, so that the same operations always give the same bytes.
    packed = gzip.compress(text, COMPRESSION, mtime=0)
    write_whole(folder / names.TRACE_FILE, packed)
    digest = hashlib.sha256(packed).hexdigest()
    lacks = f", without the ideal: {timeline.without_ideal}" if timeline.without_ideal else ""
    return DataFile(names.TRACE_FILE, len(packed), digest), words + lacks


def _digest(path: Path) -> "DataFile | None":
    """The size and digest of a file or of a folder of part files; None where it is not there."""
    from lockstep.analyzer.report.inputs import DataFile

    if not path.is_dir():
        digest = _one(path)
        return None if digest is None else DataFile(path.name, *digest)
    parts = [
        digest for part in sorted(path.glob("*.parquet")) if (digest := _one(part)) is not None
    ]
    joined = hashlib.sha256("".join(digest for _, digest in parts).encode()).hexdigest()
    return DataFile(path.name, sum(size for size, _ in parts), joined)


def _one(path: Path) -> tuple[int, str] | None:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return file.tell(), digest
    except OSError:
        return None  # never there, or gone since it was read


MOST_RANKS = 64
MOST_OPERATIONS = 40_000
"""Actual ones; with the ideal ones beside them about 10 MB of JSON, 0.6 MB compressed."""


def excerpt(diagnosis: "Diagnosis") -> "tuple[Run, range, str] | None":
    """The run with its operations around the onset, the steps, and both in words.

    Replicas are taken whole, the culprits' first, because the ideal needs whole pipelines. None
    without operations.
    """
    import numpy as np

    from lockstep.analyzer.report.perfetto.timeline import steps_around

    run = diagnosis.run
    if run.ops is None or run.ops.empty:
        return None
    ranks = _ranks(diagnosis)
    ops = run.ops[run.ops["rank"].isin(ranks)]
    if ops.empty:
        return None
    numbers = ops["step"].to_numpy(np.int64)
    onsets = [
        culprit.from_step for culprit in diagnosis.verdict.culprits if culprit.from_step is not None
    ]
    count, onset = 10, onsets[0] if onsets else None
    while True:
        steps = steps_around(numbers, onset, before=count // 2, count=count)
        inside = (numbers >= steps.start) & (numbers < steps.stop)
        if inside.sum() <= MOST_OPERATIONS or count == 1:
            break
        count = count // 2
    shown = len(set(ops["rank"].unique().tolist()))
    words = f"steps {steps.start} to {steps.stop - 1} of {shown} ranks"
    return replace(run, ops=ops[inside]), steps, words


def _ranks(diagnosis: "Diagnosis") -> list[int]:
    infos = diagnosis.run.ranks
    if len(infos) <= MOST_RANKS:
        return [info.rank for info in infos]
    named = {(culprit.node, culprit.rank) for culprit in diagnosis.verdict.culprits}
    guilty = [
        info.dp for info in infos
        if (info.node, info.rank) in named or (info.node, None) in named
    ]  # fmt: skip
    chosen: list[int] = []
    for replica in dict.fromkeys([*guilty, *(info.dp for info in infos)]):
        mine = [info.rank for info in infos if info.dp == replica]
        if chosen and len(chosen) + len(mine) > MOST_RANKS:
            break
        chosen += mine
    return chosen
