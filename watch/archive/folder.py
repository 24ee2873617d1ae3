"""The archive of a finding: a folder that `lockstep analyze` and `report` read as any other.

It appears whole, under a temporary name until it is.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lockstep.analyzer.findings.finding import WatchFinding, finding_json
from lockstep.analyzer.read.archive.files import MISSING_KEY
from lockstep.analyzer.shapes.run import Run
from lockstep.collector.contract import archive as contract
from lockstep.collector.contract.whole_file import write_whole
from lockstep.collector.recorder.parts import Row, arrow_schema
from lockstep.diagnose.diagnosis import write_verdict
from lockstep.watch.archive import finding_folders
from lockstep.watch.judge.diagnoses import Judged, judged_json
from lockstep.watch.look.collectors import Operations

UNDER_WAY = ".under-way-"
"""How the name of a folder begins that is not whole yet."""
RECORD = (
    contract.RUN_FILE, contract.RANKS_FILE, contract.SAMPLES_FILE, contract.STEPS_FILE,
    contract.OPS_FILE,
)  # fmt: skip
"""Files that say what happened, not what is thought of it."""


@contextmanager
def unfinished(out: Path, finding: WatchFinding) -> Iterator[Path]:
    """A folder under a temporary name; what was not published of it goes at the end.

    Raises:
        OSError: The disk is full or not writable.
    """
    parent = (out / finding.folder).parent
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=UNDER_WAY, dir=parent))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fill(
    folder: Path, finding: WatchFinding, run: Run | None, operations: Operations, begin: float,
    judged: Judged | None, missing: Sequence[str],
) -> None:  # fmt: skip
    """Write everything but the verdict.

    Args:
        folder: Of `unfinished`.
        finding: What it is about.
        run: As Prometheus recorded it; None = nothing of it could be read.
        operations: What the collectors gave.
        begin: Unix seconds at which the record begins.
        judged: The verdict by which it opened; None = by no verdict.
        missing: What the record lacks, in words.

    Raises:
        OSError: The disk is full or not writable.
    """
    if run is not None:
        samples = pa.Table.from_pandas(
            run.samples, arrow_schema(contract.SAMPLES), preserve_index=False
        )
        pq.write_table(samples, folder / contract.SAMPLES_FILE, compression="zstd")
        ranks = [{**asdict(info), "pod": None} for info in run.ranks]
        table = pa.Table.from_pylist(ranks, arrow_schema(contract.RANKS))
        pq.write_table(table, folder / contract.RANKS_FILE)
    for name, columns, rows in (
        (contract.STEPS_FILE, contract.STEPS, operations.steps),
        (contract.OPS_FILE, contract.OPS, operations.ops),
    ):
        if rows:
            pq.write_table(_table(rows, columns), folder / name, compression="zstd")
    told = {
        **_about(finding, operations, begin), MISSING_KEY: list(missing),
        **({} if judged is None else judged_json(judged)),
    }  # fmt: skip
    about = json.dumps(told, indent=2, ensure_ascii=False)
    write_whole(folder / contract.RUN_FILE, about + "\n")
    _tell(folder, finding, judged, {})


def link(first: Path, folder: Path, finding: WatchFinding, judged: Judged | None) -> None:
    """Write everything but the verdict, with the record of another archive.

    Args:
        first: That archive; it may be removed later, since the files are linked.
        folder: Of `unfinished`.
        finding: What it is about; its `finding.json` names the other archive.
        judged: The verdict by which both opened; None = by no verdict.

    Raises:
        OSError: The disk is full or not writable.
    """
    for name in RECORD:
        if (first / name).exists():
            try:
                (folder / name).hardlink_to(first / name)
            except OSError:  # not every filesystem has links
                shutil.copyfile(first / name, folder / name)
    _tell(folder, finding, judged, {"record_of": first.name})


def publish(folder: Path, out: Path, finding: WatchFinding, *, again: bool = False) -> Path:
    """Give a complete folder its name; where it has been written before, that one stays.

    Args:
        folder: Of `unfinished`.
        out: Folder of all archives.
        finding: What it is about.
        again: Whether it takes the place of the one that was written before.

    Raises:
        OSError: It cannot be renamed.
    """
    place = out / finding.folder
    if place.exists() and again:
        finding_folders.replace(place, folder)
    elif place.exists():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        folder.rename(place)
    return place


def clean(out: Path) -> None:
    """Remove what an earlier process left unfinished."""
    for folder in out.glob(f"*/{UNDER_WAY}*"):
        shutil.rmtree(folder, ignore_errors=True)


def _tell(
    folder: Path, finding: WatchFinding, judged: Judged | None, more: Mapping[str, str]
) -> None:
    """Write what is thought of it: the finding, and the verdict by which it opened."""
    finding_folders.write(folder, {**finding_json(finding), **more})
    if judged is not None:
        write_verdict(judged.verdict, folder, contract.OPENED_FILE)


def _about(finding: WatchFinding, operations: Operations, begin: float) -> dict[str, Any]:
    return {
        "schema_version": contract.SCHEMA_VERSION,
        "run": finding.who.run,
        "source": "prometheus",
        # What is recorded begins here; when the run did is not known.
        "started": datetime.fromtimestamp(begin, UTC).isoformat(),
        "ended": None,
        "finding": finding_folders.FINDING_FILE,
        "operations": {"collectors_asked": operations.asked, "silent": dict(operations.silent)},
    }


def _table(rows: Sequence[Row], columns: Sequence[contract.Column]) -> pa.Table:
    schema = arrow_schema(columns)
    values = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
