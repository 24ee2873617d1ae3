"""Diagnoses made by hand: a thermal straggler, a healthy run, a hang, hostile names."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lockstep.analyzer.report.render import render
from lockstep.analyzer.shapes.run import (
    Culprit,
    Fact,
    Finding,
    Grid,
    RankInfo,
    Rejected,
    Run,
    Verdict,
)
from lockstep.analyzer.verdict.pipeline import Diagnosis
from lockstep.collector.contract.words import PHASES

STEPS, RANKS, ONSET, START = 120, 4, 40, 1_795_000_000.0
SPEC: dict[str, Any] = {
    "run": "gpt-20261118T110640-0a1b", "workload": "gpt", "steps": STEPS, "seed": 7,
    "layout": {"nodes": RANKS, "ranks_per_node": 1, "dp": RANKS, "tp": 1, "pp": 1},
    "faults": [{"spec": "thermal:rank=2,factor=1.5"}], "launcher": "local", "pace": True,
    "device_noise": 0.02, "device_seconds": 0.04, "hang_timeout": 10.0,
}  # fmt: skip
META = {
    "schema_version": 1,
    "command": "lockstep run gpt --nodes 4 --steps 120 --seed 7",
    "spec": SPEC,
    "entropy_rate_nats": 1.2,
    "versions": {"torch": "2.13.0", "python": "3.11.2"},
}


def grid(nodes: list[str], slow: int | None) -> Grid:
    """Four ranks; `slow` takes half as long again from ONSET on and the others wait for it."""
    dice = np.random.default_rng(3)
    own = 0.040 * (1 + 0.02 * dice.standard_normal((STEPS, RANKS)))
    hot = np.zeros((STEPS, RANKS))
    if slow is not None:
        own[ONSET:, slow] *= 1.5
        hot[ONSET:, slow] = 1.0
    wall = np.repeat(own.max(axis=1, keepdims=True) + 0.002, RANKS, axis=1)
    end = START + np.cumsum(wall[:, 0])
    time = {phase.value: np.zeros_like(own) for phase in PHASES}
    time |= {"wall": wall, "own": own, "cpu": own * 0.3, "collective": wall - own}
    time |= {"forward": own * 0.35, "backward": own * 0.6, "grad_sync": wall - own}
    temperature = 'lockstep_gpu_temperature_celsius{sensor="gpu"}'
    throttled = 'lockstep_gpu_clock_event_seconds_total{reason="hw_thermal"}'
    return Grid(
        run=SPEC["run"],
        ranks=tuple(
            RankInfo(rank, nodes[rank], 0, f"GPU-{rank}", 0, rank, 0, 0) for rank in range(RANKS)
        ),
        from_step=np.arange(STEPS),
        to_step=np.arange(STEPS) + 1,
        start=end - wall[:, 0],
        end=end,
        time=time,
        signals={
            temperature: 64.0 + 29.0 * hot,
            'lockstep_gpu_clock_hertz{domain="sm"}': 1.98e9 / (1 + 0.5 * hot),
            throttled: hot,
        },
        last={},
        last_time={},
        scraped_until=np.full(RANKS, end[-1]),
        masked=np.arange(STEPS) < 5,
        coverage=0.98,
        missing=("no GPU memory series",),
        meta=META,
    )


def run(shape: Grid) -> Run:
    steps = np.repeat(np.arange(STEPS), RANKS)
    loss = 1.2 + 2.5 * np.exp(-steps / 30)
    ranks = np.tile(np.arange(RANKS), STEPS)
    begin = np.repeat(shape.start, RANKS) if len(shape.start) == STEPS else START
    windows = pd.DataFrame({
        "rank": ranks, "attempt": 0, "from_step": steps, "to_step": steps + 1, "steps": 1,
        "start": begin, "wall_seconds": 0.06, "tags": "", "loss": loss, "tokens": 512,
    })  # fmt: skip
    return Run(shape.run, META, shape.ranks, windows, pd.DataFrame(), None, ())


def culprit(shape: Grid, rank: int, text: str) -> Culprit:
    info = shape.ranks[rank]
    facts = (
        Fact(True, text, 'rate(lockstep_gpu_clock_event_seconds_total{reason="hw_thermal"}[1m])'),
        Fact(False, "the power limit was not lowered", "lockstep_gpu_power_limit_watts"),
    )
    return Culprit(
        "gpu", rank, info.node, 0, info.uuid, rank, 0, 0, None, ONSET, None,
        "2026-11-18T11:06:43Z", 1.5, (1.47, 1.53), "thermal", 0.93, "page", facts, 0.98,
    )  # fmt: skip


def diagnosed(shape: Grid, verdict: Verdict, findings: tuple[Finding, ...]) -> Diagnosis:
    return Diagnosis(run(shape), shape, findings, verdict)


@cache
def _page(tree: str) -> str:
    return render(json.loads(tree), "html")


@pytest.fixture
def page() -> Callable[[dict[str, Any]], str]:
    """`page(tree)`: the page made of what report.json holds, once a tree: charts take long."""
    return lambda tree: _page(render(tree, "json"))


@pytest.fixture
def straggler() -> Callable[..., Diagnosis]:
    """`straggler(node=..., text=...)`: rank 2 overheats; both strings are the run's own words."""

    def make(
        node: str = "node-2", text: str = "throttled by heat in 98 % of the steps"
    ) -> Diagnosis:
        shape = grid(["node-0", "node-1", node, "node-3"], slow=2)
        slow = Finding(
            "peers", "slow", 2, ONSET, None, 1.5, (1.47, 1.53), 41.0,
            {"backward": 0.63, "forward": 0.37}, "rank 2 takes 1.50x its expected own time",
        )  # fmt: skip
        verdict = Verdict(
            shape.run, "degraded",
            f"Rank 2 ({node}, GPU 0) ran 1.50x slower than its peers from step {ONSET} to the end:"
            " its GPU was throttled by heat.",
            1.44, (1.41, 1.47), 0.00123, 0.98,
            culprits=(culprit(shape, 2, text),),
            rejected=(Rejected(0, "slower for 3 steps only"),),
            alternatives=({"cause": "power", "confidence": 0.05},),
        )  # fmt: skip
        return diagnosed(shape, verdict, (slow,))

    return make


