"""Who holds a run up that stands still, by constructed dumps whose truth is known."""

import random
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.hangs.document import document, sentence, table
from lockstep.analyzer.hangs.dumps import Dumps, Fact, FactKind
from lockstep.analyzer.hangs.evidence import Kind
from lockstep.analyzer.hangs.flight_recorder import TreeError, parse
from lockstep.analyzer.hangs.jobs import NamedDump, jobs
from lockstep.analyzer.hangs.verdict import Status, judge
from lockstep.runs.hang_dumps import read_folder
from tests.hang_programs import (
    BEGIN,
    FAULTS,
    Layout,
    World,
    Wrong,
    dump,
    hang,
    healthy,
    judged,
    kind_is_right,
    program,
)
from tests.wild import wild

SURE = [fault for fault in FAULTS if fault not in ("skipped", "device-unstarted")]


def entry(
    name="nccl:all_reduce", sequence=1, *, group="0", pg=0, at=0.0, state="scheduled", **more
):
    two = "->" in name or "<-" in name
    return {
        "record_id": int(10_000_000 + at * 1000), "pg_id": pg, "process_group": (group, ""),
        "collective_seq_id": 0 if two else sequence, "p2p_seq_id": sequence if two else 0,
        "profiling_name": name, "time_created_ns": int((BEGIN + at) * 1e9),
        "input_sizes": [[4]], "input_dtypes": ["Float"], "state": state, "is_p2p": two,
        "retired": state == "completed", "timeout_ms": 600_000,
        "time_discovered_completed_ns": int((BEGIN + at) * 1e9) if state == "completed" else None,
        **more,
    }  # fmt: skip


def tree(entries=(), groups=None, status=None):
    groups = {"0": [0, 1, 2, 3]} if groups is None else groups
    return {
        "version": "2.10",
        "pg_config": {
            name: {"name": name, "desc": "", "ranks": str(ranks)} for name, ranks in groups.items()
        },
        "pg_status": {
            str(handle): {
                "last_enqueued_collective": a, "last_started_collective": -1,
                "last_completed_collective": b,
            }
            for handle, (a, b) in (status or {}).items()
        },
        "entries": list(entries),
    }  # fmt: skip


def verdict_of(trees, *, written=100.0, facts=(), limit=None):
    named = [
        NamedDump("dump", parse(one, rank, None if written is None else BEGIN + written))
        for rank, one in trees.items()
    ]
    return judge(jobs(named, {".": facts})[0][1], limit)


def ranks_of(verdict):
    return {one.rank: one.kind for one in verdict.origins}


@pytest.mark.parametrize("fault", SURE)
@pytest.mark.parametrize("seed", range(4))
def test_the_rank_and_the_kind_are_named_and_nobody_else(fault, seed):
    case = hang(7000 + seed, fault)
    verdict = judged(case)

    assert [case.rank] == [one.rank for one in verdict.origins]
    assert kind_is_right(case, verdict)


@pytest.mark.parametrize("seed", range(40))
def test_nobody_is_named_in_a_run_that_is_well(seed):
    assert judged(healthy(9000 + seed)).status is not Status.HANG


def test_two_rules_name_a_rank_whose_ring_is_empty_and_one_that_ended_less():
    """Enqueued behind: rank 3 has nothing open. Completed behind: all others ended 4 but rank 1."""
    behind = {rank: tree([entry(sequence=5)], status={0: (5, 4)}) for rank in (0, 1, 2)}
    behind[3] = tree(status={0: (4, 4)})
    ended = {rank: tree([entry(sequence=5, at=1)], status={0: (5, 4)}) for rank in (0, 2, 3)}
    ended[1] = tree([entry(sequence=4), entry(sequence=5, at=1)], status={0: (5, 3)})

    assert {3: Kind.HOST_STOPPED} == ranks_of(verdict_of(behind))
    assert {1: Kind.DEVICE_STOPPED} == ranks_of(verdict_of(ended))


def test_a_chain_over_groups_is_walked_to_its_origin():
    """0 waits in a group for 1, 1 in another for 2, 2 for what 3 should send; 3 does nothing."""
    pairs = {"1": [0, 1], "2": [1, 2], "3": [2, 3]}
    trees = {
        0: tree([entry(group="1", pg=1)], {"1": pairs["1"]}),
        1: tree([entry(group="2", pg=2)], {"1": pairs["1"], "2": pairs["2"]}),
        2: tree([entry("nccl:recv 0<-1", group="3", pg=3)], {"2": pairs["2"], "3": pairs["3"]}),
        3: tree([], {"3": pairs["3"]}, {3: (9, 9)}),
    }
    verdict = verdict_of(trees)

    assert {3: Kind.HOST_STOPPED} == ranks_of(verdict)
    assert "rank 3 is missing from recv number 1" in sentence(verdict)


