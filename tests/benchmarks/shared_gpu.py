"""Reference runs on a real GPU with NCCL: four ranks share one, as four nodes; who is named.

`python -m tests.benchmarks shared_gpu --out FOLDER`: on a machine with an NVIDIA GPU and torch for
CUDA. NCCL takes one GPU for several ranks where NCCL_HOSTID says that each is on another host; they
talk over sockets. Ranks that share a device take turns on it, so figures of speed mean nothing.
Archives stay in FOLDER. What NCCL's Inspector, RAS and torch's flight recorder tell is read where
the environment asks for it, as in any run.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RANKS = 4
LATE = 2
LIMIT_SECONDS = 240.0
FROM_SHARE = 1 / 3
"""Of the steps are well before a rank is late."""
HOST_SECONDS = 0.03
SIDE = 4096
"""Of the square products that every rank has a GPU do in each forward pass."""
PRODUCTS = 8
LATE_PRODUCTS = 40
FAULTS = ("healthy", "host", "device")
# Missed on an H200 by `resnet healthy`: short kernels get uneven turns on a shared GPU.
GOALS = {f"{workload} {fault} wrong": 0.0 for workload in ("gpt", "resnet") for fault in FAULTS}
CAUSES = {"host": ("data", "host-cpu"), "device": ("slow-gpu", "unknown")}
"""Nobody throttles the GPU: that its own time is longer is all that there is to see."""


def main() -> dict[str, float]:
    """1 for each kind of run in which another one than the late rank was named, or it was not."""
    parser = argparse.ArgumentParser(prog="tests.benchmarks shared_gpu")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--workload", default="gpt")
    parser.add_argument("--fault", choices=FAULTS, action="append", default=[])
    parser.add_argument("--one", choices=FAULTS, help="this run, in this process")
    options = parser.parse_args(sys.argv[2:])
    if options.one:
        train(options.workload, options.one, options.steps, options.out)
    out = options.out or Path(tempfile.mkdtemp())
    figures: dict[str, float] = {}
    for fault in options.fault or FAULTS:
        folder = out / f"{options.workload}-{fault}"
        words = [sys.executable, "-m", "tests.benchmarks", "shared_gpu", "--one", fault]
        words += ["--out", str(folder), "--steps", str(options.steps)]
        run = subprocess.Popen([*words, "--workload", options.workload])
        try:
            run.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGINT)  # it ends its ranks by itself
            run.wait()
        wrong = not is_right(fault, verdict(folder))
        figures[f"{options.workload} {fault} wrong"] = float(wrong)
    return figures


def verdict(folder: Path) -> dict[str, Any]:
    """As `lockstep analyze` tells it."""
    words = [sys.executable, "-m", "lockstep", "analyze", str(folder), "-o", "json"]
    told = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    found: dict[str, Any] = json.loads(told.stdout)
    sys.stderr.write(f"{folder.name}: {found['sentence']}\n")
    return found


def is_right(fault: str, found: dict[str, Any]) -> bool:
    """The late rank alone is named, for a cause that fits, or nobody is."""
    named = [(one["rank"], one["cause"]) for one in found["culprits"]]
    if fault == "healthy":
        return not named
    return [LATE] == [rank for rank, _ in named] and named[0][1] in CAUSES[fault]


def train(workload: str, fault: str, steps: int, out: Path) -> None:
    """Run and end this process, with the ranks made to share the first GPU."""
    import torch

    from lockstep.__main__ import main as lockstep
    from lockstep.runs import planning
    from lockstep.workloads.loop import train as rank_process
    from lockstep.workloads.loop.rank import Accelerator
    from lockstep.workloads.spec import RunSpec

    @dataclass(frozen=True)
    class Shared(Accelerator):
        rank: int = 0
        steps: list[float] = field(default_factory=list)

        @property
        def late(self) -> bool:
            return self.rank == LATE and len(self.steps) > FROM_SHARE * steps

        def use(self) -> None:
            os.environ["NCCL_HOSTID"] = f"rank-{self.rank}"
            os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
            super().use()

        def batch(self, made: Any) -> Any:
            self.steps.append(time.monotonic())
            if fault == "host" and self.late:
                time.sleep(HOST_SECONDS)
            return Accelerator(self.device).batch(made)

        @contextmanager
        def precision(self) -> Iterator[None]:
            side = torch.ones(SIDE, SIDE, device=self.device, dtype=torch.bfloat16)
            for _ in range(LATE_PRODUCTS if fault == "device" and self.late else PRODUCTS):
                torch.mm(side, side)
            with Accelerator(self.device).precision():
                yield

    def shared(spec: RunSpec, index: int) -> Accelerator:
        return Shared(torch.device("cuda", 0), index)

    planning.why_not = lambda *_: None  # type: ignore[attr-defined]
    rank_process.accelerator = shared  # type: ignore[attr-defined]
    sys.argv = [
        "lockstep", "run", workload, "--nodes", str(RANKS), "--steps", str(steps),
        "--device", "cuda", "--out", str(out),
    ]  # fmt: skip
    lockstep()
    raise SystemExit(0)
