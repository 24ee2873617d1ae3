"""Real ranks over gloo; a slow link or node is emulated by sleeping before each message leaves."""

from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import pytest
import torch

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import OPS
from lockstep.workloads.measure.probe import links as links_file
from lockstep.workloads.measure.probe.links import Links
from lockstep.workloads.measure.probe.sweep_passes import Probe, find
from lockstep.workloads.spec import Layout
from tests.workloads.ranks import comm_of

pytestmark = pytest.mark.distributed

Forked = Callable[[int, Callable[[int], Any]], list[Any]]
DELAY_SECONDS = 0.010


def recorded(path: Path) -> list[tuple[str, int]]:
    """(op, sequence) of the ring's records."""
    raw = path.read_bytes()
    written = ring.LIVE.unpack_from(raw, ring.LIVE_OFFSET)[0]
    records = ring.OP_RECORD.iter_unpack(raw[ring.OPS_OFFSET :][: written * ring.OP_RECORD.size])
    return [(OPS[one[0]], one[4]) for one in records]


def test_four_healthy_ranks_name_nobody_and_agree(forked: Forked, tmp_path: Path) -> None:
    def work(rank: int) -> Any:
        comm = comm_of(rank, 4, tmp_path)
        return Probe(comm, Layout(4, 1, 4), rank, torch.device("cpu")).run()

    answers = forked(4, work)

    assert [] == answers[0]["finding"]["culprits"]
    assert [] == answers[0]["gemm"]["slow"]
    assert 6 == len(answers[0]["links"])
    assert all(answers[0] == other for other in answers)


def test_a_rank_that_is_slow_to_send_is_named_as_a_node(forked: Forked, tmp_path: Path) -> None:
    def work(rank: int) -> Any:
        comm = comm_of(rank, 4, tmp_path)
        links = Links(comm, Layout(4, 1, 4), rank, lambda _: sleep(DELAY_SECONDS * (rank == 2)))
        finding, _ = find(4, links)
        return [finding.kind.value, [one.nodes for one in finding.culprits], finding.rounds]

    assert [["node", [[2]], 4]] * 4 == forked(4, work)


def test_a_slow_link_between_two_nodes_is_named(forked: Forked, tmp_path: Path) -> None:
    def work(rank: int) -> Any:
        comm = comm_of(rank, 4, tmp_path)

        def late(peer: int) -> None:
            if {rank, peer} == {1, 3}:
                sleep(DELAY_SECONDS)

        links = Links(comm, Layout(4, 1, 4), rank, late)
        finding, _ = find(4, links)
        return [finding.kind.value, [one.nodes for one in finding.culprits], finding.rounds]

    assert [["link", [[1, 3]], 4]] * 4 == forked(4, work)


def test_every_rank_counts_the_same_operations_whether_it_exchanges_or_not(
    forked: Forked, tmp_path: Path
) -> None:
    """Two ranks on each of three nodes: one node is idle in each slot, and each second rank."""

    def work(rank: int) -> Any:
        comm = comm_of(rank, 6, tmp_path)
        times = Links(comm, Layout(3, 2, 6), rank).measure((((0, 1),), ((1, 2),)))
        return [sorted(times), recorded(tmp_path / ring.file_name(rank))]

    assert [[[[0, 1], [1, 2]], [["world-all-reduce", 1]]]] * 6 == forked(6, work)


def test_a_link_that_is_clearly_slow_is_not_asked_every_time(
    forked: Forked, tmp_path: Path
) -> None:
    def work(rank: int) -> Any:
        asked: list[int] = []
        links_file.SMALL_REPETITIONS = 1000
        comm = comm_of(rank, 2, tmp_path)

        def late(_: int) -> None:
            asked.append(1)
            sleep(0.02)

        Links(comm, Layout(2, 1, 2), rank, late).measure((((0, 1),),))
        return len(asked)

    assert max(forked(2, work)) < 200
