"""What 100 runs leave on this machine: a third end by themselves, by Ctrl-C, and by SIGKILL."""

import random
import signal
import subprocess
import sys
import tempfile
from itertools import cycle, islice
from pathlib import Path
from time import monotonic, sleep

from lockstep.evaluation import fault_score
from lockstep.runs import leftovers
from lockstep.workloads.faults import capabilities
from lockstep.workloads.faults.kinds import BUILT
from lockstep.workloads.faults.link import LINK_KINDS

RUNS, SEED = 100, 2026
STEPS = 30
PATIENCE_SECONDS = 30.0
"""For the janitors of killed runs, after the last of them."""
LIMIT_SECONDS = 120.0
ENDINGS = (None, signal.SIGINT, signal.SIGKILL)
GOALS = {"traces_left": 0.0, "wrong_exit_codes": 0.0}


def main() -> dict[str, float]:
    """Figures; GOALS has what they may be at most."""
    dice = random.Random(SEED)
    before = {each.run for each in leftovers.find()}
    refused = capabilities.refused(pace=True)
    kinds = [None, *(kind for kind in BUILT if kind not in refused)]
    figures = {"runs": 0.0, "interrupted": 0.0, "killed": 0.0, "wrong_exit_codes": 0.0}
    with tempfile.TemporaryDirectory(prefix="lockstep-leftovers-") as name:
        folder = Path(name)
        for index, kind in enumerate(islice(cycle(kinds), RUNS)):
            ending = ENDINGS[index // len(kinds) % len(ENDINGS)] if kind else ENDINGS[index % 3]
            place = "node" if kind in LINK_KINDS else "rank"
            words = [] if kind is None else ["--fault", f"{kind}:{place}=1"]
            code = _run(folder / f"run-{index}", words, ending, dice.uniform(0.5, 6.0))
            figures["runs"] += 1
            figures["interrupted"] += ending is signal.SIGINT
            figures["killed"] += ending is signal.SIGKILL
            figures["wrong_exit_codes"] += code not in (0, *_codes(ending))
            said = f"{index + 1} of {RUNS}: {kind or 'healthy'}, {ending}, exit {code}"
            print(f"  {said}", flush=True)  # noqa: T201
        left, deadline = _left(folder, before), monotonic() + PATIENCE_SECONDS
        while left and monotonic() < deadline:
            sleep(0.5)
            left = _left(folder, before)
    for each in left:
        print(f"  left: {each}")  # noqa: T201
    return {**figures, "kinds": float(len(kinds)), "traces_left": float(len(left))}


def _left(folder: Path, before: set[str]) -> list[str]:
    """Also of runs that were killed before they had an archive."""
    dead = [each.run for each in leftovers.find() if each.run not in before]
    return [*fault_score.left_by(folder), *dead]


def _run(archive: Path, words: list[str], ending: signal.Signals | None, after: float) -> int:
    """The exit code of a run of two ranks that is ended so many seconds after its start."""
    command = [sys.executable, "-m", "lockstep", "run", "gpt", "--nodes", "2", *words]
    with subprocess.Popen(
        [*command, "--no-verdict", "--steps", str(STEPS), "--hang-timeout", "3",
         "--out", str(archive)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            if ending is not None:
                return _ended(process, ending, after)
            return process.wait(LIMIT_SECONDS)
        except BaseException:
            process.kill()
            raise


def _ended(process: subprocess.Popen[bytes], ending: signal.Signals, after: float) -> int:
    try:
        return process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(ending)
        return process.wait(LIMIT_SECONDS)


def _codes(ending: signal.Signals | None) -> tuple[int, ...]:
    """What a run that was ended may exit with; one that was done before exits 0."""
    return () if ending is None else (130, -ending)
