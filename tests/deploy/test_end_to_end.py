"""A real run with a slow rank, watched by the standalone set-up, until its post-mortem is written.

Prometheus and Alertmanager are Debian's, the collectors, `lockstep watch` and the run are real;
every command and file is the one of deploy/standalone but for its documented values.
"""

import html
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from lockstep.watch.archive import finding_folders
from tests.deploy.real_run import real_run
from tests.deploy.standalone import Standalone

pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.slow,
    pytest.mark.distributed,
    pytest.mark.timed,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not (shutil.which("prometheus") and shutil.which("prometheus-alertmanager")),
        reason="prometheus or prometheus-alertmanager is not installed",
    ),
]
SLOW = 2
# A minute of healthy steps: so long a stream learns what is normal. The fault is large, because
# other tests may be using the same cores: it must stand out anyway.
RUN = ["gpt", "--steps", "5000", "--fault", f"compute:rank={SLOW},factor=3,from=900"]
PATIENCE_SECONDS = 600.0
"""Steps of a machine that does other work are several times longer."""
CLOSING_SECONDS = 480.0
"""From the end of the run: some three seconds where a scrape fell between the end of its ranks and
that of its collectors, and two minutes where none did."""


def test_the_post_mortem_of_a_slow_rank_is_written_from_its_alert(tmp_path) -> None:
    there = Standalone(tmp_path)
    with there.running("prometheus", "alertmanager", "watch"):
        with real_run(tmp_path / "run", RUN, 4, there.targets) as run:
            folder = reported(there, run.name)
        finding = closed(there, folder)
    [alert] = [each for each in finding["alerts"] if each["name"] == "LockstepFinding"]
    verdict = json.loads((folder / "verdict.json").read_text())
    page = (folder / "report.html").read_text()
    report = json.loads((folder / "report.json").read_text())

    assert (run.name, SLOW, f"node-{SLOW}") == tuple(
        finding["key"][name] for name in ("run", "rank", "node")
    )
    assert (run.name, str(SLOW), "critical") == tuple(
        alert["labels"][name] for name in ("run", "rank", "severity")
    )
    assert finding["onset"] <= finding["opened"] <= alert["starts_at"] + 0.001 <= alert["received"]
    assert [SLOW] == [culprit["rank"] for culprit in verdict["culprits"]]
    assert [SLOW] == [culprit["rank"] for culprit in report["verdict"]["culprits"]]
    assert report["title"].startswith(f"Rank {SLOW} on node-{SLOW} ")
    assert report["title"] in html.unescape(page)
    assert (folder / "report.md").exists()
    assert (folder / "ops.parquet").exists()


def reported(there: Standalone, run: str) -> Path:
    """The archive of the first page about the run, once its post-mortem is there.

    Its report.json is written last.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for folder, finding in finding_folders.findings(there.archives, [run]):
            if finding["key"]["tier"] == "page" and (folder / "report.json").exists():
                return folder
        time.sleep(0.2)
    raise AssertionError(f"no post-mortem; watch said:\n{there.log('watch')}")


def closed(there: Standalone, folder: Path) -> dict[str, Any]:
    """The finding once the run's end has closed it, and its post-mortem says so too."""
    deadline = time.monotonic() + CLOSING_SECONDS
    while time.monotonic() < deadline:
        finding: dict[str, Any] = json.loads((folder / "finding.json").read_text())
        page = html.unescape((folder / "report.html").read_text())
        if finding["closed"] is not None and finding["sentence"] in page:
            return finding
        time.sleep(0.2)
    raise AssertionError(f"{finding['sentence']!r} is not told; watch said:\n{there.log('watch')}")
