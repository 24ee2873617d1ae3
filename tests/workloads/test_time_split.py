"""A step's time is divided as MLBench divides it, and nothing of it is lost."""

from pathlib import Path

import pytest

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import PHASES, Phase
from lockstep.workloads import recording
from lockstep.workloads.loop.goals import split
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.ring import Identity, RingWriter

HALF = 500_000_000


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_half_a_second(self) -> None:
        self.now += HALF


def recorded(folder: Path, monkeypatch: pytest.MonkeyPatch, batches: int) -> dict[Phase, float]:
    """Seconds by phase, from the ring, of batches whose parts take 0.5 s each."""
    clock = Clock()
    monkeypatch.setattr(recording, "monotonic_ns", clock)
    who = Identity(
        "run", "node-0", "", 0, 2, 0, 0, 0, 0, 0, -1, start_wall_ns=0, wall_minus_monotonic_ns=0
    )
    path = folder / ring.file_name(0)
    recorder = StepRecorder(RingWriter(path, who, now=clock))
    for _ in range(batches):
        recorder.start_step()
        with recorder.phase(Phase.DATA):
            clock.pass_half_a_second()  # batch_load
        clock.pass_half_a_second()  # init
        with recorder.phase(Phase.FORWARD):
            clock.pass_half_a_second()  # fwd_pass
            clock.pass_half_a_second()  # comp_loss
        with recorder.phase(Phase.BACKWARD):
            clock.pass_half_a_second()  # backprop
        with recorder.phase(Phase.GRAD_SYNC):
            clock.pass_half_a_second()  # agg
        with recorder.phase(Phase.OPTIMIZER):
            clock.pass_half_a_second()  # opt_step
        with recorder.phase(Phase.EVAL):
            clock.pass_half_a_second()  # comp_metrics
        clock.pass_half_a_second()  # end
        recorder.end_step(samples=1, tokens=0, flops=1.0, loss=1.0)
    totals = ring.COUNTERS.unpack_from(path.read_bytes(), ring.COUNTERS_OFFSET)
    return {
        phase: nanoseconds / 1e9
        for phase, nanoseconds in zip(PHASES, totals[-len(PHASES) :], strict=True)
    }


@pytest.mark.parametrize("batches", [1, 2])
def test_mlbenchs_batch_of_half_seconds_splits_as_its_own_test_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    spent = split(recorded(tmp_path, monkeypatch, batches), workers=2)

    assert pytest.approx(0.5 * batches, abs=0.01) == spent.preprocess
    assert pytest.approx(0.5 * batches, abs=0.01) == spent.communication
    assert pytest.approx(2.0 * batches, abs=0.01) == spent.compute
    assert pytest.approx(0.5 * batches, abs=0.01) == spent.metrics


def test_a_batch_lasts_four_and_a_half_seconds_and_one_is_of_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = recorded(tmp_path, monkeypatch, 1)
    spent = split(seconds, workers=2)

    assert pytest.approx(4.5) == sum(seconds.values())
    assert pytest.approx(4.5) == spent.total
    assert pytest.approx(4.0) == spent.training
    assert pytest.approx(1.0) == spent.remainder
