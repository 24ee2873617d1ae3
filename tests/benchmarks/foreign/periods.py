"""Draws what comes round in a run, or once: checkpoints, evaluations, cron, restarts, more work."""

import numpy as np

from tests.benchmarks.foreign.kinds import CHECKPOINT_FAULTS, MISSING_ODDS, STOPS
from tests.benchmarks.foreign.scenario import Habits, Layout, Length, Surroundings
from tests.benchmarks.simulated.arrays import Generator


def draw_habits(rng: Generator, wanted: list[str], length: Length) -> Habits:
    """All but restarts and changes of work, which are drawn later."""
    steps, step_seconds = length.steps, length.step_seconds
    loader_use, depth = float(rng.uniform(0.35, 0.8)), int(rng.choice([2, 4, 8, 16]))
    to_device = float(rng.uniform(0.01, 0.03))
    offload = bool(rng.random() < 0.2)
    if "pcie" in wanted:
        to_device = float(rng.uniform(0.02, 0.06))
    collects_alone = bool(rng.random() < 0.3)
    slow_writer = any(kind in CHECKPOINT_FAULTS for kind in wanted)
    plain_writes = slow_writer or "ckpts" in wanted
    written = rng.random() < 0.5 or plain_writes or "asyncckpt" in wanted
    checkpoint_every = int(steps / rng.integers(4, 12)) if written else 0
    if slow_writer:
        checkpoint_every = int(steps / rng.integers(8, 20))
    checkpoint_async = "asyncckpt" in wanted or bool(
        checkpoint_every and not plain_writes and rng.random() < 0.4
    )
    all_write = bool(rng.random() < 0.6)
    checkpoint_seconds = float(step_seconds * rng.uniform(2, 8))
    evaluated = "evals" in wanted or rng.random() < 0.25
    eval_every = int(steps / rng.integers(4, 10)) if evaluated else 0
    eval_seconds = float(step_seconds * rng.uniform(3, 12))
    if "rank0eval" in wanted and not eval_every:
        eval_every = int(steps / 8)
    if "rank0ckpt" in wanted:
        checkpoint_every, checkpoint_async = int(steps / 10), False
    return Habits(
        loader_use=loader_use, depth=depth, to_device=to_device, offload=offload,
        collects_alone=collects_alone, collects_together=False, checkpoint_every=checkpoint_every,
        checkpoint_async=checkpoint_async, all_write=all_write,
        checkpoint_seconds=checkpoint_seconds, eval_every=eval_every, eval_seconds=eval_seconds,
        length_spread=_length_spread(rng, wanted), tokens_told=bool(rng.random() < 0.7),
        warm_steps=int(rng.integers(2, 6)), warm_factor=float(rng.uniform(2, 12)),
        epochs="epoch" in wanted, attempts=[], skew=None, work=np.ones(steps),
    )  # fmt: skip


def _length_spread(rng: Generator, wanted: list[str]) -> float:
    if "longseq" in wanted:
        return float(rng.uniform(0.08, 0.2))
    return float(rng.uniform(0.01, 0.03)) if rng.random() < 0.3 else 0.0


def draw_surroundings(rng: Generator, wanted: list[str], layout: Layout) -> Surroundings:
    """All but decoys, which are drawn later, and when the run begins."""
    nodes = layout.nodes
    clocks = rng.normal(0, rng.choice([0.02, 1.5, 4]), nodes)
    lost = float(rng.choice([0, 0.005, 0.03]))
    swing, swing_seconds = float(rng.uniform(0.3, 2)), float(rng.uniform(900, 2400))
    inlet = 24 + rng.normal(0, 1.5, nodes)
    cron = "cron" in wanted
    cron_every = float(rng.choice([60, 300, 600])) if cron or rng.random() < 0.3 else 0.0
    cron_share = float(rng.uniform(0.35, 0.6) if cron else rng.uniform(0.6, 0.85))
    cron_seconds = float(rng.uniform(4, 15))
    silent = []
    if "silent" in wanted or rng.random() < 0.1:
        count = min(nodes, 1 + int(rng.integers(2)))
        for node in rng.choice(nodes, count, replace=False):
            begin = rng.uniform(0.1, 0.7)
            silent.append((int(node), begin, begin + rng.uniform(0.05, 0.25)))
    missing = set()
    for family, odds in MISSING_ODDS:
        if rng.random() < (0.5 if "missing" in wanted else odds):
            missing.add(family)
    return Surroundings(
        clocks=clocks, lost=lost, swing=swing, swing_seconds=swing_seconds, inlet=inlet,
        cron_every=cron_every, cron_share=cron_share, cron_seconds=cron_seconds, silent=silent,
        missing=missing, other_traffic="bgtraffic" in wanted, decoys=False,
        power_budget="powerbudget" in wanted, begin=0.0,
    )  # fmt: skip


def draw_attempts(rng: Generator, wanted: list[str], length: Length) -> list[int]:
    """The step before which a run begins anew, if there is one."""
    restarts = "restart" in wanted or "codechange" in wanted
    stops = any(kind in STOPS for kind in wanted)
    if restarts or (not stops and rng.random() < 0.1):
        return [int(length.steps * rng.uniform(0.3, 0.7))]
    return []


def draw_work(
    rng: Generator, wanted: list[str], layout: Layout, length: Length, habits: Habits
) -> None:
    """More or less work for all, or longer sequences for one replica."""
    steps = length.steps
    step = np.arange(steps)
    if "batchwarm" in wanted:
        earlier = [step < steps * 0.2, step < steps * 0.45, step < steps * 0.7]
        habits.work = np.select(earlier, [0.4, 0.6, 0.8], 1.0)
    if "seqwarm" in wanted:
        habits.work = np.clip(0.5 + 0.5 * step / (steps * rng.uniform(0.4, 0.9)), 0, 1)
    if "uniform" in wanted:
        begin, factor = rng.uniform(0.3, 0.7), rng.uniform(1.08, 1.4)
        habits.work = np.where(step > steps * begin, factor, 1.0)
        if rng.random() < 0.5:
            habits.work = np.where(step > steps * (begin + 0.2), 1.0, habits.work)
    if "codechange" in wanted:
        habits.work = np.where(step >= habits.attempts[0], rng.uniform(1.1, 1.3), 1.0)
    if "skewreplica" in wanted:
        habits.tokens_told = True
        replica = int(rng.integers(layout.dp))
        habits.skew = (replica, float(rng.uniform(0.2, 0.5)), float(rng.uniform(1.1, 1.25)))
