"""One number has one source: pages, report, command line and ledger say the same of one run."""

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from lockstep.analyzer.report import figures
from lockstep.app import build
from lockstep.dashboard.address import Location
from lockstep.dashboard.pages.registry import PAGES
from lockstep.dashboard.shapes import FindingRow, Lines, RunRow, Severity, Span
from lockstep.dashboard.sources.archive.source import ArchiveSource
from lockstep.dashboard.sources.prometheus.findings import lost_gpu_hours
from lockstep.dashboard.words import run_page, run_table
from lockstep.dashboard.words.said import lost
from tests.dashboard.apps import boxes, look
from tests.dashboard.archives import Made, write

pytestmark = pytest.mark.slow
SPAN = Span(0.0, 3600.0)


def command(*words: str) -> str:
    done = CliRunner().invoke(build(), list(words))
    assert done.exit_code in (0, 1, 2, 3), done.output
    return done.stdout


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a slow rank, judged and reported by the commands themselves."""
    folder = write(tmp_path_factory.mktemp("runs") / "gpt-a", Made(slow=2, verdict=False))
    command("report", str(folder))
    return folder


@pytest.fixture(scope="module")
def verdict(archive: Path) -> Mapping[str, object]:
    told: Mapping[str, object] = json.loads(command("analyze", str(archive), "-o", "json"))
    assert told["culprits"]
    return told


@pytest.fixture(scope="module")
def pages(archive: Path) -> Mapping[str, tuple[Mapping[str, str], str]]:
    """By page: its numbers by label, and its sentences."""
    patch, source, found = pytest.MonkeyPatch(), ArchiveSource(archive), {}
    for page in (*PAGES, "ledger"):
        name = page if isinstance(page, str) else page.key
        shown = look(patch, source, name)
        assert [] == list(shown.exception)
        numbers = {plain(one.label): plain(one.value) for one in shown.metric}
        found[name] = numbers, plain("\n".join(boxes(shown)))
    patch.undo()
    return found


def plain(text: str) -> str:
    return text.replace("\\", "")


def test_a_number_with_one_name_has_one_value_on_all_pages(pages) -> None:
    values: dict[str, dict[str, str]] = defaultdict(dict)
    for page, (numbers, _) in pages.items():
        for label, value in numbers.items():
            values[label][page] = value

    assert {} == {label: said for label, said in values.items() if len(set(said.values())) > 1}
    shared = {label for label, said in values.items() if len(said) > 1}
    assert {"Step time over ideal"} <= shared
    assert any(label.startswith("Lost") for label in shared)


def test_pages_and_report_say_what_the_verdict_says(pages, archive: Path, verdict) -> None:
    slowdown = figures.cell(verdict["slowdown"], "ratio")
    label, spent = lost(float(verdict["lost_gpu_hours"]))
    report = (archive / "report.md").read_text()

    assert slowdown == pages["run"][0]["Step time over ideal"] == pages["now"][0]["Worst slowdown"]
    assert {spent} == {pages[page][0][plain(label)] for page in ("now", "run", "straggler")}
    assert slowdown in report
    assert str(verdict["sentence"]).split(" (")[0] in plain(report)


def test_a_confidence_is_the_same_figure_on_the_page_in_the_report_and_in_the_terminal(
    pages, archive: Path, verdict
) -> None:
    (culprit,) = verdict["culprits"]
    cause, place = (f"{culprit[key]:.2f}" for key in ("confidence", "place_confidence"))
    table = command("analyze", str(archive), "-o", "table")

    assert cause == pages["straggler"][0]["Confidence in the cause"]
    assert place == pages["straggler"][0]["Confidence in the place"]
    assert f"({cause})" in (archive / "report.md").read_text()
    assert f"({place})" in str(verdict["sentence"])
    assert not re.search(rf"\b{100 * culprit['confidence']:.0f} ?%", table)


def test_the_useful_share_of_the_page_is_that_of_the_command(pages, archive: Path) -> None:
    (run,) = json.loads(command("ledger", str(archive), "-o", "json"))["runs"]
    kept = sum(
        row["share"] for row in run["buckets"] if row["bucket"] in ("useful", "communication")
    )

    assert f"{kept * 100:.0f}%" in pages["ledger"][1]
    assert not any("useful" in label.lower() for numbers, _ in pages.values() for label in numbers)


def test_what_a_live_run_lost_is_what_its_findings_lost_on_all_pages() -> None:
    finding = FindingRow(
        finding="f", severity=Severity.CRITICAL, open=True, run="gpt-1", node="node-0", gpu=0,
        rank=0, link="", cause="thermal", confidence=0.9, slowdown=1.3, since=0.0, until=None,
        sentence="s", lost_seconds=6.58 * 3600,
    )  # fmt: skip

    assert 6.58 == pytest.approx(lost_gpu_hours([finding], "gpt-1"))
    assert lost_gpu_hours([finding], "gpt-2") is None


def test_model_flops_without_a_known_peak_are_no_share() -> None:
    chart = Lines(
        key="mfu", title="Model FLOPs of a rank", unit="FLOP/s", times=np.zeros(1),
        values={"mean": np.full(1, 1e8)},
    )  # fmt: skip
    row = RunRow(run="gpt-1", state="ended", span=SPAN, nodes=4, ranks=8)
    shown = {one.label: one.value for one in run_page.numbers(row, None, [chart])}

    assert "100 MFLOP/s" == shown["Model FLOPs of a rank"]
    assert "MFU" not in shown


def test_eight_ranks_on_four_nodes_are_eight_ranks() -> None:
    row = RunRow(run="gpt-1", state="ended", span=SPAN, nodes=4, ranks=8)

    assert ["8 on 4 nodes"] == run_table.frame([row], Location())["ranks"].tolist()
