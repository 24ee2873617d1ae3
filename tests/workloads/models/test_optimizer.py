"""AdamW: a step whose gradients are not finite changes nothing, and the run goes on."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lockstep.workloads.models.optimizer import MOMENTS, Optimizer, Rate

RATE = Rate(peak=1e-2, warmup=5, steps=50)


def optimizer() -> tuple[Optimizer, list[nn.Parameter]]:
    dice = torch.Generator().manual_seed(3)
    parameters = [nn.Parameter(torch.randn(shape, generator=dice)) for shape in ((4, 3), (5,))]
    return Optimizer(parameters, RATE), parameters


def learn(one: Optimizer, parameters: list[nn.Parameter], step: int, norm: float) -> None:
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 0.1 * step - 0.3)
    if not math.isfinite(norm):
        assert parameters[1].grad is not None
        parameters[1].grad[2] = norm
    one.step(step, torch.tensor(norm, dtype=torch.float64))


def state(one: Optimizer, parameters: list[nn.Parameter]) -> list[Any]:
    kept = [one.adam.state[p] for p in parameters]
    return [
        *(p.detach().clone() for p in parameters),
        *(s[name].clone() for s in kept for name in (*MOMENTS, "step")),
    ]


@given(
    st.lists(
        st.sampled_from([1.0, 0.5, float("inf"), float("-inf"), float("nan")]),
        min_size=2, max_size=8,
    )
)  # fmt: skip
def test_what_is_not_finite_changes_nothing_to_the_last_bit(norms: list[float]) -> None:
    one, parameters = optimizer()
    learn(one, parameters, 0, 1.0)
    for step, norm in enumerate(norms, start=1):
        before = state(one, parameters)
        learn(one, parameters, step, norm)
        same = [
            torch.equal(old, new) for old, new in zip(before, state(one, parameters), strict=True)
        ]

        assert all(same) is not math.isfinite(norm)
    finite = sum(map(math.isfinite, norms))
    assert (len(norms) - finite, 1 + finite) == (int(one.skipped), one.updates)


def test_a_first_step_that_is_not_finite_leaves_weights_and_empty_moments() -> None:
    one, parameters = optimizer()
    before = [p.detach().clone() for p in parameters]
    learn(one, parameters, 0, math.nan)

    assert all(map(torch.equal, before, parameters))
    assert 0 == one.updates == sum(float(s[m].sum()) for s in one.moments().values() for m in s)


def test_what_was_taken_up_goes_on_as_if_nothing_had_happened() -> None:
    one, parameters = optimizer()
    for step in range(3):
        learn(one, parameters, step, 1.0)
    other, copies = optimizer()
    for copy, parameter in zip(copies, parameters, strict=True):
        copy.data.copy_(parameter.data)
    moments = {
        copy: {name: value.clone() for name, value in both.items()}
        for copy, both in zip(copies, one.moments().values(), strict=True)
    }
    other.take(one.updates, moments)
    for who, those in ((one, parameters), (other, copies)):
        learn(who, those, 3, 1.0)

    assert all(map(torch.equal, parameters, copies))


@pytest.mark.parametrize(("step", "share"), [(0, 0.2), (25, 0.5), (50, 0.0), (80, 0.0)])
def test_the_rate_warms_up_and_falls_to_zero(step: int, share: float) -> None:
    assert share * 1e-2 == pytest.approx(RATE(step), abs=1e-5)
