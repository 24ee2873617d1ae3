"""A small fleet that can be made slow."""

from collections.abc import Callable

import numpy as np
import pytest

from lockstep.analyzer.hardware.sequential_test.telemetry import MonitoredMetric, TelemetryArrays

PERIOD = 15.0
METRICS = (
    MonitoredMetric("own", 1, True, 0.01, 0.14, 0.005),
    MonitoredMetric("clock", -1, True, 0.01, 0.14, 0.005),
)


@pytest.fixture
def fleet() -> Callable[..., TelemetryArrays]:
    """(checks, gpus, seed) -> healthy, `change` takes the (T, M, G) values."""

    def make(checks=300, gpus=16, seed=0, change=None):
        dice = np.random.default_rng(seed)
        base = dice.normal(0, 0.03, (len(METRICS), gpus))
        noise = 0.006 * dice.standard_t(3, (checks, len(METRICS), gpus))
        values = np.exp(base + noise).astype(np.float32)
        if change is not None:
            change(values)
        gpu = np.arange(gpus)
        return TelemetryArrays(
            times=1e9 + PERIOD * np.arange(1, checks + 1),
            metrics=METRICS,
            values=values,
            node=np.char.add("node-", (gpu // 8).astype(str)),
            uuid=np.char.add("GPU-", gpu.astype(str)),
            gpu=gpu % 8,
            stratum=np.array(["stage 0"] * gpus),
        )

    return make
