"""From the end of a run without a clean close to the webhook: real gloo jobs, Prometheus and watch.

The standalone set-up with Debian's Prometheus and Alertmanager; two nodes of two ranks, each with a
collector that goes on when the job has ended, as on a cluster. `kill`: one rank is killed (kill
-9), the others meet gloo's error and end; `scheduler`: all get SIGTERM at once; `node`: a node's
collector and ranks are killed together. Of what a scheduler ends nobody is told. In the environment
END_ALERT_TRIALS is how often each, and END_ALERT_SECONDS how often pages are scraped and runs
judged.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import ring
from lockstep.watch.archive import finding_folders
from tests.deploy.standalone import Standalone

TRIALS = int(os.environ.get("END_ALERT_TRIALS", "5"))
SECONDS = int(os.environ.get("END_ALERT_SECONDS", "1"))
KINDS = os.environ.get("END_ALERT", "kill,scheduler,node").split(",")
NODES, WIDTH = 2, 2
MOST = 10.0 if SECONDS == 1 else 30.0
PATIENCE_SECONDS = 120.0
PROGRAM = """
import time, torch, torch.distributed as dist
import lockstep
torch.set_num_threads(1)
recorder = lockstep.recorder()
dist.init_process_group("gloo")
while True:
    with recorder.step():
        dist.all_reduce(torch.ones(1000))
        time.sleep(0.05)
