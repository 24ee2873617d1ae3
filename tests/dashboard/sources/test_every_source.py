"""What pages may rely on, whatever the source: shapes, order, bounds, trouble for unknown ids."""

import math
import shutil

import numpy as np
import pytest

from lockstep.dashboard.shapes import FLEET_METRICS, Severity, Span
from lockstep.dashboard.sources.archive.source import ArchiveSource
from lockstep.dashboard.sources.cache import cached
from lockstep.dashboard.sources.folder import FolderSource
from lockstep.dashboard.sources.prometheus.source import PrometheusSource
from lockstep.dashboard.trouble import Kind, TroubleError
from tests.dashboard.stored import open_metrics, served

INSTALLED = bool(shutil.which("prometheus") and shutil.which("promtool"))
RANK_COLUMNS = {"rank", "node", "gpu", "uuid", "dp", "pp", "tp", "steps", "wall_seconds",
                "own_seconds", "slowdown", "wait_share"}  # fmt: skip
COLLECTIVE_COLUMNS = {"op", "group", "count", "bytes", "median_seconds", "p95_seconds",
                      "total_seconds", "busbw", "late_rank", "late_seconds"}  # fmt: skip
CHARTS = ["loss", "throughput", "step", "mfu", "phases", "gpu", "cpu", "memory", "network"]


@pytest.fixture(
    scope="module",
    params=[
        "archive",
        "folder",
        pytest.param(
            "prometheus",
            marks=[
                pytest.mark.prometheus,
                pytest.mark.skipif(not INSTALLED, reason="prometheus is not installed"),
            ],
        ),
    ],
)
def source(request, straggling, runs, tmp_path_factory):
    if request.param == "archive":
        yield cached(ArchiveSource(straggling))
    elif request.param == "folder":
        yield cached(FolderSource(runs))
    else:
        text = open_metrics([straggling])
        with served(tmp_path_factory.mktemp("prometheus"), text) as url:
            yield cached(PrometheusSource(url, environment={}))


@pytest.fixture(scope="module")
def row(source):
    return source.runs()[-1]


def rising(times):
    return bool((np.diff(times) > 0).all())


def told(ask):
    """(answer, None) or (None, trouble)."""
    try:
        return ask(), None
    except TroubleError as error:
        return None, error


def test_answer_and_extent_are_of_one_clock(source):
    answer, extent = source.answer(), source.extent()
    assert answer.name
    assert extent.start < extent.end <= answer.now
    assert answer.nodes[0] >= answer.nodes[1] > 0


def test_runs_are_newest_first_and_each_is_known_by_its_id(source):
    found = source.runs()
    starts = [one.span.start for one in found if one.state != "unknown"]
    assert sorted(starts, reverse=True) == starts
    assert found[-1].run == source.run(found[-1].run).run
    assert found[-1].ranks > 0
    assert source.spec(found[-1].run)


def test_charts_of_a_run_have_their_keys_and_lie_in_it(source, row):
    charts = source.run_lines(row.run, row.span)
    keys = [one.key for one in charts]
    assert CHARTS == [key for key in keys if key in CHARTS]
    for one in charts:
        assert rising(one.times)
        assert len(one.times) <= 2000
        assert not one.values or row.span.start - 20 <= one.times[0] <= row.span.end
        assert one.title
        assert all(len(one.times) == len(line) for line in one.values.values())
        assert one.band is None or set(one.band) <= one.values.keys()


def test_the_table_of_ranks_begins_with_the_slowest(source, row):
    frame = source.ranks(row.run, row.span)
    assert set(frame.columns) >= RANK_COLUMNS
    assert row.ranks == len(frame)
    told = frame["slowdown"].dropna()
    assert told.is_monotonic_decreasing
    assert told.iloc[0] > 1.1


def test_the_matrix_of_ranks_is_of_its_rows_and_times(source, row):
    matrix = source.rank_times(row.run, row.span)
    assert (len(matrix.rows), len(matrix.times)) == matrix.values.shape
    assert rising(matrix.times)
    assert len(matrix.times) <= 301
    assert np.isfinite(matrix.values).any()


