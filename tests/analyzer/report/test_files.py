"""The files of a report: people's words kept, the timeline beside, the same bytes every time."""

import gzip
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.report import human
from lockstep.analyzer.verdict.pipeline import Diagnosis
from lockstep.collector.contract.archive import FINDING_FILE, OPS, RUN_FILE, TRACE_FILE
from lockstep.collector.contract.words import ExitCode
from lockstep.diagnose import report_inputs
from lockstep.diagnose.diagnosis import write_reports
from lockstep.terminal.output import CommandError

FORMS = ("md", "json")
"""Pages take longer and have their own tests."""


def with_operations(diagnosis: Diagnosis, steps: int = 60) -> Diagnosis:
    """A forward-compute a rank and step."""
    ranks = diagnosis.run.ranks
    step = np.repeat(np.arange(steps), len(ranks))
    dp = np.tile([info.dp for info in ranks], steps)
    start = (step * 62_000_000 + 1_795_000_000_000_000_000).astype(np.int64)
    ops = pd.DataFrame({column.name: 0 for column in OPS}, index=range(len(step))).assign(
        rank=np.tile([info.rank for info in ranks], steps), dp_rank=dp, step=step,
        optype="forward-compute", group="", flags="", tag="", mb_id=0, start_ns=start,
        end_ns=start + 40_000_000, duration=0.04,
    )  # fmt: skip
    return replace(diagnosis, run=replace(diagnosis.run, ops=ops))


def missing(folder: Path) -> list[str]:
    tree = json.loads((folder / "report.json").read_text())
    blocks = next(each for each in tree["sections"] if each["name"] == "completeness")["blocks"]
    return [row[0] for row in blocks[-1]["rows"]]


def test_words_in_report_md_stay_and_come_into_the_other_files(
    straggler: Callable[..., Diagnosis], tmp_path: Path
) -> None:
    write_reports(straggler(), tmp_path, FORMS)
    text = (tmp_path / "report.md").read_text()
    (tmp_path / "report.md").write_text(text.replace(human.BLOCKS["lessons"], "<b>Call Ada</b>"))
    write_reports(straggler(), tmp_path, FORMS)

    assert "<b>Call Ada</b>" in (tmp_path / "report.md").read_text()
    assert "<b>Call Ada</b>" in (tmp_path / "report.json").read_text()


@pytest.mark.parametrize(
    ("bytes_", "why"), [(b"<!-- human:begin lessons -->\nmine", "not closed"), (b"\xff", "UTF-8")]
)
def test_words_that_cannot_be_kept_are_not_overwritten(
    healthy: Diagnosis, tmp_path: Path, bytes_: bytes, why: str
) -> None:
    (tmp_path / "report.md").write_bytes(bytes_)
    with pytest.raises(CommandError, match=why) as failure:
        write_reports(healthy, tmp_path, FORMS)

    assert ExitCode.BAD_INPUT == failure.value.code
    assert bytes_ == (tmp_path / "report.md").read_bytes()
    assert ["report.md"] == [each.name for each in tmp_path.iterdir()]


def test_all_files_have_the_same_bytes_when_made_again(
    straggler: Callable[..., Diagnosis], tmp_path: Path
) -> None:
    def made() -> dict[str, bytes]:
        paths = write_reports(with_operations(straggler()), tmp_path, FORMS)
        return {path.name: path.read_bytes() for path in paths}

    first = made()

    assert {"report.md", "report.json", TRACE_FILE} == first.keys()
    assert first == made()


def test_the_timeline_shows_the_steps_around_the_onset(
    straggler: Callable[..., Diagnosis], tmp_path: Path
) -> None:
    write_reports(with_operations(straggler()), tmp_path, ["md"])
    packed = (tmp_path / TRACE_FILE).read_bytes()
    events = json.loads(gzip.decompress(packed))["traceEvents"]
    report = (tmp_path / "report.md").read_text()

    assert set(range(35, 45)) == {each["args"]["step"] for each in events if each["ph"] == "X"}
    assert "steps 35 to 44 of 4 ranks" in report


def test_a_large_run_is_shown_by_whole_replicas_the_culprits_first(
    straggler: Callable[..., Diagnosis],
) -> None:
    diagnosis = straggler()
    ranks = tuple(
        replace(diagnosis.run.ranks[0], rank=rank, dp=rank % 50, pp=rank // 50)
        for rank in range(200)
    )
    guilty = replace(diagnosis.verdict.culprits[0], rank=149, node=ranks[149].node)
    large = with_operations(
        replace(
            diagnosis,
            run=replace(diagnosis.run, ranks=ranks),
            verdict=replace(diagnosis.verdict, culprits=(guilty,)),
        )
    )
    part = report_inputs.excerpt(large)
    assert part is not None
    shown = set(part[0].ops["rank"])

    assert {49, 99, 149, 199} < shown
    assert 64 == len(shown)


def test_a_torn_finding_is_named(healthy: Diagnosis, tmp_path: Path) -> None:
    (tmp_path / FINDING_FILE).write_text('{"opened": 1')
    write_reports(healthy, tmp_path, FORMS)

    assert f"{FINDING_FILE} is torn" in " ".join(missing(tmp_path))


def test_the_files_that_were_read_have_their_digest(healthy: Diagnosis, tmp_path: Path) -> None:
    (tmp_path / RUN_FILE).write_text("{}")
    write_reports(healthy, tmp_path, FORMS)

    assert hashlib.sha256(b"{}").hexdigest() in (tmp_path / "report.json").read_text()


def test_an_unpaired_surrogate_in_a_name_is_written_as_a_blank(
    straggler: Callable[..., Diagnosis], tmp_path: Path
) -> None:
    write_reports(straggler(node="node-\ud800\u202e2"), tmp_path, FORMS)
    told: dict[str, Any] = json.loads((tmp_path / "report.json").read_text("utf-8"))

    assert "node-  2" == told["verdict"]["culprits"][0]["node"]
