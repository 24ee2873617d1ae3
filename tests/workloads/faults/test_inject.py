"""Faults of a rank, step by step, on a device whose time is short."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults import inject
from lockstep.workloads.faults.device import SHARES, EmulatedDevice
from lockstep.workloads.faults.disturbances import Disturber, parse_disturbance
from lockstep.workloads.faults.inject import Injector
from lockstep.workloads.faults.kinds import BUILT, DEVICE_KINDS
from lockstep.workloads.faults.measure import read_added
from lockstep.workloads.faults.plan import Fault, parse
from lockstep.workloads.faults.simulated_gpu import SimulatedGpu

HEALTHY = 0.04
CAN = dict.fromkeys(BUILT, "")


def fault(spec: str) -> Fault:
    return parse(spec, nodes=2, ranks_per_node=1, steps=100, available=CAN)


class Slept(list[float]):
    """Naps that were asked for; they take no time."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)

    def take(self) -> float:
        total = sum(self)
        self.clear()
        return total


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> Slept:
    naps = Slept()
    monkeypatch.setattr(inject, "sleep", naps)
    return naps


def injector(*specs: str, healthy: int = 20, **more: Path) -> tuple[Injector, EmulatedDevice]:
    """After some healthy steps."""
    device = EmulatedDevice(HEALTHY, noise=0.0, seed=1)
    made = Injector(tuple(fault(spec) for spec in specs), device, None, **more)
    for step in range(healthy):
        made.before_step(step)
        made.after_step(step, HEALTHY)
    return made, device


@pytest.mark.parametrize("kind", DEVICE_KINDS)
def test_a_slow_device_takes_longer_in_the_steps_in_force(kind: FaultKind) -> None:
    made, device = injector(f"{kind}:rank=1,factor=1.5,from=20,to=30")
    extra = []
    for step in (19, 20, 29, 30):
        made.before_step(step)
        extra.append(device._extra)

    assert [0.0, 0.02, 0.02, 0.0] == pytest.approx(extra)


@pytest.mark.parametrize("kind", ["data", "pcie"])
def test_late_data_is_slept_for_in_the_data_phase_alone(kind: str, slept: Slept) -> None:
    made, device = injector(f"{kind}:rank=1,factor=2,from=20")
    made.before_step(20)
    made.stall_copies(20)

    assert 0.0 == slept.take() == device._extra
    made.stall_data(20)
    assert HEALTHY == pytest.approx(slept.take())


def test_late_gradients_are_slept_for_before_they_go(slept: Slept) -> None:
    made, device = injector("nvlink:rank=1,factor=2,from=20")
    made.before_step(20)
    made.stall_data(20)

    assert 0.0 == slept.take() == device._extra
    made.stall_copies(20)
    assert HEALTHY == pytest.approx(slept.take())


def test_a_periodic_fault_is_silent_in_its_pauses(slept: Slept) -> None:
    made, _ = injector("data:rank=1,factor=2,from=20,shape=periodic,period=4,duty=0.5")
    naps = []
    for step in range(20, 28):
        made.stall_data(step)
        naps.append(round(slept.take(), 4))

    assert [HEALTHY, HEALTHY, 0.0, 0.0] * 2 == naps


def test_a_factor_that_is_missed_is_corrected(slept: Slept) -> None:
    made, _ = injector("data:rank=1,factor=1.5,from=20")
    for step in range(20, 80):
        made.stall_data(step)
        made.after_step(step, HEALTHY + 0.8 * slept.take())
    made.stall_data(80)

    assert 0.8 * slept.take() == pytest.approx(0.5 * HEALTHY, rel=0.05)


def test_what_was_done_is_written_down(tmp_path: Path, slept: Slept) -> None:
    proof = tmp_path / "faults" / "rank-1.json"
    made, _ = injector("data:rank=1,factor=2,from=20", "gc:rank=1,factor=1.1,from=20", proof=proof)
    made.stall_data(20)
    made.collect_garbage(20)
    made.close()
    told = json.loads(proof.read_text())

    assert HEALTHY == pytest.approx(told["seconds"]["data"])
    assert told["garbage"]["collections"] >= 1


def test_a_healthy_rank_has_nothing_to_write(tmp_path: Path) -> None:
    made, _ = injector(proof=tmp_path / "rank-1.json")
    made.close()

    assert [] == list(tmp_path.iterdir())


def test_an_xid_is_logged_at_the_onset_and_again_while_it_lasts() -> None:
    made, _ = injector("xid:rank=1,factor=1.5,from=20,xid=63")
    gpu, counts = SimulatedGpu(0, "SIM-a", seed=1), []
    for step in range(18, 62):
        made.before_step(step)
        made.tell(gpu, step, 0.1)
        counts.append(gpu.state()["xid_errors"].get("63", 0.0))

    assert [0.0, 0.0, 1.0] == counts[:3]
    assert 3.0 == counts[-1]


