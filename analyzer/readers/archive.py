"""A run archive (docs/reference/archive.md) as a Run; never reads what was injected."""

import math
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analyzer.readers.places import META_KEY, TOPOLOGY_FILE, read
from analyzer.readers.topology import rank_infos, world_of
from analyzer.readers.windows import from_samples, from_steps
from analyzer.run import LoadError, Run
from collector.contract import archive, bounded_json
from collector.contract.archive import Column

LATEST = 32503680000.0
"""Unix seconds of the year 3000."""
MOST_RANKS = 1_000_000
LONGEST = 1e7
"""Seconds; no step takes four months."""
MOST_SHOWN = 40
"""Characters of a name from outside in a sentence."""


def load(path: Path) -> Run:
    """The archive in the folder `path`.

    A run that still goes on or was killed loads; what it lacks stands in `Run.missing`. Without
    steps.parquet the windows come from the scraped counters. A topology.toml in the folder tells
    where the nodes stand (`load.places`).

    Raises:
        LoadError: The folder or run.json is missing, a file is damaged, lacks columns or has
            another schema version.
    """
    if not path.is_dir():
        raise LoadError(f"{path} is not a folder; give the folder of a run archive, as runs/<run>")
    meta = _run_file(path / archive.RUN_FILE)
    if (path / TOPOLOGY_FILE).is_file():
        meta = {**meta, META_KEY: read(path / TOPOLOGY_FILE)}
    missing: list[str] = []
    if "ended" not in meta or meta["ended"] is None:
        why = "another launcher started it" if "started_by" in meta else "it goes on or was killed"
        missing.append(f"run.json has no end of the run: {why}")
    lost = _object(meta, "recording", path).get("lost_steps")
    if lost:
        missing.append(f"{lost} steps of ranks were overwritten before they were recorded")
    samples = _frame(path / archive.SAMPLES_FILE, archive.SAMPLES, missing)
    steps = _frame(path / archive.STEPS_FILE, archive.STEPS, missing)
    ops = _frame(path / archive.OPS_FILE, archive.OPS, missing)
    table = _frame(path / archive.RANKS_FILE, archive.RANKS, missing)
    _require(path / archive.RANKS_FILE, table, ("rank", "node", "local_rank", "dp", "pp", "tp"))
    _require(path / archive.STEPS_FILE, steps, ("step", "rank", "start"))
    _check(path / archive.STEPS_FILE, steps)
    for name in ("spec", "versions"):
        _object(meta, name, path)
    _outcome(meta, path)
    if meta.get("own_time_known") is False:
        # No step of any rank: of an archive whose steps do not say so themselves, own times are
        # wall times. Where some are known, the steps say which.
        steps = steps.assign(own_seconds=math.nan)
    windows = from_samples(samples) if steps.empty else from_steps(steps)
    told = {*range(world_of(samples)), *windows["rank"].astype(int).tolist()}
    ranks = rank_infos(table, samples, _layout(meta, path), missing, others=told)
    return Run(
        name=str(meta.get("run") or meta.get("id") or path.name),
        meta=meta,
        ranks=ranks,
        windows=windows,
        samples=samples,
        ops=None if ops.empty else ops,
        missing=tuple(missing),
    )


def _run_file(path: Path) -> Mapping[str, Any]:
    try:
        meta = bounded_json.read(path)
    except FileNotFoundError:
        raise LoadError(f"{path.parent} holds no {path.name}; it is not a run archive") from None
    except (OSError, ValueError) as error:
        raise LoadError(f"{path} is not readable JSON ({error}); it may be truncated") from error
    version = meta.get("schema_version") if isinstance(meta, dict) else None
    if version != archive.SCHEMA_VERSION:
        raise LoadError(
            f"{path} has schema_version {reprlib.repr(version)}; this version of Lockstep reads"
            f" {archive.SCHEMA_VERSION}"
        )
    assert isinstance(meta, dict)
    return meta


