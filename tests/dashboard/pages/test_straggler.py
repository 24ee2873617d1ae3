"""The Straggler page, for every kind of verdict."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from lockstep.dashboard.shapes import FindingRow, Matrix, Severity, Span
from lockstep.dashboard.sources.archive.source import ArchiveSource
from lockstep.dashboard.trouble import Kind, TroubleError
from tests.dashboard.apps import boxes, look
from tests.dashboard.archives import Made
from tests.dashboard.fakes import START, VERDICT, Fake
from tests.dashboard.words.verdicts import BROKEN, HUNG, LINK, NODE, STAGES, UNIFORM, UNKNOWN


class Judged(Fake):
    """A source whose run has one verdict, or none."""

    def __init__(self, told: Mapping[str, Any] | None) -> None:
        super().__init__()
        self.judged = told

    def verdict(self, run: str) -> Mapping[str, Any] | None:
        return self.judged


class Bare(Fake):
    """Nothing was told of ranks."""

    def ranks(self, run: str, span: Span) -> pd.DataFrame:
        raise TroubleError(Kind.NOT_TOLD, "No rank reported.", "Run lockstep collect there.")

    def rank_times(self, run: str, span: Span) -> Matrix:
        raise TroubleError(Kind.NOT_TOLD, "No rank reported.", "Run lockstep collect there.")


def text(app: AppTest) -> str:
    """All words of a page, without the backslashes of its Markdown."""
    others = (*app.markdown, *app.caption, *app.subheader)
    return "\n".join((*boxes(app), *(each.value.replace("\\", "") for each in others)))


@pytest.mark.parametrize("told", [LINK, NODE, UNIFORM])
def test_a_verdict_begins_with_its_sentence(
    monkeypatch: pytest.MonkeyPatch, told: dict[str, Any]
) -> None:
    app = look(monkeypatch, Judged(told), "straggler", run="gpt-1")
    assert told["sentence"] in text(app)
    assert not app.exception


def test_a_hang_says_which_ranks_are_missing_and_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = look(monkeypatch, Judged(HUNG), "straggler", run="gpt-1")
    assert "The run hangs in dp-all-reduce number 82 of group dp: rank 1 is missing" in text(app)
    assert [[1, "node-0", 1]] == app.dataframe[0].value.iloc[:, :3].to_numpy().tolist()


def test_what_is_by_design_is_told_as_nobodys_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Judged(STAGES), "straggler", run="gpt-1")
    titles = [title.value for title in app.subheader]
    assert "Slow by design, not a fault" in titles
    assert "Caused by what" not in titles


def test_an_unknown_verdict_says_what_was_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Judged(UNKNOWN), "straggler", run="gpt-1")
    assert "operations: there are none" in app.dataframe[-1].value.iloc[0, 0]


def test_without_a_verdict_the_measured_parts_stand_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = look(monkeypatch, Judged(None), "straggler", run="gpt-1")
    assert "Run gpt-1 was not analyzed" in text(app)
    assert "lockstep analyze DIR" in [code.value for code in app.code]
    assert 3 == len(app.get("plotly_chart"))


def test_a_verdict_edited_by_hand_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Judged(BROKEN), "straggler", run="gpt-1")
    assert "has no sentence" in text(app)
    assert "bug" not in text(app)


def test_without_ranks_the_verdict_still_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Bare(), "straggler", run="gpt-1")
    assert "Rank 1 on node-0 is slow" in text(app)
    assert "No rank reported. Run lockstep collect there." in text(app)


def test_evidence_for_and_against_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    words = text(look(monkeypatch, Fake(), "straggler", run="gpt-1"))
    assert "- **+ for**: It throttled." in words
    assert "- **− against**: Its power is as its peers'." in words
    assert "Without node-0: +22 % steps an hour (95 % interval +19 % to +25 %)." in words


class Twice(Fake):
    """Two findings in one run."""

    def verdict(self, run: str) -> Mapping[str, Any] | None:
        first = VERDICT["culprits"][0]
        other = {"rank": 3, "node": "node-1", "gpu": 1, "cause": "power", "evidence": []}
        return VERDICT | {"culprits": [first, first | other]}

    def findings(self, span: Span, run: str = "") -> tuple[FindingRow, ...]:
        second = FindingRow(
            "F-2", Severity.WARNING, True, "gpt-1", "node-1", 1, 3, "", "power", 0.9, 1.2,
            START + 20, None, "Rank 3 is held at a power cap.",
        )  # fmt: skip
        return (*super().findings(span, run), second)


@pytest.mark.parametrize(
    ("finding", "begins", "evidence"),
    [
        ("F-1", "Rank 1 on node-0 is slow", "Evidence on rank 1 (node-0, GPU 1)"),
        ("F-2", "Rank 3 is held at a power cap. Of the whole run: Rank 1",
         "Evidence on rank 3 (node-1, GPU 1)"),
    ],
)  # fmt: skip
def test_the_finding_of_the_address_comes_first(
    monkeypatch: pytest.MonkeyPatch, finding: str, begins: str, evidence: str
) -> None:
    app = look(monkeypatch, Twice(), "straggler", run="gpt-1", finding=finding)
    assert any(box.startswith(begins) for box in boxes(app))
    first = next(each.value for each in app.markdown if "Evidence on" in each.value)
    assert evidence in first.replace("\\", "")


def test_a_finding_that_is_not_known_is_said_to_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    words = text(look(monkeypatch, Twice(), "straggler", run="gpt-1", finding="x<b>"))
    assert "Finding x<b> itself is unknown in this range" in words


def test_figures_of_the_simulation_are_folded_away_below_what_people_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = look(monkeypatch, Fake(), "straggler", run="gpt-1")
    assert "What each worker and operation costs, simulated" == app.expander[-1].label
    assert "figure" not in [name for frame in app.dataframe for name in frame.value.columns]


def test_no_column_has_a_name_that_only_programs_read(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(), "straggler", run="gpt-1")
    names = {str(name) for frame in app.dataframe for name in frame.value.columns}
    assert set() == {name for name in names if "_seconds" in name or "_share" in name}


def test_ranges_of_the_numbers_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    words = text(look(monkeypatch, Fake(), "straggler", run="gpt-1"))
    assert (
        "The verdict counts rank 1 (node-0, GPU 1) from step 20 (2023-11-14 22:13:40 UTC)" in words
    )


def test_an_archive_names_its_culprit(monkeypatch: pytest.MonkeyPatch, straggling: Any) -> None:
    run = Made().name
    app = look(monkeypatch, ArchiveSource(straggling), "straggler", run=run)
    assert "Rank 2 (node-1, GPU 0) is 1.50x slower" in text(app)
    assert "rank 2 (node-1) \\u25c0 named" in app.get("plotly_chart")[1].proto.spec
