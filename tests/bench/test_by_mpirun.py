"""A benchmark whose cells mpirun really starts; the workload is the one that runs locally."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockstep.bench import results

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.distributed,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun"),
]
SPEC = """
[bench]
name = "n"
launcher = "mpirun"
report = []
timeout = 300
[workloads.logreg]
steps = 12
[matrix]
ranks_per_node = [2]
"""


def test_a_cell_that_mpirun_started_has_a_row_with_speed_and_is_not_run_again(
    lockstep: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "n.toml").write_text(SPEC)
    words = ("bench", "run", tmp_path / "n.toml", "--out", tmp_path / "out")
    first = lockstep(*words)
    again = lockstep(*words)

    assert (0, 0) == (first.code, again.code), first.err
    assert "finished before" in again.out
    [row] = results.read(tmp_path / "out" / "results.parquet")
    assert ("mpirun", 2, "finished") == (row["launcher"], row["ranks"], row["status"])
    assert row["step_seconds"] > 0
    log = tmp_path / "out" / "cells" / "logreg" / "0" / "archive-0" / "run.json"
    assert '"launcher": "mpirun"' in log.read_text()