def test_numbers_of_a_pair_are_ranks_of_the_group_and_not_of_the_world():
    groups = {"7": [4, 9]}
    trees = {
        4: tree([entry("nccl:send 0->1", group="7", pg=2)], groups),
        9: tree([], groups, {2: (0, 0)}),
    }

    assert {9: Kind.HOST_STOPPED} == ranks_of(verdict_of(trees))


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"profiling_name": "nccl:broadcast"}, Kind.MISMATCHED_OPERATION),
        ({"input_sizes": [[5]]}, Kind.MISMATCHED_SHAPE),
        ({"input_dtypes": ["Half"]}, Kind.MISMATCHED_DTYPE),
    ],
)
def test_who_calls_something_else_than_most_is_named(change, kind):
    trees = {rank: tree([entry()]) for rank in range(4)}
    trees[2] = tree([entry() | change])

    assert {2: kind} == ranks_of(verdict_of(trees))


def test_of_two_that_differ_it_cannot_be_told_which_is_wrong():
    trees = {rank: tree([entry()], {"0": [0, 1]}) for rank in range(2)}
    trees[1]["entries"][0]["input_sizes"] = [[5]]
    verdict = verdict_of(trees)

    assert {(0, False), (1, False)} == {(one.rank, one.certain) for one in verdict.origins}
    assert "which of ranks 0-1 began it, in" in sentence(verdict)


def test_of_two_that_differ_other_groups_of_their_kind_tell_which_is_wrong():
    """A pair alone cannot tell who left out the all-gather; the other pairs did it."""
    groups = {"1": [0, 1], "2": [2, 3]}
    names = {0: "1", 1: "1", 2: "2", 3: "2"}
    calls = {0: "nccl:all_gather", 1: "nccl:all_reduce", 2: "nccl:all_gather", 3: "nccl:all_gather"}
    trees = {
        rank: tree([entry(calls[rank], group=name, pg=1)], {name: groups[name]})
        for rank, name in names.items()
    }
    for rank in (2, 3):
        trees[rank]["entries"][0] |= {"state": "completed", "retired": True}
    for each in trees.values():
        for name, told in each["pg_config"].items():
            told["desc"] = "tp"
            each["entries"][0]["process_group"] = (name, "tp")

    assert {1: Kind.MISMATCHED_OPERATION} == ranks_of(verdict_of(trees))


def test_who_alone_has_not_ended_a_call_of_its_own_is_told_by_the_call():
    """As on gloo, which ends a sum of other lengths on all that agree."""
    over = entry("gloo:all_reduce", retired=True)
    trees = {rank: tree([over, entry("gloo:barrier", 2, at=1)]) for rank in range(3)}
    trees[3] = tree([entry("gloo:all_reduce") | {"input_sizes": [[7]]}])

    assert {3: Kind.MISMATCHED_SHAPE} == ranks_of(verdict_of(trees))


def test_a_rank_that_only_its_absence_tells_of_is_put_into_its_group():
    """Gloo lists no members: rank 3 belongs to the pair that lacks one."""
    trees = {
        0: tree([entry("gloo:all_reduce", group="1", pg=1)], {}),
        1: tree([entry("gloo:all_reduce", group="1", pg=1, retired=True)], {}),
        2: tree([entry("gloo:all_reduce", group="2", pg=1)], {}),
    }
    trees[0]["entries"][0]["retired"] = True
    for each in trees.values():
        first = each["entries"][0]
        first["process_group"] = (first["process_group"][0], "tp")
        each["entries"].append(entry("gloo:barrier", 1, group="0", at=1, retired=True))
    named = [NamedDump("d", parse(one, rank, BEGIN + 99)) for rank, one in trees.items()]
    ((_, dumps),) = jobs(named)

    assert {3: Kind.SILENT} == ranks_of(judge(replace(dumps, world=(0, 1, 2, 3))))


def test_amounts_that_differ_by_design_accuse_nobody():
    trees = {
        rank: tree([entry("nccl:all_to_all") | {"input_sizes": [[rank + 1]]}]) for rank in range(4)
    }

    assert {} == ranks_of(verdict_of(trees))