def test_a_fatal_xid_is_logged_before_the_rank_dies_of_it() -> None:
    made, _ = injector("xid:rank=1,xid=79,from=20")
    gpu = SimulatedGpu(0, "SIM-a", seed=1)
    made.tell(gpu, 18, 0.1)
    assert {} == gpu.state()["xid_errors"]
    made.tell(gpu, 19, 0.1)

    assert {"79": 1.0} == gpu.state()["xid_errors"]


@pytest.mark.parametrize(
    ("spec", "code", "said"),
    [
        ("crash:rank=1,from=20", -signal.SIGKILL, ""),
        ("xid:rank=1,xid=79,from=20", 1, "simulated GPU: XID 79, GPU has fallen off the bus"),
    ],
)
def test_a_fault_that_ends_the_rank_ends_its_process(spec: str, code: int, said: str) -> None:
    script = f"""
from tests.workloads.faults.test_inject import injector
made, _ = injector({spec!r})
made.before_step(20)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=240,
        cwd=Path(__file__).parents[3], env=dict(os.environ),
    )  # fmt: skip

    assert code == done.returncode
    assert said == done.stderr.strip()


def test_a_disturbance_is_work_of_the_device_and_no_fault() -> None:
    device = EmulatedDevice(HEALTHY, noise=0.0, seed=1)
    spec = parse_disturbance("uniform:factor=1.5,from=10", dp=2, pp=1, steps=100, pace=True)
    disturber = Disturber((spec,), replica=0, stage=0, stages=1, seed=0)
    made = Injector((), device, None, disturber)
    scales = []
    for step in (9, 10):
        made.before_step(step)
        scales.append(device._scale)

    assert [1.0, 1.5] == scales


def test_garbage_by_design_comes_in_its_steps_alone(tmp_path: Path) -> None:
    device = EmulatedDevice(HEALTHY, noise=0.0, seed=1)
    spec = parse_disturbance("gc:factor=1.1,every=10", dp=2, pp=1, steps=100, pace=True)
    disturber = Disturber((spec,), replica=0, stage=0, stages=1, seed=0)
    made = Injector((), device, None, disturber, tmp_path / "proof.json")
    made.after_step(5, HEALTHY)
    for step in range(6, 9):
        made.collect_garbage(step)
    made.close()
    assert [] == list(tmp_path.iterdir())
    made.collect_garbage(9)
    made.close()

    assert "garbage" in json.loads((tmp_path / "proof.json").read_text())


def test_what_was_added_to_each_step_is_told_by_whoever_is_killed_later(tmp_path: Path) -> None:
    specs = ("data:rank=1,factor=1.5,from=20,to=22", "pcie:rank=1,factor=1.25,from=21,to=23")
    made, _ = injector(*specs, proof=tmp_path / "rank-1.json")
    for step in range(19, 24):
        made.before_step(step)
        made.stall_data(step)
        made.end_step(step)
    made.close()
    with (tmp_path / "rank-1.jsonl").open("a") as file:
        file.write('[24, {"data:rank')  # as one that is killed leaves it

    told = read_added(tmp_path / "rank-1.jsonl")
    data, pcie = (told[spec] for spec in specs)
    assert [20, 21] == data["steps"]
    assert [21, 22] == pcie["steps"]
    # A sleep takes longer than it was asked for, never less.
    assert all(seconds >= HEALTHY / 2 for seconds in data["seconds"])
    assert all(seconds >= HEALTHY / 4 for seconds in pcie["seconds"])
    assert data["seconds"][1] == pytest.approx(2 * pcie["seconds"][0], abs=2e-6)


def test_a_slow_device_and_garbage_tell_what_they_added(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = [100.0]
    monkeypatch.setattr("lockstep.workloads.faults.device.monotonic", lambda: clock[0])
    monkeypatch.setattr(
        "lockstep.workloads.faults.device.sleep", lambda each: clock.append(clock.pop() + each)
    )
    specs = ("compute:rank=1,factor=1.5,from=20,to=30", "gc:rank=1,factor=1.5,from=20,to=30")
    made, device = injector(*specs, proof=tmp_path / "rank-1.json")
    made.before_step(20)
    with device.segment("forward"):
        pass
    made.collect_garbage(20)
    made.end_step(20)
    made.close()

    told = read_added(tmp_path / "rank-1.jsonl")
    share = SHARES["forward"]
    assert [share * HEALTHY / 2] == pytest.approx(told[specs[0]]["seconds"], abs=1e-6)
    assert told[specs[1]]["seconds"][0] >= HEALTHY / 2