"""
GOALS = {
    f"{kind}_{SECONDS}s_{figure}": goal
    for kind in KINDS if kind != "scheduler"
    for figure, goal in (("median_seconds", MOST), ("missed", 0.0), ("another_named", 0.0))
} | {f"{kind}_{SECONDS}s_told": 0.0 for kind in KINDS if kind == "scheduler"}  # fmt: skip


def main() -> dict[str, float]:
    if shutil.which("prometheus-alertmanager") is None:
        raise SystemExit("the benchmark needs Debian's prometheus and prometheus-alertmanager")
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(PROGRAM)
        there = Standalone(folder, SECONDS)
        with there.running("prometheus", "alertmanager", "watch"), Nodes(folder, there) as nodes:
            for kind in KINDS:
                trials = [nodes.trial(kind, number) for number in range(TRIALS)]
                figures |= _figures(kind, trials)
    return figures | {"load_average": os.getloadavg()[0]}


def _figures(kind: str, trials: list[Mapping[str, Any]]) -> dict[str, float]:
    name = f"{kind}_{SECONDS}s"
    delays = [one["delay"] for one in trials if one["delay"] is not None]
    reports = [one["report"] for one in trials if one["report"] is not None]
    return {
        **({f"{name}_median_seconds": median(delays), f"{name}_longest_seconds": max(delays)}
           if delays else {}),
        **({f"{name}_report_median_seconds": median(reports)} if reports else {}),
        f"{name}_missed": float(len(trials) - len(delays)),
        f"{name}_told": float(len(delays)),
        f"{name}_first_to_go_named": float(sum(one["right"] for one in trials)),
        f"{name}_another_named": float(sum(one["wrong"] for one in trials)),
        f"{name}_trials": float(len(trials)),
    }  # fmt: skip


class Nodes:
    """Emulated nodes: a folder of rings and a collector each."""

    def __init__(self, folder: Path, there: Standalone) -> None:
        self.folder, self.there = folder, there
        self.collectors: dict[int, subprocess.Popen[bytes]] = {}
        self._addresses: dict[int, str] = {}

    def __enter__(self) -> "Nodes":
        for node in range(NODES):
            self._start(node)
        self._tell()
        return self

    def __exit__(self, *_: object) -> None:
        for one in self.collectors.values():
            one.terminate()
            one.wait()

    def _start(self, node: int) -> None:
        announce = self.folder / f"address-{node}"
        announce.unlink(missing_ok=True)
        rings = self.folder / f"rings-{node}"
        shutil.rmtree(rings, ignore_errors=True)
        rings.mkdir()
        words = [
            "collect", "--listen", self._addresses.get(node, "127.0.0.1:0"), "--sources",
            "rank_ring", "--lockstep-dir", str(rings), "--announce", str(announce),
        ]  # fmt: skip
        self.collectors[node] = subprocess.Popen(
            [sys.executable, "-m", "lockstep", *words], stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while not announce.exists() or not announce.read_text().strip():
            assert time.monotonic() < deadline, "a collector did not begin"
            time.sleep(0.05)
        self._addresses[node] = announce.read_text().strip()

    def _tell(self) -> None:
        self.there.targets({f"node-{node}": at for node, at in self._addresses.items()})

    def trial(self, kind: str, number: int) -> Mapping[str, Any]:
        """A run that ends in that way: delay to the webhook, to the report, and who was named."""
        run, dice = f"{kind}-{SECONDS}s-{number}", np.random.default_rng(number)
        first = int(dice.integers(NODES * WIDTH))
        with self._job(run) as ranks:
            time.sleep(max(15.0, 4.0 * SECONDS) + float(dice.uniform(0.0, SECONDS)))
            began = SystemClock().wall()
            self._end(kind, ranks, first)
            told = self._told(run, began)
        right = {"kill": {first}, "node": set(_ranks_of(first // WIDTH))}.get(kind, set())
        named, node = told.get("rank"), told.get("node")
        is_right = (
            named in right if named is not None
            else kind == "node" and node == f"node-{first // WIDTH}"
        )  # fmt: skip
        somebody = named is not None or node is not None
        found = {**told, "right": is_right, "wrong": somebody and not is_right}
        sys.stderr.write(f"{run}: {json.dumps(found)}\n")
        return found

    def _end(self, kind: str, ranks: list["subprocess.Popen[bytes]"], first: int) -> None:
        if kind == "kill":
            ranks[first].kill()
        elif kind == "scheduler":
            for one in ranks:
                one.send_signal(signal.SIGTERM)
        else:
            node = first // WIDTH
            for rank in _ranks_of(node):
                ranks[rank].kill()
            self.collectors[node].kill()
            self.collectors[node].wait()

    def _told(self, run: str, began: float) -> dict[str, Any]:
        found: dict[str, Any] = {"delay": None, "report": None}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            time.sleep(0.05)
            for folder, tree in finding_folders.findings(self.there.archives, [run]):
                received = [one["received"] for one in tree["alerts"] if tree["kind"] == "stop"]
                if received and found["delay"] is None:
                    key = tree["key"]
                    found |= {"delay": min(received) - began, "rank": key["rank"],
                              "node": key["node"], "sentence": tree["sentence"]}  # fmt: skip
                if received and (folder / "report.html").exists():
                    return found | {"report": SystemClock().wall() - began}
        return found

    def _steps(self, run: str, rank: int) -> int:
        """How many steps a rank of a run has completed."""
        path = self.folder / f"rings-{rank // WIDTH}" / ring.file_name(rank)
        with contextlib.suppress(OSError, ValueError, struct.error):
            header = ring.Header(path.read_bytes()[: ring.HEADER_BYTES])
            name = header.identity.run.rstrip(b"\0").decode()
            return header.counters.steps if name == run else 0
        return 0

    @contextlib.contextmanager
    def _job(self, run: str) -> Iterator[list["subprocess.Popen[bytes]"]]:
        for node, one in self.collectors.items():
            if one.poll() is not None:
                self._start(node)
        self._tell()
        port = _free_port()
        ranks = [
            subprocess.Popen(
                [sys.executable, str(self.folder / "train.py")], stderr=subprocess.DEVNULL,
                env=os.environ | {
                    "LOCKSTEP_DIR": str(self.folder / f"rings-{rank // WIDTH}"),
                    "LOCKSTEP_RUN": run, "LOCKSTEP_NODE": f"node-{rank // WIDTH}",
                    "RANK": str(rank), "WORLD_SIZE": str(NODES * WIDTH),
                    "LOCAL_RANK": str(rank % WIDTH), "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
                },
            )
            for rank in range(NODES * WIDTH)
        ]  # fmt: skip
        try:
            deadline = time.monotonic() + 240
            while not all(self._steps(run, rank) > 5 for rank in range(len(ranks))):
                assert time.monotonic() < deadline, "the job did not begin"
                time.sleep(0.1)
            yield ranks
        finally:
            for one in ranks:
                one.kill()
                one.wait()


def _ranks_of(node: int) -> range:
    return range(node * WIDTH, (node + 1) * WIDTH)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as there:
        port: int = there.getsockname()[1]
        return port


if __name__ == "__main__":
    print(json.dumps(main(), indent=1))  # noqa: T201