def test_events_and_findings_are_in_order(source, row):
    events = source.events(row.span, row.run)
    assert sorted(one.at for one in events) == [one.at for one in events]
    assert all(one.until is None or one.until >= one.at for one in events)
    findings = source.findings(row.span, row.run)
    order = [(not one.open, -one.since) for one in findings]
    assert sorted(order) == order
    assert len({one.finding for one in findings}) == len(findings)


def test_collectives_have_their_columns_the_longest_first(source, row):
    frame = source.collectives(row.run, row.span)
    assert set(frame.columns) >= COLLECTIVE_COLUMNS
    assert frame["total_seconds"].dropna().is_monotonic_decreasing


@pytest.mark.sweep
@pytest.mark.parametrize("metric", FLEET_METRICS, ids=lambda one: one.key)
def test_the_map_has_one_value_a_place(source, metric):
    fleet = source.fleet(metric)
    columns = (fleet.nodes, fleet.gpus, fleet.ranks, fleet.runs, fleet.values)
    assert 1 == len({len(column) for column in columns})
    assert np.float32 == fleet.values.dtype
    assert set(fleet.nodes.tolist()) <= set(source.nodes())
    assert metric == fleet.metric


def test_a_node_has_facts_checks_and_charts(source, row):
    node = source.nodes()[0]
    facts = source.node(node, row.span)
    assert node == facts.node
    assert set(facts.gpus.columns) >= {"gpu", "uuid", "model", "run", "rank"}
    assert all(isinstance(one.severity, Severity) and one.text for one in facts.checks)
    charts = source.node_lines(node, row.span)
    assert any(one.values for one in charts)
    assert all(rising(one.times) for one in charts)
    gpu = int(facts.gpus["gpu"].iloc[0])
    assert any(one.values for one in source.gpu_lines(node, gpu, row.span))


def test_health_names_every_node(source):
    health = source.health()
    assert health.checks
    assert set(source.nodes()) <= set(health.sources["node"])


def test_a_verdict_is_of_the_schema_or_there_is_none(source, row):
    told = source.verdict(row.run)
    assert told is None or (1, row.run) == (told["schema_version"], told["run"])


def test_operations_are_told_or_it_is_said_where_they_would_be(source, row):
    for ask in (
        lambda: source.operations(row.run, 0, row.span),
        lambda: source.trace(row.run, row.span),
    ):
        answer, trouble = told(ask)
        assert (answer is not None and len(answer) > 0) or Kind.NOT_TOLD == trouble.kind


def test_unknown_ids_are_trouble_with_those_that_there_are(source, row):
    span = row.span
    for ask in (
        lambda: source.run("no such run"), lambda: source.spec("no such run"),
        lambda: source.verdict("no such run"), lambda: source.run_lines("no such run", span),
        lambda: source.ranks("no such run", span), lambda: source.node("no such node", span),
        lambda: source.node_lines("no such node", span),
        lambda: source.gpu_lines("no such node", 0, span),
    ):  # fmt: skip
        with pytest.raises(TroubleError) as error:
            ask()
        assert Kind.UNKNOWN_ID == error.value.kind
        assert error.value.choices


def test_a_span_without_anything_is_empty_or_trouble_and_nothing_else(source, row):
    nowhere = Span(1.0, 100.0)
    for ask in (
        lambda: source.runs(nowhere), lambda: source.findings(nowhere),
        lambda: source.events(nowhere), lambda: source.answer(nowhere),
        lambda: source.run_lines(row.run, nowhere), lambda: source.ranks(row.run, nowhere),
        lambda: source.rank_times(row.run, nowhere), lambda: source.collectives(row.run, nowhere),
        lambda: source.node_lines(source.nodes()[0], nowhere),
        lambda: source.fleet(FLEET_METRICS[0], 50.0),
        lambda: source.node(source.nodes()[0], nowhere),
    ):  # fmt: skip
        _, trouble = told(ask)
        assert trouble is None or trouble.next_step


def test_the_scrape_interval_is_a_time_or_not_known(source):
    seconds = source.answer().scrape_seconds
    assert math.isnan(seconds) or seconds > 0
