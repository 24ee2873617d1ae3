"""Fleets made by hand, for tests of their pictures."""

from collections.abc import Sequence

import numpy as np

from lockstep.dashboard.shapes import FLEET_METRICS, FleetSnapshot

METRICS = {metric.key: metric for metric in FLEET_METRICS}


def fleet(
    nodes: int,
    gpus: int = 8,
    metric: str = "slowdown",
    *,
    values: Sequence[float] | None = None,
    names: Sequence[str] | None = None,
    silent: tuple[str, ...] = (),
    run: str = "gpt-1",
) -> FleetSnapshot:
    """`nodes` × `gpus` places of one run, all 1 where no values are given."""
    count = nodes * gpus
    named = list(names) if names is not None else [f"n{node:04d}" for node in range(nodes)]
    told = np.ones(count) if values is None else np.array(values)
    return FleetSnapshot(
        METRICS[metric], 1.79e9, np.repeat(np.array(named, np.str_), gpus),
        np.tile(np.arange(gpus, dtype=np.int32), nodes), np.arange(count, dtype=np.int32),
        np.array([run] * count, np.str_), told.astype(np.float32), silent,
    )  # fmt: skip
