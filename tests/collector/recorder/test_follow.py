import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.contract import archive
from lockstep.collector.contract.ring import OpRecord, StepRecord
from lockstep.collector.contract.words import PHASES
from lockstep.collector.recorder.follow import PATIENCE_SECONDS, Follower
from lockstep.collector.recorder.rows import RankAnswer

STEP_NS = 50_000_000
STEP = archive.STEPS.index(next(one for one in archive.STEPS if one.name == "step"))
OP = {column.name: index for index, column in enumerate(archive.OPS)}


def answer(rank: int, start: int, end: int, world: int = 2, **more) -> RankAnswer:
    """Steps `start` to `end` complete, operations of step `end` too; rank r is r ms late."""
    late = rank * 1_000_000

    def op(name: str, step: int, offset: int) -> OpRecord:
        begin = step * STEP_NS + late + offset
        return OpRecord(name, "", 0, step, 0, "", 0, begin, begin + 1000)

    fields = {
        "node": f"node-{rank}", "gpu": rank, "uuid": f"GPU-{rank}", "rank": rank, "world": world,
        "local_rank": 0, "attempt": 0, "pid": 1, "dp": rank, "pp": 0, "tp": 0,
        "wall_offset_ns": 10**18, "first_step_held": 0, "truncated": False,
        "steps": tuple(
            StepRecord(
                n, n * STEP_NS, STEP_NS, 0, 0, (0,) * len(PHASES), 0b1010, 4, 256, 1.0, 2.0,
                STEP_NS,
            )
            for n in range(start, end)
        ),
        "ops": tuple(
            op(name, n, offset)
            for n in range(start, end + 1)
            for name, offset in (("backward-compute", 5), ("forward-compute", 0))
            + ((("forward-compute", 9),) if n < end else ())
        ),
    }  # fmt: skip
    return RankAnswer(**(fields | more))


def numbers(rows, rank_column: int, step_column: int) -> list[tuple[int, int]]:
    return sorted((row[rank_column], row[step_column]) for row in rows)


def test_nothing_answered_is_nothing_recorded():
    assert Follower().take([], 0, 0.0) == ([], [])


def test_a_step_is_recorded_once_all_ranks_have_completed_it():
    follower = Follower()

    steps, ops = follower.take([answer(0, 0, 5), answer(1, 0, 3)], 0, 0.0)

    assert numbers(steps, 1, 0) == [(rank, step) for rank in (0, 1) for step in range(3)]
    assert max(row[OP["step"]] for row in ops) == 2
    assert follower.from_step == 3


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=8))
def test_overlapping_fetches_write_every_row_once(rounds):
    follower = Follower()
    all_steps, all_ops = [], []
    done = [0, 0]
    for ends in rounds:
        done = [max(before, end) for before, end in zip(done, ends, strict=True)]
        first = follower.from_step
        answers = [answer(rank, min(first, done[rank]), done[rank]) for rank in (0, 1)]
        steps, ops = follower.take(answers, first, 0.0)
        all_steps += steps
        all_ops += ops
    first = follower.from_step
    steps, ops = follower.take(
        [answer(rank, min(first, done[rank]), done[rank]) for rank in (0, 1)], first, 0.0, last=True
    )

    assert numbers(all_steps + steps, 1, 0) == sorted(
        (rank, step) for rank in (0, 1) for step in range(done[rank])
    )
    assert numbers(all_ops + ops, OP["rank"], OP["step"]) == sorted(
        (rank, step)
        for rank in (0, 1)
        for step in range(done[rank] + 1)
        for _ in range(3 if step < done[rank] else 2)
    )


def test_starts_count_from_the_earliest_operation_of_the_step_on_any_rank():
    _, ops = Follower().take([answer(0, 0, 1), answer(1, 0, 1)], 0, 0.0)

    starts = {
        (row[OP["rank"]], row[OP["optype"]], row[OP["seq_id"]]): row[OP["start_ts"]] for row in ops
    }
    assert starts[0, "forward-compute", 0] == 0.0
    assert starts[1, "forward-compute", 0] == pytest.approx(0.001)
    assert starts[1, "backward-compute", 0] == pytest.approx(0.001 + 5e-9)


