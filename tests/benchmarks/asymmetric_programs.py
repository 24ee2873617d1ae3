"""Programs whose ranks have different work by design: simulated archives of `run --exec`.

Of each kind ASYMMETRIC_RUNS (20) runs are healthy, as many have a rank that becomes slow in the
middle, and as many a GPU that is capped from the first step on, with telemetry. ASYMMETRIC_SEED
(2026) makes other runs; never tune on a seed and quote its figures. ASYMMETRIC_REAL (0) is how many
healthy and slow real runs of each program of `programs/asymmetric.py` are made as well.

The layout is that of `--exec`, which knows none; in every second pipeline the program tells its
stages. In every second run it tells phases and tokens, and its recorder with whom each rank
exchanges data. In as many runs of all kinds, and of replicas that are equal, that is told and a
rank is slow from the first step on, without a sign of its hardware: it is to be named where its
work is proven to be the same, and nobody where it is not. Each run that is wrong is a line on
stderr.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from lockstep.analyzer.read.archive.load import load_archive
from lockstep.analyzer.shapes.verdict_json import verdict_json
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.archive import RUN_FILE, SAMPLES_FILE, STEPS_FILE, VERDICT_FILE
from lockstep.collector.contract.words import PHASES
from tests.benchmarks.simulated.arrays import Floats, Generator
from tests.benchmarks.simulated.files import (
    outcome,
    run_document,
    steps_table,
    write_ranks,
)
from tests.benchmarks.simulated.samples import Samples, labels

RUNS = int(os.environ.get("ASYMMETRIC_RUNS", "20"))
SEED = int(os.environ.get("ASYMMETRIC_SEED", "2026"))
REAL = int(os.environ.get("ASYMMETRIC_REAL", "0"))
EPOCH, CLOCK, LIMIT = 1_795_900_000.0, 1.98e9, 700.0
PROGRAMS = Path(__file__).parent / "programs"
GOALS = {
    "healthy_named": 0.0,
    "slow_missed_share": 0.2,
    "slow_others_named": 0.0,
    "capped_missed_share": 0.1,
    "capped_others_named": 0.0,
    "equal_standing_missed_share": 0.2,
    "standing_others_named": 0.0,
    "real_healthy_named": 0.0,
    "real_others_named": 0.0,
}
HEALTHY, SLOW, CAPPED, STANDING = "healthy", "slow", "capped", "standing"
AVERAGES, MIXED, CHAIN = "averages", "mixed", "chain"
"""What a rank exchanges: averages of gradients; more than those; with its neighbours, and those."""


@dataclass(frozen=True)
class Scene:
    """A run without a fault.

    Attributes:
        own: (N, R) seconds of own time.
        staged: Whether the program tells stages.
        exchange: What ranks exchange.
        beside: (N, R) of that what is no forward or backward pass; 0 = nothing.
        tokens: (N, R) that a step has, or all.
    """

    own: Floats
    staged: bool = False
    exchange: str = AVERAGES
    beside: Any = 0.0
    tokens: Any = 4096


def pipeline(rng: Generator, steps: int) -> Scene:
    """Four stages, each with its own work; most of a step a rank waits for the heaviest."""
    weights = rng.uniform(0.5, 1.6, 4)
    own = 0.03 * weights * _noise(rng, steps, 4, 0.03)
    return Scene(own, bool(rng.random() < 0.5), CHAIN)


def rollouts(rng: Generator, steps: int) -> Scene:
    """Rank 0 makes rollouts of its own length before each update."""
    own = 0.03 * _noise(rng, steps, int(rng.integers(3, 9)), 0.04)
    train = own.copy()
    own[:, 0] += 0.03 * rng.uniform(0.6, 2.2) * rng.lognormal(0, rng.uniform(0.05, 0.25), steps)
    return Scene(own, beside=own - train)


def expert(rng: Generator, steps: int) -> Scene:
    """One expert gets more tokens than the others; how many wanders."""
    ranks = int(rng.integers(4, 9))
    load_archive = np.ones(ranks) + rng.uniform(-0.1, 0.1, ranks)
    load_archive[rng.integers(ranks)] *= rng.uniform(1.4, 2.4)
    wander = np.exp(np.cumsum(rng.normal(0, 0.004, (steps, ranks)), axis=0))
    return Scene(0.03 * load_archive * wander * _noise(rng, steps, ranks, 0.05), exchange=MIXED)


def evaluation(rng: Generator, steps: int) -> Scene:
    """Rank 0 logs each step and evaluates now and then, which nobody marks."""
    own = 0.03 * _noise(rng, steps, int(rng.integers(3, 9)), 0.03)
    train = own.copy()
    own[:, 0] += 0.03 * rng.uniform(0.02, 0.3)
    every = int(rng.integers(10, 60))
    own[every - 1 :: every, 0] += 0.03 * rng.uniform(2, 12)
    return Scene(own, beside=own - train)


def lengths(rng: Generator, steps: int) -> Scene:
    """Sequences of many lengths; each rank's part of the data has its own mean."""
    ranks = int(rng.integers(4, 9))
    mean = rng.uniform(0.85, 1.35, ranks)
    length = mean * _noise(rng, steps, ranks, rng.uniform(0.1, 0.3))
    # Some programs tell how many tokens there are, others how many of the longest sequences.
    tokens = np.round(4096 * length) if rng.random() < 0.5 else 4096
    return Scene(0.03 * length * _noise(rng, steps, ranks, 0.03), tokens=tokens)


