"""The measured effect of a fault, and its interval."""

import numpy as np
import pytest

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.measure import Effect, effect
from lockstep.workloads.faults.plan import Fault

STEPS = np.arange(200)


def fault(shape: str, factor: float = 1.5) -> Fault:
    period, duty = (20, 0.5) if shape == "periodic" else (None, None)
    return Fault(
        FaultKind.COMPUTE, 1, None, factor, 80, 200, shape, period=period, duty=duty
    )  # fmt: skip


def measured(injected: Fault, factor: float, noise: float = 0.03, seed: int = 1) -> Effect:
    dice = np.random.default_rng(seed)
    strength = np.array([injected.strength(int(step)) for step in STEPS])
    own = 0.04 * (1 + (factor - 1) * strength) * dice.normal(1.0, noise, STEPS.size)
    order = dice.permutation(STEPS.size)
    found = effect(injected, STEPS[order], own[order])
    assert found is not None
    return found


@pytest.mark.parametrize("shape", ["constant", "transient", "periodic", "ramp"])
def test_the_factor_of_a_step_with_all_of_the_fault_is_found_for_every_shape(shape: str) -> None:
    found = measured(fault(shape), 1.4)

    assert 1.4 == pytest.approx(found.factor, rel=0.03)
    assert found.low < found.factor < found.high


def test_only_steps_in_force_count() -> None:
    found = measured(fault("periodic"), 1.4)

    assert 60 == found.steps
    assert 1.4 == pytest.approx(found.mean, rel=0.02)


def test_a_ramp_has_a_mean_of_its_own() -> None:
    assert 1.25 == pytest.approx(measured(fault("ramp"), 1.5).mean, rel=0.02)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    inside = 0
    for seed in range(100):
        found = measured(fault("constant"), 1.3, noise=0.1, seed=seed)
        inside += found.low <= 1.3 <= found.high

    assert 85 <= inside <= 100


def test_more_noise_makes_the_interval_wider() -> None:
    calm, wild = (measured(fault("constant"), 1.3, noise) for noise in (0.02, 0.2))

    assert wild.high - wild.low > 3 * (calm.high - calm.low)


def test_a_fault_without_steps_before_or_during_has_no_effect_to_tell() -> None:
    assert effect(fault("constant"), np.arange(80), np.full(80, 0.04)) is None
    assert effect(fault("constant"), np.arange(80, 200), np.full(120, 0.04)) is None
    assert effect(fault("constant"), np.arange(0), np.zeros(0)) is None


def test_the_measured_factor_ignores_warm_up_and_outliers() -> None:
    own = np.where(STEPS >= 80, 0.06, 0.04)
    own[:5] = 1.0
    own[[30, 100]] = 3.0

    assert effect(fault("constant"), STEPS, own).factor == pytest.approx(1.5)