def test_all_inside_names_nobody_unless_another_sensor_tells_of_one():
    trees = {rank: tree([entry()]) for rank in range(4)}
    verdict = verdict_of(trees)
    told = verdict_of(trees, facts=[Fact(2, FactKind.XID, "79")])

    assert (Status.HANG, (0, 1, 2, 3)) == (verdict.status, verdict.suspects)
    assert "no rank can be named" in sentence(verdict)
    assert {2: Kind.DEVICE_STOPPED} == ranks_of(told)


@pytest.mark.parametrize(
    ("fact", "kind"),
    [
        (Fact(3, FactKind.PROCESS_STATE, "T"), Kind.HOST_STOPPED),
        (Fact(3, FactKind.PROCESS_STATE, "Z"), Kind.PEER_DIED),
        (Fact(3, FactKind.EXITED, "0"), Kind.LEFT),
        (Fact(3, FactKind.RAS, "missing"), Kind.PEER_DIED),
        (Fact(3, FactKind.KERNEL, "Out of memory: Killed process 17 (python)"), Kind.PEER_DIED),
        (Fact(0, FactKind.EXITED, "0"), Kind.SILENT),
        (Fact(3, FactKind.PROCESS_STATE, "?"), Kind.SILENT),
    ],
)
def test_a_rank_without_a_dump_is_what_other_sensors_tell_of_it(fact, kind):
    trees = {rank: tree([entry()]) for rank in range(3)}

    assert {3: kind} == ranks_of(verdict_of(trees, facts=[fact]))


def test_a_node_whose_dumps_are_missing_accuses_nobody():
    world = {"0": list(range(8))}
    verdict = verdict_of({rank: tree([entry()], world) for rank in range(4)})

    assert (Status.HANG, {}, (4, 5, 6, 7)) == (verdict.status, ranks_of(verdict), verdict.suspects)


def test_a_short_wait_is_no_hang_and_the_limit_is_what_one_says():
    trees = {rank: tree([entry()]) for rank in range(3)} | {3: tree(status={0: (0, 0)})}

    assert Status.WAITING is verdict_of(trees, written=5).status
    assert {3} == ranks_of(verdict_of(trees, written=5, limit=2)).keys()
    assert {3} == ranks_of(verdict_of(trees, written=60)).keys()


def test_a_run_that_has_waited_longer_before_is_given_longer():
    old = entry(sequence=1, state="completed") | {
        "time_discovered_completed_ns": int((BEGIN + 50) * 1e9)
    }
    trees = {rank: tree([old, entry(sequence=2, at=50)]) for rank in range(3)}
    trees[3] = tree([old])

    assert Status.WAITING is verdict_of(trees, written=150).status
    assert {3} == ranks_of(verdict_of(trees, written=50 + 151)).keys()


def test_a_rank_that_works_elsewhere_is_on_its_way():
    """It is missing for long, but did something a moment before its dump."""
    trees = {rank: tree([entry()]) for rank in range(3)}
    trees[3] = tree(
        [entry(group="9", pg=9, at=99, state="completed")], {"0": [0, 1, 2, 3], "9": [3]}
    )

    assert Status.WAITING is verdict_of(trees).status


def test_what_a_dump_older_than_the_wait_lacks_is_no_evidence():
    trees = {rank: tree([entry(at=50)]) for rank in range(3)} | {3: tree(status={0: (0, 0)})}
    named = [
        NamedDump("dump", parse(one, rank, BEGIN + (49.0 if rank == 3 else 100.0)))
        for rank, one in trees.items()
    ]

    assert Status.WAITING is judge(jobs(named)[0][1]).status


def test_dumps_that_contradict_each_other_and_tell_no_time_name_nobody():
    trees = {rank: tree([entry(sequence=9)], status={0: (9, 8)}) for rank in range(3)}
    trees[3] = tree(status={0: (7, 7)})
    trees[2] = tree([entry(sequence=10)], status={0: (10, 9)})
    verdict = verdict_of(trees, written=None)

    assert Status.UNKNOWN is verdict.status
    assert "different moments" in sentence(verdict)


def test_a_copy_s_time_is_not_the_dump_s():
    trees = {rank: tree([entry()]) for rank in range(3)} | {3: tree(status={0: (0, 0)})}
    verdict = verdict_of(trees, written=90 * 86400)

    assert {3} == ranks_of(verdict).keys()
    assert "how long is unknown" in sentence(verdict)


