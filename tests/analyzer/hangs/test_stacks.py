"""Who stands where: the tree, the line of a stack, whose stacks are asked for, the sentence."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.analyzer.hangs.document import document, table
from lockstep.analyzer.hangs.dumps import Dumps, Fact, FactKind
from lockstep.analyzer.hangs.evidence import Kind
from lockstep.analyzer.hangs.jobs import NamedDump, jobs
from lockstep.analyzer.hangs.stacks import (
    MOST_BLAMED,
    MOST_RANKS,
    Node,
    Owner,
    as_tree,
    blamed,
    busy_child,
    choice,
    facts,
    key,
    owner,
    prefix_tree,
    sentence,
    shown,
)
from lockstep.analyzer.hangs.verdict import HangVerdict, judge
from lockstep.collector.contract.stacks import Frame, Reader, Stacks, Thread
from tests.hang_programs import Layout, hang, judged

TORCH = "/opt/venv/lib/python3.12/site-packages/torch"
STANDARD = "/usr/lib/python3.12"
START = Frame("<module>", "/home/me/job/train.py", 90)
STEP = Frame("train", "/home/me/job/train.py", 60)
REDUCE = Frame("all_reduce", f"{TORCH}/distributed/distributed_c10d.py", 2810)
LOAD = Frame("load_sample", "/home/me/job/data.py", 41)
READ = Frame("read", f"{STANDARD}/socket.py", 707)


def stood(rank: int, *frames: Frame, state: str = "S", more=(), gil=None, why="") -> Stacks:
    main = Thread(100 + rank, "MainThread", True, gil, frames)
    return Stacks(rank, "node-0", 100 + rank, state, 1e9, Reader.PY_SPY, False, why, (*more, main))


def with_stacks(verdict: HangVerdict, *stacks: Stacks) -> HangVerdict:
    """Judged again, with what the stacks say."""
    dumps = verdict.merged.dumps
    return judge(replace(dumps, facts=(*dumps.facts, *facts(stacks)), stacks=stacks))


@pytest.fixture(scope="module")
def hung() -> tuple[int, HangVerdict]:
    """A run of eight that one rank holds up, whose host has stopped."""
    case = hang(7, "host-stopped", Layout(8, 1, 1))
    return case.rank, judged(case)


# Whose code it is


@pytest.mark.parametrize(
    ("file", "whose", "told"),
    [
        ("/home/me/job/data.py", Owner.PROGRAM, "job/data.py"),
        ("train.py", Owner.PROGRAM, "train.py"),
        ("<stdin>", Owner.PROGRAM, "<stdin>"),
        (f"{TORCH}/nn/modules/module.py", Owner.INSTALLED, "torch/nn/modules/module.py"),
        ("/opt/pytorch/torch/serialization.py", Owner.INSTALLED, "torch/serialization.py"),
        ("/usr/lib/python3/dist-packages/yaml/a.py", Owner.INSTALLED, "yaml/a.py"),
        ("/src/lockstep/workloads/sdk/waiting.py", Owner.INSTALLED, "workloads/sdk/waiting.py"),
        (f"{STANDARD}/queue.py", Owner.STANDARD, "queue.py"),
        ("/opt/py/lib/python3.13t/threading.py", Owner.STANDARD, "threading.py"),
        ("<frozen importlib._bootstrap>", Owner.STANDARD, "<frozen importlib._bootstrap>"),
    ],
)
def test_a_call_is_the_programs_or_a_librarys(file, whose, told):
    one = Frame("f", file, 3)

    assert whose is owner(one)
    assert f"f ({told}:3)" == shown(one)


def test_a_native_call_is_nobodys_and_tells_its_library():
    assert Owner.NATIVE is owner(Frame("poll", "/lib/x86_64-linux-gnu/libc.so.6", 0, True))
    assert "poll (libc.so.6)" == shown(Frame("poll", "/lib/x86_64-linux-gnu/libc.so.6", 0, True))


def test_the_line_is_the_deepest_of_the_programs_own_code():
    callback = [START, STEP, REDUCE, LOAD, READ]  # a library calls the program back

    assert LOAD == blamed(Thread(1, "", True, None, tuple(callback)))
    assert STEP == blamed(Thread(1, "", True, None, (START, STEP, REDUCE)))


def test_without_code_of_its_own_it_is_the_deepest_that_is_installed():
    assert REDUCE == blamed(Thread(1, "", True, None, (READ, REDUCE, READ)))
    assert blamed(Thread(1, "", True, None, ())) is None


def test_what_a_forked_process_inherits_is_not_where_it_stands():
    begun = Frame("_bootstrap", f"{STANDARD}/multiprocessing/process.py", 314)
    loop = Frame("_worker_loop", f"{TORCH}/utils/data/_utils/worker.py", 200)
    idle = Thread(500, "MainThread", True, None, (START, STEP, begun, loop, READ))
    busy = Thread(501, "MainThread", True, None, (START, STEP, begun, loop, LOAD, READ))

    assert loop == blamed(idle)
    assert LOAD == blamed(busy)
    assert (busy, LOAD) == busy_child(stood(0, START, more=(idle, busy)))
    assert busy_child(stood(0, START, more=(idle,))) is None


def test_a_method_is_the_same_call_with_and_without_its_class():
    assert key(Frame("Loader.next", "a.py", 3)) == key(Frame("next", "a.py", 3))


def test_a_fact_has_the_innermost_call_first_and_no_helper_thread():
    helper = Thread(103, "pin", False, None, (Frame("f", f"{TORCH}/utils/data/_utils/pin.py", 1),))
    [fact] = facts([stood(3, START, LOAD, more=(helper,))])

    assert (
        Fact(3, FactKind.STACK, "load_sample (job/data.py:41)\n<module> (job/train.py:90)") == fact
    )


# The tree


def test_ranks_part_where_their_calls_differ():
    tree = prefix_tree(
        {0: [START, STEP, REDUCE], 1: [START, STEP, LOAD, READ], 2: [START, STEP, REDUCE]}
    )

    assert Node(
        (0, 1, 2), (START, STEP), (Node((0, 2), (REDUCE,)), Node((1,), (LOAD, READ)))
    ) == tree  # fmt: skip


CALLS = st.builds(
    Frame, st.sampled_from("fgh"), st.sampled_from(["a.py", "b.py"]), st.integers(1, 2)
)
TREES = st.dictionaries(st.integers(0, 20), st.lists(CALLS, max_size=6), max_size=12)


def ways(node: Node, above=()):
    """Every rank with its calls, from the tree."""
    here = (*above, *node.frames)
    below = {rank for each in node.children for rank in each.ranks}
    yield from ((rank, here) for rank in node.ranks if rank not in below)
    for each in node.children:
        yield from ways(each, here)


@given(TREES)
def test_every_rank_is_found_again_with_its_calls(stacks):
    found = list(ways(prefix_tree(stacks)))

    assert {rank: [key(one) for one in some] for rank, some in stacks.items()} == {
        rank: [key(one) for one in some] for rank, some in found
    }
    assert len(stacks) == len(found)


@given(TREES)
def test_siblings_begin_differently_and_share_no_rank(stacks):
    waiting = [prefix_tree(stacks)]
    while waiting:
        node = waiting.pop()
        firsts = [key(each.frames[0]) for each in node.children]
        ranks = [rank for each in node.children for rank in each.ranks]
        assert len(set(firsts)) == len(firsts)
        assert len(set(ranks)) == len(ranks)
        assert set(ranks) <= set(node.ranks)
        assert not node.children or len(node.children) > 1 or set(ranks) < set(node.ranks)
        waiting += node.children


@given(TREES, st.randoms(use_true_random=False))
def test_the_order_of_ranks_changes_nothing(stacks, dice):
    order = list(stacks)
    dice.shuffle(order)

    assert as_tree(prefix_tree(stacks)) == as_tree(
        prefix_tree({rank: stacks[rank] for rank in order})
    )


def test_the_deepest_stack_that_is_read_is_drawn():
    deep = [Frame("f", "a.py", line) for line in range(1, 201)]
    tree = as_tree(prefix_tree({rank: deep[: 200 - rank] for rank in range(200)}))

    assert tree["ranks"] == list(range(200))


# Whose stacks


def test_the_blamed_rank_and_one_that_waits_for_it_are_asked(hung):
    rank, verdict = hung
    chosen = choice(verdict, range(8))

    assert (rank,) == chosen.blamed
    assert 1 == len(chosen.peers)
    assert chosen.peers[0] in verdict.origins[0].waiting
    assert (rank, *chosen.peers) == chosen.ranks


def test_a_peer_is_taken_where_it_can_be_asked(hung):
    rank, verdict = hung
    near = (rank + 3) % 8

    assert (rank, near) == choice(verdict, {rank, near}).ranks
    assert (rank,) == choice(verdict, {rank}).ranks


def test_of_a_rank_elsewhere_those_here_are_asked(hung):
    rank, verdict = hung
    here = set(range(8)) - {rank}

    assert here == set(choice(verdict, here).ranks)


def test_where_nobody_is_blamed_so_many_are_asked_and_the_rest_is_counted():
    chosen = choice(None, range(1000))

    assert tuple(range(MOST_RANKS)) == chosen.ranks
    assert 1000 - MOST_RANKS == chosen.left_out


def test_of_many_blamed_ranks_a_bounded_number_is_asked(hung):
    _, verdict = hung
    many = replace(
        verdict, origins=tuple(replace(verdict.origins[0], rank=rank) for rank in range(100))
    )
    chosen = choice(many, range(200))

    assert MOST_BLAMED == len(chosen.blamed)
    assert len(chosen.peers) <= MOST_BLAMED
    assert 100 - MOST_BLAMED == chosen.left_out


# The sentence


def test_the_sentence_names_the_line_and_who_waits_where(hung):
    rank, verdict = hung
    peer = choice(verdict, range(8)).peers[0]
    again = with_stacks(verdict, stood(rank, START, LOAD, READ), stood(peer, START, STEP, REDUCE))

    assert (
        f"Rank {rank} stands in `load_sample` (data.py:41), while rank {peer} waits in"
        " all_reduce (train.py:60)."
    ) == sentence(again)


@pytest.mark.parametrize(
    ("state", "gil", "words"),
    [
        ("T", None, "is stopped (state T) in `load_sample` (data.py:41)."),
        ("D", None, "is inside the kernel (state D) in `load_sample` (data.py:41)."),
        ("S", True, "stands in `load_sample` (data.py:41), holding the GIL."),
    ],
)
def test_a_stop_the_kernel_and_the_gil_are_said(hung, state, gil, words):
    rank, verdict = hung
    again = with_stacks(verdict, stood(rank, START, LOAD, state=state, gil=gil))

    assert f"Rank {rank} {words}" == sentence(again)


def test_a_worker_in_the_programs_code_is_said(hung):
    rank, verdict = hung
    begun = Frame("_bootstrap", f"{STANDARD}/multiprocessing/process.py", 314)
    worker = Thread(500, "MainThread", True, None, (START, begun, LOAD, READ))
    again = with_stacks(verdict, stood(rank, START, STEP, READ, more=(worker,)))

    assert (
        f"Rank {rank} stands in `train` (train.py:60), and process 500 of it in `load_sample`"
        " (data.py:41)."
    ) == sentence(again)
    assert "process 500 of rank" in table(again)


def test_a_rank_without_a_stack_says_why(hung):
    rank, verdict = hung
    gone = Stacks(rank, "node-0", None, "", 1e9, None, why="its process has ended (state Z)")

    assert f"Rank {rank} gave no stack: its process has ended (state Z)." == sentence(
        with_stacks(verdict, gone)
    )


def test_the_stack_tells_the_kind_in_the_same_verdict(hung):
    rank, verdict = hung
    fetch = Frame("_next_data", f"{TORCH}/utils/data/dataloader.py", 789)
    again = with_stacks(verdict, stood(rank, START, STEP, fetch, READ))

    assert Kind.HOST_STOPPED is verdict.kind
    assert Kind.DATA_LOADER is again.kind


def test_the_document_has_sentence_tree_and_lines(hung):
    rank, verdict = hung
    peer = choice(verdict, range(8)).peers[0]
    again = with_stacks(verdict, stood(rank, START, LOAD), stood(peer, START, STEP, REDUCE))
    tree = json.loads(json.dumps(document(again)))["stacks"]

    assert sentence(again) == tree["sentence"]
    assert sorted((rank, peer)) == tree["tree"]["ranks"]
    assert ["<module> (job/train.py:90)"] == tree["tree"]["calls"]
    assert {"function": "load_sample", "file": LOAD.file, "line": 41} == next(
        one["blamed_line"] for one in tree["ranks"] if one["rank"] == rank
    )
    assert document(verdict)["stacks"] is None


def test_who_is_blamed_nowhere_is_told_by_place():
    dumps = Dumps({}, (0, 1, 2), stacks=(stood(0, START), stood(1, START), stood(2, START, LOAD)))

    assert (
        "Ranks 0-1 stand in `<module>` (train.py:90); rank 2 stands in `load_sample` (data.py:41)."
    ) == sentence(judge(dumps))


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(CALLS, max_size=4)), max_size=6))
def test_any_stacks_give_a_document_and_a_table(some):
    stacks = {rank: stood(rank, *calls) for rank, calls in some}
    verdict = judge(Dumps({}, tuple(stacks), stacks=tuple(stacks.values())))

    assert json.dumps(document(verdict))
    assert isinstance(table(verdict), str)


def test_the_newest_stacks_of_a_rank_in_the_folders_of_one_job_count():
    case = hang(7, "host-stopped", Layout(8, 1, 1))
    traces = [NamedDump("node-0/dump", one) for one in judged(case).merged.dumps.traces.values()]
    old, new = replace(stood(1, START), taken=1.0), replace(stood(1, LOAD), taken=2.0)
    [(_, dumps)] = jobs(traces, {}, {"node-0": [new, old], "elsewhere": [stood(2, START)]})

    assert (new,) == dumps.stacks
