"""The same thing is counted alike on every page."""

import re
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from lockstep.dashboard.shapes import FLEET_METRICS
from lockstep.dashboard.sources.simulated import SimulatedSource
from tests.dashboard.apps import boxes, look

SOURCE = SimulatedSource(64, 0)
Look = Callable[..., AppTest]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Look:
    return lambda page, **words: look(monkeypatch, SOURCE, page, **words)


def numbers(app: AppTest) -> dict[str, tuple[str, str]]:
    return {one.label: (one.value, one.delta) for one in app.metric}


def test_nodes_that_do_not_answer(opened: Look) -> None:
    now, cluster, health = (boxes(opened(page)) for page in ("", "cluster", "health"))
    assert any("1 of 8 nodes do not answer" in each for each in now)
    assert any("node-0007 does not answer" in each for each in cluster)
    assert any("7 of 8 nodes answer" in each for each in health)
    assert 1 == len(SOURCE.fleet(FLEET_METRICS[0]).silent)


def test_gpus_that_are_idle_slow_and_not_known(opened: Look) -> None:
    app = opened("")
    well, rest = numbers(app)["Healthy GPUs"]
    total, idle, unknown = map(int, re.findall(r"\d+", rest))
    slow = int(numbers(app)["Open findings"][0])
    said = next(each for each in boxes(opened("cluster")) if "far from the peers" in each)
    away, told = map(int, re.search(r"(\d+) of (\d+) GPUs are far", said).groups())  # type: ignore[union-attr]
    assert (total, slow) == (64, away)
    assert int(well) + slow == told
    assert int(well) + slow + idle + unknown == total
    assert f"{idle} more are idle" in said


def test_findings_and_runs(opened: Look) -> None:
    app = opened("")
    table = next(each.value for each in app.dataframe if "cause" in each.value)
    assert int(numbers(app)["Open findings"][0]) == (table["state"] == "open").sum()
    runs = opened("runs")
    assert int(numbers(app)["Runs active"][0]) == len(runs.dataframe[0].value)
    straggler = opened("straggler", run="gpt-simulated")
    causes = next(each.value for each in straggler.dataframe if "meaning" in each.value)
    assert len(table) == causes["who"].nunique()