def test_two_jobs_in_one_folder_are_told_apart():
    mine = {rank: tree([entry()]) for rank in range(3)} | {3: tree(status={0: (0, 0)})}
    old = {rank: tree([entry(at=-9000)]) for rank in range(4, 8)}
    named = [NamedDump("dump", parse(one, rank, None)) for rank, one in (mine | old).items()]
    other = [NamedDump("other/dump", one.trace) for one in named[:3]]
    found = jobs([*named, *other])

    assert [[0, 1, 2], [0, 1, 2, 3], [4, 5, 6, 7]] == sorted(list(one.traces) for _, one in found)


def test_files_numbered_within_a_node_get_the_rank_that_their_groups_tell():
    """Of two nodes of four, in folders of their own; tp pairs and dp across nodes."""
    layout = Layout(dp=4, tp=2, pp=1)
    world = World(program(layout, 4, random.Random(1)), Wrong("host-stopped", 5, 0.05))
    world.run(float("inf"), random.Random(1))
    named = [
        NamedDump(
            f"node-{rank // 4}/dump", parse(dump(world, rank, world.end + 99), rank % 4, None)
        )
        for rank in range(8)
    ]
    ((_, dumps),) = jobs(named)

    assert list(range(8)) == list(dumps.traces)
    assert {5} == {one.rank for one in judge(dumps).origins}


def test_counters_get_their_group_s_name_by_order_and_by_the_peers_counts():
    groups = {"3": [0, 1], "12": [0, 1], "105": [0, 2]}
    exact = parse(tree([], groups, {0: (4, 4), 5: (70, 70), 8: (900, 900)}), 0, None)
    fewer = parse(tree([], groups, {5: (71, 71)}), 0, None)
    peers = [
        parse(tree([entry(sequence=70, group="12", pg=3)], {"12": [0, 1]}, {3: (70, 69)}), 1, None),
        parse(tree([], {"105": [0, 2]}, {3: (900, 900)}), 2, None),
    ]  # fmt: skip
    verdict = judge(jobs([NamedDump("dump", one) for one in (fewer, *peers)])[0][1])

    assert {"3": 4, "12": 70, "105": 900} == {n: g.enqueued for n, g in exact.groups.items()}
    assert (None, 1) == (fewer.groups["12"].enqueued, len(fewer.unmapped))
    assert 71 == verdict.merged.traces[0].groups["12"].enqueued


def test_an_aborted_communicator_is_the_one_that_was_given_up_before_its_time_out():
    trees = {rank: tree([entry()]) for rank in range(4)}
    trees[1] = tree([entry(retired=True)])

    assert {1: Kind.COMMUNICATOR_ABORTED} == ranks_of(verdict_of(trees, written=100))
    assert {} == ranks_of(verdict_of(trees, written=700))


def test_more_ranks_away_than_inside_may_be_right():
    trees = {rank: tree([entry()] if rank == 0 else [], status={0: (0, 0)}) for rank in range(4)}
    verdict = verdict_of(trees)

    assert ({}, (1, 2, 3)) == (ranks_of(verdict), verdict.suspects)


def test_nothing_open_for_long_is_unknown_and_just_now_is_well():
    over = {rank: tree([entry(state="completed")]) for rank in range(4)}

    assert Status.UNKNOWN is verdict_of(over, written=100).status
    assert Status.HEALTHY is verdict_of(over, written=1).status


@pytest.mark.parametrize("over", [[], [entry(sequence=9, state="completed")]])
def test_what_only_counters_tell_is_open_is_not_told_as_well(over):
    inside = {rank: tree(over, status={0: (10, 9)}) for rank in range(4)}
    behind = inside | {2: tree(over, status={0: (9, 9)})}

    for trees, words, suspects in (
        (inside, "ranks 0, 1, 2, 3 have begun more operations than ended", ()),
        (behind, "rank 2 has begun fewer operations of world than others (9 of 10)", (2,)),
    ):
        verdict = verdict_of(trees)
        assert (Status.UNKNOWN, suspects) == (verdict.status, verdict.suspects)
        assert words in sentence(verdict)


def test_dumps_that_hold_nothing_tell_nothing():
    verdict = verdict_of({rank: tree() for rank in range(4)})

    assert Status.UNKNOWN is verdict.status
    assert "hold neither operations nor counters" in sentence(verdict)


