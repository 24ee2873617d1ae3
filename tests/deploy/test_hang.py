"""A real rank that stops, watched by the standalone set-up: dumps of all nodes name it.

Prometheus and Alertmanager are Debian's, the collectors, `lockstep watch` and the run are real.
"""

import json
import shutil
import time

import pytest

from lockstep.watch.archive import finding_folders
from tests.benchmarks.hang_alert import HANG, RANKS, stopped
from tests.deploy.real_run import real_run
from tests.deploy.standalone import Standalone

pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.slow,
    pytest.mark.distributed,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not (shutil.which("prometheus") and shutil.which("prometheus-alertmanager")),
        reason="prometheus or prometheus-alertmanager is not installed",
    ),
]
STOPPED = 1
PATIENCE_SECONDS = 300.0


def test_a_stopped_rank_is_named_by_dumps_that_lie_in_the_archive(tmp_path) -> None:
    there = Standalone(tmp_path)
    with (
        there.running("prometheus", "alertmanager", "watch"),
        real_run(tmp_path / "run", HANG, RANKS, there.targets) as run,
    ):
        delay, _, ranks = stopped(there, run, STOPPED)
        assert delay is not None, there.log("watch")
        folder, finding = dumped(there, run.name)
    told = json.loads((folder / "dumps" / "hang.json").read_text())
    evidence = json.loads((folder / "dumps" / "evidence.json").read_text())

    assert {STOPPED} == ranks
    assert (f"node-{STOPPED}", [STOPPED]) == (
        finding["key"]["node"], finding["hang"]["missing_ranks"],
    )  # fmt: skip
    assert told["sentence"] in finding["sentence"]
    assert ["host-stopped"] == [one["kind"] for one in told["culprits"]]
    assert {"rank": STOPPED, "kind": "process-state", "value": "T"} in evidence["facts"]
    assert (folder / "dumps" / "dump_0").exists()


def dumped(there: Standalone, run: str):
    """The archive of the run with dumps, and its finding."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for folder, finding in finding_folders.findings(there.archives, [run]):
            if (folder / "dumps").is_dir() and finding["hang"]:
                return folder, finding
        time.sleep(0.1)
    raise AssertionError(f"no archive has dumps; watch said:\n{there.log('watch')}")
