"""Pairs of a baseline and a later run with known truth; `python -m tests.benchmarks NAME`.

Simulated: steps of every rank are drawn, measured as those of an archive are, and judged. Real:
`--real FOLDER` takes a benchmark that `bench_runs` made. The two are never one table.
"""

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from lockstep.bench import measure, results
from lockstep.bench.judging import Judgement, judge

PHASE = "forward"
DRIVERS = ("driver", "nccl", "kernel", "gpu_firmware", "commit")
SLOWER = 1.05


@dataclass(frozen=True, slots=True)
class Pair:
    """A baseline and what came after, with the truth.

    Attributes:
        truth: healthy, regression, one-gpu or both.
    """

    before: tuple[dict[str, Any], ...]
    after: tuple[dict[str, Any], ...]
    truth: str
    changed: str | None
    rank: int | None


def simulated(seed: int, truth: str, runs: int) -> Pair:
    """Drawn from the seed alone; knows no threshold of what judges it.

    2 to 16 ranks, 3 to 5 runs before, 60 to 300 steps; from run to run 0.05 to 0.6 %, from rank to
    rank up to 3 % that stays, a step's noise of 0.5 to 4 %, drifting, with rare long steps.
    """
    dice = np.random.default_rng(seed)
    ranks, before = int(dice.choice([2, 4, 8, 16])), int(dice.integers(3, 6))
    shape = {
        "steps": int(dice.integers(60, 300)), "noise": dice.uniform(0.005, 0.04),
        "spread": np.exp(dice.uniform(np.log(0.0005), np.log(0.006))),
        "place": dice.normal(0, dice.uniform(0.002, 0.03), ranks),
        "network": dice.uniform(0.02, 0.4), "spikes": dice.uniform(0, 0.01),
    }  # fmt: skip
    own = {"driver": "550.1", "nccl": "2.26", "kernel": "6.8", "gpu_firmware": "95.1",
           "commit": "abc"}  # fmt: skip
    old = tuple(_run(dice, shape, ranks, 1.0, None, own) for _ in range(before))
    rank = int(dice.integers(ranks)) if truth in ("one-gpu", "both") else None
    factor = SLOWER if truth in ("regression", "both") else 1.0
    changed = str(dice.choice(DRIVERS)) if truth in ("regression", "both") else None
    new = own if changed is None else {**own, changed: "new"}
    after = tuple(_run(dice, shape, ranks, factor, rank, new) for _ in range(runs))
    return Pair(old, after, truth, changed, rank)


def _run(
    dice: np.random.Generator, shape: dict[str, Any], ranks: int, factor: float, slow: int | None,
    versions: dict[str, str],
) -> dict[str, Any]:  # fmt: skip
    steps, noise = shape["steps"], shape["noise"]
    common = 0.2 * factor * np.exp(dice.normal(0, shape["spread"]))
    drift = np.cumsum(dice.normal(0, noise / 20, steps))
    own = common * np.exp(shape["place"] + drift[:, None] + dice.normal(0, noise, (steps, ranks)))
    own *= np.where(dice.random((steps, ranks)) < shape["spikes"], dice.uniform(1.5, 4), 1.0)
    if slow is not None:
        # It costs the run 5 %: of its step, with all that every rank waits for.
        whole = np.median(own.max(axis=1)) + shape["network"] * common
        at = np.median(own[:, slow])
        own[:, slow] *= (np.median(own.max(axis=1)) + (SLOWER - 1) * whole) / at
    wall = own.max(axis=1) + shape["network"] * common * np.exp(dice.normal(0, noise, steps))
    start = np.concatenate([[0.0], np.cumsum(wall)[:-1]])
    windows = pd.DataFrame({
        "from_step": np.repeat(np.arange(steps), ranks), "rank": np.tile(np.arange(ranks), steps),
        "steps": 1, "start": np.repeat(start, ranks), "end": np.repeat(start + wall, ranks),
        "wall_seconds": np.repeat(wall, ranks), "own_seconds": own.ravel(), "tags": "",
        "loss": np.nan, f"{PHASE}_seconds": own.ravel(),
    })  # fmt: skip
    told = measure.speed(windows, {rank: f"node-{rank}" for rank in range(ranks)})
    return {"workload": "gpt", "settings": "{}", "nodes": ranks, "ranks": ranks, "dp": ranks,
            "tp": 1, "pp": 1, "hardware": "simulated", "status": "finished", **versions,
            **told}  # fmt: skip