def _object(meta: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    """A JSON object of run.json; empty where it is absent."""
    value = meta.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise LoadError(
            f"{path / archive.RUN_FILE}: {name} is {reprlib.repr(value)}; it must be an object"
        )
    return value


def _outcome(meta: Mapping[str, Any], path: Path) -> None:
    """How the run ended: a word, or an object as of workloads.launchers.Outcome."""
    tree = meta.get("outcome")
    if tree is None or isinstance(tree, str):
        return

    def must(good: bool, name: str, value: object, what: str) -> None:
        if not good:
            raise LoadError(f"{path / archive.RUN_FILE}: {name} is {value!r}; it must be {what}")

    must(isinstance(tree, dict), "outcome", tree, "a word or an object")
    for name in ("ending", "reason"):
        value = tree.get(name)
        must(value is None or isinstance(value, str), f"outcome.{name}", value, "a text")
    for name in ("ranks", "exits"):
        value = tree.get(name)
        must(value is None or isinstance(value, list), f"outcome.{name}", value, "a list")
    for rank in tree.get("ranks") or ():
        must(_whole(rank), "outcome.ranks", rank, "whole numbers")
    for one in tree.get("exits") or ():
        good = isinstance(one, dict) and _whole(one.get("rank")) and _whole(one.get("code"))
        must(good, "outcome.exits", one, "objects with a whole rank and code")


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _layout(meta: Mapping[str, Any], path: Path) -> Mapping[str, Any] | None:
    layout = _object(meta, "layout", path)
    for name, value in layout.items():
        if not isinstance(value, int) or not 1 <= value <= MOST_RANKS:
            raise LoadError(
                f"{path / archive.RUN_FILE}: layout.{name[:MOST_SHOWN]} is {reprlib.repr(value)};"
                f" it must be a whole number from 1 to {MOST_RANKS}"
            )
    return layout or None


def _require(path: Path, frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Who and when: a row without it belongs to nobody."""
    for name in names:
        if bool(frame[name].isna().any()):
            row = int(frame[name].isna().to_numpy().argmax())
            raise LoadError(f"{path}: row {row} has no {name}")


def _check(path: Path, steps: pd.DataFrame) -> None:
    """Values that no run can have: a file of another kind, or a damaged one."""
    times = steps[[name for name in steps if str(name).endswith("_seconds")]]
    wrong = {
        "step": steps["step"] < 0,
        "rank": steps["rank"] < 0,
        "start": ~steps["start"].between(0, LATEST),
        "a duration": ((times < 0) | (times > LONGEST)).any(axis=1),
    }
    for name, bad in wrong.items():
        if bad.any():
            row = int(bad.to_numpy().argmax())
            raise LoadError(f"{path}: row {row} has an impossible value for {name}")


def _frame(path: Path, columns: Sequence[Column], missing: list[str]) -> pd.DataFrame:
    """A Parquet file, or a folder of part files; absent is empty with a note in `missing`."""
    schema = pa.schema([(column.name, column.dtype) for column in columns])
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path] * path.exists()
    tables = [_table(file, schema) for file in files]
    table = pa.concat_tables(tables) if tables else schema.empty_table()
    if table.num_rows == 0:
        missing.append(f"no rows in {path.name}" if files else f"no {path.name}")
    frame: pd.DataFrame = table.to_pandas()
    # Nullable ids come as floats otherwise, and rank 0.0 is no rank.
    return frame.astype({name: "Int32" for name in ("rank", "gpu") if name in frame})


def _table(file: Path, schema: pa.Schema) -> pa.Table:
    try:
        table = pq.read_table(file)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise LoadError(
            f"{file} is no whole Parquet file ({reason}); remove it to read the rest"
        ) from error
    absent = [name for name in schema.names if name not in table.column_names]
    if absent:
        raise LoadError(
            f"{file} lacks the column {', '.join(absent)};"
            f" schema version {archive.SCHEMA_VERSION} has it"
        )
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise LoadError(f"{file} has a column of another type ({reason})") from error
