"""Each bucket of the ledger of real runs that were killed and resumed at known moments.

Each pair: a run with checkpoints, a rank that is slow for a while, and another that is killed; some
seconds of nothing; a run that goes on from the last checkpoint. The truth is not the ledger's: the
lives of the rank processes are watched from outside, steps are counted by what was asked for, and
what the slow rank cost is by the seconds that the injector says it added to each of its steps
(truth.json): every rank waits for the one that takes longest, so a step lost what the longest own
time is above the longest one without the addition. The goal: every bucket within 1 % of wall times
ranks.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds

RANKS = 4
STEPS = 300
EVERY = 50
SLOW = (40, 100)
CASES = ((130, 6.0, 1.5), (180, 3.0, 2.0), (230, 10.0, 1.3))
"""Step at which a rank is killed, seconds until the next start, how slow another one was."""
BUCKETS = ("starting", "straggler", "stall", "replayed", "waiting-for-node", "checkpoint-saved",
           "checkpoint-restored", "unknown", "kept")  # fmt: skip
GOALS = {f"{name}_off_percent": 1.0 for name in BUCKETS} | {"unknown_percent": 2.0}


@dataclass
class Lives:
    """When it was launched, and rank processes were there: unix seconds, looked at every 10 ms."""

    first: float = 0.0
    fell: float = 0.0
    last: float = 0.0
    ended: threading.Event = field(default_factory=threading.Event)

    def watch(self, launcher: int, archive: Path) -> None:
        """Until it is told to end."""
        most = 0
        while not self.ended.wait(0.01):
            now, count = time.time(), _ranks(launcher)
            if not self.first and (archive / "run.json").exists():
                self.first = now
            if count >= RANKS:
                most = count
            if most and count < most and not self.fell:
                self.fell = now
            if count:
                self.last = now


def main() -> dict[str, float]:
    """The largest distance of each bucket over all pairs, in percent of wall times ranks."""
    worst = dict.fromkeys(GOALS, 0.0)
    for number, case in enumerate(CASES):
        with tempfile.TemporaryDirectory() as folder:
            for name, off in _pair(Path(folder), number, *case).items():
                worst[name] = max(worst[name], off)
    return worst


def _pair(folder: Path, seed: int, killed: int, pause: float, factor: float) -> dict[str, float]:
    one, two = folder / "one", folder / "two"
    slow = f"compute:rank=1,factor={factor},from={SLOW[0]},to={SLOW[1]}"
    before = _run(one, seed, "--fault", slow, "--fault", f"crash:rank=2,from={killed}")
    time.sleep(pause)
    after = _run(two, seed, "--resume", str(one / "checkpoints"))
    told = json.loads(subprocess.run(
        [sys.executable, "-m", "lockstep", "ledger", str(one), str(two), "-o", "json"],
        check=True, capture_output=True, text=True,
    ).stdout)["runs"][0]  # fmt: skip
    found = {row["bucket"]: row["seconds"] for row in told["buckets"]}
    truth = _truth(one, two, before, after, killed)
    found["kept"] = found["useful"] + found["communication"]
    truth["kept"] = told["rank_seconds"] - sum(truth.values()) - found["ending"]
    whole = told["rank_seconds"]
    for name in BUCKETS:
        sys.stdout.write(f"  {name:22} told {found[name]:8.2f}  truth {truth[name]:8.2f}"
              f"  off {100 * (found[name] - truth[name]) / whole:6.2f} %\n")  # fmt: skip
    sys.stdout.flush()
    off = {f"{name}_off_percent": 100 * abs(found[name] - truth[name]) / whole for name in BUCKETS}
    return off | {"unknown_percent": 100 * found["unknown"] / whole}


def _truth(one: Path, two: Path, before: Lives, after: Lives, killed: int) -> dict[str, float]:
    """Rank-seconds of each bucket but `kept`, by what was done and seen from outside."""
    begun, went_on = _steps(one), _steps(two)
    resumed = killed // EVERY * EVERY
    ordinary = np.median(begun["wall"][(begun["step"] > 20) & (begun["step"] < SLOW[0])])
    again = went_on["step"] < killed
    saved = begun["saved"].sum() + went_on["saved"].sum()
    restored = [
        end - begin
        for begin, end in json.loads((two / "run.json").read_text())["restored"].values()
    ]
    starting = sum(
        float(table["start"][table["step"] == first].sum()) - RANKS * lives.first
        for table, lives, first in ((begun, before, 0), (went_on, after, resumed))
    )
    warm = sum(
        float(np.maximum(table["wall"][table["warm"]] - ordinary, 0.0).sum())
        for table in (begun, went_on)
    )
    waited = after.first - before.last
    return {
        "starting": starting - sum(restored) + warm,
        "straggler": RANKS * _lost_to_the_slow_rank(one, begun),
        "stall": float((before.last - before.fell) * RANKS),
        "replayed": float(went_on["wall"][again].sum()),
        "waiting-for-node": waited * RANKS,
        "checkpoint-saved": float(saved - went_on["saved"][again].sum()),
        "checkpoint-restored": float(sum(restored)),
        "unknown": 0.0,
    }


def _lost_to_the_slow_rank(archive: Path, steps: dict[str, np.ndarray]) -> float:
    """Seconds that the steps took longer, by what was added to one rank's."""
    fault = json.loads((archive / "truth.json").read_text())["faults"][0]
    lost = 0.0
    for step, seconds in zip(fault["added"]["steps"], fault["added"]["seconds"], strict=True):
        mine = steps["step"] == step
        own, rank = steps["own"][mine], steps["rank"][mine]
        lost += float(own.max() - (own - seconds * (rank == fault["rank"])).max())
    return lost


def _steps(archive: Path) -> dict[str, np.ndarray]:
    columns = ["step", "rank", "start", "wall_seconds", "own_seconds", "checkpoint_seconds", "tags"]
    table = ds.dataset(archive / "steps.parquet").to_table(columns).to_pandas()
    return {
        "step": table["step"].to_numpy(), "rank": table["rank"].to_numpy(),
        "start": table["start"].to_numpy(), "own": table["own_seconds"].to_numpy(),
        "wall": table["wall_seconds"].to_numpy(), "saved": table["checkpoint_seconds"].to_numpy(),
        "warm": table["tags"].str.contains("warmup").to_numpy(),
    }  # fmt: skip


def _run(out: Path, seed: int, *more: str) -> Lives:
    lives = Lives()
    program = subprocess.Popen(
        [sys.executable, "-m", "lockstep", "run", "gpt", "--nodes", "2", "--ranks-per-node", "2",
         "--steps", str(STEPS), "--seed", str(seed), "--checkpoint-every", str(EVERY),
         "--no-verdict", "--out", str(out), *more],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    watching = threading.Thread(target=lives.watch, args=(program.pid, out))
    watching.start()
    try:
        _, said = program.communicate(timeout=900)
    finally:
        program.kill()
        lives.ended.set()
        watching.join()
    if not (out / "run.json").exists():
        raise AssertionError(said.decode())
    return lives


def _ranks(launcher: int) -> int:
    """Children of the launcher that write the log of a rank and are no zombies."""
    count = 0
    try:
        children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    except OSError:
        return 0
    for child in children:
        try:
            state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
            target = Path(f"/proc/{child}/fd/1").readlink().name
        except OSError:
            continue
        count += state not in "ZX" and target.startswith("rank-")
    return count
