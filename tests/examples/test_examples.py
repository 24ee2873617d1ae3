"""Every example runs alone, and is recorded when it runs under Lockstep."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.sources.ranks.records import read_records
from lockstep.collector.sources.ranks.rings import scan
from lockstep.workloads.launch.external_program.launcher import environment_of
from lockstep.workloads.sdk.holder import Means, holder
from lockstep.workloads.spec import Layout

pytestmark = [pytest.mark.distributed, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDS = {
    "ddp.py": "torch", "fsdp2.py": "torch", "lightning_callback.py": "lightning",
    "jax_train.py": "jax", "tensorflow_train.py": "tensorflow",
}  # fmt: skip
STEPS = 12
SECONDS = 240
LONGEST = 80
"""Lines; an example is read at a glance."""


def needed(example: str) -> None:
    if find_spec(NEEDS[example]) is None:
        pytest.skip(f"{NEEDS[example]} is not installed")


def run(example: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", str(EXAMPLES / example), "--steps", str(STEPS)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def test_every_example_is_tested_and_short():
    found = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}

    assert NEEDS.keys() == found.keys()
    assert max(found.values()) < LONGEST


@pytest.mark.sweep(sample=2)
@pytest.mark.parametrize("example", NEEDS)
def test_an_example_runs_without_lockstep(example):
    needed(example)
    variables = {name: text for name, text in os.environ.items() if not name.startswith("LOCKSTEP")}
    process = run(example, variables | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"})
    said, _ = process.communicate(timeout=SECONDS)

    assert 0 == process.returncode, said
    assert f"trained {STEPS} steps" in said
    assert "lockstep:" not in said


@pytest.mark.parametrize("example", NEEDS)
def test_an_example_under_lockstep_records_every_step_on_every_rank(example, tmp_path, free_port):
    needed(example)
    # JAX and TensorFlow show one process; the others train together.
    world = 2 if NEEDS[example] in {"torch", "lightning"} else 1
    layout = Layout(1, world, world)
    ranks = [
        run(example, environment_of(
            os.environ, run="mine", layout=layout, rank=rank, workspace=tmp_path, port=free_port
        ))
        for rank in range(world)
    ]  # fmt: skip
    for rank in ranks:
        said, _ = rank.communicate(timeout=SECONDS)
        assert 0 == rank.returncode, said
    found, rejected = scan(tmp_path / "node-0", Path("/proc"), SystemClock())

    assert [] == rejected
    assert list(range(world)) == sorted(rank.key[1] for rank in found)
    for rank in found:
        steps = read_records(rank.path, 0, None, SystemClock()).steps
        assert Means.SDK == holder(rank.path).means
        assert list(range(STEPS)) == [step.step for step in steps]
        assert all(step.loss == step.loss for step in steps)
        assert all(step.samples > 0 for step in steps)
        if world > 1:
            assert any(step.own_ns < step.wall_ns for step in steps)
