"""From the silence of a run to the alert that names the rank: real runs, Prometheus and watch.

The standalone set-up with Debian's Prometheus and Alertmanager; two nodes of one rank each. A rank
is stopped (SIGSTOP); beside it a run that evaluates for longer than the limit must not alarm. In
the environment HANG_ALERT_TRIALS is how often a rank is stopped.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import ring
from lockstep.watch.archive import finding_folders
from lockstep.watch.hangs.standing import limit
from lockstep.workloads.launch.processes import SHARED_MEMORY
from tests.deploy.real_run import START_SECONDS, RealRun, real_run
from tests.deploy.standalone import Standalone

TRIALS = int(os.environ.get("HANG_ALERT_TRIALS", "3"))
RANKS = 2
LEARN_SECONDS = 20.0
"""Of steps before the stop, so that watch knows how long one takes."""
PATIENCE_SECONDS = 90.0
EVALUATION_SECONDS = 75.0
LIMIT_SECONDS = limit(0.0)
HANG = ["gpt", "--steps", "100000", "--hang-timeout", "600"]
EVALUATING = """
import sys, time, torch, torch.distributed as dist
import lockstep
dist.init_process_group("gloo")
recorder, seconds = lockstep.recorder(), float(sys.argv[1])
for step in range(100_000):
    with recorder.step():
        dist.all_reduce(torch.ones(1000))
        time.sleep(0.05)
        if step == 300:
            with recorder.phase("eval"):
                if dist.get_rank() == 0:
                    time.sleep(seconds)
                dist.barrier()
"""
GOALS = {
    "hang_alert_beyond_limit_seconds": 15.0,
    "hang_alert_missed": 0,
    "hang_alert_wrong_rank": 0,
    "evaluation_alarms": 0,
}


def main() -> dict[str, float]:
    if shutil.which("prometheus-alertmanager") is None:
        raise SystemExit("the benchmark needs Debian's prometheus and prometheus-alertmanager")
    delays, alerts, wrong = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        there = Standalone(Path(folder))
        with there.running("prometheus", "alertmanager", "watch"):
            for number in range(TRIALS):
                with real_run(Path(folder) / f"run-{number}", HANG, RANKS, there.targets) as run:
                    delay, alert, who = stopped(there, run, number % RANKS)
                delays += [] if delay is None else [delay]
                alerts += [] if alert is None else [alert]
                wrong += bool(who - {number % RANKS})
            alarms = evaluating(there, Path(folder))
    return {
        "hang_alert_beyond_limit_seconds": max(delays, default=float("inf")),
        "hang_alert_beyond_limit_median_seconds": median(delays) if delays else float("inf"),
        "hang_alert_first_after_silence_seconds": max(alerts, default=float("inf")),
        "hang_alert_missed": float(TRIALS - len(delays)),
        "hang_alert_wrong_rank": float(wrong),
        "hang_alert_trials": float(TRIALS),
        "evaluation_alarms": float(alarms),
        "evaluation_seconds": EVALUATION_SECONDS,
        "load_average": os.getloadavg()[0],
    }


def stopped(
    there: Standalone, run: RealRun, rank: int
) -> tuple[float | None, float | None, set[int]]:
    """Stop a rank.

    Returns:
        Seconds beyond the limit until its finding has the verdict of the dumps; from the stop to
        the first alert, which heartbeats may have given before; all ranks that were named.
    """
    pids = training(run)
    time.sleep(LEARN_SECONDS)
    began, unix = time.monotonic(), SystemClock().wall()
    os.kill(pids[rank], signal.SIGSTOP)
    try:
        while time.monotonic() - began < LIMIT_SECONDS + PATIENCE_SECONDS:
            time.sleep(0.1)
            told = findings(there, run.name)
            if any(each["hang"] for each in told):
                break
        delay = time.monotonic() - began - LIMIT_SECONDS
        ranks = {each["key"]["rank"] for each in told} - {None}
        named = [each for each in told if each["hang"] and each["key"]["rank"] == rank]
        received = [alert["received"] - unix for each in told for alert in each["alerts"]]
        return (delay if named else None), min(received, default=None), ranks
    finally:
        os.kill(pids[rank], signal.SIGCONT)


def evaluating(there: Standalone, folder: Path) -> int:
    """Findings about a run that evaluates for longer than the limit."""
    program = folder / "evaluating.py"
    program.write_text(EVALUATING)
    words, command = ["--hang-timeout", "600"], [sys.executable, str(program)]
    command.append(str(EVALUATION_SECONDS))
    with real_run(folder / "evaluation", words, RANKS, there.targets, command) as run:
        training(run)
        time.sleep(LEARN_SECONDS + EVALUATION_SECONDS + 15.0)
        return len([each for each in findings(there, run.name) if each["kind"] == "stop"])


def findings(there: Standalone, run: str) -> list[Mapping[str, Any]]:
    """finding.json of each archive of a run."""
    return [tree for _, tree in finding_folders.findings(there.archives, [run])]


def training(run: RealRun) -> dict[int, int]:
    """Process ids of the ranks, once all have completed a step."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.1)
        run.goes_on()
        found = {}
        for path in (SHARED_MEMORY / run.name).glob("node-*/rank-*.ring"):
            page = path.read_bytes()[: ring.HEADER_BYTES]
            header = ring.Header(page)
            if header.counters.steps > 0:
                found[header.identity.rank] = header.identity.pid
        if len(found) == RANKS:
            return found
    told = run.log.read_text(errors="replace")[-4000:]
    raise AssertionError(f"{run.name} did not begin within {START_SECONDS:.0f} s:\n{told}")


if __name__ == "__main__":
    print(json.dumps(main(), indent=1))  # noqa: T201
