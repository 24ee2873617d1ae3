"""What real machines printed of NCCL is understood whole, and never wrongly once it is damaged."""

import random

import pytest

from lockstep.collector.contract import metrics as m
from lockstep.collector.formats.nccl_inspector import batches
from lockstep.collector.samples.nccl import collect_ras
from lockstep.collector.sources.nccl.flight_recorder.source import read_dump
from lockstep.collector.sources.nccl.ras import document, text
from lockstep.collector.sources.nccl.ras.communicators import pictured
from lockstep.collector.sources.nccl.ras.source import EndpointReading, RasReading
from lockstep.collector.sources.nccl.ras.status import Rank
from tests.benchmarks.mutated_captures import PARSERS, wrong
from tests.collector import nccl_captures
from tests.wild import wild

MUTATIONS = 300
"""Of each parser here; 100,000 by `python -m tests.benchmarks.mutated_captures`."""


def report(name):
    return text.parse(wild(f"nccl_ras/{name}").read_text())


def answer(name):
    return document.parse(wild(f"nccl_ras/{name}").read_text())


def page(status):
    picture = pictured(status, (), (), lambda host: False)
    endpoint = EndpointReading("localhost:28028", True, ((0.5, picture),), ())
    return {(s.metric.name, s.labels): s.value for s in collect_ras(RasReading((endpoint,), ()))}


def test_an_answer_of_nccl_2_28_9_that_lacks_a_comma_is_read_whole():
    status = answer("json-2.28.9-dead-rank.json")
    (one,) = status.communicators

    assert ("running", "incomplete", 2, 1) == (one.status, one.health, one.size, one.missing)
    assert (4, 4) == one.launched["all_reduce"]
    assert [(0, ()), (1, ("missing", "unresponsive"))] == [
        (each.rank, each.states) for each in one.ranks
    ]
    assert ((2, 28, 9), (), True) == (status.version, status.rejected, status.whole)


def test_a_healthy_answer_in_json():
    status = answer("json-2.28.9-healthy.json")

    assert {("running", "ok"): 1} == status.kinds
    assert [(2, 2)] == [one.launched["all_reduce"] for one in status.communicators]
    assert () == status.rejected


def test_ranks_that_are_named_because_they_are_ahead():
    status = report("text-2.26.2-mismatch-32ranks.txt")
    (one,) = status.communicators
    values = page(status)

    assert {12: 641, 13: 641} == {each.rank: each.launched["all_gather"] for each in one.ranks}
    assert {"all_gather": (640, 641)} == one.launched
    for rank in ("12", "13"):
        assert 0 == values[m.NCCL_RANK_LAG.name, ("", one.group, rank, "all_gather")]


def test_two_errors_in_one_row_and_blocks_of_several_communicators():
    status = report("text-2.27.3-incomplete-mismatch-10gpus-excerpt.txt")

    assert {
        ("running", "incomplete"): 1, ("running", "mismatch"): 4, ("nocomm", "incomplete"): 4,
    } == status.kinds  # fmt: skip
    assert [1, 255] == [one.missing for one in status.communicators]
    assert [(1, ("missing", "unresponsive"))] == [
        (each.rank, each.states) for one in status.communicators for each in one.ranks
    ]
    assert ((2, 27, 3), ()) == (status.version, status.rejected)


@pytest.mark.parametrize(
    ("name", "kind", "size", "ranks"),
    [
        ("text-2.30.7-healthy.txt", ("running", "ok"), None, []),
        ("text-2.30.7-incomplete.txt", ("running", "incomplete"), 8,
         [Rank(7, "node1", 3748990, {}, ("missing", "unresponsive"))]),
        ("text-2.30.7-straggler.txt", ("running", "mismatch"), 8,
         [Rank(7, "node1", 1650386, {"all_reduce": 60}, ())]),
    ],
)  # fmt: skip
def test_reports_of_nccl_2_30(name, kind, size, ranks):
    status = report(name)

    assert {kind: 1} == status.kinds
    assert [size] * bool(ranks) == [one.size for one in status.communicators]
    assert ranks == [each for one in status.communicators for each in one.ranks]
    assert () == status.rejected


