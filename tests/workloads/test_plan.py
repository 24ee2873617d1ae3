"""Fault SPEC strings."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.contract.words import FaultKind
from workloads.faults.plan import BUILT, Fault, FaultError, parse

CAN = dict.fromkeys(BUILT, "")


def read(spec: str, steps: int = 300) -> Fault:
    return parse(spec, nodes=4, ranks_per_node=2, steps=steps, available=CAN)


def test_defaults_are_a_constant_factor_from_a_third_to_the_end() -> None:
    fault = read("thermal:rank=2")

    assert Fault(FaultKind.THERMAL, 2, None, 1.5, 100, 300, "constant", "thermal:rank=2") == fault


def test_a_node_means_every_rank_of_it() -> None:
    fault = read("compute:node=1,factor=2")

    assert [2, 3] == list(fault.ranks(ranks_per_node=2))


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("heat:rank=1", "unknown kind 'heat'"),
        ("compute", "exactly one of rank=R and node=N"),
        ("compute:rank=1,node=0", "exactly one of rank=R and node=N"),
        ("compute:rank=8", "there is no rank 8; ranks are 0 to 7"),
        ("compute:node=4", "there is no node 4; nodes are 0 to 3"),
        ("compute:rank=-1", "rank=-1 is not a whole number"),
        ("compute:rank=1,factor=fast", "factor=fast is not a number"),
        ("compute:rank=1,factor=1", "must be above 1"),
        ("compute:rank=1,factor=nan", "must be above 1"),
        ("compute:rank=1,from=200,to=100", "from before to: the steps before"),
        ("compute:rank=1,from=9", "must lie inside 10 to 300"),
        ("compute:rank=1,shape=square", "shape 'square'"),
        ("compute:rank=1,size=3", "unknown setting 'size'"),
        ("compute:rank=1,rank=2", "rank is given twice"),
        ("compute:rank", "'rank' is not NAME=VALUE"),
        ("freeze:rank=1,factor=2", "takes no factor"),
        ("crash:rank=1,to=9", "takes no to=STEP"),
        ("random@", "is not a whole number"),
        ("random@x", "is not a whole number"),
    ],
)
def test_a_wrong_spec_is_named_with_what_would_be_right(spec: str, named: str) -> None:
    with pytest.raises(FaultError, match="fault") as raised:
        read(spec)

    assert named in str(raised.value)


def test_what_this_machine_cannot_do_is_refused_with_the_reason() -> None:
    with pytest.raises(FaultError, match="needs root"):
        parse(
            "cpu-quota:rank=1",
            nodes=4,
            ranks_per_node=1,
            steps=300,
            available=CAN | {FaultKind.CPU_QUOTA: "cpu-quota needs root"},
        )


def test_a_draw_is_the_same_for_the_same_seed_and_says_its_pool() -> None:
    fault = read("random@7")

    assert fault == read("random@7")
    assert tuple(BUILT) == fault.pool


def test_draws_stay_inside_the_pool_and_the_run() -> None:
    can = CAN | {FaultKind.CPU_QUOTA: "no"}
    faults = [
        parse(f"random@{seed}", nodes=4, ranks_per_node=1, steps=160, available=can)
        for seed in range(200)
    ]

    assert {kind for kind in BUILT if kind is not FaultKind.CPU_QUOTA} == {f.kind for f in faults}
    assert {0, 1, 2, 3} == {f.rank for f in faults}
    assert all(40 <= f.from_step <= 80 and f.to_step == 160 for f in faults)
    assert all(f.factor is None or 1.2 <= f.factor <= 2.0 for f in faults)


def test_a_run_too_short_to_draw_from_is_refused() -> None:
    with pytest.raises(FaultError, match="20 steps are too few to draw from"):
        read("random@3", steps=20)


def test_a_short_run_needs_an_onset_of_its_own() -> None:
    with pytest.raises(FaultError, match="steps 4 to 12 must lie inside 10 to 12"):
        read("compute:rank=0", steps=12)


@given(st.text(max_size=60))
def test_any_text_is_a_fault_or_a_sentence(text: str) -> None:
    for spec in (text, f"compute:{text}", f"random@{text}"):
        with suppress(FaultError):
            assert read(spec).kind in BUILT
