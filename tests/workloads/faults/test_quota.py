"""The loop that holds a rank's own time under a quota where it is wanted."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.workloads.faults.cpu_quota import QuotaLoop, StepModel

MODEL = StepModel(device=(0.012, 0.020, 0.008), cpu=(0.003, 0.005, 0.001), rest=0.001)
HEALTHY = MODEL.seconds(1.0)


@given(st.floats(1.05, 8.0))
def test_the_quota_model_gives_the_factor_it_is_asked_for(factor: float) -> None:
    wanted = factor * HEALTHY

    assert wanted == pytest.approx(MODEL.seconds(MODEL.share_for(wanted)), rel=1e-6)


def held(factor: float, error: float, noise: float, steps: int = 60) -> list[float]:
    """Own time over healthy by step, where a quota bites `error` times as hard as modelled."""
    dice, loop, seen = random.Random(1), QuotaLoop(MODEL), []
    for _ in range(steps):
        share = loop.share(factor * HEALTHY) / error
        took = MODEL.seconds(share) * dice.gauss(1.0, noise)
        loop.observe(factor * HEALTHY, took)
        seen.append(took / HEALTHY)
    return seen


@pytest.mark.parametrize("factor", [1.1, 1.3, 2.0])
@pytest.mark.parametrize("error", [0.5, 1.0, 1.6])
def test_the_mean_is_what_was_wanted_however_wrong_the_model_is(
    factor: float, error: float
) -> None:
    seen = held(factor, error, noise=0.1)

    assert sum(seen) / len(seen) == pytest.approx(factor, rel=0.1)
    assert sum(seen[30:]) / len(seen[30:]) == pytest.approx(factor, rel=0.06)


def test_it_follows_a_quota_that_begins_to_bite_harder() -> None:
    loop, seen = QuotaLoop(MODEL), []
    for step in range(160):
        took = MODEL.seconds(loop.share(1.5 * HEALTHY) / (1.0 if step < 40 else 1.5))
        loop.observe(1.5 * HEALTHY, took)
        seen.append(took / HEALTHY)

    assert seen[39] == pytest.approx(1.5, rel=0.02)
    assert seen[-1] == pytest.approx(1.5, rel=0.02)


def test_what_was_learnt_at_one_size_holds_at_another_as_a_ramp_needs() -> None:
    loop, seen = QuotaLoop(MODEL), []
    wanted = [(1.0 + step / 60) * HEALTHY for step in range(1, 61)]
    for seconds in wanted:
        took = MODEL.seconds(loop.share(seconds) / 1.4)
        loop.observe(seconds, took)
        seen.append(took)

    assert sum(seen) == pytest.approx(sum(wanted), rel=0.1)
    assert seen[-1] == pytest.approx(wanted[-1], rel=0.06)


def test_a_quota_that_was_lifted_settles_again_before_it_teaches() -> None:
    loop = QuotaLoop(MODEL)
    before = loop.share(1.5 * HEALTHY)
    loop.pause()
    for _ in range(3):
        loop.observe(1.5 * HEALTHY, 9.0)

    assert before == loop.share(1.5 * HEALTHY)
