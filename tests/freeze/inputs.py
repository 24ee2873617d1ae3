"""What a verdict is asked about: spoiled archives, dumps, and a mark of what an input holds."""

import hashlib
import json
import math
import os
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from tests.analyzer.conftest import Fault, Synthetic
from tests.freeze.answers import mark
from tests.hang_programs import hang

SYNTHETIC = "synthetic"
Spoil = Callable[[Path], None]


def synthetic(*faults: Fault, **knobs: Any) -> Callable[[Path], None]:
    """Writes a small run of one GPU a node."""
    return lambda folder: void(Synthetic(faults=faults, **knobs).write(folder))


def void(_: object) -> None:
    """Nothing, of something."""


def spoiled(write: Callable[[Path], None], *spoils: Spoil) -> Callable[[Path], None]:
    """Writes an archive, and then what befell it."""

    def both(folder: Path) -> None:
        write(folder)
        for spoil in spoils:
            spoil(folder)

    return both


def without_columns(table: str, *names: str) -> Spoil:
    """As of a recorder that did not know them yet."""

    def spoil(folder: Path) -> None:
        for path in parts(folder / table):
            pq.write_table(pq.read_table(path).drop_columns(list(names)), path)

    return spoil


def without_metrics(*beginnings: str) -> Spoil:
    """Samples of metrics that begin so are missing."""

    def spoil(folder: Path) -> None:
        for path in parts(folder / "samples.parquet"):
            frame = pq.read_table(path)
            kept = ~frame["metric"].to_pandas().str.startswith(beginnings)
            pq.write_table(frame.filter(kept.to_numpy()), path)

    return spoil


def without_ranks(*ranks: int) -> Spoil:
    """Nobody recorded their steps."""

    def spoil(folder: Path) -> None:
        for path in parts(folder / "steps.parquet"):
            frame = pq.read_table(path)
            kept = ~np.isin(frame["rank"].to_numpy(), ranks)
            pq.write_table(frame.filter(kept), path)

    return spoil


def without_keys(*keys: str) -> Spoil:
    """Of run.json."""

    def spoil(folder: Path) -> None:
        path = folder / "run.json"
        tree = json.loads(path.read_text())
        path.write_text(json.dumps({key: tree[key] for key in tree if key not in keys}))

    return spoil


def without_file(name: str) -> Spoil:
    """It was never copied."""
    return lambda folder: (folder / name).unlink()


def cut(name: str) -> Spoil:
    """Half of a file, as of a full disk."""

    def spoil(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])

    return spoil


def parts(table: Path) -> list[Path]:
    """The files of a table."""
    return sorted(table.glob("*.parquet")) if table.is_dir() else [table]


def dumps(seed: int, fault: str) -> Callable[[Path], None]:
    """Dumps of a run that hangs, each of the time at which it was written."""

    def write(folder: Path) -> None:
        case = hang(seed, fault)
        folder.mkdir()
        for rank, tree in case.trees.items():
            path = folder / f"dump_{rank}"
            path.write_bytes(pickle.dumps(tree, protocol=2))
            os.utime(path, (case.written[rank],) * 2)
        facts = [{"rank": rank, "kind": kind, "value": value} for rank, kind, value in case.facts]
        text = json.dumps({"schema_version": 1, "facts": facts})
        (folder / "evidence.json").write_text(text)

    return write


def marks(folder: Path) -> dict[str, str]:
    """By file, a mark of what it holds, the same on every processor.

    Of numbers it knows count, mean, spread and trend to six digits: the last bits differ between
    processors. Tables in parts are one.
    """
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        name = path.relative_to(folder).as_posix()
        if path.parent.suffix == ".parquet":
            continue
        found[name] = _mark(path)
    for table in sorted(folder.rglob("*.parquet")):
        if table.is_dir():
            found[table.relative_to(folder).as_posix()] = mark([*map(_moments, parts(table))])
    return dict(sorted(found.items()))


def _mark(path: Path) -> str:
    if path.suffix == ".json":
        try:
            return mark(json.loads(path.read_text()))
        except ValueError:
            pass
    moments = _moments(path) if path.suffix == ".parquet" else None
    if moments is not None:
        return mark(moments)
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _moments(path: Path) -> Mapping[str, Any] | None:
    """By column; None of a file that is no table."""
    try:
        frame = pq.read_table(path).to_pandas()
    except (OSError, ValueError):
        return None
    groups = frame.groupby("metric", sort=True) if "metric" in frame else [("", frame)]
    return {
        f"{name}/{column}": _of_column(rows[column])
        for name, rows in groups
        for column in frame.columns
    }


def _of_column(cells: "pd.Series[Any]") -> Any:
    if not pd.api.types.is_numeric_dtype(cells):
        return hashlib.sha256("\n".join(map(str, cells)).encode()).hexdigest()[:12]
    values = cells.to_numpy(dtype=float, na_value=math.nan)
    known = values[np.isfinite(values)]
    if not known.size:
        return [len(values), 0]
    # Unix seconds would drown what differs; noise of the last bits is none.
    apart = np.round(known - math.floor(known.min()), 6) if known.max() > 1e3 else known
    trend = np.linspace(-1.0, 1.0, known.size)
    told = [float(math.floor(known.min())), float(apart.mean()), float(apart.std()),
            float((apart * trend).mean())]  # fmt: skip
    return [len(values), known.size, *told]
