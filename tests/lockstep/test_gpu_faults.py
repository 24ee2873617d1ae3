"""What a simulated GPU tells of a fault reaches the archive under the names of real GPUs."""

import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from collector.contract import metrics as m

pytestmark = pytest.mark.distributed


def test_memory_errors_of_a_real_run_are_those_of_the_faulty_node_alone(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    words = ["run", "gpt", "--nodes", "2", "--steps", "80", "--out", str(archive)]
    done = subprocess.run(
        [sys.executable, "-m", "lockstep", *words, "--fault", "ecc:rank=1,from=20,factor=1.5"],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    samples = ds.dataset(archive / "samples.parquet", format="parquet").to_table().to_pandas()
    seen = samples.groupby(["metric", "node"])["value"].max()

    assert seen[m.GPU_ECC_ERRORS.name, "node-1"] > 0 == seen[m.GPU_ECC_ERRORS.name, "node-0"]
    assert seen[m.GPU_REMAPPED_ROWS.name, "node-1"] > 0 == seen[m.GPU_REMAPPED_ROWS.name, "node-0"]
    assert seen[m.GPU_XID_ERRORS.name, "node-1"] > 0
    assert (m.GPU_XID_ERRORS.name, "node-0") not in seen
