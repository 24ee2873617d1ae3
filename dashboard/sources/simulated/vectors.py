"""One value a GPU of the simulated fleet, at one moment: arrays, no loops over GPUs."""

import zlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lockstep.dashboard.shapes import Floats
from lockstep.dashboard.sources.simulated.noise import noise
from lockstep.dashboard.sources.simulated.plan import SCRAPE, Plan

IDLE_CELSIUS, BUSY_CELSIUS, HOT_CELSIUS = 34.0, 62.0, 89.0
IDLE_WATTS, BUSY_WATTS = 90.0, 610.0
BUSY_HERTZ, IDLE_HERTZ = 1.98e9, 3.45e8
STEP_SECONDS = 1.2
OWN_SHARE = 0.8
"""Of a healthy step; the rest is collectives."""


def vector(
    plan: Plan, key: str, at: float, seed: int, where: NDArray[np.intp] | None = None
) -> Floats:
    """(G,) of some GPUs, or of all; NaN where nobody tells.

    Args:
        plan: The fleet.
        key: Of shapes.FLEET_METRICS.
        at: Unix seconds.
        seed: Of the noise.
        where: Indices of GPUs; None = all.
    """
    index = np.arange(len(plan.gpu)) if where is None else where
    salt = zlib.crc32(f"{key}:{seed}:{int(at // SCRAPE)}".encode())
    spread = noise(index, salt)
    busy = (plan.rank[index] >= 0) & (at >= plan.started)
    hot = (plan.node[index] == plan.hot) & (at >= plan.sick)
    slow = plan.slowdown[index] if at >= plan.sick else np.ones(len(index))
    values: dict[str, Callable[[], Floats]] = {
        "slowdown": lambda: np.where(busy, slow * (1 + 0.015 * spread), np.nan),
        "utilization": lambda: np.where(busy, 0.95 + 0.04 * spread, 0.02 * (1 + spread)),
        "temperature": lambda: np.where(
            hot, HOT_CELSIUS + 2 * spread,
            np.where(busy, BUSY_CELSIUS + 3 * spread, IDLE_CELSIUS + 2 * spread),
        ),
        "power": lambda: np.where(
            busy, (BUSY_WATTS - 130.0 * hot) * (1 + 0.02 * spread), IDLE_WATTS + 5 * spread
        ),
        "clock": lambda: np.where(busy, BUSY_HERTZ / slow * (1 + 0.003 * spread), IDLE_HERTZ),
        "wait": lambda: np.where(
            busy, 1 - OWN_SHARE * slow * (1 + 0.01 * spread) / step(plan, at) * STEP_SECONDS, np.nan
        ),
        "errors": lambda: np.where(index == plan.culprits[-1], 3.0, 0.0) * (at >= plan.sick),
    }  # fmt: skip
    silent = plan.node[index] == plan.silent
    found: Floats = np.where(silent, np.nan, values[key]())
    return found


def step(plan: Plan, at: float) -> float:
    """Seconds of a step: everybody waits for the slowest."""
    slowest = float(plan.slowdown.max()) if at >= plan.sick else 1.0
    return STEP_SECONDS * (1 - OWN_SHARE + OWN_SHARE * slowest)