def test_operations_are_numbered_by_start_and_compute_has_microbatches():
    _, ops = Follower().take([answer(0, 0, 1, world=1)], 0, 0.0)

    columns = ("optype", "seq_id", "mc", "gmc", "mb_id", "stage", "dp_rank", "start_ns")
    assert [tuple(row[OP[name]] for name in columns) for row in ops] == [
        ("forward-compute", 0, 0, 0, 0, 0, 0, 10**18),
        ("backward-compute", 0, 0, 0, 0, 0, 0, 10**18 + 5),
        ("forward-compute", 1, 0, 0, 1, 0, 0, 10**18 + 9),
    ]


def test_a_tag_tells_the_chunk_and_the_micro_batch_of_compute_and_the_chunk_of_transfers():
    told = {"forward-compute": "c1.m3", "forward-send": "c1.m3", "dp-all-reduce": "c1.m3"}
    ops = tuple(
        OpRecord(name, "", 0, 0, 0, tag, 0, begin, begin + 1)
        for begin, (name, tag) in enumerate([*told.items(), ("forward-send", "c1.m\u0663")])
    )
    stages = [answer(rank, 0, 1, pp=rank, ops=ops) for rank in range(2)]
    _, rows = Follower().take(stages, 0, 0.0)

    columns = ("optype", "mc", "gmc", "mb_id")
    assert [tuple(row[OP[name]] for name in columns) for row in rows[4:]] == [
        ("forward-compute", 1, 1 * 2 + 1, 3),
        ("forward-send", 1, 1 * 2 + 1, -1),
        ("dp-all-reduce", -1, -1, -1),
        ("forward-send", -1, -1, -1),
    ]


def test_a_step_row_is_in_seconds_and_names_its_tags():
    steps, _ = Follower().take([answer(0, 0, 1, world=1)], 0, 0.0)

    row = dict(zip((one.name for one in archive.STEPS), steps[0], strict=True))
    assert (row["start"], row["wall_seconds"], row["tags"]) == (1e9, 0.05, "eval,warmup")
    assert (0.0, 0.05) == (row["own_seconds"], row["wait_seconds"])


def test_the_others_wait_for_a_silent_rank_but_not_for_ever():
    follower = Follower()

    waiting = follower.take([answer(0, 0, 5)], 0, 0.0)
    still = follower.take([answer(0, 0, 5)], 0, PATIENCE_SECONDS - 0.1)
    steps, _ = follower.take([answer(0, 0, 5)], 0, PATIENCE_SECONDS)

    assert waiting == still == ([], [])
    assert numbers(steps, 1, 0) == [(0, step) for step in range(5)]


def test_a_rank_that_comes_late_is_asked_again_from_its_first_step():
    follower = Follower()
    follower.take([answer(0, 0, 5)], 0, 0.0)
    follower.take([answer(0, 0, 5)], 0, PATIENCE_SECONDS)

    assert follower.from_step == 5
    follower.take([answer(0, 5, 8), answer(1, 5, 8)], 5, PATIENCE_SECONDS + 1)
    assert follower.from_step == 0
    steps, _ = follower.take([answer(0, 0, 9), answer(1, 0, 9)], 0, PATIENCE_SECONDS + 2)

    assert [step for rank, step in numbers(steps, 1, 0) if rank == 1] == list(range(9))


def test_a_restarted_rank_repeats_steps_as_another_attempt():
    follower = Follower()
    follower.take([answer(0, 0, 5, world=1)], 0, 0.0)

    again = answer(0, 3, 7, world=1, attempt=1)
    follower.take([answer(0, 5, 7, world=1, attempt=1)], 5, 1.0)
    steps, _ = follower.take([again], follower.from_step, 2.0)

    assert [(row[0], row[2]) for row in steps] == [(step, 1) for step in range(3, 7)]


def test_steps_overwritten_before_they_were_read_are_counted():
    follower = Follower()

    follower.take([answer(0, 40, 50, world=1, truncated=True, first_step_held=40)], 0, 0.0)

    assert follower.lost_steps == 40
