"""When a rank of a foreign program is proven to do the same work, and what is no proof."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.shapes.run import Exchange, Run
from lockstep.analyzer.stragglers.model.roles import equal_work, with_roles
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import EXTERNAL_PROGRAM

AVERAGES = Exchange(frozenset({"0000000000ab:4"}), frozenset(), only_averages=True)
SLOW = 2


@pytest.fixture
def program(synthetic, fault):
    """`program(exchange=..., gpus=...)`: rank 2 is slow in forward and backward since the start."""

    def make(exchange=AVERAGES, *, factor=1.6, gpus=False, world=4, slow=(SLOW,)) -> Run:
        faults = [fault("compute", rank, factor, 0) for rank in slow]
        run = synthetic(world=world, gpus=gpus, faults=faults).run()
        ranks = tuple(
            dataclasses.replace(info, external=True, exchange=exchange) for info in run.ranks
        )
        meta = {**run.meta, "workload": EXTERNAL_PROGRAM}
        return dataclasses.replace(run, ranks=ranks, meta=meta)

    return make


def changed(run: Run, rank: int | None = SLOW, **how) -> Run:
    """With `how`, column -> a function of it, of the windows of a rank, or of all."""
    windows = run.windows.copy()
    mine = np.ones(len(windows), bool) if rank is None else windows["rank"] == rank
    for column, of in how.items():
        windows.loc[mine, column] = of(windows.loc[mine, column])
    return dataclasses.replace(run, windows=windows)


def named(run: Run) -> list[int | None]:
    return [one.rank for one in diagnose(run).verdict.culprits]


@pytest.mark.parametrize("gpus", [False, True])
@pytest.mark.parametrize("factor", [1.3, 1.6, 2.5])
def test_who_does_the_same_work_and_always_was_slower_is_named(program, factor, gpus):
    verdict = diagnose(program(factor=factor, gpus=gpus)).verdict
    (culprit,) = verdict.culprits

    assert ("degraded", SLOW) == (verdict.status, culprit.rank)
    assert factor == pytest.approx(culprit.slowdown, rel=0.05)
    assert culprit.place_confidence < 0.95
    assert () == verdict.structure


def test_nobody_is_named_in_a_healthy_one(program):
    run = program(slow=())

    assert [] == named(run)
    assert not any(equal_work(with_roles(align(run)), column) for column in range(4))


@pytest.mark.parametrize("exchange", [
    None,
    dataclasses.replace(AVERAGES, only_averages=False),
    dataclasses.replace(AVERAGES, peers=frozenset({1})),
    dataclasses.replace(AVERAGES, groups=frozenset()),
])  # fmt: skip
def test_who_may_be_given_work_by_others_is_not_proven_to_do_the_same(program, exchange):
    run = program(exchange)

    assert [] == named(run)
    assert not equal_work(with_roles(align(run)), SLOW)


def test_groups_of_other_members_are_no_proof(program):
    run = program()
    other = dataclasses.replace(AVERAGES, groups=AVERAGES.groups | {"0000000000cd:2"})
    ranks = [dataclasses.replace(i, exchange=other) if i.rank == SLOW else i for i in run.ranks]

    assert [] == named(dataclasses.replace(run, ranks=tuple(ranks)))


UNTOLD = {"flops": lambda told: told * 0, "tokens": lambda told: told * 0}


@pytest.mark.parametrize(("rank", "how"), [
    (None, UNTOLD),
    (SLOW, UNTOLD),
    (SLOW, {"flops": lambda told: told * 1.02}),
    (0, {"flops": lambda told: told * np.linspace(0.9, 1.1, len(told))}),
])  # fmt: skip
def test_work_that_nobody_tells_or_that_differs_is_no_proof(program, rank, how):
    assert not equal_work(with_roles(align(changed(program(), rank, **how))), SLOW)


@pytest.mark.parametrize("where", ["data", "other", "eval", "forward", "backward"])
def test_what_is_longer_in_one_place_alone_may_be_work_that_nobody_tells(program, where):
    """Rollouts, evaluation or logging of rank 2, wherever its program counts them."""
    run = program(slow=())
    extra = {name: lambda told: told + 0.02 for name in (f"{where}_seconds", "own_seconds")}
    run = changed(changed(run, **extra), None, wall_seconds=lambda told: told + 0.02)

    assert [] == named(run)
    assert not equal_work(with_roles(align(run)), SLOW)


def test_without_phases_nobody_knows_where_the_time_goes(program):
    nothing = {f"{name}_seconds": lambda told: told * 0 for name in ("forward", "backward")}

    assert not equal_work(with_roles(align(changed(program(), None, **nothing))), SLOW)


def test_steps_that_vary_more_than_parts_take_other_work_than_is_told(program):
    dice = np.random.default_rng(7)
    of_length = {
        name: lambda told: told * dice.lognormal(0, 0.2, len(told))
        for name in ("own_seconds", "forward_seconds", "backward_seconds")
    }

    assert not equal_work(with_roles(align(changed(program(), None, **of_length))), SLOW)


def test_who_is_slow_beside_rollouts_of_another_rank_is_named_and_that_one_is_not(program):
    extra = {name: lambda told: told + 0.05 for name in ("other_seconds", "own_seconds")}
    run = changed(changed(program(), 0, **extra), None, wall_seconds=lambda told: told + 0.05)
    verdict = diagnose(run).verdict

    assert [SLOW] == [one.rank for one in verdict.culprits]
    assert ["role-imbalance"] == [one["kind"] for one in verdict.structure]
    assert "rank 0 (" in str(verdict.structure[0]["text"])


def test_of_two_halves_nobody_knows_which_is_normal(program):
    assert [] == named(program(slow=(1, 2)))
    assert [] == named(program(slow=(1,), world=2))
    assert {1, 2} == set(named(program(slow=(1, 2), world=8)))


def test_of_ranks_that_never_share_a_group_none_is_the_others_replica(program):
    run = program(slow=(2, 3), factor=1.15)
    apart = tuple(
        dataclasses.replace(i, exchange=dataclasses.replace(AVERAGES, groups=frozenset({g})))
        for i, g in zip(run.ranks, ("a:2", "a:2", "b:2", "b:2"), strict=True)
    )

    assert [0, 0, 1, 1] == [
        info.role for info in with_roles(align(dataclasses.replace(run, ranks=apart))).ranks
    ]
    assert [0] * 4 == [info.role for info in with_roles(align(run)).ranks]