def test_a_counter_behind_its_ring_is_no_open_operation():
    """The watchdog counts what ended some time after the device has ended it."""
    over = [entry(sequence=10, state="completed")]

    assert (
        Status.HEALTHY
        is verdict_of(
            {rank: tree(over, status={0: (10, 9)}) for rank in range(4)}, written=1
        ).status
    )


@pytest.mark.parametrize("written", [None, 86400.0])
def test_nothing_open_at_an_unknown_time_is_unknown(written):
    over = {rank: tree([entry(state="completed")]) for rank in range(4)}
    verdict = verdict_of(over, written=written)

    assert Status.UNKNOWN is verdict.status
    assert "times are unknown" in sentence(verdict)


def test_counters_that_agree_do_not_tell_since_when_nothing_is_open():
    verdict = verdict_of({rank: tree(status={0: (9, 9)}) for rank in range(4)})

    assert Status.UNKNOWN is verdict.status
    assert "no dump holds an operation" in sentence(verdict)


def test_completed_behind_counts_from_when_the_others_ended_it():
    """Begun at 0, ended on the others at 90; the dump of rank 1 is of 100."""
    ended = entry() | {
        "state": "completed",
        "time_discovered_completed_ns": int((BEGIN + 90) * 1e9),
    }
    trees = {rank: tree([ended, entry(sequence=2, at=91)]) for rank in (0, 2, 3)}
    trees[1] = tree([entry()])

    assert Status.WAITING is verdict_of(trees, limit=30).status
    (one,) = verdict_of(trees, limit=5).origins
    assert (1, pytest.approx(10)) == (one.rank, one.seconds)


