"""A rank is who its info series says, whether an archive or a Prometheus stored it."""

import pandas as pd

from lockstep.analyzer.read.ranks import last_attempts, rank_infos, rank_labels, world_of
from lockstep.analyzer.shapes.labels import parsed
from lockstep.collector.contract import metrics
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
