"""When somebody knew: finding.json in the timeline and the delays."""

from collections.abc import Callable
from typing import Any

import pytest

from lockstep.analyzer.report.document import document
from lockstep.analyzer.report.inputs import ReportInputs
from lockstep.analyzer.report.sections.detection import Alert, finding_times, moment
from lockstep.analyzer.verdict.pipeline import Diagnosis
from tests.analyzer.report.trees import rows, section

ONSET = 1_795_000_001.7
FINDING: dict[str, Any] = {
    "schema_version": 1, "onset": ONSET, "first_seen": ONSET + 4, "opened": ONSET + 9,
    "closed": None, "sentence": "Rank 2 is slow.",
    "alerts": [
        {"name": "LockstepFinding", "starts_at": ONSET + 10, "received": ONSET + 11.5},
        {"name": "LockstepFinding", "starts_at": ONSET + 70, "received": ONSET + 71},
    ],
}  # fmt: skip


def test_each_delay_counts_from_the_onset_in_the_data(straggler: Callable[..., Diagnosis]) -> None:
    told = rows(document(straggler(), ReportInputs(finding=FINDING)), "detection", "delay")

    assert ["onset in the data", "first sign seen", "finding opened", "alert fired",
            "alert received"] == [row[0] for row in told]  # fmt: skip
    assert [0.0, 4.0, 9.0, 10.0, 11.5] == pytest.approx([row[2] for row in told], abs=0.1)


def test_what_was_alerted_stands_in_the_timeline(straggler: Callable[..., Diagnosis]) -> None:
    told = [
        row[3] for row in rows(document(straggler(), ReportInputs(finding=FINDING)), "timeline", "")
    ]

    assert told.index("the finding is opened") < told.index("LockstepFinding fires")
    assert told.index("LockstepFinding fires") < told.index("LockstepFinding is received")


def test_a_run_that_nobody_watched_has_no_delay(healthy: Diagnosis) -> None:
    blocks = section(document(healthy), "detection")["blocks"]

    assert "this run was not watched live" in blocks[0]["text"]


def test_torn_findings_tell_what_they_can() -> None:
    told = finding_times({"onset": "soon", "opened": True, "first_seen": "2026-11-18T11:06:41Z",
                    "alerts": [None, {"name": "<b>", "starts_at": float("nan")}]})  # fmt: skip

    assert (None, None, 1795000001.0) == (told.onset, told.opened, told.first_seen)
    assert (Alert("<b>", None, None),) == told.alerts


@pytest.mark.parametrize("value", [None, "", -1, 1e99, [], "9999-12-31T23:59:59Z"])
def test_what_is_no_moment_is_not_told(value: Any) -> None:
    assert moment(value) is None
