"""How long until the webhook knows: a hard event, and a rank that becomes 1.5 times slower.

The standalone set-up with Debian's Prometheus and Alertmanager. An XID is set on a collector's page
that this program serves; the straggler is in a real run of four ranks with emulated devices, and
its onset is the start of the first slow step as that rank recorded it. Healthy time before the
onset counts for false pages. At 15 s a stream learns for ten minutes what is normal, so there are
few trials; ALERT_DELAY_TRIALS and ALERT_DELAY_SLOW_TRIALS say how many. An idle machine is needed:
four ranks on two cores that others use are stragglers by themselves.
"""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from statistics import median

import numpy as np
import pyarrow.parquet as pq

from analyzer.act.webhook import Told, parse
from collector.contract import metrics as m
from collector.contract.alerted import XIDS, XIDS_FATAL
from collector.exporter.page import render
from lockstep import finding_folders
from tests.deploy.real_run import RealRun, real_run
from tests.deploy.standalone import Standalone

EVENTS = 24
TRIALS = int(os.environ.get("ALERT_DELAY_TRIALS", "5"))
SLOW_TRIALS = int(os.environ.get("ALERT_DELAY_SLOW_TRIALS", "0"))
RANKS = 4
WORKLOAD, STEP_SECONDS = os.environ.get("ALERT_DELAY_WORKLOAD", "gpt"), 0.1
EVENT_SECONDS = 30.0
LEARN_CHECKS = 75
"""Before the onset: 40 in which a stream learns, the run's start, and some that are judged."""
PATIENCE_CHECKS = 90
GOALS = {
    "hard_event_median_seconds": 2.0,
    "hard_event_missed": 0,
    "straggler_1s_median_seconds": 30.0,
    "straggler_1s_missed": 0,
    "straggler_15s_median_seconds": 120.0,
    "straggler_15s_missed": 0,
}


def main() -> dict[str, float]:
    if shutil.which("prometheus-alertmanager") is None:
        raise SystemExit("the benchmark needs Debian's prometheus and prometheus-alertmanager")
    figures = _hard_events()
    for seconds, trials in ((1, TRIALS), (15, SLOW_TRIALS)):
        if trials:
            figures |= _stragglers(seconds, trials)
    return figures


def _hard_events() -> dict[str, float]:
    """From the page to the webhook, at any phase of scrape and evaluation."""
    page, receiver = _Page(), _Receiver()
    with tempfile.TemporaryDirectory() as folder, _served(page), _served(receiver):
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


def _event(page: "_Page", receiver: "_Receiver", dice: np.random.Generator) -> float | None:
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


def _stragglers(seconds: int, trials: int) -> dict[str, float]:
    """From the first slow step to the webhook of `lockstep watch`; what healthy time gave."""
    name = f"straggler_{seconds}s"
    with tempfile.TemporaryDirectory() as folder:
        there = Standalone(Path(folder), seconds)
        with there.running("prometheus", "alertmanager", "watch"):
            found = [
                _trial(there, Path(folder) / f"run-{number}", number % RANKS, seconds)
                for number in range(trials)
            ]
    delays = [one.delay for one in found if one.delay is not None]
    return {
        **({f"{name}_median_seconds": median(delays)} if delays else {}),
        **({f"{name}_longest_seconds": max(delays)} if delays else {}),
        f"{name}_missed": float(trials - len(delays)),
        f"{name}_trials": float(trials),
        f"{name}_false_pages": float(sum(one.false for one in found)),
        f"{name}_healthy_node_hours": sum(one.healthy for one in found) * RANKS / 3600,
    }


@dataclass(frozen=True, slots=True)
class _Trial:
    """Seconds from onset to webhook, or None; pages about nobody slow; seconds without a fault."""

    delay: float | None
    false: int
    healthy: float


def _trial(there: Standalone, archive: Path, rank: int, seconds: int) -> _Trial:
    # Steps are as long as the machine lets them be, so the onset is set in steps and read in time.
    onset = round(LEARN_CHECKS * seconds / STEP_SECONDS)
    words = [WORKLOAD, "--steps", str(20 * onset), "--hang-timeout", "60", "--fault",
             f"compute:rank={rank},factor=1.5,from={onset}"]  # fmt: skip
    with real_run(archive, words, RANKS, there.targets) as run:
        began = None
        while began is None:
            assert run.process.poll() is None
            time.sleep(1.0)
            began = _started(archive, rank, onset)
        until = time.monotonic() + PATIENCE_CHECKS * seconds
        heard: list[tuple[int | None, float]] = []
        while time.monotonic() < until and not any(who == rank for who, _ in heard):
            time.sleep(0.2)
            heard = _heard(there, run)
    first = _started(archive, 0, 0)
    right = [when - began for who, when in heard if who == rank and when >= began]
    false = sum(who != rank or when < began for who, when in heard)
    return _Trial(min(right, default=None), false, began - (began if first is None else first))


def _started(archive: Path, rank: int, step: int) -> float | None:
    """When a rank began a step, unix seconds, as far as the archive has it."""
    wanted = [("rank", "=", rank), ("step", "=", step)]
    try:
        table = pq.read_table(archive / "steps.parquet", columns=["start"], filters=wanted)
    except (OSError, ValueError):
        return None  # no part is written yet
    return table["start"][0].as_py() if len(table) else None


def _heard(there: Standalone, run: RealRun) -> list[tuple[int | None, float]]:
    """Ranks of the pages that the webhook heard of, and when."""
    return [
        (None if (rank := alert["labels"].get("rank")) is None else int(rank), alert["received"])
        for _, finding in finding_folders.findings(there.archives, [run.name])
        for alert in finding["alerts"]
        if alert["labels"].get("tier") == "page"
    ]


class _Receiver:
    """A webhook: alerts that fire, and when they came (monotonic seconds)."""

    def __init__(self) -> None:
        self.alerts: Queue[tuple[float, Told]] = Queue()
        self.address = ""

    def answer(self, body: bytes) -> bytes:
        came = time.monotonic()
        for alert in parse(body).alerts if body else ():  # Prometheus looks for a page, too
            if alert.firing:
                self.alerts.put((came, alert))
        return b"ok"


class _Page:
    """A collector's page of eight GPUs without an XID so far."""

    def __init__(self) -> None:
        self.address = ""
        self.scraped = threading.Event()
        self._counts = {(str(gpu), xid): 0 for xid in XIDS for gpu in range(8)}
        self._next = iter([(str(gpu), str(xid)) for xid in XIDS_FATAL for gpu in range(8)])

    def happen(self) -> tuple[str, str]:
        """Let one of the XIDs that are fatal happen; its GPU and number."""
        where = next(self._next)
        self._counts[where] += 1
        return where

    def answer(self, _: bytes) -> bytes:
        self.scraped.set()
        place = {gpu: (gpu, f"GPU-{gpu}", f"0000:{gpu}0:00.0") for gpu, _ in self._counts}
        return render(
            [m.GPU_XID_ERRORS(count, *place[gpu], xid, "nvml")
             for (gpu, xid), count in self._counts.items()]
        ).encode()  # fmt: skip


@contextmanager
def _served(thing: _Page | _Receiver) -> Iterator[None]:
    """Serve it; its address is set."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = thing.answer(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - as the base class wants it

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        thing.address = f"127.0.0.1:{server.server_port}"
        yield
        server.shutdown()