@pytest.mark.parametrize(
    ("kind", "value", "stopped"),
    [
        ("gpu-state", "no error", False), ("gpu-state", "ecc errors: 0", False),
        ("gpu-state", "lost", True), ("gpu-state", "GPU is lost", True),
        ("gpu-state", "[GPU requires reset]", True), ("gpu-state", "reset required: no", False),
        ("xid", "0", False), ("xid", "13", False), ("xid", "63", False), ("xid", "79", True),
        ("xid", "45, caused by previous Xid 79", False),
        ("kernel", "NVRM: Xid (PCI:0000:3b:00): 13, Graphics Exception", False),
        ("kernel", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus", True),
        ("heartbeat-age", "6", False), ("heartbeat-age", "90", True),
    ],
)  # fmt: skip
def test_a_value_of_a_healthy_rank_names_nobody(kind, value, stopped):
    trees = {rank: tree([entry()]) for rank in range(4)}
    verdict = verdict_of(trees, facts=[Fact(2, FactKind(kind), value)])

    assert ({2} if stopped else set()) == ranks_of(verdict).keys()


def test_a_heartbeat_that_is_as_old_as_all_others_names_nobody():
    trees = {rank: tree([entry()]) for rank in range(4)}
    alike = [Fact(rank, FactKind.HEARTBEAT_AGE, "95") for rank in range(4)]

    assert {} == ranks_of(verdict_of(trees, facts=alike))


@pytest.mark.parametrize(
    ("stack", "kind"),
    [
        ("checkpoint (torch/utils/checkpoint.py:496)", Kind.HOST_STOPPED),
        ("_checkpointed_forward (megatron/core/transformer/block.py:9)", Kind.HOST_STOPPED),
        ("forward (deepspeed/activation_checkpointing/checkpointing.py:1)", Kind.HOST_STOPPED),
        ("save_checkpoint (megatron/training/checkpointing.py:7)", Kind.CHECKPOINT_STORAGE),
        ("save (torch/distributed/checkpoint/state_dict_saver.py:3)", Kind.CHECKPOINT_STORAGE),
    ],
)
def test_recomputing_activations_is_no_checkpoint_that_is_saved(stack, kind):
    trees = {rank: tree([entry()]) for rank in range(3)} | {3: tree(status={0: (0, 0)})}

    assert {3: kind} == ranks_of(verdict_of(trees, facts=[Fact(3, FactKind.STACK, stack)]))


def inside(rank_inside, *, enqueued, state, ranks=4, **more):
    """All ranks hold number 5 in their rings; of these one has not returned from its call."""
    trees = {
        rank: tree([entry(sequence=5, state="started")], status={0: (5, 4)})
        for rank in range(ranks)
    }
    trees[rank_inside] = tree([entry(sequence=5, state=state, **more)], status={0: (enqueued, 4)})
    return trees


@pytest.mark.parametrize("state", ["scheduled", "started"])
def test_a_rank_inside_its_call_is_stopped_on_the_host_whatever_its_ring_holds(state):
    """torch raises the counter only after the call has returned; the entry is written before."""
    verdict = verdict_of(inside(2, enqueued=4, state=state))

    assert {2: Kind.HOST_STOPPED} == ranks_of(verdict)
    assert "rank 2 stands inside the call of all_reduce number 5" in sentence(verdict)


@pytest.mark.parametrize("how", ["state", "counter", "time"])
def test_a_rank_whose_call_has_returned_and_whose_operation_has_not_begun_is_stopped_on_the_device(
    how,
):
    """Whether the others have begun is told by the state, the counter or the time alike."""
    begun = {
        "state": {"state": "started"},
        "counter": {},
        "time": {"time_discovered_started_ns": int((BEGIN + 1) * 1e9)},
    }[how]
    trees = {rank: tree([entry(sequence=5, **begun)], status={0: (5, 4)}) for rank in range(4)}
    if how == "counter":
        for each in trees.values():
            each["pg_status"]["0"]["last_started_collective"] = 5
    trees[1] = tree([entry(sequence=5)], status={0: (5, 4)})

    assert {1: Kind.DEVICE_STOPPED} == ranks_of(verdict_of(trees))


def test_a_rank_that_is_away_is_named_before_those_that_are_still_inside_the_call():
    """Who connects with a peer stands in the call until that one comes."""
    trees = inside(2, enqueued=4, state="scheduled")
    trees[3] = tree(status={0: (4, 4)})

    assert {3: Kind.HOST_STOPPED} == ranks_of(verdict_of(trees))


def test_where_most_are_inside_the_call_nobody_is_named():
    trees = {rank: tree([entry(sequence=5)], status={0: (4, 4)}) for rank in range(3)}
    trees[3] = tree([entry(sequence=5)], status={0: (5, 4)})

    assert {} == ranks_of(verdict_of(trees))


def test_two_inside_the_call_are_named_and_it_is_said_that_either_may_have_begun_it():
    trees = inside(2, enqueued=4, state="scheduled")
    trees[1] = tree([entry(sequence=5)], status={0: (4, 4)})
    verdict = verdict_of(trees)

    assert {1, 2} == ranks_of(verdict).keys()
    assert {False} == {one.certain for one in verdict.origins}
    assert "which of ranks 1-2 began it, in" in sentence(verdict)


def test_a_call_that_has_just_begun_is_no_hang():
    assert Status.WAITING is verdict_of(inside(2, enqueued=4, state="scheduled"), written=3).status


def test_a_copied_dump_says_for_how_long_at_least_by_the_last_thing_that_it_saw():
    late = {"time_discovered_started_ns": int((BEGIN + 1800) * 1e9)}
    verdict = verdict_of(inside(2, enqueued=4, state="started", **late), written=None)

    assert [1800.0] == [one.seconds for one in verdict.origins]


def test_counters_that_sends_and_receives_share_say_nothing_about_a_call():
    send = entry("nccl:send 0->1", sequence=1, state="completed")
    trees = {
        rank: tree([send, entry(sequence=5, at=1)], status={0: (5 - (rank == 2), 4)})
        for rank in range(4)
    }

    assert {} == ranks_of(verdict_of(trees))


def test_a_published_hang_inside_a_call_names_the_rank_that_stood_in_it():
    ((_, dumps),) = read_folder(wild("incidents/27-fr-stuck-inside-allreduce/dumps"))

    assert {0: Kind.HOST_STOPPED} == ranks_of(judge(dumps))


FRAMES = {
    "fairseq": ["wait (threading.py:302)", "get (queue.py:170)",
                "__next__ (fairseq/data/iterators.py:648)", "train (fairseq_cli/train.py:274)"],
    "Megatron": ["__getitem__ (megatron/core/datasets/gpt_dataset.py:120)",
                 "train_step (megatron/training/training.py:700)"],
    "WebDataset": ["next (webdataset/tariterators.py:200)", "main (train.py:10)"],
    "DALI": ["_get_one (nvidia/dali/plugin/base_iterator.py:9)", "main (train.py:10)"],
    "Streaming": ["get_item (streaming/base/dataset.py:1400)", "main (train.py:10)"],
    "Energon": ["__iter__ (megatron/energon/savable_loader.py:400)", "main (train.py:10)"],
    "a function of one's own": ["read (io.py:3)", "get_batch (train.py:77)", "main (train.py:10)"],
    "torch": ["_next_data (torch/utils/data/dataloader.py:1)", "main (train.py:10)"],
}  # fmt: skip


@pytest.mark.parametrize("loader", FRAMES)
def test_a_stack_in_any_loader_says_that_the_rank_waits_for_data(loader):
    trees = {rank: tree([entry()]) for rank in range(3)} | {3: tree(status={0: (0, 0)})}
    facts = [Fact(3, FactKind.STACK, frame) for frame in FRAMES[loader]]

    for some in (facts, [Fact(3, FactKind.STACK, "\n".join(FRAMES[loader]))]):
        verdict = verdict_of(trees, facts=some)
        assert {3: Kind.DATA_LOADER} == ranks_of(verdict)
        assert [] == document(verdict)["facts_not_used"]


@pytest.mark.parametrize(
    "frame",
    [
        "forward (torch/nn/parallel/data_parallel.py:9)", "main (/data/alice/train.py:3)",
        "forward (/mnt/data/models/gpt.py:4)", "get (queue.py:170)", "step (optimizer.py:2)",
        "update_metadata (app/metadata.py:1)", "_read_metadata (store/index.py:5)",
        "forward (/mnt/datasets/proj/model.py:55)", "main (finetune_dataset.py:300)",
        "train_step (/home/u/data_workspace/train.py:1)", "train_dataset (train.py:9)",
    ],
)  # fmt: skip
def test_a_stack_elsewhere_is_no_loader_and_is_listed_as_not_used(frame):
    trees = {rank: tree([entry()]) for rank in range(3)} | {3: tree(status={0: (0, 0)})}
    verdict = verdict_of(trees, facts=[Fact(3, FactKind.STACK, frame)])

    assert {3: Kind.HOST_STOPPED} == ranks_of(verdict)
    assert [(3, "stack", frame, "it matches no rule")] == [
        tuple(fact.values()) for fact in document(verdict)["facts_not_used"]
    ]
    assert f"not used: rank 3, stack: {frame}" in table(verdict)


@pytest.mark.parametrize(
    "line",
    [
        "Lustre: scratch-OST0003-osc: Connection to scratch-OST0003 (at 10.0.0.7@o2ib) was lost",
        "LustreError: 11-0: scratch-MDT0000-mdc: operation ldlm_enqueue failed with -107.",
        "nfs: server filer-3 not responding, still trying",
        "mmfs: [E] Disk lease period expired 0.010 seconds ago in cluster gpu.example",
        "beegfs: connect failed: storage02",
        "libceph: osd12 (1)10.0.0.9:6801 socket closed (con state OPEN), connection timed out",
        "CIFS: VFS: server filer has not responded in 180 seconds. Reconnecting...",
        "nvme nvme0: I/O 23 QID 4 timeout, aborting",
    ],
)
def test_a_line_about_storage_speaks_for_storage(line):
    trees = {rank: tree([entry()]) for rank in range(3)} | {3: tree(status={0: (0, 0)})}
    verdict = verdict_of(trees, facts=[Fact(3, FactKind.KERNEL, line)])

    assert {3: Kind.CHECKPOINT_STORAGE} == ranks_of(verdict)


@pytest.mark.parametrize(
    "line",
    [
        "mlx5_core 0000:5e:00.0: fuse bit error",
        "dmi: smbios error",
        "usb 1-1: reset timeout",
        "connection to 10.0.0.1 (rank 3) was lost",
    ],
)
def test_a_line_about_another_device_does_not_speak_for_storage(line):
    trees = {rank: tree([entry()]) for rank in range(3)} | {3: tree(status={0: (0, 0)})}
    verdict = verdict_of(trees, facts=[Fact(3, FactKind.KERNEL, line)])

    assert {3: Kind.HOST_STOPPED} == ranks_of(verdict)
    assert 1 == len(document(verdict)["facts_not_used"])


def test_facts_about_ranks_that_are_not_named_are_listed_with_the_reason():
    trees = {rank: tree([entry()]) for rank in range(3)} | {3: tree(status={0: (0, 0)})}
    facts = [Fact(1, FactKind.PROCESS_STATE, "S"), Fact(3, FactKind.PROCESS_STATE, "T")]

    assert [
        {"rank": 1, "kind": "process-state", "value": "S", "why": "its rank is not named"}
    ] == document(verdict_of(trees, facts=facts))["facts_not_used"]


def test_a_hundred_thousand_facts_are_listed_in_a_moment():
    trees = {rank: tree([entry()]) for rank in range(3)} | {3: tree(status={0: (0, 0)})}
    facts = [Fact(1, FactKind.PROCESS_STATE, "S") for _ in range(50_000)]
    facts += [Fact(2, FactKind.STACK, f"call_{each} (a.py:1)") for each in range(50_000)]

    assert 64 == len(document(verdict_of(trees, facts=facts))["facts_not_used"])


def test_a_published_hang_of_the_device_names_both_ranks_and_nobody_else():
    ((_, dumps),) = read_folder(wild("flight_recorder/gpu_error_1st"))

    assert {12: Kind.DEVICE_STOPPED, 14: Kind.DEVICE_STOPPED} == ranks_of(judge(dumps))


def test_a_published_hang_of_the_host_names_both_ranks_and_nobody_else():
    ((_, dumps),) = read_folder(wild("flight_recorder/lock_gil_1st"))

    assert {9: Kind.HOST_STOPPED, 14: Kind.HOST_STOPPED} == ranks_of(judge(dumps))


def test_the_document_has_every_key_and_no_value_that_json_lacks():
    case = hang(3, "host-stopped")
    told = document(judged(case))

    assert [
        "schema_version", "job", "status", "kind", "sentence", "culprits", "suspects", "operation",
        "limit_seconds", "waits", "coverage", "facts_not_used", "rejected", "stacks",
    ] == list(told)  # fmt: skip
    assert "nan" not in table(judged(case))


@given(st.integers(0, 200), st.sampled_from(SURE), st.randoms())
def test_names_follow_ranks_however_they_are_numbered(seed, fault, dice):
    """Renaming the ranks renames the verdict, and adds or takes nobody."""
    case = hang(seed, fault, Layout(2, 2, 2))
    order = list(range(case.layout.world))
    dice.shuffle(order)
    dumps = jobs([NamedDump("d", parse(t, r, case.written[r])) for r, t in case.trees.items()])[0][
        1
    ]
    facts = tuple(Fact(order[rank], FactKind(kind), value) for rank, kind, value in case.facts)
    renamed = Dumps(
        {
            order[rank]: replace(
                trace,
                rank=order[rank],
                groups={
                    name: replace(group, members=tuple(order[each] for each in group.members))
                    for name, group in trace.groups.items()
                },
            )
            for rank, trace in dumps.traces.items()
        },
        tuple(order),
        facts,
    )

    assert {order[one.rank] for one in judged(case).origins} == {
        one.rank for one in judge(renamed).origins
    }


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=8,
    ),
    st.sampled_from(sorted(entry())),
)
def test_a_tree_with_anything_in_a_field_is_read_or_refused(value, field):
    for one in (
        tree([entry() | {field: value}]),
        tree() | {"pg_status": value},
        {"entries": value},
    ):
        with suppress(TreeError):
            assert parse(one, 0, BEGIN).rank == 0


