"""What ranks tell of their exchanges of data, and the stages that follow from it."""

import dataclasses

import pandas as pd
import pytest

from lockstep.analyzer.read.ranks import exchanges, rank_infos, with_stages
from lockstep.analyzer.shapes.run import Exchange, RankInfo
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract import archive
from lockstep.collector.contract.metrics import RANK_EXCHANGE_INFO, RANK_INFO
from lockstep.collector.contract.words import EXTERNAL_PROGRAM


def samples(*told: tuple[float, int, str, str]) -> pd.DataFrame:
    """(time, rank, metric, labels) each."""
    rows = [(time, "n", None, rank, metric, labels, 1.0) for time, rank, metric, labels in told]
    return pd.DataFrame(rows, columns=[column.name for column in archive.SAMPLES])


def ranks(told: dict[int, tuple[set[int], set[str]]], *, external=True) -> list[RankInfo]:
    """rank -> (peers, groups)."""
    return [
        RankInfo(
            rank, f"node-{rank}", None, None, 0, rank, 0, 0, external=external,
            exchange=Exchange(frozenset(groups), frozenset(peers), only_averages=False),
        )
        for rank, (peers, groups) in told.items()
    ]  # fmt: skip


def places(told) -> list[tuple[int, int]]:
    return [(info.pp, info.dp) for info in with_stages(told)]


def test_peers_that_are_no_ranks_are_left_out():
    text = f'groups="",only_averages="false",peers="1,-2,x,٣,{"9" * 5000}"'
    told = exchanges(samples((1.0, 0, RANK_EXCHANGE_INFO.name, text)))

    assert {0: Exchange(frozenset(), frozenset({1}), only_averages=False)} == told


def test_what_a_rank_told_last_counts_and_who_told_nothing_has_none():
    before = 'groups="0000000000ab:2",only_averages="true",peers=""'
    last = 'groups="0000000000ab:2,0000000000cd:4",only_averages="false",peers="1,3"'
    infos = [(1.0, rank, RANK_INFO.name, 'steps_by="sdk",world_size="2"') for rank in (0, 1)]
    told = [(time, 0, RANK_EXCHANGE_INFO.name, text) for time, text in ((1.0, before), (2.0, last))]
    first, second = rank_infos(pd.DataFrame(columns=["rank"]), samples(*infos, *told), None, [])

    groups = frozenset({"0000000000ab:2", "0000000000cd:4"})
    assert Exchange(groups, frozenset({1, 3}), only_averages=False) == first.exchange
    assert second.exchange is None
    assert first.external


LINE = {0: ({1}, set()), 1: ({0, 2}, set()), 2: ({1, 3}, set()), 3: ({2}, set())}
TWO = {0: ({2}, {"a"}), 1: ({3}, {"a"}), 2: ({0}, {"b"}), 3: ({1}, {"b"})}
CIRCLE = {0: ({2, 4}, {"a"}), 2: ({0, 4}, {"b"}), 4: ({2, 0}, {"c"})}
CIRCLES = CIRCLE | {1: ({3, 5}, {"a"}), 3: ({1, 5}, {"b"}), 5: ({3, 1}, {"c"})}


def test_a_chain_of_sends_and_receives_tells_the_stages():
    assert [(0, 0), (1, 0), (2, 0), (3, 0)] == places(ranks(LINE))
    assert [(0, 0), (0, 1), (1, 0), (1, 1)] == places(ranks(TWO))


def test_who_only_one_of_two_tells_of_is_a_peer_all_the_same():
    assert places(ranks(TWO)) == places(ranks(TWO | {2: (set(), {"b"}), 3: (set(), {"b"})}))


def test_interleaved_stages_are_a_circle():
    told = dict(sorted(CIRCLES.items()))

    assert [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] == places(ranks(told))


def test_tied_embeddings_of_the_first_and_the_last_stage_make_no_replicas():
    tied = LINE | {0: ({1}, {"tied"}), 3: ({2}, {"tied"})}

    assert [(0, 0), (1, 0), (2, 0), (3, 0)] == places(ranks(tied))


@pytest.mark.parametrize(
    "told",
    [
        {rank: (peers, {"all"}) for rank, (peers, _) in LINE.items()},
        {0: ({1, 2, 3}, set()), 1: ({0}, set()), 2: ({0}, set()), 3: ({0}, set())},
        {0: ({1}, {"a"}), 1: ({0}, {"b"}), 2: ({3}, {"b"}), 3: ({2}, {"a"})},
        {0: ({1}, set()), 1: ({0, 2}, set()), 2: ({1}, set()), 3: (set(), set())},
        {0: ({1}, set()), 1: ({0, 9}, set())},
        {0: (set(), {"a"}), 1: (set(), {"a"})},
        {0: ({1}, set()), 1: ({0, 2}, set()), 2: ({1}, set()), 3: ({4}, set()), 4: ({3}, set())},
    ],
    ids=["ring attention", "a master", "crossed", "somebody alone", "unknown", "none", "unlike"],
)
def test_what_is_no_pipeline_has_no_stages(told):
    assert [(0, rank) for rank in range(len(told))] == places(ranks(told))


def test_places_that_somebody_told_stay():
    told = ranks(TWO)

    assert [(0, rank) for rank in range(4)] == places(ranks(TWO, external=False))
    assert [(0, 0), (0, 1), (0, 2), (7, 3)] == places(
        [*told[:3], dataclasses.replace(told[3], pp=7)]
    )
    silent = [*told[:3], dataclasses.replace(told[3], exchange=None)]
    assert [(0, rank) for rank in range(4)] == places(silent)


def test_a_stage_that_becomes_heavier_on_all_its_replicas_is_no_rank_s_fault(synthetic, fault):
    """As with stages that the program tells; without them, two ranks of four."""
    faults = [fault("compute", rank, 1.6, 120) for rank in (6, 7)]
    run = synthetic(world=8, faults=faults).run()
    chain = {rank: ({*({rank - 2} if rank > 1 else ()), *({rank + 2} if rank < 6 else ())},
                    {f"g{rank // 2}"}) for rank in range(8)}  # fmt: skip
    told = ranks(chain)
    meta = {**run.meta, "workload": EXTERNAL_PROGRAM}
    staged = dataclasses.replace(run, ranks=with_stages(told), meta=meta)
    untold = tuple(dataclasses.replace(info, exchange=None) for info in told)

    assert () == diagnose(staged).verdict.culprits
    assert {6, 7} == {
        one.rank for one in diagnose(dataclasses.replace(staged, ranks=untold)).verdict.culprits
    }
