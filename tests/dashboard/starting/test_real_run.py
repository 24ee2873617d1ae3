"""A real run ends with its dashboard, and leaves nothing but an archive."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lockstep.collector.contract.archive import RUN_FILE
from lockstep.dashboard.starting.world import environment
from lockstep.workloads.launch.processes import SHARED_MEMORY

pytestmark = [pytest.mark.slow, pytest.mark.distributed]
DASHBOARD = """
import sys, time
from pathlib import Path
from lockstep.dashboard.starting import registry
from lockstep.dashboard.starting.plan import Form
from lockstep.dashboard.starting.plan import planned

folder = Path(sys.argv[1])
job = registry.of(folder).start(planned(Form("logreg", nodes=2, steps=5000), folder, (), {}))
while b"training: step" not in job.snapshot().log:
    if job.over:
        sys.exit(job.snapshot().log.decode())
    time.sleep(0.05)
print(job._process.pid, flush=True)
time.sleep(600)
"""


def _until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def test_a_killed_dashboard_takes_its_run_along(tmp_path: Path) -> None:
    dashboard = subprocess.Popen(
        [sys.executable, "-c", DASHBOARD, str(tmp_path)], env=environment(), text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert dashboard.stdout is not None
    run = int(dashboard.stdout.readline())
    name = json.loads((tmp_path / "logreg-1" / RUN_FILE).read_text())["run"]

    dashboard.kill()
    dashboard.wait()
    dashboard.stdout.close()

    _until(lambda: not os.path.exists(f"/proc/{run}/exe"))
    _until(lambda: not (SHARED_MEMORY / name).exists())
    told = json.loads((tmp_path / "logreg-1" / RUN_FILE).read_text())
    assert "interrupted" == told["outcome"]["ending"]
