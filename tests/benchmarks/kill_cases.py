"""Real runs in which one rank is killed at a random moment: what to run, and the killing."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import ExitCode
from lockstep.workloads.launch.processes import SHARED_MEMORY
from lockstep.workloads.launch.ring_state import read_ring_state

LIMIT_SECONDS = 240.0
POLL_SECONDS = 0.01
PROGRAM = """
import os, time, torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(STEPS):
    time.sleep(0.03)
    optimizer.zero_grad()
    model(torch.randn(32, 64)).square().mean().backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step}", flush=True)
dist.destroy_process_group()
"""
LAYOUTS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "allreduce": ((), (), ()),
    "logreg": ((), ()),
    "gpt": ((), ("--tp", "2"), ("--pp", "2"), ("--tp", "2", "--pp", "2")),
}
SIGNALS = (*[signal.SIGKILL] * 8, signal.SIGSEGV, signal.SIGTERM)
"""A kernel out of memory sends SIGKILL, a scheduler SIGTERM first."""


class CaseInterruptedError(Exception):
    """Ctrl-C ended a case: it says nothing, and is played again."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run and its killing.

    Attributes:
        words: After `lockstep run`, without what is run for how long.
        program: Somebody else's program instead of a workload.
        after: Seconds from the first step until the rank is killed; of `near_end`, from the
            beginning of the last step.
    """

    number: int
    words: tuple[str, ...]
    program: bool
    world: int
    steps: int
    rank: int
    signal: int
    after: float
    near_end: bool


@dataclass(frozen=True, slots=True)
class Killed:
    """What became of a case.

    Attributes:
        killed: Whether the rank was there to be killed.
        step: Of the killed rank, when it was.
        code: Exit code of `lockstep run`.
    """

    case: Case
    killed: bool
    run: str
    step: int
    code: int


def drawn(number: int, seed: int) -> Case:
    """The case of that number."""
    dice = random.Random(seed * 100_003 + number)
    world = dice.choice((2, 2, 3, 4))
    foreign = dice.random() < 0.3
    words: tuple[str, ...] = ("--exec",)
    if not foreign:
        workload = dice.choice(sorted(LAYOUTS))
        layout = dice.choice(LAYOUTS[workload])
        world = 4 if len(layout) > 2 else 2 * dice.choice((1, 2)) if layout else world
        launcher = dice.choice(("local", "local", "mpirun"))
        words = (workload, "--launcher", launcher, *layout)
    per_node = dice.choice([size for size in (1, 2) if world % size == 0])
    place = ("--nodes", str(world // per_node), "--ranks-per-node", str(per_node))
    near_end = dice.random() < 0.1
    return Case(
        number, (*words, *place), foreign, world, 120, dice.randrange(world),
        int(dice.choice(SIGNALS)), dice.uniform(0.0, 0.2 if near_end else 5.0), near_end,
    )  # fmt: skip


def played(case: Case, folder: Path, targets: Path | None = None) -> Killed:
    """Run a case into `folder`/archive, as a process of its own.

    Args:
        targets: File in which a Prometheus looks for what it is to scrape.

    Raises:
        CaseInterruptedError: Ctrl-C ended it.
    """
    archive = folder / "archive"
    command = [sys.executable, "-m", "lockstep", "run", "--no-verdict", *case.words]
    command += ["--out", str(archive)]
    if case.program:
        script = folder / "train.py"
        script.write_text(PROGRAM.replace("STEPS", str(case.steps)))
        command += ["--", sys.executable, str(script)]
    else:
        command += ["--steps", str(case.steps)]
    with (folder / "log").open("wb") as log, subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
    ) as process:  # fmt: skip
        try:
            killed, run, step = _killing(case, archive, process, targets)
            code = process.wait(LIMIT_SECONDS)
        finally:
            if process.poll() is None:
                process.terminate()
    if code == ExitCode.INTERRUPTED:
        raise CaseInterruptedError
    told = Killed(case, killed, run, step, code)
    (folder / "killed.json").write_text(json.dumps(asdict(told)))
    return told


def read(folder: Path) -> Killed | None:
    """What `played` left in a folder; None where it did not get to that."""
    try:
        told = json.loads((folder / "killed.json").read_bytes())
    except (OSError, ValueError):
        return None
    case = {**told["case"], "words": tuple(told["case"]["words"])}
    return Killed(**{**told, "case": Case(**case)})


def _killing(
    case: Case, archive: Path, process: "subprocess.Popen[bytes]", targets: Path | None
) -> tuple[bool, str, int]:
    """Waits for the moment and kills: (whether it could, run, completed steps)."""
    deadline = time.monotonic() + LIMIT_SECONDS
    path, run, scraped = None, "", targets is None
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(POLL_SECONDS)
        if not run:
            run = _run_of(archive)
            continue
        scraped = scraped or _scraped(run, case, targets)
        path = path or next((SHARED_MEMORY / run).glob(f"*/{ring.file_name(case.rank)}"), None)
        told = None if path is None else read_ring_state(path)
        if told is None or not scraped or told.steps < (case.steps - 1 if case.near_end else 1):
            continue
        time.sleep(case.after)
        try:
            step = read_ring_state(path).steps  # type: ignore[arg-type, union-attr]
            process_id = _process_of(path)  # type: ignore[arg-type]
            if _has_ended(process_id):
                return False, run, step
            os.kill(process_id, case.signal)
        except (OSError, AttributeError):
            return False, run, 0
        return True, run, step
    return False, run, 0


def _run_of(archive: Path) -> str:
    try:
        return str(json.loads((archive / "run.json").read_bytes())["run"])
    except (OSError, ValueError):
        return ""


def _process_of(path: Path) -> int:
    fields = ring.IDENTITY.unpack_from(path.read_bytes()[: ring.HEADER_BYTES], ring.IDENTITY_OFFSET)
    return int(fields[10])


def _has_ended(process_id: int) -> bool:
    """Whether its parent only has yet to be told (proc(5), stat field 3)."""
    stat = Path(f"/proc/{process_id}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] in {"Z", "X"}


def _scraped(run: str, case: Case, targets: Path | None) -> bool:
    """Tells Prometheus where the collectors are, once all are there."""
    folder = SHARED_MEMORY / run
    addresses = [path.read_text().strip() for path in folder.glob("*.address")]
    nodes = int(case.words[case.words.index("--nodes") + 1])
    if targets is None or len(addresses) < nodes:
        return targets is None
    complete = targets.with_suffix(".new")
    complete.write_text(json.dumps([{"targets": addresses}]))
    complete.replace(targets)
    return True
