"""The files of an archive that every generator writes alike, from its own arrays."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lockstep.collector.contract.archive import RANKS, RANKS_FILE, SCHEMA_VERSION, STEPS, Column
from tests.benchmarks.simulated.arrays import Ints


def write_ranks(
    folder: Path, nodes: Sequence[str], local: Ints, uuids: Sequence[str],
    dp: Ints, pp: Ints, tp: Ints,
) -> None:  # fmt: skip
    """`ranks.parquet`; `nodes` is the name of each rank's node, `local` its place and GPU there."""
    ranks = len(nodes)
    values = {
        "rank": np.arange(ranks), "node": nodes, "gpu": local, "uuid": uuids, "local_rank": local,
        "dp": dp, "pp": pp, "tp": tp, "pod": [None] * ranks,
    }  # fmt: skip
    pq.write_table(_table(RANKS, values), folder / RANKS_FILE)


def steps_table(values: Mapping[str, npt.ArrayLike]) -> Any:
    """Columns of steps.parquet that every archive has, each of as many values as there are rows."""
    return _table([column for column in STEPS if not column.added], values)


def _table(columns: Sequence[Column], values: Mapping[str, Any]) -> Any:
    types = {"string": pa.string(), "int32": pa.int32(), "int64": pa.int64()}
    return pa.table(
        {
            column.name: pa.array(values[column.name], types.get(column.dtype, pa.float64()))
            for column in columns
        }
    )


def write_topology(folder: Path, names: Sequence[str], leaf_size: int) -> None:
    """`topology.toml`: the nodes under each leaf switch, `leaf_size` of them in a row."""
    lines = ["[leaf]"]
    for leaf in range(math.ceil(len(names) / leaf_size)):
        nodes = names[leaf * leaf_size : (leaf + 1) * leaf_size]
        lines.append(f"leaf-{leaf} = {json.dumps(nodes)}")
    (folder / "topology.toml").write_text("\n".join(lines) + "\n")


def run_document(
    run: str, workload: str, started: float, layout: Mapping[str, int],
    versions: Mapping[str, str], clock_error: float,
) -> dict[str, Any]:  # fmt: skip
    """What run.json says of every run; who writes it adds how the run ended.

    Args:
        started: Unix time.
        layout: world, nodes, ranks_per_node, dp, pp, tp.
        clock_error: Seconds by which clocks of nodes may differ.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "run": run,
        "workload": workload,
        "labels": {},
        "started": moment(started),
        "layout": layout,
        "seed": 0,
        "versions": versions,
        "clock": {"offset_error_seconds": clock_error, "shared_monotonic_clock": False},
        "emulated_nodes": False,
        "emulated_network": False,
        "emulated_devices": False,
        # As of a real cluster: the analyzer must judge what is told, not where it comes from.
        "simulated": [],
    }


def outcome(ending: str, ranks: Sequence[int] = ()) -> dict[str, Any]:
    """How a run ended, and who is blamed for that."""
    return {"ending": ending, "ranks": list(ranks), "reason": "", "exits": []}


def moment(time: float) -> str:
    """Unix time as run.json tells times."""
    return datetime.fromtimestamp(time, UTC).isoformat()
