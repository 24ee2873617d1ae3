"""A baseline: the results that were good, in one file; and results from wherever they are."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lockstep.bench import measure
from lockstep.bench.judging import Row, grouped, words_of
from lockstep.bench.results import COLUMNS, VERSIONS, ResultError, checked, read
from lockstep.bench.spec import AskedError, BenchError
from lockstep.bench.state import RESULTS
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import RUN_FILE, VERDICT_FILE
from lockstep.collector.contract.whole_file import write_whole

SCHEMA_VERSION = 1
KIND = "lockstep-baseline"
MAX_BYTES = 64 << 20
LEFT_OUT = ("sentence", "last_lines", "archive", "reason", "failed_ranks")
"""Columns that say nothing of hardware, software, workload and speed."""
LEAVE_OUT = "leave it out, or lock the others by --cell"


@dataclass(frozen=True, slots=True)
class Baseline:
    """Results that later ones are held against."""

    locked: str
    rows: tuple[Row, ...]

    def lines(self) -> list[str]:
        """A line a workload: how many results, how fast, on what."""
        lines = []
        for rows in grouped(self.rows).values():
            speeds = sorted(row["step_seconds"] for row in rows)
            versions = [f"{name} {rows[0][name]}" for name in VERSIONS if rows[0].get(name)]
            lines.append(
                f"{words_of(rows[0])}: {len(rows)} results, {1e3 * speeds[len(speeds) // 2]:.2f} ms"
                f" a step, {rows[0].get('hardware') or 'hardware unknown'}"
                f"{''.join(f', {each}' for each in versions)}"
            )
        return lines


def locked(rows: Sequence[Row]) -> Baseline:
    """The baseline of good results.

    Raises:
        BenchError: One is not good: it failed, or its verdict names a culprit.
    """
    for row in rows:
        who = f"{row.get('bench')} {row.get('cell')} repeat {row.get('repeat')}"
        if row.get("status", "finished") != "finished":
            raise BenchError(f"{who} {row['status']}: {row.get('reason')}; {LEAVE_OUT}")
        if row.get("culprits"):
            raise BenchError(f"{who} is no good result, {row['culprits'][0]} slows it; {LEAVE_OUT}")
        if not row.get("step_seconds"):
            raise BenchError(f"{who} has no steps; {LEAVE_OUT}")
    if not rows:
        raise BenchError("there is no result to lock")
    names = [column.name for column in COLUMNS if column.name not in LEFT_OUT]
    kept = tuple({name: row.get(name) for name in names} for row in rows)
    return Baseline(datetime.now(UTC).isoformat(timespec="seconds"), kept)


def of_cells(rows: Sequence[Row], names: Sequence[str] | None) -> list[Row]:
    """The results of these cells; None = of all.

    Raises:
        AskedError: One is none of theirs.
    """
    known = dict.fromkeys(str(row.get("cell")) for row in rows)
    for name in names or ():
        if name not in known:
            more = f" and {len(known) - 5} more" if len(known) > 5 else ""
            raise AskedError(f"--cell {name} is none of the results';"
                             f" their cells are {', '.join([*known][:5])}{more}")  # fmt: skip
    return [row for row in rows if not names or str(row.get("cell")) in names]


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write the file, whole or not at all.

    Raises:
        BenchError: It cannot be written.
    """
    tree = {
        "schema_version": SCHEMA_VERSION, "kind": KIND, "locked": baseline.locked,
        "results": [dict(row) for row in baseline.rows],
    }  # fmt: skip
    try:
        write_whole(path, json.dumps(tree, indent=1, allow_nan=False) + "\n", mode=None)
    except OSError as error:
        raise BenchError(f"{path} cannot be written: {error.strerror}") from error


def read_baseline(path: Path) -> Baseline:
    """The file that `lock` wrote.

    Raises:
        BenchError: It is none.
    """
    try:
        tree = bounded_json.read(path, limit=MAX_BYTES)
    except (OSError, ValueError) as error:
        raise BenchError(f"{path} cannot be read as a baseline: {error}") from error
    if not isinstance(tree, dict) or tree.get("kind") != KIND:
        raise BenchError(f"{path} is no baseline; `lockstep bench lock RUN...` makes one")
    if tree.get("schema_version") != SCHEMA_VERSION:
        raise BenchError(f"{path} is of schema version {tree.get('schema_version')}, and this is"
                         f" {SCHEMA_VERSION}; lock it anew")  # fmt: skip
    rows = tree.get("results")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BenchError(f"{path} has no list of results")
    names = [column.name for column in COLUMNS]
    for number, row in enumerate(rows, 1):
        try:
            checked({**{key: row.get(key) for key in names}, "bench": "-", "cell": "-"})
        except ResultError as error:
            raise BenchError(f"{path}: result {number}: {error}; lock it anew") from error
        speed = row.get("step_seconds")
        if speed is None or speed <= 0:
            raise BenchError(f"{path}: result {number} has step_seconds {speed}, which must be"
                             " above 0; lock it anew")  # fmt: skip
    return Baseline(str(tree.get("locked")), tuple(rows))


def rows_of_any(path: Path) -> list[dict[str, Any]]:
    """Results of a baseline's file, of a benchmark's folder, of a table, or of archives.

    Raises:
        BenchError: It is none of these.
    """
    if not path.exists():
        raise BenchError(f"there is no {path}")
    try:
        if (path / RUN_FILE).is_file():
            return [of_run(path)]
        if (path / RESULTS).is_dir():
            return list(read(path / RESULTS))
        if path.is_file() and path.suffix != ".parquet":
            return [dict(row) for row in read_baseline(path).rows]
        archives = (
            sorted(each.parent for each in path.glob(f"*/{RUN_FILE}")) if path.is_dir() else []
        )
        return [of_run(each) for each in archives] if archives else list(read(path))
    except ResultError as error:
        raise BenchError(str(error)) from error


def of_run(archive: Path) -> dict[str, Any]:
    """The result that an archive is; its verdict is concluded where none was written.

    Raises:
        BenchError: It is no archive.
    """
    if not (archive / VERDICT_FILE).exists():
        from lockstep.diagnose import diagnosis
        from lockstep.terminal.output import CommandError

        try:
            verdict = diagnosis.diagnose_archive(archive).verdict
        except CommandError as error:
            raise BenchError(error.sentence) from error
        found = {"verdict": verdict.status, "sentence": verdict.sentence,
                 "culprits": [f"{one.who}: {one.cause}" for one in verdict.culprits]}  # fmt: skip
    else:
        found = {}
    try:
        meta = _tree(bounded_json.read(archive / RUN_FILE))
    except (OSError, ValueError) as error:
        raise BenchError(f"{archive / RUN_FILE} cannot be read: {error}") from error
    spec, layout, outcome = (_tree(meta.get(name)) for name in ("spec", "layout", "outcome"))
    training = spec.get("training") or {}
    told = {
        "bench": "run", "cell": str(meta.get("run")), "repeat": 0,
        "status": "finished" if outcome.get("ending") == "finished" else "failed",
        "workload": str(meta.get("workload")), "launcher": spec.get("launcher"),
        "nodes": layout.get("nodes"), "ranks": layout.get("world"),
        **{name: layout.get(name) for name in ("dp", "tp", "pp")},
        "settings": json.dumps(training, sort_keys=True),
    }  # fmt: skip
    return {**dict.fromkeys(column.name for column in COLUMNS), **told,
            **measure.of_archive(archive), **found}  # fmt: skip


def _tree(tree: object) -> Mapping[str, Any]:
    return tree if isinstance(tree, dict) else {}