def without_node(case, first):
    """The case, as whoever asked got nothing from the node of two ranks; the world is known."""
    gone = {first, first + 1}
    traces = [
        NamedDump("dump", parse(one, rank, case.written[rank]))
        for rank, one in case.trees.items()
        if rank not in gone
    ]
    dumps = jobs(traces, {".": []})[0][1]
    return judge(replace(dumps, world=tuple(range(case.layout.world))))


@pytest.mark.parametrize("dp", [8, 16])
@pytest.mark.parametrize("seed", range(3))
def test_ranks_of_a_node_that_gave_nothing_are_no_culprits_where_somebody_explains(dp, seed):
    case = hang(7100 + seed, "host-stopped", Layout(dp, 1, 1))
    first = (case.rank // 2 * 2 + 2) % dp
    verdict = without_node(case, first)

    assert {case.rank: Kind.HOST_STOPPED} == ranks_of(verdict)
    assert (first, first + 1) == verdict.suspects


@pytest.mark.parametrize("dp", [8, 16])
def test_where_nobody_else_explains_those_without_a_dump_are_named(dp):
    case = hang(7100, "host-stopped", Layout(dp, 1, 1))
    first = case.rank // 2 * 2

    assert {first: Kind.SILENT, first + 1: Kind.SILENT} == ranks_of(without_node(case, first))
