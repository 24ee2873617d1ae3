"""An archive answers what every source can be asked."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lockstep.dashboard.shapes import FLEET_METRICS, FleetMetric, Lines, Severity, Span
from lockstep.dashboard.sources.archive.source import ArchiveSource
from lockstep.dashboard.trouble import Kind, TroubleError
from tests.dashboard.archives import START, Made, write

RUN = Made().name
METRIC = {each.key: each for each in FLEET_METRICS}


@pytest.fixture
def source(straggling: Path) -> ArchiveSource:
    return ArchiveSource(straggling)


@pytest.fixture
def all_of_it(source: ArchiveSource) -> Span:
    return source.extent()


def by_key(lines: tuple[Lines, ...]) -> dict[str, Lines]:
    return {each.key: each for each in lines}


def test_the_run_is_told_as_lists_show_it(source: ArchiveSource) -> None:
    row = source.runs()[0]

    assert (RUN, "ended", "gpt") == (row.run, row.state, row.workload)
    assert (2, 4, "dp=4 pp=1 tp=1") == (row.nodes, row.ranks, row.layout)
    assert ("degraded", 1, 1.5) == (row.status, row.culprits, row.slowdown)
    assert ("emulated devices", "simulated GPU telemetry") == row.provenance


def test_the_command_that_started_a_run_is_shown_and_its_secrets_are_not(tmp_path: Path) -> None:
    run = {
        "schema_version": 1,
        "run": "r",
        "command": "lockstep run --exec -- t --token=Zq7 --lr 1",
    }
    (tmp_path / "run.json").write_text(json.dumps(run))  # as an older version wrote it
    (row,) = ArchiveSource(tmp_path).runs()

    assert "lockstep run --exec -- t --token=*** --lr 1" == row.command


def test_a_span_without_the_run_has_no_runs(source: ArchiveSource) -> None:
    assert () == source.runs(Span(0, 1))


def test_another_run_is_trouble_with_the_one_there_is(source: ArchiveSource) -> None:
    with pytest.raises(TroubleError) as trouble:
        source.run("gpt-of-yesterday")

    assert Kind.UNKNOWN_ID == trouble.value.kind
    assert (RUN,) == trouble.value.choices


def test_the_clock_of_a_run_that_is_over_stands_at_its_end(source: ArchiveSource) -> None:
    answer = source.answer()

    assert not answer.live
    assert source.runs()[0].span.end == answer.now
    assert 1.0 == pytest.approx(answer.scrape_seconds)
    assert () == answer.missing


def test_the_run_page_has_nine_charts_with_steps(source: ArchiveSource, all_of_it: Span) -> None:
    lines = by_key(source.run_lines(RUN, all_of_it))

    assert ["loss", "throughput", "step", "mfu", "phases", "gpu", "cpu", "memory", "network"] == [
        *lines
    ]
    for each in lines.values():
        assert each.times.size
        assert each.steps is not None
        assert len(each.times) == len(each.steps)
        assert all(len(each.times) == len(line) for line in each.values.values())


def test_a_spike_of_one_rank_is_the_slowest_rank(tmp_path: Path) -> None:
    made = Made(spikes=((1, 70, 6.0),))
    found = ArchiveSource(write(tmp_path / "a", made))
    step = by_key(found.run_lines(RUN, found.extent()))["step"]
    assert step.steps is not None

    assert 70 == step.steps[np.argmax(step.values["slowest rank"])]


def test_phases_are_shares_of_a_whole(source: ArchiveSource, all_of_it: Span) -> None:
    phases = by_key(source.run_lines(RUN, all_of_it))["phases"]

    np.testing.assert_allclose(np.sum(list(phases.values.values()), axis=0), 1.0)


def test_a_measured_peak_is_never_called_mfu(source: ArchiveSource, all_of_it: Span) -> None:
    chart = by_key(source.run_lines(RUN, all_of_it))["mfu"]

    assert "Share of the GEMM peak measured here" == chart.title
    assert "ratio" == chart.unit


def test_throughput_is_tokens_of_all_ranks_over_the_step(
    source: ArchiveSource, all_of_it: Span
) -> None:
    chart = by_key(source.run_lines(RUN, all_of_it))["throughput"]
    step = by_key(source.run_lines(RUN, all_of_it))["step"]

    np.testing.assert_allclose(
        4 * 512 / step.values["median"], chart.values["all ranks"], rtol=1e-6
    )


def test_a_part_of_the_time_has_only_its_steps(source: ArchiveSource) -> None:
    lines = by_key(source.run_lines(RUN, Span(START + 5, START + 10)))

    for each in lines.values():
        assert (each.times >= START + 5).all()
        assert (each.times <= START + 10).all()


def test_the_slow_rank_stands_first(source: ArchiveSource, all_of_it: Span) -> None:
    ranks = source.ranks(RUN, Span(START + 20, all_of_it.end))

    assert 2 == ranks["rank"][0]
    assert 1.5 == pytest.approx(ranks["slowdown"][0], abs=0.05)
    assert ranks["wait_share"][0] == ranks["wait_share"].min()


def test_own_times_over_the_stage_show_the_onset(source: ArchiveSource, all_of_it: Span) -> None:
    matrix = source.rank_times(RUN, all_of_it)
    slow = matrix.values[matrix.rows.index("rank 2 (node-1, GPU 0)")]

    assert (4, 120) == matrix.values.shape
    assert 1.0 == pytest.approx(np.median(slow[:40]), abs=0.05)
    assert 1.5 == pytest.approx(np.median(slow[40:]), abs=0.05)


def test_events_come_from_hardware_training_and_verdict(
    source: ArchiveSource, all_of_it: Span
) -> None:
    events = source.events(all_of_it)
    kinds = {each.kind for each in events}

    assert {"xid", "throttle", "link", "checkpoint", "finding"} <= kinds
    assert [each.at for each in events] == sorted(each.at for each in events)
    xid = [each for each in events if each.kind == "xid"]
    assert ["XID 94 on node-0 GPU 1: contained memory error"] == [each.text for each in xid]


def test_events_of_a_node_are_about_it(source: ArchiveSource, all_of_it: Span) -> None:
    assert {"node-1"} == {each.node for each in source.events(all_of_it, node="node-1")}


def test_a_healthy_run_has_no_bad_events(healthy: Path) -> None:
    source = ArchiveSource(healthy)

    assert {"checkpoint"} == {each.kind for each in source.events(source.extent())}


def test_the_finding_is_the_culprit(source: ArchiveSource, all_of_it: Span) -> None:
    (finding,) = source.findings(all_of_it)

    assert ("node-1", 0, 2, "thermal") == (finding.node, finding.gpu, finding.rank, finding.cause)
    assert Severity.CRITICAL == finding.severity
    assert not finding.open


def test_a_finding_outside_the_span_is_not_told(source: ArchiveSource) -> None:
    assert () == source.findings(Span(START, START + 1))


def test_collectives_name_who_came_last(source: ArchiveSource, all_of_it: Span) -> None:
    table = source.collectives(RUN, Span(START + 20, all_of_it.end))

    assert ["dp-all-reduce"] == table["op"].tolist()
    assert 2 == table["late_rank"][0]
    # nccl-tests: 2 (n - 1) / n of the size over the time of the transfer.
    assert pytest.approx(1.5 * 2**20 / 0.025, rel=0.1) == table["busbw"][0]


def test_who_waits_arrives_first(source: ArchiveSource, all_of_it: Span) -> None:
    matrix = source.arrivals(RUN, Span(START + 20, all_of_it.end))

    assert 2 == np.nanmedian(matrix.values, axis=1).argmax()


def test_operations_of_a_rank_are_in_the_order_of_time(
    source: ArchiveSource, all_of_it: Span
) -> None:
    rows = source.operations(RUN, 1, all_of_it)

    assert 600 == len(rows)
    assert rows["start"].is_monotonic_increasing


def test_the_trace_opens_as_trace_event_json(source: ArchiveSource) -> None:
    packed = source.trace(RUN, Span(START + 2, START + 4))

    assert json.loads(gzip.decompress(packed))["traceEvents"]


@pytest.mark.parametrize(
    ("ask"),
    [lambda s: s.collectives(s.runs()[0].run, s.extent()),
     lambda s: s.arrivals(s.runs()[0].run, s.extent()),
     lambda s: s.operations(s.runs()[0].run, 0, s.extent()),
     lambda s: s.trace(s.runs()[0].run, s.extent())],
)  # fmt: skip
def test_without_operations_it_says_so(going_on: Path, ask: Callable[[ArchiveSource], Any]) -> None:
    with pytest.raises(TroubleError) as trouble:
        ask(ArchiveSource(going_on))

    assert Kind.NOT_TOLD == trouble.value.kind


@pytest.mark.parametrize("metric", FLEET_METRICS, ids=lambda each: each.key)
def test_the_map_has_a_value_for_each_gpu(source: ArchiveSource, metric: FleetMetric) -> None:
    fleet = source.fleet(metric)

    assert ["node-0", "node-0", "node-1", "node-1"] == fleet.nodes.tolist()
    assert [0, 1, 0, 1] == fleet.gpus.tolist()
    assert [0, 1, 2, 3] == fleet.ranks.tolist()
    assert np.isfinite(fleet.values).all()
    assert fleet.simulated


def test_the_hot_gpu_is_hot_now_and_was_not_before(source: ArchiveSource) -> None:
    assert 2 == source.fleet(METRIC["temperature"]).values.argmax()
    assert source.fleet(METRIC["temperature"], START + 5).values.max() < 75


def test_errors_are_counted_since_the_start(source: ArchiveSource) -> None:
    assert [0, 1, 0, 0] == source.fleet(METRIC["errors"]).values.tolist()


def test_without_gpus_a_place_is_a_rank(going_on: Path) -> None:
    fleet = ArchiveSource(going_on).fleet(METRIC["slowdown"])

    assert [-1] * 4 == fleet.gpus.tolist()
    assert [0, 1, 2, 3] == fleet.ranks.tolist()


def test_a_node_tells_who_it_is_and_what_was_looked_at(
    source: ArchiveSource, all_of_it: Span
) -> None:
    facts = source.node("node-1", all_of_it)
    checks = {each.name: each for each in facts.checks}

    assert ("host-a", "550.1") == (facts.facts["host"], facts.facts["driver"])
    assert [2, 3] == facts.gpus["rank"].tolist()
    assert Severity.WARNING == checks["throttled by heat"].severity
    assert "GPU 0" in checks["throttled by heat"].text
    assert Severity.OK == checks["XID errors"].severity
    assert Severity.UNKNOWN == checks["InfiniBand port errors"].severity


def test_an_unknown_node_is_trouble_with_those_that_there_are(
    source: ArchiveSource, all_of_it: Span
) -> None:
    with pytest.raises(TroubleError) as trouble:
        source.node_lines("<script>", all_of_it)

    assert ("node-0", "node-1") == trouble.value.choices


def test_charts_of_gpus_stand_beside_their_peers(source: ArchiveSource, all_of_it: Span) -> None:
    lines = by_key(source.node_lines("node-1", all_of_it))

    assert ["GPU 0", "GPU 1", "peers low", "peers high"] == [*lines["temperature"].values]
    assert ("peers low", "peers high") == lines["temperature"].band
    assert {"cpu", "memory", "disk", "network", "errors"} <= lines.keys()


def test_a_gpu_tells_all_that_is_known_of_it(source: ArchiveSource, all_of_it: Span) -> None:
    lines = by_key(source.gpu_lines("node-1", 0, all_of_it))

    assert {"utilization", "clock", "throttle", "temperature", "power", "memory", "ecc", "pcie",
            "nvlink"} <= lines.keys()  # fmt: skip
    assert 0.9 == pytest.approx(np.nanmax(lines["throttle"].values["hw_thermal"]), abs=0.1)


def test_a_gpu_that_nobody_told_of_is_trouble(source: ArchiveSource, all_of_it: Span) -> None:
    with pytest.raises(TroubleError) as trouble:
        source.gpu_lines("node-1", 7, all_of_it)

    assert Kind.NOT_TOLD == trouble.value.kind


def test_numbers_of_a_whole_archive_can_be_trusted(source: ArchiveSource) -> None:
    health = source.health()

    assert {Severity.OK} == {each.severity for each in health.checks}
    assert ["node-0", "node-1"] == health.sources["node"].tolist()


def test_failed_scrapes_are_gaps_an_event_and_a_check(tmp_path: Path) -> None:
    source = ArchiveSource(write(tmp_path / "a", Made(gap=(1, 10.0, 16.0))))
    scrapes = next(each for each in source.health().checks if each.name == "Scrapes")
    events = [each for each in source.events(source.extent()) if each.kind == "gone"]

    assert Severity.WARNING == scrapes.severity
    assert ["node-1 did not answer scrapes"] == [each.text for each in events]
    until = events[0].until
    assert until is not None
    assert 6.0 == pytest.approx(until - events[0].at, abs=1.1)


def test_a_run_that_goes_on_is_live_while_its_last_word_is_young(going_on: Path) -> None:
    end = ArchiveSource(going_on).extent().end

    assert ArchiveSource(going_on, lambda: end + 5).live
    assert "running" == ArchiveSource(going_on, lambda: end + 5).runs()[0].state
    assert "unknown" == ArchiveSource(going_on, lambda: end + 999).runs()[0].state


def test_nobody_analyzed_is_no_verdict(going_on: Path) -> None:
    source = ArchiveSource(going_on)

    assert source.verdict(source.runs()[0].run) is None
    assert source.runs()[0].status is None


def test_one_file_reads_as_many_parts(tmp_path: Path, straggling: Path) -> None:
    made = Made(slow=2, xid=(1, 60, 94), flap=(0, 20.0), parts=1)
    one, many = ArchiveSource(write(tmp_path / "one", made)), ArchiveSource(straggling)
    span = many.extent()

    assert many.events(span) == one.events(span)
    for mine, other in zip(one.run_lines(RUN, span), many.run_lines(RUN, span), strict=True):
        np.testing.assert_array_equal(mine.times, other.times)


def test_truth_is_never_opened(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", Made(slow=1))
    (folder / "truth.json").mkdir()  # opening it would fail
    source = ArchiveSource(folder)

    assert source.findings(source.extent())
    assert () == source.answer().missing


def test_a_run_with_a_report_alone_is_told_as_its_report_tells(
    straggling: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(straggling, tmp_path / straggling.name))
    verdict = json.loads((folder / "verdict.json").read_text())
    (folder / "verdict.json").unlink()
    assert ArchiveSource(folder).runs()[0].status is None
    (folder / "report.json").write_text(json.dumps({"schema_version": 1, "verdict": verdict}))
    assert verdict["sentence"] == ArchiveSource(folder).runs()[0].sentence
    (folder / "report.json").write_text(json.dumps({"verdict": {"sentence": 3}}))
    assert ArchiveSource(folder).runs()[0].status is None
