"""A made-up fleet as a Prometheus scrapes it: one run, a thermally throttled rank, every page."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

STEP = 1.0
"""Seconds a step of a healthy run."""
PHASES = {"data": 0.02, "forward": 0.24, "backward": 0.48, "grad_sync": 0.16, "optimizer": 0.08,
          "checkpoint": 0.0, "eval": 0.0, "other": 0.02}  # fmt: skip
OWN = 0.84
COMPUTED = ("forward", "backward", "optimizer")
TRANSFER = STEP - OWN
CLOCK, HOT_FROM = 1.98e9, 0.4

Series = tuple[dict[str, str], np.ndarray]
"""Labels with `__name__`, and a value at each scrape."""


@dataclass
class Fleet:
    """`dp` x `tp` ranks on nodes of `tp` ranks each, scraped `scrapes` times.

    Attributes:
        slow: The rank that is hot and `factor` as slow from `HOT_FROM` of the time; None = nobody.
        frozen: The rank that stands still from then on, while all others wait for it.
        silent: Ranks whose pages nobody scrapes.
        noise: Spread of own time over scrapes.
    """

    dp: int = 16
    tp: int = 4
    scrapes: int = 61
    interval: float = 15.0
    slow: int | None = 21
    factor: float = 1.3
    frozen: int | None = None
    silent: frozenset[int] = frozenset()
    noise: float = 0.01
    run: str = "fleet"
    seed: int = 0
    times: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.times = np.arange(self.scrapes) * self.interval

    @property
    def world(self) -> int:
        return self.dp * self.tp

    def series(self) -> Iterator[Series]:
        """Every series of every page."""
        dice = np.random.default_rng(self.seed)
        shape = (self.world, self.scrapes)
        own = OWN * (1 + self.noise * dice.standard_normal(shape))
        hot = np.zeros(shape, dtype=bool)
        since = int(HOT_FROM * self.scrapes)
        if self.slow is not None:
            hot[self.slow, since:] = True
        own[hot] *= self.factor
        step = own.max(axis=0) + TRANSFER
        done = np.floor(np.concatenate([[0], np.cumsum(self.interval / step[1:])]))
        made = np.diff(done, prepend=0.0)
        if self.frozen is not None:
            made[since:] = 0.0
        for node in range(self.dp):
            target = {"job": "lockstep", "instance": f"host-{node}:9410"}
            yield target | {"__name__": "up"}, np.ones(self.scrapes)
            build = {"__name__": "lockstep_build_info", "version": "1", "python": "3"}
            yield target | build, np.ones(self.scrapes)
            for gpu in range(self.tp):
                rank = node * self.tp + gpu
                if rank in self.silent:
                    continue
                yield from self._of_gpu(target, gpu, rank, hot[rank])
                yield from self._of_rank(target, gpu, rank, own[rank], step, made)

    def _of_gpu(
        self, target: dict[str, str], gpu: int, rank: int, hot: np.ndarray
    ) -> Iterator[Series]:
        device = target | {"gpu": str(gpu), "uuid": f"GPU-{rank:08d}"}
        ones = np.ones(self.scrapes)
        clock = np.where(hot, CLOCK / self.factor, CLOCK)
        gauges = {
            ("lockstep_gpu_clock_hertz", "domain", "sm"): clock,
            ("lockstep_gpu_clock_max_hertz", "domain", "sm"): CLOCK * ones,
            ("lockstep_gpu_temperature_celsius", "sensor", "gpu"): np.where(hot, 92.0, 64.0),
            ("lockstep_gpu_temperature_limit_celsius", "limit", "slowdown"): 90.0 * ones,
            ("lockstep_gpu_power_watts", "", ""): np.where(hot, 450.0, 560.0),
            ("lockstep_gpu_power_limit_watts", "kind", "enforced"): 700.0 * ones,
        }
        for (name, label, value), values in gauges.items():
            yield device | {"__name__": name} | ({label: value} if label else {}), values
        for reason in ("hw_thermal", "sw_thermal", "sw_power_cap"):
            seconds = 0.9 * self.interval * np.cumsum(hot) * (reason == "hw_thermal")
            events = {"__name__": "lockstep_gpu_clock_event_seconds_total", "reason": reason}
            yield device | events, seconds

    def _of_rank(
        self, target: dict[str, str], gpu: int, rank: int, own: np.ndarray,
        step: np.ndarray, made: np.ndarray,
    ) -> Iterator[Series]:  # fmt: skip
        mine = target | {"run": self.run, "rank": str(rank)}
        ones = np.ones(self.scrapes)
        place = {
            "attempt": "0", "local_rank": str(gpu), "world_size": str(self.world),
            "dp": str(rank // self.tp), "pp": "0", "tp": str(gpu), "ep": "0", "cp": "0",
            "gpu": str(gpu), "uuid": f"GPU-{rank:08d}", "node": f"node-{rank // self.tp}",
            "pid": "7",
        }  # fmt: skip
        yield mine | place | {"__name__": "lockstep_rank_info"}, ones
        yield mine | {"__name__": "lockstep_rank_up"}, ones
        counters = {
            "steps_total": ones, "known_steps_total": ones, "own_seconds_total": own,
            "cpu_seconds_total": 0.3 * ones,
            "samples_total": 4 * ones, "tokens_total": 4096 * ones,
            "model_flops_total": 1e12 * ones,
        }  # fmt: skip
        for name, each in counters.items():
            yield mine | {"__name__": f"lockstep_train_{name}"}, np.cumsum(each * made)
        computed = sum(PHASES[phase] for phase in COMPUTED)
        for phase, seconds in PHASES.items():
            each = np.full(self.scrapes, seconds)
            if phase in COMPUTED:
                each = each + (own - OWN) * seconds / computed
            if phase == "grad_sync":
                each = step - own
            labels = {"__name__": "lockstep_train_phase_seconds_total", "phase": phase}
            yield mine | labels, np.cumsum(each * made)
        for name, each in (("collective_seconds_total", step - own), ("collectives_total", ones)):
            labels = {"__name__": f"lockstep_train_{name}", "group": "dp"}
            yield mine | labels, np.cumsum(each * made)
        late = np.maximum(self.times - self.times[int(HOT_FROM * self.scrapes) - 1], 0.0)
        still, waits = self.frozen == rank, self.frozen not in (None, rank)
        for kind, ahead in (("enqueued", waits * (late > 0)), ("completed", 0)):
            labels = {"__name__": f"lockstep_train_{kind}_sequence", "group": "dp"}
            yield mine | labels, np.cumsum(made) + ahead
        beat = mine | {"__name__": "lockstep_train_heartbeat_age_seconds"}
        yield beat, 0.4 + still * late
        if waits:
            inside = {"op": "dp-all-reduce", "group": "dp"}
            age = {"__name__": "lockstep_train_open_operation_age_seconds"}
            yield mine | inside | age, np.where(late > 0, late, np.nan)


def openmetrics(fleet: Fleet, start: float) -> str:
    """The fleet's samples with their times, as `promtool tsdb create-blocks-from` reads them."""
    lines = [
        f"{_name(labels)} {value:.9g} {start + at:.3f}"
        for labels, values in sorted(fleet.series(), key=lambda one: one[0]["__name__"])
        for at, value in zip(fleet.times.tolist(), values.tolist(), strict=True)
        if not np.isnan(value)
    ]
    return "\n".join([*lines, "# EOF\n"])


def _name(labels: dict[str, str]) -> str:
    told = [(name, text) for name, text in labels.items() if name != "__name__"]
    rest = ",".join(f'{name}="{_escaped(text)}"' for name, text in told)
    return f"{labels['__name__']}{{{rest}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"")
