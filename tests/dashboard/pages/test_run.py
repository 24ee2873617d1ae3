"""The page of a run, as a reader sees it; its states are in test_states.py."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from lockstep.dashboard.context import Settings
from lockstep.dashboard.pages import run
from lockstep.dashboard.shapes import FindingRow, Span
from lockstep.dashboard.sources.archive.source import ArchiveSource
from lockstep.dashboard.starting import process
from tests.dashboard.apps import boxes, look
from tests.dashboard.fakes import Fake

CHARTS = 9


def test_the_page_says_who_and_what_it_would_gain_and_draws_everything_on_one_axis(
    monkeypatch: pytest.MonkeyPatch, straggling: Path
) -> None:
    source = ArchiveSource(straggling)
    (row,) = source.runs()
    app = look(monkeypatch, source, "run", run=row.run)
    assert not app.exception
    assert row.sentence in " ".join(boxes(app))
    figure = json.loads(app.get("plotly_chart")[0].proto.spec)
    layout = figure["layout"]
    assert len([key for key in layout if key.startswith("yaxis")]) >= CHARTS
    assert ["xaxis"] == [key for key in layout if key.startswith("xaxis")]
    assert layout["shapes"]
    assert app.get("plotly_chart")[0].proto.alt


def test_the_axis_of_the_address_is_the_axis_of_the_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(), "run", run="gpt-1", axis="step")
    layout = json.loads(app.get("plotly_chart")[0].proto.spec)["layout"]
    assert "step" == layout["xaxis"]["title"]["text"]


def test_a_baseline_in_the_address_is_drawn_dashed(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(), "run", run="gpt-1", b="gpt-0")
    drawn = json.loads(app.get("plotly_chart")[0].proto.spec)["data"]
    assert {"dash"} == {
        each["line"]["dash"] for each in drawn if "(baseline)" in each.get("name", "")
    }


def test_a_run_that_nobody_analyzed_says_how_to(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, Fake(analyzed=False), "run", run="gpt-1")
    assert any("was not analyzed" in each for each in boxes(app))
    assert any(each.value.startswith("lockstep analyze") for each in app.code)


def test_every_row_leads_to_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    # Boxes are drawn when they are opened, which AppTest cannot do.
    monkeypatch.setattr(run, "later", lambda _label, _key, draw: draw())
    app = look(monkeypatch, Fake(), "run", run="gpt-1")
    links = [link for each in app.dataframe if "open" in each.value for link in each.value["open"]]
    assert any(link.startswith("/node?") and "rank=0" in link for link in links)
    assert any(link.startswith("/node?") and "from=" in link for link in links)


# The page of post-mortems: shown, downloaded, made, or the command that makes them.

PAGE = b"<!doctype html><title>r</title><p>Rank 1 is slow.</p>"
WRITER = """
import sys, pathlib
command, folder = sys.argv[1], pathlib.Path(sys.argv[2])
if (folder / "refuse").exists():
    sys.exit("Traceback\\nlockstep: the archive is of a newer version")
