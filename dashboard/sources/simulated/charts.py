"""Lines over time of the simulated run, its nodes and its GPUs: made when somebody looks."""

from collections.abc import Callable

import numpy as np

from lockstep.collector.contract.words import PHASES
from lockstep.dashboard.shapes import Floats, Lines
from lockstep.dashboard.sources.chart_table import (
    ALL,
    BANDS,
    BESIDE_PEERS,
    BUSY,
    GPU_CHARTS,
    HIGHEST,
    IN_USE,
    LOWEST,
    MEAN,
    MEDIAN,
    NODE_CHARTS,
    PEERS,
    RUN_CHARTS,
    lines,
)
from lockstep.dashboard.sources.grid import Grid
from lockstep.dashboard.sources.simulated.noise import noise
from lockstep.dashboard.sources.simulated.plan import Plan
from lockstep.dashboard.sources.simulated.vectors import STEP_SECONDS, step, vector

TOKENS_A_STEP = 4096.0
"""Of a rank."""
SHARES = dict(zip(PHASES, (0.02, 0.24, 0.48, 0.16, 0.07, 0.0, 0.0, 0.03), strict=True))
MADE = "made by a program"
MOST_PEERS = 64
NAMES = {"cpu": BUSY, "memory": IN_USE, "disk": "read", "network": "receive", "errors": "XIDs"}


def run_charts(plan: Plan, grid: Grid, seed: int) -> tuple[Lines, ...]:
    """The charts of the Run page."""
    times = grid.times
    spread = noise((times // grid.step).astype(np.int64), seed)
    running = np.where((times >= plan.started), 1.0, np.nan)
    age = np.clip(times - plan.started, 0, None)
    wall = np.array([step(plan, at) for at in times.tolist()])
    first = np.floor(age / STEP_SECONDS)
    sync = 1 - (STEP_SECONDS / wall) * (1 - SHARES[PHASES[3]])
    phases = {
        str(phase): running * (sync if phase == PHASES[3] else share * STEP_SECONDS / wall)
        for phase, share in SHARES.items()
        if share
    }
    values: dict[str, dict[str, Floats]] = {
        "loss": {MEAN: running * (2.1 + 8.0 * np.exp(-age / 5000.0) + 0.02 * spread)},
        "throughput": {ALL: running * plan.ranks * TOKENS_A_STEP / wall * (1 + 0.01 * spread)},
        "step": {
            "p5": running * wall * (0.99 + 0.004 * spread), MEDIAN: running * wall,
            "p95": running * wall * (1.015 + 0.004 * spread),
        },
        "mfu": {},
        "phases": phases,
        "gpu": {LOWEST: running * (0.89 + 0.01 * spread),
                MEDIAN: running * (0.95 + 0.005 * spread),
                HIGHEST: running * (0.99 + 0.003 * spread)},
        "cpu": {MEDIAN: running * (0.31 + 0.02 * spread)},
        "memory": {MEDIAN: running * (0.44 + 0.01 * spread)},
        "network": {"receive": running * plan.ranks * 2.1e9 * (1 + 0.05 * spread),
                    "transmit": running * plan.ranks * 2.1e9 * (1 - 0.05 * spread)},
    }  # fmt: skip
    return tuple(
        lines(title, key, times, values[key], band=BANDS.get(key), steps=first, query=MADE)
        for key, title in RUN_CHARTS.items()
    )


def node_charts(plan: Plan, node: int, grid: Grid, seed: int) -> tuple[Lines, ...]:
    """The charts of a node; those of GPUs with the band of MOST_PEERS others."""
    mine = np.flatnonzero(plan.node == node)
    others = np.flatnonzero((plan.node != node) & (plan.rank >= 0))
    others = others[:: max(1, len(others) // MOST_PEERS)][:MOST_PEERS]
    found = []
    for key, title in NODE_CHARTS.items():
        values: dict[str, Floats] = {}
        if key in BESIDE_PEERS:
            own = _over(plan, key, grid, seed, mine)
            values = {f"GPU {plan.gpu[g]}": own[:, at] for at, g in enumerate(mine)}
            if others.size:
                low, high = np.quantile(_over(plan, key, grid, seed, others), (0.05, 0.95), axis=1)
                values |= dict(zip(PEERS, (low, high), strict=True))
        elif node != plan.silent:
            values = {NAMES[key]: _of_node(key, node, grid, seed)}
        found.append(lines(title, key, grid.times, values, band=PEERS, query=MADE))
    return tuple(found)


def gpu_charts(plan: Plan, place: int, grid: Grid, seed: int) -> tuple[Lines, ...]:
    """The charts of one GPU (its index in the fleet)."""
    where = np.array([place])

    def of(key: str) -> Floats:
        return _over(plan, key, grid, seed, where)[:, 0]

    hot = (plan.node[place] == plan.hot) & (grid.times >= plan.sick)
    told = np.where(plan.node[place] == plan.silent, np.nan, 1.0)
    makers: dict[str, Callable[[], dict[str, Floats]]] = {
        "utilization": lambda: {"utilisation": of("utilization")},
        "clock": lambda: {"sm": of("clock")},
        "throttle": lambda: {"hw_thermal": told * np.where(hot, 0.86, 0.0)},
        "temperature": lambda: {"gpu": of("temperature")},
        "margin": lambda: {"margin": np.clip(90.0 - of("temperature"), 0, None)},
        "power": lambda: {
            "draw": of("power"),
            "limit: enforced": told * np.full(len(grid.times), 700.0),
        },
        "memory": lambda: {"used": told * np.full(len(grid.times), 6.4e10)},
        "ecc": lambda: {"uncorrected": told * np.zeros(len(grid.times))},
    }
    return tuple(
        lines(title, key, grid.times, makers[key]() if key in makers else {}, query=MADE)
        for key, title in GPU_CHARTS.items()
    )


def _over(plan: Plan, key: str, grid: Grid, seed: int, where: np.ndarray) -> Floats:
    """(T, some GPUs)."""
    found: Floats = np.stack([vector(plan, key, at, seed, where) for at in grid.times.tolist()])
    return found


def _of_node(key: str, node: int, grid: Grid, seed: int) -> Floats:
    middle = {"cpu": 0.3, "memory": 0.44, "disk": 2e6, "network": 1.6e10, "errors": 0.0}[key]
    spread = noise((grid.times // grid.step).astype(np.int64), seed + 31 * node)
    return middle * (1 + 0.05 * spread)
