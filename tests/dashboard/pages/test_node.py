"""The Node page, without a browser."""

import json

import pandas as pd
import pytest

from lockstep.dashboard.shapes import Span
from tests.dashboard import apps
from tests.dashboard.fakes import Fake
from tests.dashboard.pages.boxes import said, sentences


def look(patch: pytest.MonkeyPatch, source: Fake, **words: str):  # type: ignore[no-untyped-def]
    app = apps.look(patch, source, "node", **words)
    assert not app.exception
    return app


def test_the_first_sentence_is_that_of_its_open_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(), node="node-0", run="gpt-1")
    assert "Rank 1 on node-0 is slow: thermal." == app.error[0].value.replace("\\", "")


def test_the_drain_commands_are_there_to_copy_and_not_to_press(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = look(monkeypatch, Fake(), node="node-0")
    codes = [code.value for code in app.code]
    assert any("kubectl cordon node-0" in code for code in codes)
    assert [] == [button.label for button in app.button if "drain" in button.label.lower()]


def test_its_gpus_and_its_host_have_a_chart_each(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2 == len(look(monkeypatch, Fake(), node="node-0").get("plotly_chart"))


def test_a_node_that_there_is_not_is_told_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = said(look(monkeypatch, Fake(), node="node-77"))
    assert "There is no node node-77." in told


def test_a_node_without_numbers_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sentences(look(monkeypatch, Fake(told=False, analyzed=False), node="node-0"))


# The page of a GPU and its rank, without a browser.


def look_at_gpu(patch: pytest.MonkeyPatch, source: Fake, **words: str):  # type: ignore[no-untyped-def]
    app = apps.look(patch, source, "node", **words)
    assert not app.exception
    return app


def test_a_rank_is_enough_to_find_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look_at_gpu(monkeypatch, Fake(), run="gpt-1", rank="2")
    assert "node-1, GPU 0, rank 2 took 1.00× the own time of its peers" in said(app)


def test_a_gpu_is_enough_to_find_its_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look_at_gpu(monkeypatch, Fake(), run="gpt-1", node="node-1", gpu="0")
    assert "node-1, GPU 0, rank 2 took" in said(app)


def test_a_finding_about_it_is_the_first_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look_at_gpu(monkeypatch, Fake(), run="gpt-1", rank="1")
    assert "Rank 1 on node-0 is slow: thermal." == app.error[0].value.replace("\\", "")


def test_operations_stand_over_the_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look_at_gpu(monkeypatch, Fake(), run="gpt-1", rank="1")
    names = [trace["name"] for trace in json.loads(app.get("plotly_chart")[0].proto.spec)["data"]]
    assert ["computation", "collective"] == names
    assert 2 == len(app.get("plotly_chart"))


def test_each_collective_has_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look_at_gpu(monkeypatch, Fake(), run="gpt-1", rank="1")
    links = [frame.value["collective"].iloc[0] for frame in app.dataframe
             if "collective" in frame.value]  # fmt: skip
    assert ["/collectives?run=gpt-1&rank=1&op=dp-all-reduce"] == links


def test_who_names_nobody_is_asked_for_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look_at_gpu(monkeypatch, Fake())
    assert "Which node? There are 2; open one." in said(app)
    assert ["/node?node=node-0", "/node?node=node-1"] == list(app.dataframe[0].value["open"])


def test_a_rank_that_the_run_does_not_have_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Run gpt-1 has no rank 99." in said(
        look_at_gpu(monkeypatch, Fake(), run="gpt-1", rank="99")
    )


def test_a_gpu_that_the_node_does_not_have_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "node-0 has no GPU 7." in said(look_at_gpu(monkeypatch, Fake(), node="node-0", gpu="7"))


@pytest.mark.parametrize("words", [{}, {"node": "node-0", "gpu": "1"}, {"rank": "1"}])
def test_where_nobody_told_anything_there_is_still_a_sentence(
    monkeypatch: pytest.MonkeyPatch, words: dict[str, str]
) -> None:
    assert sentences(look_at_gpu(monkeypatch, Fake(told=False), run="gpt-1", **words))


class _StoodStill(Fake):
    """Its collectives are a while away from the moment that is shown."""

    longest = 0.0

    def operations(self, run: str, rank: int, span: Span) -> pd.DataFrame:
        frame = super().operations(run, rank, span)
        self.longest = max(self.longest, span.seconds)
        return frame if span.seconds > 5 and self.told else frame.iloc[:1]


def test_collectives_are_looked_for_further_away_where_it_stood_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = _StoodStill()
    app = look_at_gpu(monkeypatch, source, run="gpt-1", rank="1")
    assert "no collective" not in said(app)
    assert 5 < source.longest
    assert ["dp-all-reduce"] == [
        op for frame in app.dataframe if "collective" in frame.value for op in frame.value["op"]
    ]