(folder / ("verdict.json" if command == "analyze" else "report.html")).write_text("<p>anew")
sys.exit(2 if command == "analyze" else 0)
"""


class Archived(Fake):
    """Its run has an archive, and a finding of it another one."""

    archive: Path | None = None
    found: str = ""

    def folder(self, run: str) -> Path | None:
        return self.archive

    def findings(self, span: Span, run: str = "") -> tuple[FindingRow, ...]:
        first = super().findings(span, run)[0]
        return (replace(first, finding=self.found),) if self.found else (first,)


def _source(archive: Path | None, found: str = "") -> Archived:
    source = Archived()
    source.archive, source.found = archive, found
    return source


def _texts(app: AppTest) -> str:
    return " ".join(boxes(app))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """With a report."""
    folder = tmp_path / "gpt-1"
    folder.mkdir()
    for name in ("report.html", "report.md", "verdict.json"):
        (folder / name).write_bytes(PAGE)
    return folder


def test_a_report_is_shown_and_can_be_downloaded(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = look(monkeypatch, _source(archive), "run", view="report", run="gpt-1")

    assert not app.exception
    assert "The report of gpt-1 was written at" in _texts(app)
    assert 1 == len(app.get("iframe"))
    assert app.get("iframe")[0].proto.src.startswith("data:text/html")
    labels = [button.proto.label for button in app.get("download_button")]
    assert ["HTML", "Markdown", "Verdict", "Windows as CSV"] == labels


def test_without_an_archive_the_page_says_what_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    app = look(monkeypatch, _source(None), "run", view="report", run="gpt-1")

    assert "There is no archive of gpt-1 here" in _texts(app)


def test_a_dashboard_that_only_reads_gives_the_command(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (archive / "report.html").unlink()

    app = look(monkeypatch, _source(archive), "run", view="report", run="gpt-1")

    assert "There is no report of gpt-1 yet. It was analyzed." in _texts(app)
    assert f"lockstep report {archive}" in [code.value for code in app.code]
    assert "reports-remake" not in [button.key for button in app.button]


def test_a_report_is_made_at_a_click(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (archive / "report.html").unlink()
    monkeypatch.setattr(process, "PROGRAM", (sys.executable, "-c", WRITER))
    monkeypatch.setenv("LOCKSTEP_DASHBOARD_SETTINGS", Settings(runs=tmp_path).written())
    app = look(monkeypatch, _source(archive), "run", view="report", run="gpt-1")

    app.button("reports-remake").click().run()

    assert not app.exception
    assert "The report of gpt-1 was written at" in _texts(app)
    assert "<p>anew" == (archive / "report.html").read_text()


def test_a_report_that_fails_says_why_in_one_sentence(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (archive / "refuse").touch()
    monkeypatch.setattr(process, "PROGRAM", (sys.executable, "-c", WRITER))
    monkeypatch.setenv("LOCKSTEP_DASHBOARD_SETTINGS", Settings(runs=tmp_path).written())
    app = look(monkeypatch, _source(archive), "run", view="report", run="gpt-1")

    app.button("reports-remake").click().run()

    assert "code 1. lockstep: the archive is of a newer version" in _texts(app)
    assert "Traceback" not in _texts(app)


def test_nothing_is_written_outside_the_folder_of_runs(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.setenv("LOCKSTEP_DASHBOARD_SETTINGS", Settings(runs=tmp_path / "runs").written())

    app = look(monkeypatch, _source(archive), "run", view="report", run="gpt-1")

    assert "reports-remake" not in [button.key for button in app.button]


def test_a_page_with_a_script_is_not_shown(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (archive / "report.html").write_bytes(PAGE + b"<script>alert(1)</script>")

    app = look(monkeypatch, _source(archive), "run", view="report", run="gpt-1")

    assert "holds what no report of ours holds" in _texts(app)
    assert 0 == len(app.get("iframe"))


@pytest.mark.parametrize("finding", ["20261118T110640-node-1", "gpt/20261118T110640-node-1"])
def test_a_finding_has_its_own_post_mortem(
    finding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two forms in which sources name the folders of `watch`."""
    newest, found = tmp_path / "gpt" / "newest", tmp_path / "gpt" / "20261118T110640-node-1"
    for folder in (newest, found):
        folder.mkdir(parents=True)
        (folder / "report.html").write_bytes(PAGE)

    app = look(
        monkeypatch, _source(newest, finding), "run", view="report", run="gpt-1", finding=finding
    )

    assert f"The report of {finding} was written at" in _texts(app)


def test_an_address_cannot_name_a_folder(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "report.html").write_bytes(PAGE)

    app = look(
        monkeypatch, _source(archive), "run", view="report", run="gpt-1", finding=str(secret)
    )

    assert "secret" not in _texts(app)
