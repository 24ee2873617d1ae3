"""Real runs on emulated nodes whose links are disturbed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pytest
from numpy.typing import NDArray

from lockstep.runs.leftovers import SHARED_MEMORY
from lockstep.workloads.faults.measure import effect
from lockstep.workloads.faults.plan import parse
from lockstep.workloads.network import netns
from lockstep.workloads.network.capabilities import no_namespaces
from lockstep.workloads.network.emulated import effects
from lockstep.workloads.network.names import token, token_of

pytestmark = [
    pytest.mark.root,
    pytest.mark.distributed,
    pytest.mark.slow,
    pytest.mark.timed,
    pytest.mark.skipif(no_namespaces() != "", reason=f"an emulated network {no_namespaces()}"),
]

NODES = 4


def traces(run: str) -> list[str]:
    # Before the first namespace there is no folder of namespaces.
    places = [place for place in (netns.FOLDER, Path("/sys/class/net")) if place.is_dir()]
    return [name for place in places for name in os.listdir(place) if token_of(name) == token(run)]


def table(archive: Path, name: str, columns: list[str]) -> Any:
    return ds.dataset(archive / name, format="parquet").to_table(columns).to_pandas()


def run(archive: Path, steps: int, fault: str) -> str:
    """A run of the command with one fault; its id."""
    words = ["run", "gpt", "--nodes", str(NODES), "--steps", str(steps), "--fault", fault,
             "--out", str(archive), "-o", "json"]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "lockstep", *words], capture_output=True, text=True, timeout=500
    )
    assert 0 == done.returncode, done.stderr
    return str(json.loads(done.stdout)["run"])


def walls(archive: Path, rank: int) -> NDArray[np.float64]:
    """(steps,) wall seconds of a rank's steps."""
    steps = table(archive, "steps.parquet", ["step", "rank", "wall_seconds"])
    mine = steps[steps["rank"] == rank].sort_values("step")
    return np.asarray(mine["wall_seconds"])


def test_a_slow_link_is_the_least_that_a_step_takes(tmp_path: Path) -> None:
    rate, begin, end = 2e7, 15, 25
    fault = f"link-bandwidth:node=2,rate=20mbit,from={begin},to={end}"
    name = run(tmp_path / "archive", 30, fault)
    seen = effects(tmp_path / "archive" / "logs")[fault]
    samples = table(tmp_path / "archive", "samples.parquet", ["node", "metric", "labels"])
    traffic = samples[samples["metric"] == "lockstep_net_bytes_total"]
    least = 0.8 * seen["bits_per_step"] / rate

    assert ("", rate) == (seen["error"], seen["rate_bits_per_second"])
    assert least > 0.1
    assert walls(tmp_path / "archive", 2)[begin + 1 : end].mean() > least
    assert seen["during"]["peak_bits_per_second"] < 2 * rate
    assert {f"node-{index}" for index in range(NODES)} == set(traffic["node"])
    assert {"eth0", "mgmt0"} == {label.split('"')[1] for label in traffic["labels"]}
    assert [] == traces(name)


def test_a_late_link_holds_every_collective_up(tmp_path: Path) -> None:
    begin, end = 15, 25
    fault = f"link-delay:node=1,delay=30ms,from={begin},to={end}"
    name = run(tmp_path / "archive", 30, fault)
    seen = effects(tmp_path / "archive" / "logs")[fault]

    assert ("", 0.03) == (seen["error"], seen["delay_seconds"])
    # A ring of four nodes needs six rounds, one after the other, for an all-reduce.
    assert walls(tmp_path / "archive", 1)[begin + 1 : end].min() > 6 * 0.03
    assert seen["during"]["round_trip_seconds"] >= 0.06 > seen["before"]["round_trip_seconds"]
    assert [] == traces(name)


@pytest.mark.parametrize("kind", ["link-bandwidth", "link-delay"])
def test_a_link_fault_makes_steps_as_much_longer_as_asked(kind: str, tmp_path: Path) -> None:
    busy_if_above(1.0)
    spec, steps = f"{kind}:node=2,factor=1.5", 120
    run(tmp_path / "archive", steps, spec)
    busy_if_above(3.0)
    fault = parse(spec, nodes=NODES, ranks_per_node=1, steps=steps, available={kind: ""})
    mine = walls(tmp_path / "archive", 2)

    assert pytest.approx(1.5, rel=0.15) == effect(fault, np.arange(len(mine)), mine).factor


def busy_if_above(load: float) -> None:
    """Skip what compares times before with times after, where something else runs beside."""
    if os.getloadavg()[0] > load * len(os.sched_getaffinity(0)):
        pytest.skip("compares steps with earlier ones: needs a machine that does nothing else")


def test_a_killed_run_leaves_nothing_of_its_network(tmp_path: Path) -> None:
    words = ["run", "gpt", "--nodes", "2", "--steps", "5000", "--out", str(tmp_path / "archive"),
             "--fault", "link-delay:node=1,delay=1ms,from=20"]  # fmt: skip
    before = set(os.listdir(SHARED_MEMORY)) if SHARED_MEMORY.exists() else set()
    with subprocess.Popen(
        [sys.executable, "-m", "lockstep", *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            name = wait_for(lambda: mine(process.pid, before))
            assert name
            assert wait_for(lambda: traces(name))
            assert wait_for(lambda: list((SHARED_MEMORY / name).glob("node-1/*.ring")))
        finally:
            process.send_signal(signal.SIGKILL)
    assert wait_for(lambda: not traces(name) and not (SHARED_MEMORY / name).exists())


def mine(pid: int, before: set[str]) -> str | None:
    """The run that a process has begun."""
    for name in set(os.listdir(SHARED_MEMORY)) - before if SHARED_MEMORY.exists() else ():
        try:
            if f'"pid": {pid},' in (SHARED_MEMORY / name / "owner.json").read_text():
                return name
        except FileNotFoundError:
            continue
    return None


def wait_for(found: Callable[[], Any], seconds: float = 60.0) -> Any:
    deadline = monotonic() + seconds
    while not (answer := found()) and monotonic() < deadline:
        sleep(0.05)
    return answer
