"""The Node page, without a browser."""

import pytest

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