def equal(rng: Generator, steps: int) -> Scene:
    """Replicas, and nothing beside: whoever is slow since the start is slow."""
    return Scene(0.03 * _noise(rng, steps, int(rng.integers(3, 9)), 0.03))


KINDS: Mapping[str, Callable[[Generator, int], Scene]] = {
    "pipeline": pipeline, "rollouts": rollouts, "expert": expert, "evaluation": evaluation,
    "lengths": lengths,
}  # fmt: skip
EQUAL = "equal"
STAND = {**KINDS, EQUAL: equal}


def main() -> dict[str, float]:
    """Figures; GOALS has what they may be at most."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    told: Counter[tuple[str, str]] = Counter()
    for kind in KINDS:
        mine: Counter[tuple[str, str]] = Counter()
        for state in (HEALTHY, SLOW, CAPPED):
            for number in range(RUNS):
                mine[state, judged(kind, state, number)] += 1
        print(f"  {kind:12}" + _words(mine), flush=True)  # noqa: T201
        told += mine
    stood = {
        kind: Counter(judged(kind, STANDING, number) for number in range(RUNS)) for kind in STAND
    }
    for kind, counts in stood.items():
        print(f"  {kind:12}{STANDING}: {dict(counts)}", flush=True)  # noqa: T201
    figures = {
        "healthy": float(_all(told, HEALTHY)),
        "healthy_named": float(told[HEALTHY, "others"]),
        "healthy_said": float(told[HEALTHY, "healthy"]),
        "slow_missed_share": 1.0 - told[SLOW, "right"] / max(_all(told, SLOW), 1),
        "slow_others_named": float(told[SLOW, "others"]),
        "slow_called_healthy": float(told[SLOW, "healthy"]),
        "capped_missed_share": 1.0 - told[CAPPED, "right"] / max(_all(told, CAPPED), 1),
        "capped_others_named": float(told[CAPPED, "others"]),
        "equal_standing_missed_share": 1.0 - stood[EQUAL]["right"] / max(RUNS, 1),
        "standing_others_named": float(sum(counts["others"] for counts in stood.values())),
    }
    return figures | (real() if REAL else {})


def judged(kind: str, state: str, number: int) -> str:
    """right, others (who is well is named), healthy or unknown."""
    rng = np.random.default_rng([SEED, number, *kind.encode(), *state.encode()])
    with TemporaryDirectory(prefix="lockstep-asymmetric-") as scratch:
        rank = write(Path(scratch), rng, STAND[kind], state)
        verdict = verdict_json(diagnose(load_archive(Path(scratch))).verdict)
    return graded(verdict, rank, f"{kind} {state} {number}")


def graded(verdict: Mapping[str, Any], rank: int | None, name: str) -> str:
    """As of `judged`; a rank is right by its number, or by its node, which has no other."""
    named = {one["node"] if one["rank"] is None else one["rank"] for one in verdict["culprits"]}
    answer = str(verdict["status"])
    if named:
        answer = "right" if rank is not None and named <= {rank, f"node-{rank}"} else "others"
    if answer == "others" or (rank is not None and answer != "right" and STANDING not in name):
        print(f"{name}: rank {rank}, {verdict['sentence']}", file=sys.stderr)  # noqa: T201
    return answer


def write(
    folder: Path, rng: Generator, kind: Callable[[Generator, int], Scene], state: str
) -> int | None:
    """The archive of a run, each rank on a node of its own; the rank that is slow."""
    steps = int(rng.integers(240, 480))
    scene = kind(rng, steps)
    ranks = scene.own.shape[1]
    own = scene.own.copy()
    rank = None if state == HEALTHY else int(rng.integers(ranks))
    cap = rng.uniform(0.55, 0.8)
    gpus = state == CAPPED or rng.random() < 0.5
    if state == SLOW:
        own[steps // 2 :, rank] *= rng.uniform(1.3, 2.0)
    if state == CAPPED:
        own[:, rank] /= cap
    if state == STANDING:
        own[:, rank] *= rng.uniform(1.3, 2.0)
    told = state == STANDING or bool(rng.random() < 0.5)
    wall = own.max(axis=1, keepdims=True) + 0.002
    ends = EPOCH + np.cumsum(wall[:, 0])
    places = np.arange(ranks)
    nodes, nothing = [f"node-{place}" for place in places], np.zeros(ranks, np.int64)
    dp, pp = (nothing, places) if scene.staged else (places, nothing)
    uuids = [f"GPU-{place:08d}" for place in places]
    write_ranks(folder, nodes, nothing, uuids, dp, pp, nothing)
    layout = {"world": ranks, "nodes": ranks, "ranks_per_node": 1, "dp": ranks, "pp": 1, "tp": 1}
    run = run_document("exec-1", "exec", EPOCH, layout, {}, 1e-4)
    run |= {"ended": run["started"], "outcome": outcome("finished"), "own_time_known": True}
    (folder / RUN_FILE).write_text(json.dumps(run))
    _write_steps(folder, own, wall, ends, scene if told else None)
    samples = Samples()
    for place in places:
        capped = cap if place == rank and state == CAPPED else 1.0
        _tell(samples, rng, nodes[place], int(place), ends, own[:, place] / wall[:, 0],
              capped if gpus else None)  # fmt: skip
        if told:
            exchange = _exchange(scene.exchange, int(place), ranks)
            samples.add(nodes[place], -1, int(place), "rank_exchange_info", exchange, ends[-1:], 1)
    pq.write_table(samples.table(), folder / SAMPLES_FILE)
    return rank


def _noise(rng: Generator, steps: int, ranks: int, sigma: float) -> Floats:
    stalls = np.where(rng.random((steps, ranks)) < 0.005, rng.pareto(2.0, (steps, ranks)), 0.0)
    noise: Floats = np.exp(rng.normal(0, sigma, (steps, ranks))) + stalls
    return noise


def _exchange(what: str, rank: int, ranks: int) -> str:
    beside = [other for other in (rank - 1, rank + 1) if what == CHAIN and 0 <= other < ranks]
    return labels(
        groups="" if what == CHAIN else f"0000000000ab:{ranks}",
        only_averages="true" if what == AVERAGES else "false",
        peers=",".join(map(str, beside)),
    )


def _write_steps(folder: Path, own: Floats, wall: Floats, ends: Floats, told: Scene | None) -> None:
    """As told, or with all time in `other` and no tokens: DDP waits within the backward pass."""
    steps, ranks = own.shape
    parts = {"other": wall}
    if told is not None:
        beside = np.broadcast_to(told.beside * (own / told.own), own.shape)
        forward = (own - beside) / 3
        parts = {"forward": forward, "backward": wall - forward - beside, "other": beside}

    def column(values: Any) -> Any:
        return np.broadcast_to(np.asarray(values), own.shape).T.ravel()

    step = np.arange(steps)[:, None]
    values = {
        "step": column(step), "rank": column(np.arange(ranks)[None, :]), "attempt": column(0),
        "start": column(ends[:, None] - wall), "wall_seconds": column(wall),
        "cpu_seconds": column(0.4 * own), "own_seconds": column(own),
        **{f"{phase}_seconds": column(0.0) for phase in PHASES},
        **{f"{phase}_seconds": column(seconds) for phase, seconds in parts.items()},
        "tags": column(np.where(step < 5, "warmup", "")), "loss": column(np.nan),
        "samples": column(0), "tokens": column(0 if told is None else told.tokens),
        "flops": column(0.0),
    }  # fmt: skip
    pq.write_table(steps_table(values), folder / STEPS_FILE)


def _tell(
    samples: Samples, rng: Generator, node: str, rank: int, ends: Floats, busy: Floats,
    cap: float | None,
) -> None:  # fmt: skip
    """What a node's page tells once a second; of a GPU at a share `cap` of its clock, None = none.

    More work is more power and heat, and more of the wait for a processor.
    """
    times = np.arange(ends[0] + rng.uniform(0, 1), ends[-1], 1.0)
    load_archive = np.interp(times, ends, busy)

    def add(metric: str, words: str, values: Any, *, gpu: int = -1, who: int = -1) -> None:
        samples.add(node, gpu, who, metric, words, times, values)

    add("up", "", 1)
    add("rank_up", "", 1, who=rank)
    add("rank_run_queue_seconds_total", "", np.cumsum(0.05 * load_archive), who=rank)
    if cap is None:
        return

    def tell(metric: str, words: str, values: Any) -> None:
        add(f"gpu_{metric}", words, values, gpu=0)

    tell("info", labels(driver="550.1", model="NVIDIA H100", simulated="false"), 1)
    clock = CLOCK * cap + rng.normal(0, 6e6, len(times))
    tell("clock_hertz", 'domain="sm"', np.round(np.minimum(clock, CLOCK) / 15e6) * 15e6)
    tell("clock_max_hertz", 'domain="sm"', CLOCK)
    watts = (150 + 400 * load_archive) * cap + rng.normal(0, 8, len(times))
    limit = LIMIT if cap == 1.0 else 250.0 + 300.0 * cap
    tell("power_watts", "", np.minimum(watts, limit))
    tell("power_limit_watts", 'kind="enforced"', limit)
    tell(
        "temperature_celsius",
        'sensor="gpu"',
        np.round(45 + 25 * load_archive * cap + rng.normal(0, 1)),
    )
    tell("utilization_ratio", "", np.clip(0.9 + rng.normal(0, 0.02, len(times)), 0, 1))
    seconds = np.cumsum(np.full(len(times), 0.0 if cap == 1.0 else 0.9))
    for reason in ("sw_power_cap", "hw_thermal", "sw_thermal", "hw_power_brake"):
        tell("clock_event_seconds_total", f'reason="{reason}"',
             seconds if reason == "sw_power_cap" else 0.0)  # fmt: skip
    for counter in ("volatile", "aggregate"):
        for errors in ("corrected", "uncorrected"):
            tell("ecc_errors_total", labels(counter=counter, type=errors), 0.0)
    tell("pcie_link_width", "", 16)
    tell("pcie_link_generation", "", 5)


def real() -> dict[str, float]:
    """Real programs on this machine, 4 ranks each, one of them healthy and one slow in turn."""
    told: Counter[tuple[str, str]] = Counter()
    for kind in KINDS:
        for number in range(REAL):
            for state in (HEALTHY, SLOW):
                rank = (number + 1) % 4 if state == SLOW else None
                told[state, _ran(kind, state, rank, number)] += 1
        print(f"  real so far: {_words(told)}", flush=True)  # noqa: T201
    return {
        "real_healthy_named": float(told[HEALTHY, "others"]),
        "real_slow": float(_all(told, SLOW)),
        "real_slow_right": float(told[SLOW, "right"]),
        "real_others_named": float(told[SLOW, "others"]),
        "real_failed": float(told[HEALTHY, "failed"] + told[SLOW, "failed"]),
    }


def _ran(kind: str, state: str, rank: int | None, number: int) -> str:
    with TemporaryDirectory(prefix="lockstep-asymmetric-") as scratch:
        archive = Path(scratch) / "archive"
        ours = [sys.executable, "-m", "lockstep"]
        program = [sys.executable, str(PROGRAMS / "asymmetric.py"), "--kind", kind]
        late = ["--late-rank", "-1" if rank is None else str(rank)]
        for command in (
            [*ours, "run", "--exec", "--nodes", "4", "--out", str(archive), "--", *program, *late],
            [*ours, "analyze", str(archive)],
        ):
            subprocess.run(command, capture_output=True, timeout=300, check=False)
        if not (archive / VERDICT_FILE).exists():
            return "failed"
        verdict = json.loads((archive / VERDICT_FILE).read_bytes())
    return graded(verdict, rank, f"real {kind} {state} {number}")


def _all(told: Mapping[tuple[str, str], int], state: str) -> int:
    return sum(count for (other, _), count in told.items() if other == state)


def _words(told: Mapping[tuple[str, str], int]) -> str:
    return "; ".join(
        f"{state}: " + ", ".join(f"{n} {answer}" for (s, answer), n in told.items() if s == state)
        for state in (HEALTHY, SLOW, CAPPED)
        if _all(told, state)
    )
