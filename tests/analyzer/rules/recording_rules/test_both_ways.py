"""A run read in full, and through the rules, from the same real Prometheus: one verdict."""

import json
import math

import pytest

from lockstep.analyzer.read.prometheus.access import RequestError, access
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.load import load_prometheus
from lockstep.analyzer.rules.recording_rules.diagnosis import choose, diagnose_outliers
from lockstep.analyzer.rules.recording_rules.survey import survey
from lockstep.analyzer.verdict.pipeline import diagnose as diagnose_run
from lockstep.app import main
from tests.analyzer.rules.recording_rules.fleet import Fleet

pytestmark = [pytest.mark.prometheus, pytest.mark.slow]

HALF = frozenset(range(32, 64))
HOSTILE = r'x"} or vector(1) or {run=~".*\d'


def _named(verdict):
    return [
        (one.rank, one.node, one.gpu, one.uuid, one.cause, one.tier) for one in verdict.culprits
    ]


@pytest.fixture(scope="module")
def slow(recorded):
    """(fleet, URL) of 64 ranks, one of which is hot."""
    fleet = Fleet()
    with recorded(fleet) as url:
        yield fleet, url


@pytest.fixture(scope="module")
def halved(recorded):
    """(fleet, URL) of a run with a hostile name; half of its 64 ranks are silent, none is slow."""
    fleet = Fleet(slow=None, silent=HALF, run=HOSTILE)
    with recorded(fleet) as url:
        yield fleet, url


@pytest.fixture(scope="module")
def frozen(recorded):
    """(fleet, URL) of 64 ranks that wait for one that froze."""
    fleet = Fleet(slow=None, frozen=38)
    with recorded(fleet) as url:
        yield fleet, url


def test_the_rules_know_how_large_a_run_is(slow):
    fleet, url = slow
    with Connection(access(url, {})) as connection:
        chosen = choose(connection, fleet.run, None, None)

    assert (False, "64 ranks: all are read") == (chosen.push_down, chosen.why)


def test_both_ways_name_the_same_culprit_and_cause(slow):
    fleet, url = slow
    full = diagnose_run(load_prometheus(url, fleet.run, environment={}))
    few = diagnose_outliers(url, fleet.run, environment={})
    expected, actual = full.verdict, few.verdict

    assert [(21, "node-5", 1, "GPU-00000021", "thermal", "page")] == _named(expected)
    assert _named(expected) == _named(actual)
    assert math.isclose(expected.culprits[0].slowdown, actual.culprits[0].slowdown, rel_tol=0.02)
    assert math.isclose(expected.lost_gpu_hours, actual.lost_gpu_hours, rel_tol=0.1)
    assert expected.coverage == actual.coverage
    # One page of the suspect, eight of peers, of sixteen.
    assert (64, 36) == (len(full.grid.ranks), len(few.grid.ranks))


def test_both_ways_name_the_rank_that_froze(frozen):
    fleet, url = frozen
    expected = diagnose_run(load_prometheus(url, fleet.run, environment={})).verdict
    actual = diagnose_outliers(url, fleet.run, environment={}).verdict

    assert [(38, "node-9", 2, "GPU-00000038", "freeze", "page")] == _named(expected)
    assert _named(expected) == _named(actual)
    assert expected.hang == actual.hang


def test_a_survey_tells_who_where_how_slow_and_of_how_many(slow):
    fleet, url = slow
    with Connection(access(url, {})) as connection:
        found = survey(connection, None, connection.now() - 60, 900)
    suspect = found.suspects[0]

    assert (fleet.run, 21, 5, "node-5", 1) == (
        suspect.run, suspect.rank, suspect.dp, suspect.node, suspect.gpu,
    )  # fmt: skip
    assert {"train_own_seconds", "gpu_temperature_celsius", "gpu_sm_clock_hertz"} <= set(suspect.z)
    assert math.isclose(fleet.factor, suspect.slowdown, rel_tol=0.03)
    assert 1.0 == found.answered[fleet.run].coverage
    assert fleet.tp == len(found.levels["train_own_seconds"])
    assert [suspect] == list(found.suspects)


def test_of_a_run_that_is_half_silent_nobody_says_that_it_is_healthy(halved):
    fleet, url = halved
    verdict = diagnose_outliers(url, fleet.run, environment={}).verdict

    assert HOSTILE == verdict.run
    assert () == verdict.culprits
    assert 0.45 < verdict.coverage <= 0.5
    assert any("32 of 64 ranks reported nothing to the rules" in words for words in verdict.missing)


def test_a_run_that_the_rules_do_not_know_is_refused_with_those_they_do(slow):
    fleet, url = slow

    with pytest.raises(RequestError, match=f"has no run 'other'; it has {fleet.run}"):
        diagnose_outliers(url, "other", environment={})


def test_the_command_reads_through_the_rules(slow, capsys):
    fleet, url = slow
    words = ["analyze", "--prometheus", url, "--run", fleet.run, "--push-down", "-o", "json"]

    assert 2 == main(words)
    assert [21] == [one["rank"] for one in json.loads(capsys.readouterr().out)["culprits"]]
