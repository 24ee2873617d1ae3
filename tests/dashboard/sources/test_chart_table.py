"""The chart table names series as the contract has them; what archives read of it."""

import numpy as np
import pytest

from lockstep.analyzer.read.archive.series import Series
from lockstep.collector.contract import metrics as m
from lockstep.dashboard.shapes import FLEET_METRICS, Severity, Span
from lockstep.dashboard.sources.archive.charts import drawn
from lockstep.dashboard.sources.archive.nodes import checks as archived
from lockstep.dashboard.sources.chart_table import FLEET_ROWS, GPU_CHARTS, NODE_CHARTS, Over, Row
from lockstep.dashboard.sources.check_table import (
    CRITICAL,
    LIMITS,
    LIVE,
    NEXT_STEPS,
    STATES,
    Live,
    State,
)
from lockstep.dashboard.sources.prometheus.node_facts import checks

ROWS = [row for charts in (NODE_CHARTS, GPU_CHARTS) for chart in charts.values()
        for row in chart.rows] + [row for rows in FLEET_ROWS.values() for row in rows]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.line}-{row.metric.name}")
def test_a_row_has_labels_of_its_metric_and_counts_counters_only(row: Row) -> None:
    assert {*row.equal, *([row.by] if row.by else [])} <= set(row.metric.labels)
    assert row.metric.name.endswith("_total") == (row.over in (Over.RATE, Over.GROWN))


def test_a_line_has_one_meaning_in_its_chart() -> None:
    for chart in (*NODE_CHARTS.values(), *GPU_CHARTS.values()):
        assert len(chart.rows) == len({row.line for row in chart.rows})


def test_what_the_map_shows_of_gpus_is_in_the_table() -> None:
    assert FLEET_ROWS.keys() == {metric.key for metric in FLEET_METRICS} - {"slowdown", "wait"}


def test_of_the_devices_of_one_gpu_the_highest_gauge_counts_and_links_are_added() -> None:
    def told(key: str, labels: list[str], values: list[float]) -> list[float]:
        (row,) = GPU_CHARTS[key].rows
        some = [
            Series(row.metric.name, label, "n", 0, -1, np.arange(2.0), np.full(2, value))
            for label, value in zip(labels, values, strict=True)
        ]
        (line,) = drawn(key, GPU_CHARTS[key], some).values.values()
        return line.tolist()

    assert [0.0, 0.0] == told("margin", ['mig="1"', 'mig="2"'], [-7.0, 0.0])
    assert [2.0, 2.0] == told("nvlink", ['link="0"', 'link="1"', 'link="2"'], [1.0, 0.0, 1.0])


# Every check of a node has words and a next step, in an archive as over Prometheus.


class Told:
    """A Prometheus that answers every query with one value; None = with nothing."""

    def __init__(self, value: float | None) -> None:
        self.value = value

    def instant(self, query: str, at: float) -> list[tuple[dict[str, str], float]]:
        return [] if self.value is None else [({}, self.value)]


def test_every_limit_has_a_next_step_and_every_name_is_known() -> None:
    assert LIMITS.keys() == NEXT_STEPS.keys()
    assert set(CRITICAL) <= LIMITS.keys()


def test_a_live_check_of_a_state_is_one_that_archives_are_checked_for() -> None:
    assert {each.check for each in LIVE if isinstance(each.check, State)} <= set(STATES)


@pytest.mark.parametrize("live", LIVE, ids=lambda live: live.name)
@pytest.mark.parametrize(("value", "good"), [(0.0, True), (1.0, False), (None, None)])
def test_what_is_not_told_is_not_known_and_more_than_the_limit_is_said(
    live: Live, value: float | None, good: bool | None
) -> None:
    found = next(each for each in checks(Told(value), 'job="j"', 0.0) if each.name == live.name)  # type: ignore[arg-type]
    assert {None: Severity.UNKNOWN, True: Severity.OK, False: live.severity}[good] == found.severity
    assert ("" if good is not False else live.next_step) == found.next_step


def test_a_register_at_its_maximum_is_no_check_passed() -> None:
    port = 'device="mlx5_0",kind="{}",port="1"'
    times = np.arange(10.0)
    told = [
        Series(m.IB_ERRORS.name, port.format("symbol_error"), "n", -1, -1, times, np.zeros(10)),
        Series(m.IB_SATURATED.name, port.format("link_downed"), "n", -1, -1, times, np.ones(10)),
    ]
    (known,), (unknown,) = (
        [each for each in archived(some, Span(0.0, 10.0)) if each.name == "InfiniBand port errors"]
        for some in (told[:1], told)
    )

    assert Severity.OK == known.severity
    assert Severity.UNKNOWN == unknown.severity
    assert "at their maximum: link_downed" in unknown.text
