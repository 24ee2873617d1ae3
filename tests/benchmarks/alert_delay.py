"""How long until the webhook knows: a hard event, and a rank that becomes 1.5 times slower.

The standalone set-up with Debian's Prometheus and Alertmanager. Hard events and simulated
stragglers are on collectors' pages that this program serves. Real stragglers are in real runs of
four ranks with emulated devices; the onset is the start of the first slow step as that rank
recorded it. They need an idle machine: ranks that share their core are stragglers by themselves.
Healthy time before the onset counts for false pages. At 15 s a stream learns for ten minutes what
is normal, so a trial takes a quarter of an hour.

In the environment ALERT_DELAY is what is measured, of hard,simulated,real, and ALERT_DELAY_SECONDS
how often pages are scraped, rules evaluated and runs judged.
"""

import os
import shutil
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from statistics import median

import numpy as np
import pyarrow.parquet as pq

from lockstep.collector.clock import SystemClock
from lockstep.watch.archive import finding_folders
from tests.benchmarks.alert_ends import Page, Receiver, beside
from tests.benchmarks.watch_pages import Cluster, served
from tests.deploy.real_run import real_run
from tests.deploy.standalone import Standalone

PARTS = os.environ.get("ALERT_DELAY", "hard,simulated,real").split(",")
SECONDS = int(os.environ.get("ALERT_DELAY_SECONDS", "1"))
EVENTS = 24
EVENT_SECONDS = 30.0
SIMULATED_TRIALS = 8
APART_SECONDS = (20.0, 25.0)
"""Between two onsets: more at once would be one problem of the whole cluster."""
REAL_TRIALS = 5
RANKS = 4
FACTOR = 1.5
STEP_SECONDS = 0.065
"""About, of the real run."""
LEARN_CHECKS = 75
"""Before the onset: 40 in which a stream learns, the run's start, and some that are judged."""
PATIENCE_CHECKS = 90
GOALS = {
    "hard_event_median_seconds": 2.0,
    "hard_event_missed": 0,
    **{
        f"{kind}_straggler_{seconds}s_{figure}": goal
        for kind in ("simulated", "real")
        for seconds, most in ((1, 30.0), (15, 120.0))
        for figure, goal in (("median_seconds", most), ("missed", 0), ("false_pages", 0))
    },
}


def main() -> dict[str, float]:
    if shutil.which("prometheus-alertmanager") is None:
        raise SystemExit("the benchmark needs Debian's prometheus and prometheus-alertmanager")
    figures: dict[str, float] = {}
    if "hard" in PARTS:
        figures |= _hard_events()
    if "simulated" in PARTS:
        figures |= _figures("simulated", _simulated())
    if "real" in PARTS:
        figures |= _figures("real", _real())
    return figures | {"load_average": os.getloadavg()[0]}


def _hard_events() -> dict[str, float]:
    """From the page to the webhook, at any phase of scrape and evaluation."""
    page, receiver = Page(), Receiver()
    with tempfile.TemporaryDirectory() as folder, beside(page), beside(receiver):
        there = Standalone(Path(folder), watch=receiver.address)
        there.targets({"node-0": page.address})
        with there.running("prometheus", "alertmanager"):
            page.scraped.wait(60)
            time.sleep(3.0)  # the zeros are there, and the rules have been evaluated over them
            dice = np.random.default_rng(0)
            delays = [_event(page, receiver, dice) for _ in range(EVENTS)]
    heard = [each for each in delays if each is not None]
    return {
        "hard_event_median_seconds": median(heard),
        "hard_event_longest_seconds": max(heard),
        "hard_event_missed": float(len(delays) - len(heard)),
        "hard_events": float(len(delays)),
    }


def _event(page: Page, receiver: Receiver, dice: np.random.Generator) -> float | None:
    time.sleep(float(dice.uniform(0.5, 1.5)))
    gpu, xid = page.happen()
    begin = time.monotonic()
    while (left := begin + EVENT_SECONDS - time.monotonic()) > 0:
        try:
            came, alert = receiver.alerts.get(timeout=left)
        except Empty:
            return None
        if (alert.labels.get("gpu"), alert.labels.get("xid")) == (gpu, xid):
            return came - begin
    return None


@dataclass(frozen=True, slots=True)
class _Trial:
    """Seconds from onset to webhook, or None; pages about nobody slow; seconds without a fault."""

    delay: float | None
    false: int
    healthy: float


