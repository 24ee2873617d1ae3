"""What a simulated GPU tells of a fault reaches the archive under the names of real GPUs."""

import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from lockstep.collector.contract import metrics as m

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

FAULT = "ecc:rank=1,from=20,factor=1.5"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run with FAULT leaves."""
    out = tmp_path_factory.mktemp("runs") / "archive"
    words = ["run", "gpt", "--nodes", "2", "--steps", "80", "--out", str(out), "--fault", FAULT]
    done = subprocess.run(
        [sys.executable, "-m", "lockstep", *words], capture_output=True, text=True, timeout=240
    )
    assert 0 == done.returncode, done.stderr
    return out


def test_memory_errors_of_a_real_run_are_those_of_the_faulty_node_alone(archive: Path) -> None:
    samples = ds.dataset(archive / "samples.parquet", format="parquet").to_table().to_pandas()
    seen = samples.groupby(["metric", "node"])["value"].max()

    assert seen[m.GPU_ECC_ERRORS.name, "node-1"] > 0 == seen[m.GPU_ECC_ERRORS.name, "node-0"]
    assert seen[m.GPU_REMAPPED_ROWS.name, "node-1"] > 0 == seen[m.GPU_REMAPPED_ROWS.name, "node-0"]
    assert seen[m.GPU_XID_ERRORS.name, "node-1"] > 0
    assert 0 == seen.get((m.GPU_XID_ERRORS.name, "node-0"), 0)


def test_only_truth_json_knows_the_faults(archive: Path) -> None:
    others = sorted(path for path in archive.glob("*.json") if path.name != "truth.json")

    assert ["results.json", "run.json", "verdict.json"] == [path.name for path in others]
    assert not [path.name for path in others if "ecc:" in path.read_text()]
    assert FAULT in (archive / "truth.json").read_text()
