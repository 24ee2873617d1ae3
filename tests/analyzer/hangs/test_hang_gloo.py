"""What gloo hides: sends and receives, members of groups, and whether an operation failed."""

from collections.abc import Sequence

from lockstep.analyzer.hangs.dumps import Fact, FactKind
from lockstep.analyzer.hangs.flight_recorder import parse
from lockstep.analyzer.hangs.jobs import NamedDump, jobs
from lockstep.analyzer.hangs.verdict import HangVerdict, Status, judge

BEGIN = 1_758_000_000
IN_RECEIVE = 'File "torch/distributed/distributed_c10d.py", line 2799 in recv'
Call = tuple[str, int, bool, int]
"""Group, sequence, whether it is over (or failed), elements."""


def trace(rank: int, calls: Sequence[Call]) -> NamedDump:
    """A dump of gloo, whose groups have no members; 60 s after the last call."""
    entries = [
        {
            "record_id": number,
            "pg_id": ord(group) - ord("a"),
            "process_group": [group, f"kind-{group[0]}"],
            "collective_seq_id": sequence,
            "p2p_seq_id": 0,
            "profiling_name": "gloo:all_reduce",
            "time_created_ns": (BEGIN + number) * 10**9,
            "input_sizes": [[size]],
            "input_dtypes": ["Float"],
            "state": "scheduled",
            "retired": over,
            "is_p2p": False,
            "timeout_ms": 600_000,
        }
        for number, (group, sequence, over, size) in enumerate(calls)
    ]
    tree = {"version": "2.10", "pg_config": {}, "pg_status": {}, "entries": entries}
    return NamedDump("dump", parse(tree, rank, BEGIN + len(calls) + 60.0))


def verdict(traces: Sequence[NamedDump], *facts: tuple[int, FactKind, str]) -> HangVerdict:
    return judge(jobs(traces, {".": [Fact(*one) for one in facts]})[0][1])


def named(told: HangVerdict) -> dict[int, str]:
    return {one.rank: one.kind.value for one in told.origins if one.certain}


def test_who_is_inside_a_receive_waits_and_is_not_what_others_wait_for() -> None:
    """Rank 0 waits for 1, which waits by its stack for 3, which is stopped; 2 waits for 3."""
    traces = [
        trace(0, [("a", 1, True, 8), ("b", 1, False, 8)]),
        trace(1, [("a", 1, True, 8)]),
        trace(2, [("a", 1, True, 8), ("b", 1, False, 8)]),
    ]
    stack, state = (1, FactKind.STACK, IN_RECEIVE), (3, FactKind.PROCESS_STATE, "T")
    assert named(verdict(traces, stack, state)) == {3: "host-stopped"}
    ages = [(rank, FactKind.HEARTBEAT_AGE, age) for rank, age in enumerate(("1", "1", "1", "61"))]
    assert named(verdict(traces, stack, *ages)) == {3: "host-stopped"}
    some = [(rank, FactKind.HEARTBEAT_AGE, age) for rank, age in enumerate(("6", "6", "6", "7"))]
    assert named(verdict(traces, stack, *some)) == {3: "silent"}


def test_of_several_that_are_away_on_gloo_nobody_is_named_unless_another_sensor_tells() -> None:
    traces = [
        trace(0, [("a", 1, True, 8), ("b", 1, True, 8), ("b", 2, False, 8)]),
        trace(1, [("a", 1, True, 8), ("b", 1, True, 8)]),
        trace(2, [("a", 1, True, 8), ("b", 1, True, 8)]),
        trace(3, [("a", 1, True, 8), ("b", 1, True, 8), ("b", 2, False, 8)]),
        trace(4, [("a", 1, True, 8), ("b", 1, True, 8), ("b", 2, False, 8)]),
    ]
    told = verdict(traces)
    assert (told.status, named(told), told.suspects) == (Status.HANG, {}, (1, 2))
    loader = (2, FactKind.STACK, "_next_data (torch/utils/data/dataloader.py:789)")
    assert named(verdict(traces, loader)) == {2: "data-loader"}


def test_an_operation_that_a_death_made_fail_has_not_ended() -> None:
    """Rank 1 has an error of it, and stands; on rank 0 it is still open; rank 2 has died."""
    traces = [
        trace(rank, [("a", 1, True, 8), ("a", 2, failed, 8)])
        for rank, failed in ((0, False), (1, True))
    ]
    assert named(verdict(traces, (2, FactKind.EXITED, "-9"))) == {2: "peer-died"}


def test_where_all_operations_failed_the_one_that_died_is_named() -> None:
    traces = [trace(rank, [("a", 1, True, 8), ("a", 2, True, 8)]) for rank in range(2)]
    assert named(verdict(traces, (2, FactKind.EXITED, "-9"))) == {2: "peer-died"}
    assert verdict(traces).status is not Status.HANG


def test_a_rank_that_may_be_through_is_not_named_where_nothing_is_open() -> None:
    traces = [trace(rank, [("a", 1, True, 8), ("a", 2, True, 8)]) for rank in range(2)]
    for kind, value in (
        (FactKind.PROCESS_STATE, "gone"), (FactKind.EXITED, "0"), (FactKind.RAS, "missing")
    ):  # fmt: skip
        told = verdict(traces, (2, kind, value))
        assert (told.status, named(told)) == (Status.UNKNOWN, {})


def test_who_differs_explains_who_died_of_it() -> None:
    """gloo ends a process that is sent more than it expects."""
    traces = [
        trace(0, [("a", 1, True, 8), ("a", 2, False, 8)]),
        trace(1, [("a", 1, True, 8), ("a", 2, True, 16)]),
        trace(3, [("a", 1, True, 8), ("a", 2, True, 8)]),
    ]
    assert named(verdict(traces, (2, FactKind.EXITED, "-6"))) == {1: "mismatched-shape"}


def test_who_went_through_a_call_of_its_own_is_the_one_that_differs() -> None:
    """Its smaller share has ended for it, and not for those that wait for the rest."""
    traces = [trace(rank, [("a", 1, True, 8), ("a", 2, rank == 2, 8 >> (rank == 2))])
              for rank in range(4)]  # fmt: skip
    assert named(verdict(traces)) == {2: "mismatched-shape"}


def test_a_circle_through_what_is_hidden_is_of_whom_most_wait_for() -> None:
    """Rank 3 left out an operation of its group, and is in the next of all; 0 waits unseen."""
    traces = [
        trace(0, [("a", 1, True, 8)]),
        trace(1, [("a", 1, True, 8), ("b", 1, False, 8)]),
        trace(2, [("a", 1, True, 8), ("b", 1, False, 8)]),
        trace(3, [("a", 1, True, 8), ("b", 0, True, 8), ("a", 2, False, 8)]),
    ]
    assert named(verdict(traces, (0, FactKind.STACK, IN_RECEIVE))) == {3: "mismatched-order"}


def test_the_barrier_of_a_checkpoint_is_a_wait_and_no_storage() -> None:
    traces = [
        trace(0, [("a", 1, True, 8), ("b", 1, False, 8)]),
        trace(1, [("a", 1, True, 8), ("b", 0, True, 8)]),
    ]
    stack = f'{IN_RECEIVE}\nFile "torch/distributed/checkpoint/state_dict_saver.py", line 9 in save'
    told = verdict(traces, (1, FactKind.STACK, stack))
    assert "checkpoint-storage" not in named(told).values()