def _figures(kind: str, trials: list[_Trial]) -> dict[str, float]:
    name = f"{kind}_straggler_{SECONDS}s"
    delays = [one.delay for one in trials if one.delay is not None]
    return {
        **({f"{name}_median_seconds": median(delays)} if delays else {}),
        **({f"{name}_longest_seconds": max(delays)} if delays else {}),
        f"{name}_missed": float(len(trials) - len(delays)),
        f"{name}_trials": float(len(trials)),
        f"{name}_false_pages": float(sum(one.false for one in trials)),
        f"{name}_healthy_node_hours": sum(one.healthy for one in trials) * RANKS / 3600,
    }


def _simulated() -> list[_Trial]:
    """All runs at once, each with an onset and a rank of its own."""
    runs = {
        f"gpt-{number}": Cluster(RANKS, f"gpt-{number}", 1) for number in range(SIMULATED_TRIALS)
    }
    unix, dice = SystemClock().wall, np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        there = Standalone(folder, SECONDS)
        for run, cluster in runs.items():
            stack.enter_context(served(cluster, folder / "etc" / "targets" / f"{run}.json"))
        stack.enter_context(there.running("prometheus", "alertmanager", "watch"))
        began = unix()
        time.sleep(LEARN_CHECKS * SECONDS)
        onsets = {}
        for number, (run, cluster) in enumerate(runs.items()):
            time.sleep(float(dice.uniform(*APART_SECONDS)))
            cluster.slow[number % RANKS] = FACTOR
            onsets[run] = unix()
        until = time.monotonic() + PATIENCE_CHECKS * SECONDS
        while True:
            found = [
                _judged(_heard(there, run), number % RANKS, onset, onset - began)
                for number, (run, onset) in enumerate(onsets.items())
            ]
            if time.monotonic() > until or all(one.delay is not None for one in found):
                return found
            time.sleep(1.0)


def _real() -> list[_Trial]:
    """One run after the other."""
    with tempfile.TemporaryDirectory() as folder:
        there = Standalone(Path(folder), SECONDS)
        with there.running("prometheus", "alertmanager", "watch"):
            return [
                _real_trial(there, Path(folder) / f"run-{number}", number % RANKS)
                for number in range(REAL_TRIALS)
            ]


def _real_trial(there: Standalone, archive: Path, rank: int) -> _Trial:
    # Steps are as long as the machine lets them be, so the onset is set in steps and read in time.
    first_slow = round(LEARN_CHECKS * SECONDS / STEP_SECONDS)
    words = ["gpt", "--steps", str(20 * first_slow), "--hang-timeout", "60", "--fault",
             f"compute:rank={rank},factor={FACTOR},from={first_slow}"]  # fmt: skip
    with real_run(archive, words, RANKS, there.targets) as run:
        onset = None
        while onset is None:
            assert run.process.poll() is None
            time.sleep(1.0)
            onset = _started(archive, rank, first_slow)
        until = time.monotonic() + PATIENCE_CHECKS * SECONDS
        while time.monotonic() < until:
            time.sleep(0.2)
            if _judged(_heard(there, run.name), rank, onset, 0.0).delay is not None:
                break
        heard = _heard(there, run.name)
    began = _started(archive, rank, 0)
    return _judged(heard, rank, onset, 0.0 if began is None else onset - began)


def _judged(
    heard: list[tuple[int | None, float]], rank: int, onset: float, healthy: float
) -> _Trial:
    right = [when - onset for who, when in heard if who == rank and when >= onset]
    false = sum(who != rank or when < onset for who, when in heard)
    return _Trial(min(right, default=None), false, healthy)


def _started(archive: Path, rank: int, step: int) -> float | None:
    """When a rank began a step, unix seconds, as far as the archive has it."""
    wanted = [("rank", "=", rank), ("step", "=", step)]
    try:
        table = pq.read_table(archive / "steps.parquet", columns=["start"], filters=wanted)
    except (OSError, ValueError):
        return None  # no part is written yet
    return table["start"][0].as_py() if len(table) else None


def _heard(there: Standalone, run: str) -> list[tuple[int | None, float]]:
    """Ranks of the pages that the webhook heard of, and when."""
    return [
        (None if (rank := alert["labels"].get("rank")) is None else int(rank), alert["received"])
        for _, finding in finding_folders.findings(there.archives, [run])
        for alert in finding["alerts"]
        if alert["labels"].get("tier") == "page"
    ]