def test_every_kind_of_block_is_read_and_those_behind_it():
    status = text.parse(nccl_captures.DEAD_REPORT)
    first, second = status.communicators
    states = {each.rank: each.states for each in first.ranks if each.states}

    assert {
        3: ("initializing",), 19: ("async_error",), 20: ("async_error",), 21: ("dead", "missing"),
        22: ("missing", "unresponsive"), 23: ("async_error",),
    } == states  # fmt: skip
    assert {"reduce_scatter": (11, 12), "all_reduce": (0, 6650)} == first.launched
    assert ({"broadcast": (4, 5)}, "finalize") == (second.launched, second.status)
    assert (2, 2, ()) == (first.missing, status.timeouts, status.rejected)


def test_ranks_that_older_versions_name_by_number_only():
    status = text.parse(
        nccl_captures.DEAD_REPORT.partition("#0-0")[0] + "#0-0 (cf264af53edbe986) INCOMPLETE\n"
        "  Missing communicator data from 2 ranks\n  The missing ranks: 21,22\n"
    )

    assert [(21, ("missing",)), (22, ("missing",))] == [
        (each.rank, each.states) for each in status.communicators[0].ranks
    ]


def test_the_inspectors_own_samples_agree_with_themselves():
    lines = wild("nccl_inspector/nccl-readme-samples.jsonl").read_bytes().splitlines()
    found, bad = batches(lines)

    assert 3 == sum(len(one.sequences) for one in found)
    assert (0, 0) == (sum(one.disagreeing for one in found), bad.total())


@pytest.mark.parametrize("folder", ["gpu_error_1st", "lock_gil_1st"])
def test_dumps_of_torch_2_9_are_read_whole(folder):
    paths = sorted(wild(f"flight_recorder/{folder}").glob("_dump_*"))
    dumps = {
        rank: read_dump(path, "", rank)
        for path in paths
        for rank in [int(path.name.removeprefix("_dump_"))]
    }

    assert set(range(16)) == dumps.keys()
    assert {("2.9", "2.27.3", ())} == {
        (one.version, one.library, one.rejected) for one in dumps.values()
    }
    for rank, one in dumps.items():
        assert len(one.groups) in (12, 13)  # inner stages are in no embedding group
        assert all(rank in group.members for group in one.groups)


def test_a_group_is_called_the_same_by_ranks_with_and_without_entries_of_it():
    """Rank 9 stood still and has no entry: only its status says how far it got."""
    folder = wild("flight_recorder/lock_gil_1st")
    reached = {
        rank: {
            one.group: one.enqueued for one in read_dump(folder / f"_dump_{rank}", "", rank).groups
        }["TENSOR_MODEL_PARALLEL_GROUP"]
        for rank in (8, 9, 10, 11)
    }

    assert {8: 88688, 9: 88683, 10: 88688, 11: 88688} == reached


def test_the_leaf_of_a_node_of_each_cloud_that_tells_it():
    wild("node_labels/cloud-topology-labels.tsv")
    (table,) = nccl_captures.label_tables()
    leaves = {
        line.split("\t")[1]
        for line in table.splitlines()
        if ("leaf", line.split("\t")[2] or "7") in nccl_captures.of_labels(line + "\n")
    }

    assert {
        "topology.k8s.aws/network-node-layer-3", "cloud.google.com/gce-topology-block",
        "backend.coreweave.cloud/leafgroup", "network.topology.kubernetes.io/block",
    } == leaves  # fmt: skip


@pytest.mark.parametrize("parser", ["nccl_ras_text", "nccl_inspector"])
def test_a_constructed_sample_holds_whatever_happens_to_it(parser):
    """In every clone: those that were recorded are not everywhere."""
    sample = {
        "nccl_ras_text": nccl_captures.DEAD_REPORT, "nccl_inspector": nccl_captures.MARKED,
    }[parser]  # fmt: skip
    one = PARSERS[parser]._replace(samples=lambda: [sample])

    assert one.values(sample)
    assert [] == wrong(one, MUTATIONS, seed=random.randrange(1 << 30))


@pytest.mark.parametrize(
    "parser", ["nccl_ras_json", "nccl_ras_text", "nccl_inspector", "flight_recorder", "node_labels"]
)
def test_a_damaged_sample_says_nothing_or_what_it_said(parser):
    one = PARSERS[parser]

    assert all(one.values(sample) for sample in one.samples())
    assert [] == wrong(one, MUTATIONS, seed=random.randrange(1 << 30))
