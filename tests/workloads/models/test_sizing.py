"""How long faults hold a rank up."""

import gc
import random
from time import monotonic

import pytest

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.inject import Garbage, Sizing
from lockstep.workloads.faults.plan import Fault
from tests.machine import slowness

FAULT = Fault(FaultKind.DATA, 1, None, 1.5, 20, 120)
RAMP = Fault(FaultKind.DATA, 1, None, 1.5, 20, 120, "ramp")


def sized(fault: Fault, overhead: float, outlier: float = 0.0) -> list[float]:
    """Own time over healthy in each faulty step, where holding up takes `overhead` too long."""
    sizing, dice, seen = Sizing(), random.Random(4), []
    for _ in range(20):
        sizing.learn_healthy(0.040 * dice.gauss(1.0, 0.02))
    for step in range(20, 120):
        took = 0.040 * dice.gauss(1.0, 0.02) + sizing.added(fault, step) * overhead
        sizing.learn(fault, step, took + outlier * (step == 50))
        seen.append(took / 0.040)
    return seen


@pytest.mark.parametrize("overhead", [0.7, 1.0, 1.3])
def test_a_fault_that_takes_longer_or_shorter_than_planned_is_corrected(overhead: float) -> None:
    seen = sized(FAULT, overhead)

    assert sum(seen[50:]) / 50 == pytest.approx(1.5, rel=0.02)


def test_a_ramp_ends_at_the_whole_factor() -> None:
    seen = sized(RAMP, 1.2)

    assert sum(seen) / 100 == pytest.approx(RAMP.factor_mean, rel=0.04)
    assert sum(seen[-5:]) / 5 == pytest.approx(1.49, rel=0.03)


def test_a_checkpoint_in_between_teaches_nothing() -> None:
    assert sized(FAULT, 1.0) == pytest.approx(sized(FAULT, 1.0, outlier=1.0), rel=0.002)


def test_the_healthy_time_leaves_scheduler_outliers_out() -> None:
    sizing = Sizing()
    assert not sizing.is_known
    for seconds in [0.04] * 18 + [3.0, 0.001]:
        sizing.learn_healthy(seconds)

    assert 0.04 == pytest.approx(sizing.baseline)


@pytest.mark.timed
def test_a_storm_collects_real_garbage_for_as_long_as_it_should() -> None:
    garbage, runs = Garbage(), []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            runs.append(info["collected"])

    gc.collect()
    gc.freeze()  # as a rank does: what is made here is all that is looked at
    gc.callbacks.append(count)
    try:
        with slowness() as machine:
            began = monotonic()
            for _ in range(10):
                garbage.storm(0.01)
            took = monotonic() - began
    finally:
        gc.callbacks.remove(count)
        gc.unfreeze()

    assert took >= 0.09
    assert len(runs) >= garbage.collections > 10
    assert sum(runs) >= garbage.objects > 1000
    assert garbage.seconds == pytest.approx(took, abs=0.02 * machine.factor)


def test_no_storm_takes_no_time_and_collects_nothing() -> None:
    garbage = Garbage()
    garbage.storm(0.0)

    assert (0, 0) == (garbage.collections, garbage.objects)
