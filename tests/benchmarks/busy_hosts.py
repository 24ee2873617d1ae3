"""Runs on crowded hosts: who is named whose phase takes longer, and nobody in those that are well.

Simulated (`tests/analyzer/busy_host.py`, which knows no analyzer), without telemetry. Figures are
counts of runs; noise is of four kinds in turn, and in a third of the runs the program names no
phases. `loud` is the noisiest kind, in which a step of 20 ms holds 60 ms of waits: who is missed
there is told apart, and has no goal. BUSY_HOSTS_RUNS, BUSY_HOSTS_HEALTHY and BUSY_HOSTS_SEED in the
environment change how many there are of each, and the first seed.
"""

import os
from collections.abc import Mapping
from typing import Any

from lockstep.analyzer.verdict.pipeline import diagnose
from tests.analyzer.busy_host import Busy

RUNS = int(os.environ.get("BUSY_HOSTS_RUNS", "24"))
HEALTHY = int(os.environ.get("BUSY_HOSTS_HEALTHY", "120"))
SEED = int(os.environ.get("BUSY_HOSTS_SEED", "7000"))
NOISE: tuple[Mapping[str, Any], ...] = (
    {"waits": 15.0, "seconds": 0.03, "wander": 0.3},
    {"waits": 30.0, "seconds": 0.04, "wander": 0.4},
    {"waits": 10.0, "seconds": 0.15, "wander": 0.4},
    {"waits": 60.0, "seconds": 0.05, "wander": 0.4},
)
LOUD = NOISE[-1]
KINDS: Mapping[str, Mapping[str, Any]] = {
    "data": {"phase": "data", "more": 0.045},
    "forward": {"phase": "forward", "more": 0.04},
    "from_the_start": {"phase": "backward", "more": 0.04, "first": 0},
    "gc": {"phase": "gc", "more": 0.04},
    "checkpoint": {"phase": "checkpoint", "more": 3.0},
}
GOALS = {
    **{f"{kind}_missed": 0.2 * RUNS for kind in KINDS},
    **{f"{kind}_others_named": 0.0 for kind in KINDS},
    f"healthy_named_of_{HEALTHY}": 0.01 * HEALTHY,
}


def main() -> dict[str, float]:
    """Counts."""
    figures: dict[str, float] = {"runs_of_a_kind": float(RUNS)}
    for kind, slow in KINDS.items():
        missed = loud = others = 0
        for number in range(RUNS):
            noise = NOISE[number % len(NOISE)]
            # The first replica alone may write more by design.
            rank = 1 + number % 3
            run = _run(number, noise, rank=rank, **slow)
            named = {one.rank for one in diagnose(run.run()).verdict.culprits}
            missed += rank not in named and noise is not LOUD
            loud += rank not in named and noise is LOUD
            others += bool(named - {rank})
        figures[f"{kind}_missed"] = float(missed)
        figures[f"{kind}_missed_where_loud"] = float(loud)
        figures[f"{kind}_others_named"] = float(others)
    healthy = (_run(number, NOISE[number % len(NOISE)]) for number in range(HEALTHY))
    named_in = sum(bool(diagnose(run.run()).verdict.culprits) for run in healthy)
    return figures | {f"healthy_named_of_{HEALTHY}": float(named_in)}


def _run(number: int, noise: Mapping[str, Any], **slow: Any) -> Busy:
    phases = number % 3 > 0 or slow.get("phase") in ("checkpoint", "gc")
    world = 4 if number % 2 else 8
    return Busy(seed=SEED + number, world=world, named=phases, **noise, **slow)
