"""A live hour with churn (simulated clock), and 20 reports at once by processes of their own.

Told: each real fault once, nothing else, its end within minutes. Written: from the moment at which
all 20 are wanted until a page's, asked for last, and the last of them is there, in wall time.
"""

import logging
import os
import shutil
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from lockstep.watch.archive.reports import Reports, Urgency
from tests.watch.live_hour import EXPECTED, LiveHour

REPORTS = 20
MENDS = {"thermal": (1200.0, 300.0), "freeze": (2160.0, 60.0)}
"""Cause -> second of the hour at which it was mended, and for how long it lasted."""
GOALS = {
    "faults_missed": 0.0, "faults_told_twice": 0.0, "false_pages": 0.0, "warnings": 1.0,
    "broken_invariants": 0.0, "page_report_seconds": 60.0, "last_of_20_reports_seconds": 60.0,
    **{f"{cause}_over_told_after_seconds": 180.0 for cause in MENDS},
}  # fmt: skip
"""The warning is of the job that is killed without a word."""


def main() -> dict[str, float]:
    """Figures of the hour, and of the reports."""
    logging.disable(logging.CRITICAL)
    with TemporaryDirectory() as name:
        folder = Path(name)
        hour = LiveHour(folder)
        hour.live(1.0)
        told = hour.faults
        ends = {cause: hour.end_of(cause) for cause in MENDS}
        figures = {
            "faults": float(EXPECTED.total()),
            "faults_missed": float((EXPECTED - told).total()),
            "faults_told_twice": float(sum(count - 1 for count in told.values())),
            "false_pages": float(sum(n for one, n in told.items() if one not in EXPECTED)),
            "warnings": float(len(hour.warnings)),
            "broken_invariants": float(len(hour.wrong)),
        }
        for cause, (mended, lasted) in MENDS.items():
            figures[f"{cause}_over_told_after_seconds"] = ends[cause][0] - mended
            figures[f"{cause}_length_wrong_by_seconds"] = abs(ends[cause][1] - lasted)
        return figures | _reports(folder / "out") | {"load_average": os.getloadavg()[0]}


def _reports(out: Path) -> dict[str, float]:
    """Of copies of the largest archive."""
    archives = [one.parent for one in out.glob("*/*/finding.json")]
    source = max(archives, key=lambda one: sum(each.stat().st_size for each in one.iterdir()))
    copies = [source.with_name(f"{source.name}-{number}") for number in range(REPORTS)]
    for copy in copies:
        shutil.copytree(source, copy)
        for report in copy.glob("report.*"):
            report.unlink()
    written: dict[Path, float] = {}
    queue = Reports()
    queue.start()
    begin = time.monotonic()
    for copy in copies:
        urgency = Urgency.PAGE if copy is copies[-1] else Urgency.RECORD
        queue.want(copy, urgency, partial(_written, written, copy, begin))
    queue.wait(600.0)
    queue.stop()
    missing = sum(not (copy / "report.html").exists() for copy in copies)
    return {
        "page_report_seconds": written[copies[-1]],
        "last_of_20_reports_seconds": max(written.values()),
        "reports_missing": float(missing),
    }


def _written(written: dict[Path, float], folder: Path, begin: float, _: str) -> None:
    written.setdefault(folder, time.monotonic() - begin)