@pytest.fixture
def healthy() -> Diagnosis:
    shape = grid([f"node-{rank}" for rank in range(RANKS)], slow=None)
    verdict = Verdict(
        shape.run, "healthy", "No rank holds this run back.", 1.0, (0.99, 1.01), 0.0, 1.0
    )
    return diagnosed(shape, verdict, ())


@pytest.fixture
def hang() -> Diagnosis:
    """Rank 1 never arrives; what a hang cannot know is NaN or None."""
    shape = grid([f"node-{rank}" for rank in range(RANKS)], slow=None)
    missing = Finding(
        "hang", "hang", 1, STEPS - 1, None, np.nan, (np.nan, np.nan), np.nan, {}, "rank 1 is gone"
    )
    gone = replace(
        culprit(shape, 1, "its process is gone"), cause="crash", slowdown=None,
        slowdown_interval=None, from_step=STEPS,
    )  # fmt: skip
    verdict = Verdict(
        shape.run, "degraded", "Rank 1 crashed.", None, None, None, 0.9, (gone,),
        hang={"group": "dp", "sequence": 311, "op": "dp-all-reduce", "missing_ranks": [1]},
    )  # fmt: skip
    return diagnosed(shape, verdict, (missing,))


@pytest.fixture
def empty() -> Diagnosis:
    """Nothing answered."""
    none, flat = np.zeros(0), np.zeros((0, RANKS))
    full = grid([f"node-{rank}" for rank in range(RANKS)], slow=None)
    shape = replace(
        full, from_step=none.astype(int), to_step=none.astype(int), start=none, end=none,
        time=dict.fromkeys(full.time, flat), signals={}, scraped_until=np.full(RANKS, np.nan),
        masked=none.astype(bool), coverage=0.0,
    )  # fmt: skip
    verdict = Verdict(shape.run, "unknown", "No step answered.", None, None, None, 0.0)
    windows = pd.DataFrame({"from_step": [], "attempt": [], "loss": [], "tokens": []})
    return Diagnosis(
        Run(shape.run, {}, shape.ranks, windows, pd.DataFrame(), None), shape, (), verdict
    )
