"""The recipe of docs/ml/own-code.md for torchrun, as it stands there."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/ml/own-code.md").read_text()
SECONDS = 120.0


def recipe() -> dict[str, str]:
    """What the five lines export, by name."""
    return dict(re.findall(r"^export (LOCKSTEP_\w+)=(\S+)", PAGE, re.MULTILINE))


@contextmanager
def running(*command: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", *command], env=os.environ | environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def page(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
            return text
    except OSError:
        return ""


def counted(text: str, metric: str) -> dict[str, float]:
    """By rank."""
    lines = re.findall(rf'^{metric}{{run="mine",rank="(\d+)"}} (\S+)', text, re.MULTILINE)
    return {rank: float(value) for rank, value in lines}


def test_the_page_exports_what_the_recorder_and_the_collector_read():
    assert {"LOCKSTEP_DIR", "LOCKSTEP_RUN", "LOCKSTEP_NODE"} == recipe().keys()
    for launcher in ("torchrun", "Accelerate", "Lightning", "Hugging Face Trainer", "Slurm"):
        assert f"| {launcher} |" in PAGE


@pytest.mark.distributed
@pytest.mark.slow
def test_torchrun_beside_a_collector_shows_every_rank_with_known_own_time(
    tmp_path: Path, free_port: int
) -> None:
    pytest.importorskip("torch")
    told = {"LOCKSTEP_DIR": str(tmp_path), "LOCKSTEP_RUN": "mine", "LOCKSTEP_NODE": "node-a"}
    told |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = (
        "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        str(ROOT / "examples/ddp.py"), "--steps", "200",
    )  # fmt: skip
    with (
        running("lockstep", "collect", "--listen", f"127.0.0.1:{free_port}", environment=told),
        running(*ranks, environment=told) as training,
    ):
        text, deadline = "", time.monotonic() + SECONDS
        while time.monotonic() < deadline and training.poll() is None:
            text = page(free_port)
            if len(known := counted(text, "lockstep_train_known_steps_total")) == 2 and all(
                known.values()
            ):
                break
            time.sleep(0.2)
        said, _ = training.communicate(timeout=SECONDS)

    assert 0 == training.returncode, said
    assert {"0", "1"} == counted(text, "lockstep_train_steps_total").keys()
    assert all(counted(text, "lockstep_train_known_steps_total").values())
    assert all(counted(text, "lockstep_train_own_seconds_total").values())
    assert 'node="node-a"' in text
    assert "trained 200 steps" in said
