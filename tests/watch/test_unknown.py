"""What nobody looked at is unknown on the page of watch: absent or grey, and never healthy."""

import time
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from lockstep.analyzer.findings.finding import Kind, Tier
from lockstep.analyzer.read.prometheus import questions as ask
from lockstep.collector.contract import metrics as m
from tests.watch.cluster_life import FOREVER, Episode, SimulatedConnection
from tests.watch.few_runs import EVERY

SETTLED = 11
"""Cycles after which watch has looked for long enough, where they are so many seconds apart:"""
SPARSE = 30.0


def told(watch, metric):
    """The samples of a metric: labels without the name -> value."""
    return {sample.labels: sample.value for sample in watch.samples() if sample.metric is metric}


def status(watch):
    return [labels[1:] for labels in told(watch, m.RUN_STATUS)]


@pytest.fixture
def settled(watching, cycles):
    """A watch that has looked for long enough."""
    watch = watching(None)
    cycles(watch, SETTLED, SPARSE)
    return watch


def test_a_healthy_run_is_told_to_be_healthy_with_all_that_was_looked_at(settled):
    assert [("healthy", "")] == status(settled)
    assert {("gpt-1",): 4} == told(settled, m.RUN_KNOWN_RANKS)
    assert {(f"node-{rank}",): 1.0 for rank in range(4)} == told(settled, m.NODE_HEALTH)
    assert 4 == len(told(settled, m.RANK_STRAGGLER))


def test_a_watch_that_began_just_now_does_not_call_anybody_healthy(watching, cycles):
    watch = watching(None)
    cycles(watch, 2)

    assert [("unknown", "watch-is-new")] == status(watch)
    assert {} == told(watch, m.NODE_HEALTH)


def test_with_collectives_that_nobody_times_nobody_is_healthy_and_nobody_is_slow(
    settled, cycles, prometheus
):
    prometheus.untimed = (set(range(4)), prometheus.now)
    prometheus.slow = (3, 2.0, prometheus.now)

    changes = cycles(settled, 23, SPARSE)

    assert not any(opened for opened, _, _ in changes)
    assert [("unknown", "own-time")] == status(settled)
    assert {("gpt-1",): 0} == told(settled, m.RUN_KNOWN_RANKS)
    for metric in (m.RANK_STRAGGLER, m.NODE_STRAGGLER, m.RUN_SLOWDOWN, m.NODE_HEALTH):
        assert {} == told(settled, metric), metric.name


def test_one_rank_of_which_own_time_is_not_known_makes_the_run_unknown(settled, cycles, prometheus):
    prometheus.untimed = ({1}, prometheus.now)

    cycles(settled, 2)

    assert [("unknown", "own-time")] == status(settled)
    assert {("gpt-1",): 3} == told(settled, m.RUN_KNOWN_RANKS)
    assert "1" not in [rank for _, rank in told(settled, m.RANK_STRAGGLER)]


def test_a_finding_stays_open_while_nobody_knows_the_own_time_of_whom_it_is_about(
    watching, cycles, prometheus
):
    watch = watching(None)
    prometheus.slow = (2, 1.5, prometheus.now)
    cycles(watch, 9)
    assert [2] == [one.who.rank for one in watch.findings()]
    prometheus.slow = None
    prometheus.untimed = (set(range(4)), prometheus.now)

    cycles(watch, 15, SPARSE)

    assert [2] == [one.who.rank for one in watch.findings()]


def test_an_error_of_a_gpu_is_not_over_because_nobody_tells_of_errors(watching, cycles, prometheus):
    watch = watching(None)
    labels = {**prometheus._target(1), "gpu": "0", "uuid": "GPU-1", "xid": "79"}
    prometheus.xids = [(labels, prometheus.now)]
    cycles(watch, 2)
    prometheus.no_answers = {ask.XIDS}

    cycles(watch, 15, SPARSE)

    assert [1] == [one.who.rank for one in watch.findings()]


def test_a_node_that_does_not_answer_is_not_healthy(settled, cycles, prometheus):
    prometheus.silent = ({2}, prometheus.now)

    cycles(settled, 4)

    assert [("unknown", "not-heard")] == status(settled)
    assert {} == told(settled, m.NODE_HEALTH)


def test_telemetry_that_went_away_is_missing(settled, cycles, prometheus):
    prometheus.no_metrics = {m.GPU_CLOCK.name}

    cycles(settled, 5)

    assert [("unknown", "telemetry")] == status(settled)


def test_a_run_on_nodes_without_gpus_lacks_nothing(watching, cycles, prometheus):
    prometheus.bare = True
    watch = watching(None)

    cycles(watch, SETTLED, SPARSE)

    assert [("healthy", "")] == status(watch)


def test_what_the_last_answer_said_is_not_told_for_long(settled, cycles, prometheus, monkeypatch):
    prometheus.reply = (503, b"")
    cycles(settled, 1)
    later = time.monotonic() + 60.0
    monkeypatch.setattr("lockstep.watch.loop.monotonic", lambda: later)

    for metric in (m.RUN_STATUS, m.RUN_SLOWDOWN, m.RUN_ACTIVE, m.RANK_STRAGGLER, m.NODE_HEALTH):
        assert {} == told(settled, metric), metric.name
    assert 4 == len(told(settled, m.NODE_SCRAPED))


def test_once_without_any_run_is_not_healthy(watching, cycles, prometheus):
    prometheus.no_metrics = {m.RANK_INFO.name}
    watch = watching(None)

    cycles(watch, 1)

    assert ["no run is known to live"] == watch.report()
    assert 3 == watch.exit_code()


@pytest.mark.parametrize(("found", "code"), [(True, 1), (False, 3)])
def test_a_finding_is_not_hidden_by_a_run_of_which_nothing_is_known(
    watching, cycles, monkeypatch, found, code
):
    watch = watching(None)
    cycles(watch, 1)
    hardware = SimpleNamespace(tier=Tier.RECORD, kind=Kind.HARDWARE)
    monkeypatch.setattr(watch, "findings", lambda: (hardware,) * found)
    monkeypatch.setattr(watch, "_undiagnosed", lambda: ["gpt-1"])

    assert code == watch.exit_code()


class Twins(SimulatedConnection):
    """Which page says of which rank that it lives, where two programs have one name."""

    def instant(
        self, query: str, time: float, *, every: bool = False, within: object = None
    ) -> list[tuple[Mapping[str, str], float]]:
        if query != ask.UP_BY_PAGE:
            return super().instant(query, time, every=every)
        return [
            ({"run": one.run, "rank": str(rank), **one._target(rank)}, 1.0)
            for one in self.cluster.runs for rank in EVERY
        ]  # fmt: skip


def test_a_finding_of_a_run_whose_name_two_programs_have_is_not_said_to_be_over(few_runs):
    world = few_runs()
    world.connection = Twins(world.cluster)
    run = world.begin("gpt")
    run.episodes.append(Episode(2, 1.6, world.now + 300.0, FOREVER))
    world.go(690.0)
    assert [2] == [one.who.rank for one in world.open]
    world.begin("gpt", 1)
    world.cluster.runs.insert(0, run)  # `begin` took it for its next attempt
    world.go(420.0)

    assert any("Two programs" in one.sentence for one in world.open)
    assert [] == [one.ending for one in world.closed]
