"""Disturbances: SPEC strings, and what they mean for a rank."""

import pytest

from lockstep.workloads.faults.disturbances import (
    Disturbance,
    Disturber,
    Kind,
    parse_disturbance,
)
from lockstep.workloads.faults.settings import DisturbanceError


def read(
    spec: str, *, dp: int = 2, pp: int = 2, steps: int = 100, pace: bool = True
) -> Disturbance:
    return parse_disturbance(spec, dp=dp, pp=pp, steps=steps, pace=pace)


def disturber(*specs: str, replica: int = 0, stage: int = 0) -> Disturber:
    found = tuple(read(spec) for spec in specs)
    return Disturber(found, replica=replica, stage=stage, stages=2, seed=3)


def test_defaults_last_for_the_whole_run() -> None:
    assert Disturbance(Kind.UNIFORM, 1.5, 0, 100, None, None, "uniform") == read("uniform")


def test_a_warm_up_ends_by_itself() -> None:
    assert 30 == read("warmup").to_step


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("storm", "unknown kind 'storm'; one of eval, checkpoint"),
        ("uniform:factor=1", "factor 1 must be above 1"),
        ("uniform:factor=nan", "factor nan must be above 1"),
        ("uniform:every=3", "unknown setting 'every'"),
        ("checkpoint:factor=2", "unknown setting 'factor'"),
        ("gc:every=1", "every=1 is too often"),
        ("gc:from=50,to=20", "from before to"),
        ("eval:to=101", "must lie inside 0 to 100"),
        ("sequences:replica=2", "there is no replica 2; replicas are 0 to 1"),
        ("eval:from=2,from=3", "from is given twice"),
    ],
)
def test_a_wrong_spec_is_named_with_what_would_be_right(spec: str, named: str) -> None:
    with pytest.raises(DisturbanceError) as raised:
        read(spec)

    assert named in str(raised.value)


def test_a_heavy_stage_without_a_pipeline_is_refused() -> None:
    with pytest.raises(DisturbanceError, match="needs a pipeline"):
        read("stage", pp=1)


def test_work_of_a_device_needs_emulated_devices_and_tagged_steps_do_not() -> None:
    with pytest.raises(DisturbanceError, match="uniform needs emulated devices"):
        read("uniform", pace=False)
    assert 10 == read("gc:every=10", pace=False).every


def test_tagged_steps_come_every_so_many_steps_inside_their_span() -> None:
    gc = disturber("gc:every=10,from=20,to=50")

    assert [29, 39, 49] == [step for step in range(100) if gc.due(Kind.GC, step)]
    assert gc.due(Kind.EVAL, 29) is None


def test_only_the_last_stage_is_heavy() -> None:
    first, last = (disturber("stage:factor=1.4", stage=stage) for stage in (0, 1))

    assert [1.0, 1.4] == [first.work(50), last.work(50)]


def test_a_uniform_slowdown_is_the_same_for_everybody() -> None:
    assert {1.5} == {
        disturber("uniform:from=10", replica=replica, stage=stage).work(10)
        for replica in (0, 1)
        for stage in (0, 1)
    }
    assert 1.0 == disturber("uniform:from=10").work(9)


def test_a_warm_up_gets_ever_faster() -> None:
    warmup = disturber("warmup:factor=2")
    work = [warmup.work(step) for step in range(40)]

    assert 2.0 == work[5]
    assert sorted(work, reverse=True) == work
    assert 1.0 == work[30]


def test_long_sequences_are_one_in_so_many_and_the_same_on_all_ranks_of_a_replica() -> None:
    ranks = [disturber("sequences:every=4,factor=3", stage=stage) for stage in (0, 1)]
    drawn = [[rank.weight(step)(index) for step in range(100) for index in range(4)]
             for rank in ranks]  # fmt: skip

    assert drawn[0] == drawn[1]
    assert {1.0, 3.0} == set(drawn[0])
    assert 70 <= drawn[0].count(3.0) <= 130


def test_replicas_draw_their_long_sequences_for_themselves() -> None:
    drawn = [[disturber("sequences:every=4", replica=replica).weight(step)(0)
              for step in range(100)] for replica in (0, 1)]  # fmt: skip

    assert drawn[0] != drawn[1]


def test_the_sequences_of_one_replica_alone_may_be_long() -> None:
    spec = "sequences:every=4,replica=1"
    others = {disturber(spec).weight(step)(0) for step in range(100)}
    its_own = {disturber(spec, replica=1).weight(step)(0) for step in range(100)}

    assert {1.0} == others
    assert {1.0, 2.0} == its_own
