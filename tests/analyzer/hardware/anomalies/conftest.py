"""A fleet's hardware as scrapes see it: healthy at first, and a test makes of it what it wants."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest

from lockstep.collector.contract import archive

EPOCH = 1_760_000_000.0
SECONDS = 15.0
MODEL = 'driver="580",model="H200",serial="s{gpu}"'
Series = tuple[str, str]
"""(metric, labels)."""
UTIL = ("lockstep_gpu_utilization_ratio", "")
POWER = ("lockstep_gpu_power_watts", "")
LIMIT = ("lockstep_gpu_power_limit_watts", 'kind="enforced"')
HEAT = ("lockstep_gpu_temperature_celsius", 'sensor="gpu"')
CLOCK = ("lockstep_gpu_clock_hertz", 'domain="sm"')
WIDTH = ("lockstep_gpu_pcie_link_width", "")
GENERATION = ("lockstep_gpu_pcie_link_generation", "")
REPLAY = ("lockstep_gpu_pcie_replay_total", "")
THROTTLED = ("lockstep_gpu_clock_event_seconds_total", 'reason="hw_thermal"')
CAPPED = ("lockstep_gpu_clock_event_seconds_total", 'reason="sw_power_cap"')
UNCORRECTED = ("lockstep_gpu_ecc_errors_total", 'counter="volatile",type="uncorrected"')
CORRECTED = ("lockstep_gpu_ecc_errors_total", 'counter="volatile",type="corrected"')


@dataclass
class Hardware:
    """Scrapes of `nodes` nodes with `width` GPUs each; arrays are (bins, GPUs) or (bins, nodes)."""

    nodes: int = 2
    width: int = 4
    bins: int = 60
    seed: int = 0
    noise: float = 1.0
    gpus: dict[Series, np.ndarray] = field(default_factory=dict)
    of_nodes: dict[Series, np.ndarray] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    info: dict[int, Callable[[int], str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        dice = np.random.default_rng(self.seed)
        shape = (self.bins, self.nodes * self.width)
        part = self.noise * dice.normal(size=shape[1])

        def wander(scale: float) -> np.ndarray:
            return self.noise * scale * dice.normal(size=shape)

        self.names = self.names or [f"node-{number}" for number in range(self.nodes)]
        self.gpus = {
            UTIL: np.clip(0.8 + wander(0.02), 0, 1),
            POWER: 560.0 * (1 + 0.03 * part) + wander(8.0),
            LIMIT: np.full(shape, 700.0),
            HEAT: 62.0 + 2.0 * part + wander(0.5),
            CLOCK: 1.8e9 * (1 + 0.01 * part) + wander(1e7),
            WIDTH: np.full(shape, 16.0),
            GENERATION: np.full(shape, 5.0),
            REPLAY: np.zeros(shape),
            THROTTLED: np.zeros(shape),
            CAPPED: np.cumsum(np.full(shape, 0.2 * SECONDS), axis=0),
            UNCORRECTED: np.zeros(shape),
            CORRECTED: np.zeros(shape),
            **{("lockstep_gpu_nvlink_up", f'link="{link}"'): np.ones(shape) for link in range(3)},
        }
        nodes = (self.bins, self.nodes)
        self.of_nodes |= {
            ("up", ""): np.ones(nodes),
            ("lockstep_net_errors_total", 'device="eth0",direction="receive"'): np.zeros(nodes),
        }

    @property
    def seconds(self) -> np.ndarray:
        """(bins, 1) since the first scrape."""
        return SECONDS * np.arange(self.bins)[:, None]

    def wait(self, culprit: int, since: int, to: float = 0.7) -> "Hardware":
        """From a scrape on, all GPUs but one work less."""
        others = [column for column in range(self.nodes * self.width) if column != culprit]
        self.gpus[UTIL][since:, others] *= to
        self.gpus[POWER][since:, others] *= (1 + to) / 2
        return self

    def hot(self, culprit: int, since: int, factor: float = 1.5) -> "Hardware":
        """One GPU is too hot from a scrape on."""
        self.gpus[HEAT][since:, culprit] = 91.0 + 0.1 * np.arange(self.bins - since)
        self.gpus[CLOCK][since:, culprit] /= factor
        self.gpus[POWER][since:, culprit] *= 0.8
        self.gpus[THROTTLED][since:, culprit] = 0.8 * SECONDS * np.arange(self.bins - since)
        return self

    def samples(self) -> pd.DataFrame:
        """contract.archive.SAMPLES; NaN is not told, and a failed scrape tells `up 0` alone."""
        up = self.of_nodes["up", ""]
        rows = []
        for node in range(self.nodes):
            times = EPOCH + SECONDS * np.arange(self.bins) + 0.7 * node
            for at in range(self.bins):
                if np.isnan(up[at, node]):
                    continue
                for (metric, labels), cells in self.of_nodes.items():
                    if metric == "up" or up[at, node]:
                        rows.append((times[at], self.names[node], None, metric, labels,
                                     cells[at, node]))  # fmt: skip
                for gpu in range(self.width) if up[at, node] else ():
                    column = node * self.width + gpu
                    mine = [(key, cells[at, column]) for key, cells in self.gpus.items()]
                    if not any(np.isfinite(value) for _, value in mine):
                        continue
                    text = self.info.get(column, lambda _, gpu=gpu: MODEL.format(gpu=gpu))(at)
                    rows.append((times[at], self.names[node], gpu, "lockstep_gpu_info", text, 1.0))
                    rows += [(times[at], self.names[node], gpu, *key, value) for key, value in mine]
        names = ["time", "node", "gpu", "metric", "labels", "value"]
        frame = pd.DataFrame(rows, columns=names).dropna(subset="value")
        frame["rank"] = None
        columns = [column.name for column in archive.SAMPLES]
        return frame[columns].astype({"gpu": "Int32", "rank": "Int32"})


@pytest.fixture
def hardware() -> type[Hardware]:
    """`hardware(nodes=2, width=4, seed=1).hot(3, since=30).samples()`."""
    return Hardware
