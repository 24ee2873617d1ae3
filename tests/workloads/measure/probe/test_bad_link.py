"""The whole way: a run over emulated links of which one is late, and the probe that names it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.network.capabilities import why_not

NODES, MOST_ROUNDS = 4, 4


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.distributed
def test_a_late_link_of_a_run_is_named_by_its_probe(tmp_path: Path) -> None:
    if reason := why_not(FaultKind.LINK_DELAY):
        pytest.skip(reason)
    words = [
        sys.executable, "-m", "lockstep", "run", "allreduce", "--no-verdict",
        "--nodes", str(NODES), "--steps", "15", "--sizes", "1K:64K:2", "--probe",
        "--out", str(tmp_path / "archive"), "--fault",
        "link-delay:node=1,peer=3,delay=20ms,from=10",
    ]  # fmt: skip

    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)

    assert 0 == done.returncode, done.stderr
    probe = json.loads((tmp_path / "archive" / "results.json").read_text())["probe"]
    assert [["node-1", "node-3"]] == [one["nodes"] for one in probe["finding"]["culprits"]]
    assert probe["rounds"] <= MOST_ROUNDS
