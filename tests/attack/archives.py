"""Archives of four nodes with a rank each: sick (rank 2, on the third) or well, and their damage.

Damage is what disks, writers and people do to files: it changes cells at random, whole columns and
files. It never slows one rank down as a whole, which would be another truth.
"""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lockstep.collector.contract import archive
from tests.dashboard.archives import Made, write

SLOW = 2
"""The rank that is slow in a sick archive."""
TABLES = (archive.STEPS_FILE, archive.SAMPLES_FILE, archive.OPS_FILE, archive.RANKS_FILE)
NUMBERS = (0, -1, 1e300, -1e300, 1e-300, float("nan"), float("inf"), 2**62, 255, 1e9)
WORDS = ("", "\x00", "x" * 5000, "\u202e", "../../etc/passwd", "<script>", "NaN", "-1", "node-0")
TREES: tuple[Any, ...] = (None, [], {}, -1, 2**70, 1e308, "x", [[]], {"a": {"b": []}}, True)


def named(folder: Path, run: str, node: str) -> Path:
    """A sick archive of a run and nodes of these names, the nodes with a number behind it."""
    nodes = tuple(f"{node}{index}" for index in range(4))
    return write(
        folder, Made(run=run, node_names=nodes, ranks_per_node=1, slow=SLOW, verdict=False)
    )


def made(folder: Path, *, sick: bool, seed: int = 0) -> Path:
    """An archive; without a verdict, so that whatever is said was found."""
    nodes = tuple(f"node-{index}" for index in range(4))
    return write(
        folder,
        Made(
            node_names=nodes, ranks_per_node=1, seed=seed, slow=SLOW if sick else None,
            verdict=False, spare_gpus=0, nvlinks=0,
        ),
    )  # fmt: skip


def damage(folder: Path, dice: Random) -> list[str]:
    """Between one and three kinds of damage, in words."""
    done = []
    for _ in range(dice.choice((1, 1, 2, 3))):
        hurt = dice.choice(DAMAGE)
        done.append(f"{hurt.__name__} {hurt(folder, dice)}")
    return done


def _files(folder: Path, name: str) -> list[Path]:
    path = folder / name
    return sorted(path.glob("*.parquet")) if path.is_dir() else [path] * path.exists()


def _one(folder: Path, dice: Random) -> Path | None:
    """One of the tables' files."""
    found = [file for name in TABLES for file in _files(folder, name)]
    return dice.choice(found) if found else None


def _cut(folder: Path, dice: Random) -> str:
    """A file that ends too early."""
    path = dice.choice([each for each in folder.rglob("*") if each.is_file()] or [folder])
    if path is not folder:
        data = path.read_bytes()
        path.write_bytes(data[: dice.randrange(len(data) + 1)])
    return path.name


def _flipped(folder: Path, dice: Random) -> str:
    """Bytes of a file that are others."""
    path = dice.choice([each for each in folder.rglob("*") if each.is_file()] or [folder])
    if path is not folder:
        data = bytearray(path.read_bytes())
        for _ in range(dice.choice((1, 8, 64)) if data else 0):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        path.write_bytes(data)
    return path.name


def _lost(folder: Path, dice: Random) -> str:
    """A file that is not there."""
    path = _one(folder, dice)
    if path is not None:
        path.unlink()
    return str(path)


def _twice(folder: Path, dice: Random) -> str:
    """A part that was written twice."""
    path = _one(folder, dice)
    if path is None or path.parent == folder:
        return "nothing"
    path.with_name(f"part-{dice.randrange(10**6):06d}-again.parquet").write_bytes(path.read_bytes())
    return path.name


def _table(
    folder: Path, dice: Random, change: Callable[[pa.Table, Random], tuple[pa.Table, str]]
) -> str:
    path = _one(folder, dice)
    try:
        if path is None:
            return "nothing"
        table, told = change(pq.read_table(path), dice)
        pq.write_table(table, path)
    except (pa.ArrowException, OSError):  # it was damaged before
        return "nothing"
    return f"{path.parent.name}/{path.name}: {told}"


def _rows(folder: Path, dice: Random) -> str:
    """Rows in another order, some of them twice, some not at all."""

    def change(table: pa.Table, dice: Random) -> tuple[pa.Table, str]:
        count = table.num_rows
        rows = [dice.randrange(count) for _ in range(count // 10)] if count else []
        gone = {dice.randrange(count) for _ in range(count // 20)} if count else set()
        kept = [*(row for row in range(count) if row not in gone), *rows]
        dice.shuffle(kept)
        return table.take(pa.array(kept, pa.int64())), f"{count} rows"

    return _table(folder, dice, change)


def _cells(folder: Path, dice: Random) -> str:
    """Cells of a column that are nothing, or no number, or one that cannot be."""

    def change(table: pa.Table, dice: Random) -> tuple[pa.Table, str]:
        name = dice.choice(table.column_names)
        column = table[name]
        values = column.to_pylist()
        numeric = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
        new = dice.choice((None, *(NUMBERS if numeric else WORDS)))
        for row in range(len(values)):
            if dice.random() < 0.03:
                values[row] = new
        changed = pa.array(values, column.type, from_pandas=False, safe=False)
        return table.set_column(table.column_names.index(name), name, changed), f"{name} {new!r}"

    return _table(folder, dice, change)


def _column(folder: Path, dice: Random) -> str:
    """A column that is empty, of another type, or not there."""

    def change(table: pa.Table, dice: Random) -> tuple[pa.Table, str]:
        name = dice.choice(table.column_names)
        place, count = table.column_names.index(name), table.num_rows
        new = dice.choice((
            None, pa.nulls(count, table[name].type), pa.nulls(count), pa.array(["x"] * count),
            pa.array(np.full(count, np.nan)), pa.array([[1]] * count),
            pa.array([True] * count),
        ))  # fmt: skip
        if new is None:
            return table.drop_columns([name]), f"no {name}"
        return table.set_column(place, name, new), f"{name} as {new.type}"

    return _table(folder, dice, change)


def _told(folder: Path, dice: Random) -> str:
    """An entry of run.json that is something else, or very deep."""
    path = folder / archive.RUN_FILE
    try:
        tree = json.loads(path.read_text())
    except (OSError, ValueError):
        return "nothing"
    if not isinstance(tree, dict) or not tree:
        return "nothing"
    name = dice.choice(sorted(tree))
    inner = tree[name]
    if isinstance(inner, dict) and inner and dice.random() < 0.7:
        name, tree_of = dice.choice(sorted(inner)), inner
    else:
        tree_of = tree
    depth = dice.choice((0, 0, 0, 100, 100_000))
    tree_of[name] = "DEEP" if depth else dice.choice(TREES)
    deep = "[" * depth + "]" * depth
    path.write_text(json.dumps(tree).replace('"DEEP"', deep))
    return f"{name} {depth or tree_of[name]!r}"


DAMAGE = (_cut, _flipped, _lost, _twice, _rows, _cells, _cells, _cells, _column, _told)
