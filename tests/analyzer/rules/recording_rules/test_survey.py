"""What the reader makes of answers: of rules that are not there, and of labels and values so-so."""

import pytest

from lockstep.analyzer.read.prometheus.access import RequestError
from lockstep.analyzer.rules.recording_rules import queries
from lockstep.analyzer.rules.recording_rules.rules import recorded_series
from lockstep.analyzer.rules.recording_rules.signals import OWN, TEMPERATURE
from lockstep.analyzer.rules.recording_rules.survey import (
    MOST,
    STANDSTILL,
    require_rules,
    survey,
    survey_span,
)

COUNT = {"run": "r", "pp": "0", "tp": "0"}


def _rank(rank, node="node-0", **more):
    place = {"dp": str(rank), "gpu": "0", "uuid": f"GPU-{rank}", "node": node}
    return COUNT | place | {"rank": str(rank)} | more


class Answers:
    """A connection that answers queries by a part of their text."""

    url = "http://prometheus:9090"

    def __init__(self, names=None, **answers):
        self.names = recorded_series() if names is None else names
        levels = [
            (COUNT | {"__name__": OWN.recorded(name)}, value)
            for name, value in (("count", 8.0), ("med", 1.0), ("mad", 0.01))
        ]
        self.answers = {
            "count|med|mad": levels,
            "sum by (run)": [({"run": "r"}, 8.0)],
            "rank:count": [({"run": "r", "world_size": "8"}, 8.0)],
        } | {name.replace("_at_", ":"): answer for name, answer in answers.items()}
        self.asked = []

    def now(self):
        return 1000.0

    def labels(self, *_):
        return list(self.names)

    def instant(self, query, time):
        self.asked.append(query)
        return next((found for part, found in self.answers.items() if part in query), [])


def test_rules_that_are_not_loaded_are_named_with_the_way_to_get_them():
    missing = OWN.recorded("z")
    connection = Answers(names=[name for name in recorded_series() if name != missing])

    with pytest.raises(RequestError, match=rf"has no {missing}; .* `lockstep rules` prints"):
        require_rules(connection)


def test_a_run_on_cpus_needs_no_rules_about_gpus():
    require_rules(Answers(names=[name for name in recorded_series() if ":gpu_" not in name]))


def test_a_suspect_has_its_place_and_deviations_and_slowdown():
    connection = Answers(
        train_own_seconds_at_z=[(_rank(3), 9.0)],
        train_own_seconds_at_avg1m=[(_rank(3), 1.4)],
        gpu_temperature_celsius_at_z=[(_rank(3), 5.0), (_rank(4), 4.0)],
    )
    found = survey(connection, "r", 1000.0)

    assert [3, 4] == [one.rank for one in found.suspects]
    assert ("node-0", 0, "GPU-3", 1.4) == (
        found.suspects[0].node, found.suspects[0].gpu, found.suspects[0].uuid,
        found.suspects[0].slowdown,
    )  # fmt: skip
    assert {OWN.name: 9.0, TEMPERATURE.name: 5.0} == found.suspects[0].z
    assert found.suspects[1].slowdown is None
    assert 1.0 == found.answered["r"].coverage


def test_half_of_the_ranks_missing_is_half_of_the_coverage():
    found = survey(Answers(**{"sum by (run)": [({"run": "r"}, 4.0)]}), "r", 1000.0)

    assert 0.5 == found.answered["r"].coverage


def test_nan_and_ranks_that_are_no_numbers_are_no_suspects():
    odd = [(_rank(3), float("nan")), (_rank(4) | {"rank": "4; drop"}, 9.0), ({}, 9.0)]

    assert () == survey(Answers(train_own_seconds_at_z=odd), "r", 1000.0).suspects


def test_a_world_size_that_is_no_number_counts_those_with_a_place():
    answer = [({"run": "r", "world_size": "many"}, 6.0)]

    assert 6 == survey(Answers(rank_at_count=answer), "r", 1000.0).answered["r"].expected


def test_a_rank_whose_node_changed_its_name_is_one_suspect():
    both = [(_rank(3, node="old"), 4.0), (_rank(3, node="new"), 9.0)]
    found = survey(Answers(train_own_seconds_at_z=both), "r", 1000.0)

    assert [(3, "new", 9.0)] == [(one.rank, one.node, one.z[OWN.name]) for one in found.suspects]


def test_more_suspects_than_were_asked_for_are_told():
    many = [(_rank(rank), 9.0) for rank in range(MOST)]

    assert (("r", OWN.name),) == survey(Answers(train_own_seconds_at_z=many), "r", 1000.0).cut


@pytest.mark.parametrize(("gone", "expected"), [([3], [3]), (range(8), [])])
def test_ranks_that_stopped_are_suspects_while_most_go_on(gone, expected):
    connection = Answers(heartbeat=[(_rank(rank), 1.0) for rank in gone])

    assert expected == [one.rank for one in survey(connection, "r", 1000.0).suspects]


@pytest.mark.parametrize(
    ("stopped", "suspects", "cut"),
    [(64, MOST, ()), (80, MOST, (("r", STANDSTILL),)), (6000, 0, ())],
)
def test_a_rack_that_stopped_in_a_large_run_is_suspected_and_more_than_were_asked_for_are_told(
    stopped, suspects, cut
):
    connection = Answers(**{
        "rank:count": [({"run": "r", "world_size": "10000"}, 10_000.0)],
        "count by (run)": [({"run": "r"}, float(stopped))],
        "heartbeat": [(_rank(rank), 1.0) for rank in range(MOST)],
    })  # fmt: skip
    found = survey(connection, "r", 1000.0)

    assert (suspects, cut) == (len(found.suspects), found.cut)


def test_a_span_without_records_says_what_the_rules_need():
    with pytest.raises(
        RequestError, match="know own time of no rank of run 'r' then; they need two"
    ):
        survey_span(Answers(**{"sum by (run)": []}), "r", 0.0, 1000.0)


def test_a_long_span_is_asked_in_pieces_and_a_suspect_of_any_is_one():
    connection = Answers(train_own_seconds_at_z=[(_rank(3), 9.0)])
    found = survey_span(connection, "r", 0.0, 3600.0)

    assert 4 == sum("count|med|mad" in query for query in connection.asked)
    assert [3] == [one.rank for one in found.suspects]


def test_labels_in_queries_are_escaped():
    query = queries.outliers(OWN, 'a"} or vector(1) or {x="\\', 900, 3.0, 64)

    assert r'{run="a\"} or vector(1) or {x=\"\\"}' in query
