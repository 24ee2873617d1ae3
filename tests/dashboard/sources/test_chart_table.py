"""The chart table names series as the contract has them; what archives read of it."""

import numpy as np
import pytest

from lockstep.analyzer.read.archive.series import Series
from lockstep.dashboard.shapes import FLEET_METRICS
from lockstep.dashboard.sources.archive.charts import drawn
from lockstep.dashboard.sources.chart_table import FLEET_ROWS, GPU_CHARTS, NODE_CHARTS, Over, Row

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
