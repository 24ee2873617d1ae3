"""The same thing is counted alike on every page."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from lockstep.dashboard.shapes import FindingRow, FleetMetric, FleetSnapshot, RunRow, Span
from tests.dashboard.apps import boxes, look
from tests.dashboard.fakes import VERDICT, Fake

GPUS = 8
SLOW = ((1, 3), (4, 0))
"""Node and GPU of each that a finding names."""
Look = Callable[..., AppTest]


@dataclass
class Fleet(Fake):
    """A run on six of eight nodes of eight GPUs: one more is idle, the last one is silent."""

    live: bool = True
    run_names: tuple[str, ...] = ("gpt-1",)
    node_names: tuple[str, ...] = tuple(f"node-{number}" for number in range(8))
    silent: tuple[str, ...] = ("node-7",)

    def _row(self, run: str) -> RunRow:
        return replace(super()._row(run), ranks=6 * GPUS, nodes=6)

    def fleet(self, metric: FleetMetric, at: float | None = None) -> FleetSnapshot:
        node, gpu = np.divmod(np.arange(GPUS * len(self.node_names)), GPUS)
        values = np.where(node < 6, 1.0 + 0.001 * gpu, np.nan)
        for place in SLOW:
            values[(node == place[0]) & (gpu == place[1])] = 1.5
        values[5] = np.nan  # a rank whose own time nobody told
        return replace(
            super().fleet(metric, at), nodes=np.array(self.node_names)[node],
            gpus=gpu.astype(np.int32),
            ranks=np.where(node < 6, GPUS * node + gpu, -1).astype(np.int32),
            runs=np.where((node < 6) | (node == 7), "gpt-1", ""), values=values.astype(np.float32),
        )  # fmt: skip

    def findings(self, span: Span, run: str = "") -> tuple[FindingRow, ...]:
        (first,) = super().findings(span, run)
        return tuple(
            replace(first, finding=f"F-{node}", node=f"node-{node}", gpu=gpu, rank=8 * node + gpu)
            for node, gpu in SLOW
        )

    def verdict(self, run: str) -> Mapping[str, Any] | None:
        (culprit,) = VERDICT["culprits"]
        named = [culprit | {"node": f"node-{node}", "gpu": gpu, "rank": 8 * node + gpu}
                 for node, gpu in SLOW]  # fmt: skip
        return VERDICT | {"run": run, "culprits": named, "alternatives": []}


SOURCE = Fleet()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Look:
    return lambda page, **words: look(monkeypatch, SOURCE, page, **words)


def numbers(app: AppTest) -> dict[str, tuple[str, str]]:
    return {metric.label: (metric.value, metric.delta) for metric in app.metric}


def test_nodes_that_do_not_answer(opened: Look) -> None:
    now, cluster, health = (boxes(opened(page)) for page in ("", "cluster", "health"))
    assert any("1 of 8 nodes do not answer" in each for each in now)
    assert any("node-7 does not answer" in each for each in cluster)
    assert any("7 of 8 nodes answer" in each for each in health)


def test_gpus_that_are_idle_slow_and_not_known(opened: Look) -> None:
    app = opened("")
    well, rest = numbers(app)["Healthy GPUs"]
    total, idle, unknown = map(int, re.findall(r"\d+", rest))
    slow = int(numbers(app)["Open findings"][0])
    said = next(each for each in boxes(opened("cluster")) if "far from the peers" in each)
    away, known = map(int, re.search(r"(\d+) of (\d+) GPUs are far", said).groups())  # type: ignore[union-attr]
    assert (64, 8, 9) == (total, idle, unknown)
    assert (total, slow) == (64, away)
    assert int(well) + slow == known
    assert int(well) + slow + idle + unknown == total
    assert f"{idle} more are idle" in said


def test_findings_and_runs(opened: Look) -> None:
    app = opened("")
    table = next(frame.value for frame in app.dataframe if "cause" in frame.value)
    assert int(numbers(app)["Open findings"][0]) == (table["state"] == "open").sum()
    runs = opened("runs")
    assert int(numbers(app)["Runs active"][0]) == len(runs.dataframe[0].value)
    straggler = opened("straggler", run="gpt-1")
    causes = next(frame.value for frame in straggler.dataframe if "meaning" in frame.value)
    assert len(table) == causes["who"].nunique()
