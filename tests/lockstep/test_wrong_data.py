"""Data that are wrong deep inside: only a rank comes across them, and says so in one sentence."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lockstep.workloads.data.indexed import write


@pytest.mark.distributed
@pytest.mark.slow
def test_a_rank_names_the_wrong_data_in_one_sentence_and_the_run_names_the_rank(
    tmp_path: Path,
) -> None:
    # The first tokens of the longest document alone are looked at before a run.
    dice = np.random.default_rng(0)
    documents = [dice.integers(0, 32, 4000), np.full(3000, 99)]
    write(tmp_path / "tokens", documents, 100)
    out = tmp_path / "out"
    words = ("--nodes", "2", "--steps", "40", "--device", "cpu", "--vocabulary", "32")
    done = subprocess.run(
        [
            sys.executable, "-m", "lockstep", "run", "gpt", *words, "--data",
            str(tmp_path / "tokens"), "--out", str(out),
        ],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    sentence = "has a token outside 0 to 31"
    logs = [(out / "logs" / f"rank-{rank}.log").read_text() for rank in range(2)]
    told = [log for log in logs if sentence in log]

    assert 70 == done.returncode, done.stderr
    assert told
    assert all(1 == len(log.splitlines()) for log in told), told
    last = done.stderr.splitlines()[-1]
    assert last.startswith("lockstep: rank ")
    assert sentence in last
    assert "exit code 65" in last or "code 65" in last
    assert "Traceback" not in done.stderr