def real(folder: Path, seed: int, runs: int, pairs: int) -> Iterator[Pair]:
    """As many pairs of real runs with a fault, at least, and twice as many healthy ones.

    Devices are emulated, and the version that changes is written into the row: software of a real
    machine cannot be changed in a benchmark. Pairs share runs, so they are not independent, and
    their intervals are too narrow.
    """
    rows = results.read(folder / "results.parquet")
    kinds = {kind: [row for row in rows if f"-{kind}" in str(row["cell"]) or
                    f",{kind}" in str(row["cell"])] for kind in ("s0", "s1", "s2")}  # fmt: skip
    dice = random.Random(seed)
    faulty = clean = 0
    while faulty < pairs or clean < 2 * pairs:
        healthy = dice.sample(kinds["s0"], len(kinds["s0"]))
        before = tuple({**row, "settings": "{}", "driver": "550.1"} for row in healthy[:5])
        own = before[0]
        for later in _groups(healthy[5:], runs):
            clean += 1
            yield Pair(
                before, tuple({**own, **_speed(row)} for row in later), "healthy", None, None
            )
        if faulty >= pairs:
            continue
        for later in _groups(dice.sample(kinds["s1"], len(kinds["s1"])), runs):
            after = tuple({**own, **_speed(row), "driver": "560.2"} for row in later)
            faulty += 1
            yield Pair(before, after, "regression", "driver", None)
        for later in _groups(dice.sample(kinds["s2"], len(kinds["s2"])), runs):
            faulty += 1
            yield Pair(before, tuple({**own, **_speed(row)} for row in later), "one-gpu", None, 1)


def _groups(rows: Sequence[dict[str, Any]], runs: int) -> Iterator[Sequence[dict[str, Any]]]:
    for first in range(0, len(rows) - runs + 1, runs):
        yield rows[first : first + runs]


def _speed(row: dict[str, Any]) -> dict[str, Any]:
    names = ("step_seconds", "step_seconds_error", "rank_own_seconds", "rank_own_error",
             "rank_nodes")  # fmt: skip
    return {name: row[name] for name in names}


def score(pairs: Sequence[Pair]) -> dict[str, tuple[int, int]]:
    """Figure -> (right, of how many); of false ones how many were false."""
    found: dict[str, list[bool]] = {
        name: [] for name in ("found", "version named", "told from one slow GPU", "GPU named",
                              "false regressions", "false culprits", "unknown")
    }  # fmt: skip
    for pair in pairs:
        told = judge(pair.before, pair.after)
        regressed = told.status in ("regression", "both")
        found["unknown"].append(told.status == "unknown")
        if pair.truth == "healthy":
            found["false regressions"].append(regressed or told.status == "slower")
            found["false culprits"].append(bool(told.culprits))
            continue
        wanted = pair.truth in ("regression", "both")
        if wanted:
            found["found"].append(regressed)
            if regressed:
                found["version named"].append(_names(told, pair.changed))
        if regressed or told.culprits:
            kinds = {"regression": (True, False), "one-gpu": (False, True), "both": (True, True)}
            is_right = (regressed, bool(told.culprits)) == kinds[pair.truth]
            found["told from one slow GPU"].append(is_right)
        if pair.rank is not None:
            found["GPU named"].append([each["rank"] for each in told.culprits] == [pair.rank])
    return {name: (sum(each), len(each)) for name, each in found.items() if each}


def _names(told: Judgement, changed: str | None) -> bool:
    word = str(changed).replace("_", " ")
    return len(told.changed) == 1 and told.changed[0].startswith(f"{word} ")


GOALS = {
    "regressions missed": 0.05, "version not named": 0.05, "not told from one slow GPU": 0.02,
    "false regressions": 0.0,
}  # fmt: skip


def show(title: str, figures: dict[str, tuple[int, int]]) -> dict[str, float]:
    """Print each with its interval; as rates of what went wrong."""
    lines = [title]
    for name, (right, count) in figures.items():
        interval = binomtest(right, count).proportion_ci(method="wilson")
        lines.append(f"  {name:26}{right:>5} of {count:<5}{right / count:7.3f}"
                     f" ({interval.low:.3f} to {interval.high:.3f})")  # fmt: skip
    sys.stdout.write("\n".join([*lines, ""]))
    wrong = {"found": "regressions missed", "version named": "version not named",
             "told from one slow GPU": "not told from one slow GPU"}  # fmt: skip
    rates = {wrong[name]: 1 - right / count for name, (right, count) in figures.items()
             if name in wrong}  # fmt: skip
    right, count = figures.get("false regressions", (0, 1))
    return {**rates, "false regressions": right / count}


def main() -> dict[str, float]:
    """Judges them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--real", type=Path, help="folder of a benchmark by bench_runs")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--after", type=int, default=5, help="runs that are judged together")
    asked = parser.parse_args(sys.argv[2:])
    if asked.real is not None:
        title = "real runs, emulated devices, the version written into the row"
        return show(title, score(list(real(asked.real, asked.seed, asked.after, asked.pairs))))
    kinds = ("regression", "one-gpu", "both", "regression")
    first = asked.seed * 100_000
    pairs = [simulated(first + n, kinds[n % 4], asked.after) for n in range(asked.pairs)]
    healthy = [
        simulated(first + 50_000 + n, "healthy", asked.after) for n in range(2 * asked.pairs)
    ]
    title = (
        f"simulated: {len(pairs)} pairs with a fault of 5 %, {len(healthy)} healthy ones,"
        f" {asked.after} runs after"
    )
    return show(title, score([*pairs, *healthy]))
