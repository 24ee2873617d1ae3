"""A real Prometheus that has what was scraped of two runs: what is said of them, and how fast."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lockstep.dashboard.shapes import FLEET_METRICS, Severity, Span
from lockstep.dashboard.sources.archive.source import ArchiveSource
from lockstep.dashboard.sources.prometheus.source import PrometheusSource
from lockstep.dashboard.trouble import Kind, TroubleError
from tests.dashboard.archives import START, Made, write
from tests.dashboard.stored import open_metrics, served

pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.skipif(
        not (shutil.which("prometheus") and shutil.which("promtool")),
        reason="prometheus is not installed",
    ),
]
MADE = Made(slow=2, xid=(1, 60, 94), flap=(0, 20.0), steps=240)
METRICS = {metric.key: metric for metric in FLEET_METRICS}
FINDING = (
    f'lockstep_finding_active{{run="{MADE.name}",node="node-1",rank="2",gpu="0",cause="thermal",'
    'tier="page",kind="slow",job="watch",instance="w:1"}'
)


@pytest.fixture(scope="module")
def findings(tmp_path_factory) -> Path:
    """What `watch --out` keeps."""
    folder = tmp_path_factory.mktemp("findings")
    archive = write(folder / MADE.name / "20261118T110720Z-rank-2", MADE)
    told = {
        "schema_version": 1, "run": MADE.name, "opened": START + 20, "onset": START + 10,
        "closed": None, "sentence": "Rank 2 is slow.", "confidence": 0.9, "slowdown": 1.5,
        "place_confidence": 0.97,
        "key": {"run": MADE.name, "scope": "rank", "node": "node-1", "rank": 2, "gpu": 0,
                "link": None, "cause": "thermal", "tier": "page"},
    }  # fmt: skip
    (archive / "finding.json").write_text(json.dumps(told))
    return folder


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prometheus")
    archive = write(folder / "archive", MADE)
    watched = "".join(f"{FINDING} 1 {START + second}\n" for second in range(25, 90, 5))
    slowdown = f'lockstep_run_slowdown_ratio{{run="{MADE.name}",job="watch"}} 1.42 {START + 60}\n'
    against = slowdown.replace("slowdown_ratio", "throughput_baseline_ratio").replace("1.42", "0.8")
    expected = "".join(
        f'lockstep_node_expected{{node="node-9",job="watch"}} 1 {START + second}\n'
        for second in range(0, 90, 5)
    )
    text = open_metrics([archive]).removesuffix("# EOF\n") + (
        f"# TYPE lockstep_finding_active unknown\n{watched}"
        f"# TYPE lockstep_run_slowdown_ratio unknown\n{slowdown}"
        f"# TYPE lockstep_run_throughput_baseline_ratio unknown\n{against}"
        f"# TYPE lockstep_node_expected unknown\n{expected}# EOF\n"
    )
    with served(folder, text) as address:
        yield address


@pytest.fixture(scope="module")
def source(url):
    return PrometheusSource(url, environment={})


@pytest.fixture(scope="module")
def span(source):
    return source.run(MADE.name).span


def test_the_run_is_found_with_its_ends_and_layout(source):
    found = source.run(MADE.name)
    assert (MADE.name, "gpt", 2, 4, "dp=4 pp=1 tp=1") == (
        found.run, found.workload, found.nodes, found.ranks, found.layout
    )  # fmt: skip
    assert abs(found.span.start - START) < 5
    assert "ended" == found.state
    assert ("emulated nodes", "simulated GPU telemetry") == found.provenance
    assert found.span == source.runs()[0].span


def test_a_run_is_held_against_its_baseline(source):
    told = [source.run(MADE.name), *source.runs()]

    assert [0.8, 0.8] == [row.baseline for row in told]


def test_without_an_archive_the_verdict_says_that_it_is_in_part(source):
    told = source.verdict(MADE.name)
    assert ("degraded", 1.42) == (told["status"], told["slowdown"])
    assert (2, "node-1", "thermal") == tuple(
        told["culprits"][0][name] for name in ("rank", "node", "cause")
    )
    assert told["missing"][0].startswith("in part")


def test_with_the_archive_of_a_finding_the_verdict_is_that_of_the_analyzer(url, findings):
    source = PrometheusSource(url, findings, {})
    assert "its GPU is too hot" in source.verdict(MADE.name)["sentence"]
    assert findings / MADE.name / "20261118T110720Z-rank-2" == source.folder(MADE.name)
    found = source.findings(source.run(MADE.name).span)
    assert [("Rank 2 is slow.", 0.97, 0.9, True)] == [
        (one.sentence, one.place_confidence, one.confidence, one.open) for one in found
    ]
    assert Severity.CRITICAL == found[0].severity


def test_a_finding_without_archive_is_known_from_what_watch_exports(source, span):
    found = source.findings(span)
    assert ["slow"] == [one.kind for one in found]
    assert [("node-1", 2, 0, "thermal")] == [
        (one.node, one.rank, one.gpu, one.cause) for one in found
    ]
    assert START + 20 <= found[0].since <= START + 26


def test_the_slow_rank_is_the_slowest_in_table_matrix_and_map(source, span):
    assert 2 == source.ranks(MADE.name, span)["rank"][0]
    matrix = source.rank_times(MADE.name, span)
    slowest = int(np.nanargmax(np.nanmedian(matrix.values, axis=1)))
    assert matrix.rows[slowest].startswith("rank 2 (node-1")
    heat = source.fleet(METRICS["temperature"])
    assert ("node-1", 0, 2) == tuple(
        column[int(np.nanargmax(heat.values))] for column in (heat.nodes, heat.gpus, heat.ranks)
    )


def test_who_waits_least_is_who_arrives_last(source, span):
    rows = source.collectives(MADE.name, span)
    assert 2 == rows[rows["group"] == "dp"]["late_rank"].iloc[0]


def test_xid_throttling_link_and_finding_are_events_in_order(source, span):
    found = source.events(span, MADE.name)
    assert {"xid", "throttle", "link", "finding"} <= {one.kind for one in found}
    assert sorted(one.at for one in found) == [one.at for one in found]
    xid = next(one for one in found if one.kind == "xid")
    assert ("XID 94", "node-0", 1) == (xid.text, xid.node, xid.gpu)


def test_a_chart_has_one_axis_and_the_same_in_all(source, span):
    charts = source.run_lines(MADE.name, span)
    assert 1 == len({tuple(chart.times) for chart in charts})
    told = {chart.key for chart in charts if chart.values}
    assert {"loss", "throughput", "step", "phases", "gpu", "cpu", "memory"} <= told


RANGES = [0.0, 86400.0, 7 * 86400.0, 366 * 86400.0]
"""Seconds before the end of the run at which a range begins; 0 = where the run began."""


def _range(span, seconds):
    return Span(span.end - seconds, span.end + seconds) if seconds else span


@pytest.mark.parametrize("seconds", RANGES)
def test_step_time_and_throughput_are_those_of_the_run_at_every_range(source, span, seconds):
    charts = {one.key: one for one in source.run_lines(MADE.name, _range(span, seconds))}
    step = charts["step"].values["median"]
    # 0.25 s of work, 1.5 times as long at rank 2 from step 40 on, and 0.0125 s for all.
    assert 0.3875 == pytest.approx(np.nanmedian(step), rel=0.05)
    assert np.nanmax(step) < 3 * 0.3875
    throughput = charts["throughput"].values["all ranks"]
    assert 4 * 512 / 0.3875 == pytest.approx(np.nanmedian(throughput), rel=0.05)
    assert np.nanmin(throughput) > 4 * 512 / 0.3875 / 3
    assert span.start <= charts["step"].times[0] <= charts["step"].times[-1] <= span.end + 5


@pytest.mark.parametrize("seconds", RANGES[1:])
def test_every_range_round_a_run_tells_what_the_whole_run_tells(source, span, seconds):
    wide = _range(span, seconds)

    def told(within):
        return {
            (chart.key, name): [chart.times.tolist(), np.round(values, 9).tolist()]
            for chart in source.run_lines(MADE.name, within)
            for name, values in chart.values.items()
        }

    np.testing.assert_equal(told(wide), told(span))
    assert source.events(span, MADE.name) == source.events(wide, MADE.name)
    assert {"throttle", "xid", "link"} <= {one.kind for one in source.events(wide, MADE.name)}
    pd.testing.assert_frame_equal(source.ranks(MADE.name, span), source.ranks(MADE.name, wide))
    np.testing.assert_equal(
        source.rank_times(MADE.name, wide).values, source.rank_times(MADE.name, span).values
    )


def test_a_run_that_ended_long_ago_has_the_numbers_that_it_had(tmp_path):
    later = write(tmp_path / "later", Made(seed=1, start=START + 3 * 3600, slow=2, steps=240))
    first = write(tmp_path / "first", MADE)
    with served(tmp_path, open_metrics([first, later])) as address:
        source = PrometheusSource(address, environment={})
        span = source.run(MADE.name).span
        wide = Span(span.end - 7 * 86400, span.end + 3 * 3600 + 600)
        for within in (span, wide):
            charts = {one.key: one for one in source.run_lines(MADE.name, within)}
            assert 0.375 == pytest.approx(np.nanmedian(charts["step"].values["median"]), rel=0.05)
            kinds = {one.kind for one in source.events(within, MADE.name)}
            assert {"throttle", "xid", "link"} <= kinds
            assert 2 == source.ranks(MADE.name, within)["rank"][0]


def test_scrapes_that_are_far_apart_show_the_same_run(tmp_path):
    made = Made(slow=2, steps=600, scrape_seconds=15.0)
    with served(tmp_path, open_metrics([write(tmp_path / "kept", made)])) as address:
        source = PrometheusSource(address, environment={})
        span = source.run(made.name).span
        charts = {one.key: one for one in source.run_lines(made.name, span)}
        # A window of a minute has a checkpoint of 0.5 s every 50 steps.
        assert 0.3975 == pytest.approx(np.nanmedian(charts["step"].values["median"]), rel=0.02)
        assert "throttle" in {one.kind for one in source.events(span, made.name)}


@pytest.mark.parametrize("hours", [-5, 1, 24 * 90])
def test_a_range_that_misses_the_run_has_no_values_of_it(source, span, hours):
    missed = Span(span.end + hours * 3600, span.end + (hours + 1) * 3600)
    charts = {one.key: one for one in source.run_lines(MADE.name, missed)}
    assert [{}, {}, {}] == [charts[key].values for key in ("loss", "throughput", "step")]
    assert () == source.events(missed, MADE.name)


@pytest.mark.parametrize("seconds", [3600.0, 86400.0, 30 * 86400.0])
def test_throttling_is_an_event_of_its_node_however_long_the_range(source, span, seconds):
    wide = Span(span.end - seconds, span.end)
    found = [one for one in source.events(wide, node="node-1") if one.kind == "throttle"]
    assert [("throttled: hw_thermal", 0)] == [(one.text, one.gpu) for one in found]


def test_a_coarse_point_is_told_in_words(source, span):
    chart = source.node_lines("node-1", _range(span, 366 * 86400.0))[0]
    assert "Each point stands for 2 days" == chart.sampling


def test_charts_are_called_as_those_of_the_archive_and_have_its_lines(source, span, tmp_path):
    kept = ArchiveSource(write(tmp_path / "kept", MADE))
    for ask in (
        lambda one: one.run_lines(MADE.name, span), lambda one: one.node_lines("node-1", span),
        lambda one: one.gpu_lines("node-1", 0, span),
    ):  # fmt: skip
        here, there = ({one.key: one for one in ask(each)} for each in (source, kept))
        for key in there.keys() & here.keys() - {"mfu"}:
            a, b = here[key], there[key]
            assert (a.title, a.unit, a.help, a.stacked) == (b.title, b.unit, b.help, b.stacked)
            assert a.band == b.band, key
            assert set(a.values) == set(b.values), key
        assert {key for key, one in there.items() if one.values} <= here.keys()


def test_new_errors_are_counted_where_they_happened(source, span):
    errors = {one.key: one for one in source.node_lines("node-0", span)}["errors"]
    assert (1.0, 1.0) == (np.nansum(errors.values["XIDs"]), np.nanmax(errors.values["XIDs"]))
    assert 2.0 == np.nansum(errors.values["link changes"])


def test_model_flops_are_told_as_they_are_without_a_peak_of_the_device(source, span):
    chart = {one.key: one for one in source.run_lines(MADE.name, span)}["mfu"]
    assert ("Model FLOPs of a rank", "FLOP/s") == (chart.title, chart.unit)
    assert 1e9 / 0.375 == pytest.approx(np.nanmedian(chart.values["mean over ranks"]), rel=0.05)


def test_model_flops_are_a_share_of_the_peak_of_a_gpu_that_is_known(tmp_path):
    made = write(tmp_path / "kept", MADE)
    text = open_metrics([made]).replace("Made-up GPU", "NVIDIA H100 80GB HBM3")
    with served(tmp_path, text) as address:
        source = PrometheusSource(address, environment={})
        charts = source.run_lines(MADE.name, source.run(MADE.name).span)
    chart = next(one for one in charts if one.key == "mfu")
    assert ("MFU", "ratio") == (chart.title, chart.unit)
    told = np.nanmedian(chart.values["mean over ranks"])
    assert 1e9 / 0.375 / 989e12 == pytest.approx(told, rel=0.05)


def test_the_hot_gpu_lies_above_the_band_of_its_peers(source, span):
    chart = next(one for one in source.node_lines("node-1", span) if one.key == "temperature")
    assert ("peers low", "peers high") == chart.band
    assert np.nanmax(chart.values["GPU 0"]) > np.nanmax(chart.values["peers high"])


def test_an_xid_of_the_last_hour_fails_its_check(source, span):
    checks = {one.name: one.severity for one in source.node("node-0", span).checks}
    assert (Severity.OK, Severity.CRITICAL) == (checks["Answers"], checks["XID errors"])


@pytest.mark.parametrize("seconds", [300.0, 3600.0, 86400.0, 30 * 86400.0, 366 * 86400.0])
def test_no_range_is_refused_by_a_real_prometheus(source, span, seconds):
    wide = Span(span.end - seconds, span.end)
    charts = source.run_lines(MADE.name, wide)
    assert max(len(chart.times) for chart in charts) <= 2000
    for ask in (source.events, source.findings):
        ask(wide, MADE.name)
    source.node_lines("node-1", wide)
    source.rank_times(MADE.name, wide)
    assert MADE.name in [one.run for one in source.runs(wide)]


def test_operations_come_from_the_archive_of_a_finding_only(source, span):
    with pytest.raises(TroubleError) as error:
        source.operations(MADE.name, 0, span)
    assert Kind.NOT_TOLD == error.value.kind
    assert "--findings" in error.value.next_step


@pytest.mark.parametrize("name", ["nope", 'a"} or up{b="', "a\\", "x\ny", "[a](b)", ".*"])
def test_a_hostile_name_is_an_unknown_one(source, span, name):
    for ask in (
        lambda: source.run(name), lambda: source.events(span, name), lambda: source.verdict(name),
        lambda: source.node(name, span), lambda: source.node_lines(name, span),
        lambda: source.ranks(name, span),
    ):  # fmt: skip
        with pytest.raises(TroubleError) as error:
            ask()
        assert Kind.UNKNOWN_ID == error.value.kind
        assert error.value.choices


def test_a_node_that_is_expected_and_silent_is_counted_and_named(source):
    assert (3, 2) == source.answer().nodes
    assert ("node-9",) == source.fleet(METRICS["power"]).silent


def test_a_missing_analyzer_and_an_old_scrape_are_told(source):
    checks = {one.name: one for one in source.health().checks}
    assert Severity.WARNING == checks["Age"].severity
    assert "lockstep watch" in checks["Analyzer"].next_step
