"""Who ranks are: by their info series, wherever stored; their stages; and their GPUs by uuid."""

import dataclasses

import pandas as pd
import pytest

from lockstep.analyzer.read.ranks import (
    as_ranks_number,
    exchanges,
    last_attempts,
    rank_infos,
    rank_labels,
    with_stages,
    world_of,
)
from lockstep.analyzer.shapes.labels import parsed
from lockstep.analyzer.shapes.run import Exchange, RankInfo
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract import archive, metrics
from lockstep.collector.contract.metrics import RANK_EXCHANGE_INFO, RANK_INFO
from lockstep.collector.contract.words import EXTERNAL_PROGRAM
from lockstep.watch.look.members import members

TOLD = {"run": "r", "rank": "3", "attempt": "1", "world_size": "8", "local_rank": "1", "dp": "1",
        "pp": "1", "tp": "0", "gpu": "1", "uuid": "GPU-3"}  # fmt: skip
OF_PAGE = {"job": "j", "instance": "i:1", "node": "n-by-prometheus", "exported_node": "node-1"}


def test_archive_watch_and_a_parser_agree_who_a_rank_is() -> None:
    who = rank_labels(TOLD | OF_PAGE)
    text = ",".join(f'{name}="{value}"' for name, value in (TOLD | {"node": "node-1"}).items())
    samples = pd.DataFrame([{"metric": metrics.RANK_INFO.name, "labels": text, "node": "x",
                             "gpu": 1, "rank": 3}])  # fmt: skip
    (told,) = rank_infos(pd.DataFrame(), samples, None, [])
    watched = members([(TOLD | OF_PAGE, 1.0)])

    assert who == rank_labels(parsed(text))
    assert who is not None
    assert ("node-1", 1, 1, 0, 1, 8) == (who.node, who.dp, who.pp, who.tp, who.gpu, who.world)
    assert ("node-1", 1, 1, 0, 1) == (told.node, told.dp, told.pp, told.tp, told.gpu)
    assert (["node-1"], [1], [1], [0], [1], ["GPU-3"], [8]) == tuple(
        getattr(watched, name).tolist() for name in ("node", "dp", "pp", "tp", "gpu", "uuid",
                                                     "world"))  # fmt: skip


def test_a_rank_that_tells_no_place_is_a_replica_and_what_is_no_number_is_not_told() -> None:
    who = rank_labels({"rank": "5", "pp": "one", "world_size": "9" * 40, "gpu": "-1"})
    assert who is not None
    assert (5, 0, 0, None, "") == (who.dp, who.pp, who.world, who.gpu, who.uuid)
    assert rank_labels({"run": "r"}) is None
    assert rank_labels({"rank": "٣"}) is None


def test_whose_program_a_rank_is_its_page_tells_beside_the_table_of_an_archive() -> None:
    row = {"metric": metrics.RANK_INFO.name, "node": "node-0", "gpu": None}
    samples = pd.DataFrame([{**row, "labels": 'steps_by="optimizer"', "rank": 0},
                            {**row, "labels": "", "rank": 1}])  # fmt: skip
    table = pd.DataFrame([{"rank": rank, "node": "node-0", "gpu": None, "uuid": None,
                           "local_rank": rank, "dp": 0, "pp": rank, "tp": 0}
                          for rank in range(2)])  # fmt: skip

    for known in (table, pd.DataFrame()):
        assert [True, False] == [info.external for info in rank_infos(known, samples, None, [])]


def test_of_several_attempts_the_last_counts_whatever_the_order() -> None:
    infos = [({"run": "r", "rank": "0", "attempt": each, "node": f"n{each}"}, 1.0)
             for each in ("1", "2", "0")]  # fmt: skip
    assert ["n2"] == [who.node for who, _ in last_attempts(infos)]


def test_labels_that_are_no_numbers_are_as_if_they_were_not_there() -> None:
    labels = 'world_size="many",local_rank="²",dp="1e9",pp="-1",tp="nan",node="node-1"'
    row = {"metric": metrics.RANK_INFO.name, "node": "x", "gpu": None}
    samples = pd.DataFrame([{**row, "labels": labels, "rank": 3}, {**row, "labels": 7, "rank": -4}])
    (told,) = rank_infos(pd.DataFrame(), samples, None, [])

    assert (3, "node-1", 0, 3, 0, 0) == (
        told.rank, told.node, told.local_rank, told.dp, told.pp, told.tp)  # fmt: skip
    assert 0 == world_of(samples[:1])


# What ranks tell of their exchanges of data, and the stages that follow from it.


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


RANKS = tuple(
    RankInfo(rank=n, node="node-0", gpu=n, uuid=f"GPU-{n}", local_rank=n, dp=n, pp=0, tp=0)
    for n in range(2)
)


def gpu_samples(*rows):
    frame = pd.DataFrame(rows, columns=["node", "gpu", "uuid", "value"])
    return frame.astype({"gpu": "Int32"})


def test_samples_have_the_number_of_the_rank_with_their_uuid():
    told = as_ranks_number(
        gpu_samples(("node-0", 1, "GPU-0", 5.0), ("node-0", 0, "GPU-1", 6.0)), RANKS
    )

    assert [(0, 5.0), (1, 6.0)] == list(zip(told["gpu"], told["value"], strict=True))
    assert "uuid" not in told


def test_what_is_about_no_gpu_or_tells_no_uuid_stays_as_it_is():
    told = as_ranks_number(
        gpu_samples(("node-0", None, None, 1.0), ("node-0", 1, None, 2.0)), RANKS
    )

    assert [None, 1] == [None if pd.isna(gpu) else gpu for gpu in told["gpu"]]


def test_a_gpu_of_no_rank_is_not_taken_for_the_rank_s_of_the_same_number():
    rows = [("node-0", 0, "GPU-0", 4.0), ("node-0", 1, "GPU-9", 5.0), ("node-0", 7, "GPU-8", 6.0)]

    assert [0, 7] == as_ranks_number(gpu_samples(*rows), RANKS)["gpu"].tolist()


def test_where_no_uuid_of_a_node_is_a_rank_s_the_numbers_stand():
    """One side tells the uuids of parts (MIG), or leaves the prefix out."""
    told = as_ranks_number(gpu_samples(("node-0", 1, "MIG-7", 5.0)), RANKS)

    assert [1] == told["gpu"].tolist()


def test_the_same_uuid_on_another_node_is_nobody_s():
    told = as_ranks_number(gpu_samples(("node-9", 1, "GPU-0", 5.0)), RANKS)

    assert [1] == told["gpu"].tolist()


def test_without_uuids_nothing_is_done():
    plain = gpu_samples(("node-0", 1, None, 5.0)).drop(columns="uuid")

    assert as_ranks_number(plain, RANKS) is plain
