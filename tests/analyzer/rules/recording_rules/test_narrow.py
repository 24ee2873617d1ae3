"""Whose windows are read: the worst, and peers of theirs on as many nodes as can be."""

import pytest

from lockstep.analyzer.read.prometheus.access import RequestError
from lockstep.analyzer.rules.recording_rules import narrow as narrowing
from lockstep.analyzer.rules.recording_rules.narrow import PEERS, STRATA, SUSPECT_NODES, narrow
from lockstep.analyzer.rules.recording_rules.signals import SIGNALS
from lockstep.analyzer.rules.recording_rules.survey import STANDSTILL
from lockstep.analyzer.rules.recording_rules.suspects import Answered, Level, Survey, Suspect

LEVELS = {"train_own_seconds": {("r", str(pp), "0"): Level(99, 1.0, 0.01) for pp in range(16)}}


def _suspect(rank, pp="0", tp="0", node=None, slowdown=None):
    node = node or f"node-{rank}"
    return Suspect("r", rank, rank, pp, tp, node, 0, None, {"train_own_seconds": 9.0}, slowdown)


def _survey(*suspects):
    return Survey(suspects, LEVELS, {"r": Answered(990.0, 1000)}, 3.0)


class Peers:
    """A connection that has peers on two nodes, and no page of anybody."""

    url = "http://prometheus:9090"

    def __init__(self):
        self.asked = []

    def instant(self, query, time):
        self.asked.append(query)
        if "lockstep_rank_up" in query:
            return []
        place = {"run": "r", "pp": "0", "tp": "0"}
        ranks = [(rank, f"node-{900 + rank % 12}") for rank in range(100, 132)]
        return [(place | {"rank": str(rank), "node": node}, 0.1) for rank, node in ranks]


def test_ranks_without_a_page_say_where_to_ask():
    with pytest.raises(RequestError, match="beside the rules'"):
        narrow(Peers(), "r", _survey(_suspect(3)), 0.0, 900.0)


def test_peers_stand_on_different_nodes_and_none_is_a_suspect():
    connection = Peers()
    strata = [("r", "0", "0")]
    found = _survey(_suspect(100))
    ranks = narrowing.peers_to_read(connection, strata, found, 0.0, 900.0)

    assert PEERS == len(ranks) == len({rank % 12 for rank in ranks})
    assert 100 not in ranks


def test_suspects_of_at_most_so_many_nodes_are_read_and_the_rest_counted():
    many = [_suspect(rank, slowdown=2.0) for rank in range(SUSPECT_NODES + 3)]
    chosen = narrowing.worst_suspects(many)

    assert many[:SUSPECT_NODES] == chosen
    told = narrowing.coverage_notes("r", _survey(*many), chosen)
    assert "3 more suspects on other nodes were not read" in told
    assert "10 of 1000 ranks reported nothing to the rules" in told


def test_each_stage_has_peers_before_a_second_stratum_of_one_has():
    suspects = [_suspect(rank, pp=pp, tp=tp) for rank, (pp, tp) in enumerate(["00", "01", "10"])]

    assert [("r", "0", "0"), ("r", "1", "0"), ("r", "0", "1")] == narrowing.strata_to_read(
        "r", _survey(*suspects), suspects
    )


def test_of_a_run_without_suspects_some_strata_are_read():
    assert STRATA == len(narrowing.strata_to_read("r", _survey(), []))


def test_what_was_cut_off_is_told_in_words_for_every_signal():
    signals = {signal.name for signal in SIGNALS}

    assert signals | {STANDSTILL} == set(narrowing.CUT)
    assert not [words for words in narrowing.CUT.values() if "_" in words]
