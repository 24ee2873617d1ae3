"""Synthetic runs for the analyzer: lockstep steps, plausible telemetry, labelled faults, seeded."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockstep.analyzer.shapes.run import RankInfo, Run
from lockstep.analyzer.shapes.windows import from_steps
from lockstep.collector.contract import archive
from lockstep.collector.contract.words import CLOCK_EVENT_REASONS, PHASES

EPOCH = 1_760_000_000.0
BASE = {"data": 0.001, "forward": 0.012, "backward": 0.024, "optimizer": 0.004, "other": 0.0005}
TRANSFER = 0.002
COMPUTE = ("forward", "backward", "optimizer")
CLOCK = 1.98e9
ENDS = {"freeze": "hang", "crash": "crash"}


@dataclass(frozen=True)
class Fault:
    kind: str
    rank: int
    factor: float = 1.5
    first: int = 80
    last: int | None = None


OLDEST_STEPS = tuple(column for column in archive.STEPS if not column.added)
"""The columns that every archive has: the frozen verdicts are of older ones."""


@dataclass
class Synthetic:
    """Knobs of a synthetic run; `run()` gives it, `write(folder)` its archive."""

    seed: int = 0
    world: int = 4
    steps: int = 240
    noise: float = 0.02
    faults: Sequence[Fault] = ()
    spikes: bool = True
    gpus: bool = True
    uniform: tuple[int, float] | None = None
    burst: tuple[int, int, int, float] | None = None
    """(rank, first step, last step, factor): other work on one rank's core."""
    drop: Callable[[pd.DataFrame], pd.DataFrame] = field(default=lambda samples: samples)
    """Edits the samples frame: loses or contradicts telemetry."""
    telemetry: bool = True
    outcome: str | dict[str, Any] | None = "finished"
    """As run.json tells it; a word gives way to how the faults end a run."""
    ranks_per_node: int = 1

    def run(self) -> Run:
        steps, samples = self.frames()
        return Run(
            name=f"synthetic-{self.seed}",
            meta=self.meta(),
            ranks=tuple(
                RankInfo(r, self.node(r), self.gpu(r), _uuid(r) if self.gpus else None,
                         r % self.ranks_per_node, r, 0, 0)
                for r in range(self.world)
            ),
            windows=from_steps(steps),
            samples=samples,
            ops=None,
        )  # fmt: skip

    def node(self, rank: int) -> str:
        return f"node-{rank // self.ranks_per_node}"

    def gpu(self, rank: int) -> int | None:
        return rank % self.ranks_per_node if self.gpus else None

    def meta(self) -> dict[str, Any]:
        word = next((ENDS[f.kind] for f in self.faults if f.kind in ENDS), self.outcome)
        return {
            "schema_version": archive.SCHEMA_VERSION,
            "run": f"synthetic-{self.seed}",
            "emulated_devices": self.gpus,
            "ended": EPOCH + 60.0,
            "outcome": self.outcome if isinstance(self.outcome, dict) else word,
            "layout": {
                "nodes": self.world // self.ranks_per_node,
                "ranks_per_node": self.ranks_per_node,
                "dp": self.world,
                "tp": 1,
                "pp": 1,
            },
        }

    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """(steps, samples) with the columns of the contract."""
        dice = np.random.default_rng(self.seed)
        phases = self._phases(dice)
        transfers = self._transfers()
        stop = {f.rank: f.first for f in self.faults if f.kind in ("freeze", "crash")}
        begin = np.full(self.world, EPOCH) + dice.uniform(0, 0.001, self.world)
        rows: list[dict[str, Any]] = []
        ends: list[np.ndarray] = []
        for step in range(min([self.steps, *stop.values()])):
            own = {name: cells[step] for name, cells in phases.items()}
            copies, garbage = own.pop("copies"), own.pop("garbage")
            late = begin + own["data"] + own["forward"] + own["backward"] + copies
            done = late.max() + TRANSFER * (1 + 0.1 * abs(dice.normal())) + transfers[step]
            end = done + own["optimizer"] + own["other"]
            for rank in range(self.world):
                mine = {f"{name}_seconds": own[name][rank] for name in own}
                wait = done - late[rank]
                rows.append({
                    "step": step, "rank": rank, "attempt": 0, "start": begin[rank],
                    "wall_seconds": end[rank] - begin[rank],
                    "cpu_seconds": 0.010 * (1 + 0.03 * dice.normal()) + garbage[rank],
                    "own_seconds": end[rank] - begin[rank] - wait,
                    **dict.fromkeys((f"{phase}_seconds" for phase in PHASES), 0.0), **mine,
                    "grad_sync_seconds": wait + copies[rank], "tags": "warmup" if step < 5 else "",
                    "loss": 3.0 - 0.001 * step, "samples": 4, "tokens": 128, "flops": 1e9,
                })  # fmt: skip
            ends.append(end)
            begin = end
        steps = pd.DataFrame(rows, columns=[column.name for column in OLDEST_STEPS])
        samples = self._samples(steps, np.array(ends)) if self.telemetry else _no_samples()
        return steps, self.drop(samples)

    def _phases(self, dice: np.random.Generator) -> dict[str, np.ndarray]:
        shape = (self.steps, self.world)
        device = 1.0 + self.noise * dice.normal(size=shape)
        phases = {}
        for name, seconds in BASE.items():
            scale = device if name in COMPUTE else 1.0 + 0.1 * np.abs(dice.normal(size=shape))
            phases[name] = seconds * scale
        phases |= {"copies": np.zeros(shape), "garbage": np.zeros(shape)}
        base = sum(BASE.values())
        compute = sum(BASE[name] for name in COMPUTE)
        for fault in self.faults:
            span = slice(fault.first, fault.last)
            extra = (fault.factor - 1.0) * base
            length = len(range(*span.indices(self.steps)))
            if fault.kind in ("data", "pcie"):
                phases["data"][span, fault.rank] += extra
            elif fault.kind == "nvlink":
                phases["copies"][span, fault.rank] += extra
            elif fault.kind == "gc":
                phases["other"][span, fault.rank] += extra
                phases["garbage"][span, fault.rank] += extra
            elif fault.kind in (
                "compute", "thermal", "power", "cpu-quota", "contention", "ecc", "xid",
            ):  # fmt: skip
                # A quota stops about every second step, for twice as long.
                beat = np.cumsum(dice.uniform(0.8, 1.2, length)) % 2.0 < 1.0
                bursts = np.where(beat, 2.0, 0.0) if fault.kind == "cpu-quota" else 1.0
                for name in COMPUTE:
                    phases[name][span, fault.rank] += extra * bursts * BASE[name] / compute
        if self.spikes:
            hit = dice.random(shape) < 0.01
            phases["other"][hit] += 0.02 * dice.pareto(1.5, size=int(hit.sum()))
        if self.burst:
            rank, first, last, factor = self.burst
            phases["forward"][first:last, rank] *= factor
        if self.uniform:
            first, factor = self.uniform
            for name in phases:
                phases[name][first:] *= factor
        return phases

    def _transfers(self) -> np.ndarray:
        """Seconds by which every collective takes longer, step by step."""
        longer = np.zeros(self.steps)
        for fault in self.faults:
            if fault.kind in ("link", "loss", "full"):
                longer[fault.first : fault.last] += (fault.factor - 1.0) * sum(BASE.values())
        return longer

    def _samples(self, steps: pd.DataFrame, ends: np.ndarray) -> pd.DataFrame:
        stopped = [f for f in self.faults if f.kind in ("freeze", "crash")]
        last = ends[-1].max()
        until = last + (10.0 if any(f.kind == "freeze" for f in stopped) else 3.0 if stopped else 0)
        # A row a step and rank, in their order.
        wide = {name: steps[name].to_numpy().reshape(-1, self.world)
                for name in steps.columns if name.endswith("_seconds")}  # fmt: skip
        total = {name: np.cumsum(cells, axis=0) for name, cells in wide.items()}
        rows: list[tuple[Any, ...]] = []
        for rank in range(self.world):
            node = self.node(rank)
            mine = [f for f in self.faults if f.rank == rank]
            scrapes = np.arange(EPOCH + 0.3 + 0.07 * (rank // self.ranks_per_node), until, 1.0)
            for time in [*scrapes, until + 0.2]:
                add = _Adder(rows, time, node)
                finished = time > until
                done = int(np.sum(ends[:, rank] <= time))
                add("up", 1.0)
                dead = finished or any(f.kind == "crash" and time > last for f in mine)
                add("lockstep_rank_up", 0.0 if dead else 1.0, rank=rank)
                if dead:
                    state = "finished" if finished and self.outcome == "finished" else "running"
                    add("lockstep_rank_last_state", 1.0, f'state="{state}"', rank=rank)
                arrived, completed = done, done
                if (
                    stopped
                    and time > last
                    and not any(f.kind == "crash" and f in mine for f in stopped)
                    and not mine
                ):
                    arrived += 1
                for kind, value in (("enqueued", arrived), ("completed", completed)):
                    add(f"lockstep_train_{kind}_sequence", value, 'group="dp"', rank=rank)
                add("lockstep_host_cpu_seconds_total", 100 + time - EPOCH, 'mode="user"')
                self._network(add, rank, ends, time)
                if dead:
                    continue
                frozen = any(f.kind == "freeze" for f in mine) and time > last
                add(
                    "lockstep_train_heartbeat_age_seconds",
                    time - last if frozen else 0.4,
                    rank=rank,
                )
                if arrived > completed:
                    add("lockstep_train_open_operation_age_seconds", time - last,
                        'group="dp",op="dp-all-reduce"', rank=rank)  # fmt: skip
                if done:
                    for name, cells in total.items():
                        _counter(add, name, float(cells[done - 1, rank]), rank)
                    add("lockstep_train_steps_total", done, rank=rank)
                    add("lockstep_train_known_steps_total", done, rank=rank)
                    add("lockstep_train_samples_total", done * 4, rank=rank)
                self._told(add, rank, mine, ends, time)
        return pd.DataFrame(rows, columns=[column.name for column in archive.SAMPLES]).astype(
            {"gpu": "Int32", "rank": "Int32"}
        )

    def _network(self, add: "_Adder", rank: int, ends: np.ndarray, time: float) -> None:
        """What the node of a rank counts of its network."""
        again, paused = 0.5 * (time - EPOCH), 0.0
        for fault in self.faults:
            inside = max(time - ends[min(fault.first, len(ends)) - 1, rank], 0.0)
            if self.node(fault.rank) == self.node(rank):
                again += 20.0 * inside * (fault.kind == "loss")
                paused += 0.4 * inside * (fault.kind == "full")
        add("lockstep_tcp_retransmitted_segments_total", again)
        labels = 'device="eth0",direction="receive",priority="3"'
        add("lockstep_net_pfc_pause_seconds_total", paused, labels)
        add("lockstep_net_speed_bytes_per_second", 1.25e9, 'device="eth0"')

    def _told(
        self, add: "_Adder", rank: int, mine: list[Fault], ends: np.ndarray, time: float
    ) -> None:
        """Quota and simulated GPU of one rank at one scrape."""
        events = dict.fromkeys(CLOCK_EVENT_REASONS, 0.0)
        queued = 0.03 * (time - EPOCH)
        lanes, replays, links, errors, corrected, bad, xid = 16, 0.0, 18, 0.0, 0.0, 0, 0.0
        clock, power, limit, temperature = CLOCK, 560.0, 700.0, 64.0 + 0.5 * np.sin(rank)
        for fault in mine:
            began = ends[min(fault.first, len(ends)) - 1, rank]
            over = ends[-1, rank] if fault.last is None else ends[fault.last - 1, rank]
            inside = min(time, over) - began
            if inside <= 0:
                continue
            now = time < over
            if fault.kind == "cpu-quota":
                share = 1 - 1 / fault.factor
                add("lockstep_rank_cpu_throttled_seconds_total", share * inside, rank=rank)
            if fault.kind == "contention":
                queued += (1 - 1 / fault.factor) * inside
            if fault.kind == "thermal":
                events["hw_thermal"] = 0.9 * inside
                if now:
                    clock, temperature, power = CLOCK / fault.factor, 91.0, 450.0
            if fault.kind == "power":
                events["sw_power_cap"] = 0.9 * inside
                if now:
                    clock, power, limit = CLOCK / fault.factor, 398.0, 400.0
            if fault.kind == "pcie":
                lanes, replays = (4 if now else 16), 25.0 * inside
            if fault.kind == "nvlink":
                links, errors = (16 if now else 18), 400.0 * inside
            if fault.kind == "ecc":
                corrected, bad = 40.0 * inside, int((inside + 3.0) // 4)
                xid = began + 1.0 + 4.0 * ((inside - 1.0) // 4) if inside >= 1.0 else 0.0
            if fault.kind == "xid":
                xid = began + 2.0 * (inside // 2)
        add("lockstep_rank_run_queue_seconds_total", queued, rank=rank)
        gpu = self.gpu(rank)
        if gpu is None:
            return
        add("lockstep_gpu_info", 1, 'driver="simulated",model="s",simulated="true"', gpu=gpu)
        add("lockstep_gpu_clock_hertz", clock, 'domain="sm"', gpu=gpu)
        add("lockstep_gpu_clock_max_hertz", CLOCK, 'domain="sm"', gpu=gpu)
        add("lockstep_gpu_temperature_celsius", temperature, 'sensor="gpu"', gpu=gpu)
        add("lockstep_gpu_temperature_limit_celsius", 90.0, 'limit="slowdown"', gpu=gpu)
        add("lockstep_gpu_power_watts", power, gpu=gpu)
        add("lockstep_gpu_power_limit_watts", limit, 'kind="enforced"', gpu=gpu)
        add("lockstep_gpu_utilization_ratio", 0.9, gpu=gpu)
        add("lockstep_gpu_pcie_link_width", lanes, gpu=gpu)
        add("lockstep_gpu_pcie_link_generation", 5, gpu=gpu)
        add("lockstep_gpu_pcie_replay_total", replays, gpu=gpu)
        add("lockstep_source_up", 1, 'source="xid"')
        if xid:
            number = 63 if any(fault.kind == "ecc" for fault in mine) else 121
            add("lockstep_gpu_xid_last_timestamp_seconds", xid, f'xid="{number}"', gpu=gpu)
        for link in (0, 17):
            up = 1 if link < links else 0
            add("lockstep_gpu_nvlink_up", up, f'link="{link}"', gpu=gpu)
        add("lockstep_gpu_nvlink_errors_total", errors, 'kind="crc_flit",link="all"', gpu=gpu)
        for kind, count in (("corrected", corrected), ("uncorrected", bad)):
            for counter in ("volatile", "aggregate"):
                labels = f'counter="{counter}",type="{kind}"'
                add("lockstep_gpu_ecc_errors_total", count, labels, gpu=gpu)
        for reason, seconds in events.items():
            add("lockstep_gpu_clock_event_seconds_total", seconds, f'reason="{reason}"', gpu=gpu)

    def write(self, folder: Path) -> Path:
        """The run as an archive: steps in one file, samples as two parts."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / archive.RUN_FILE).write_text(json.dumps(self.meta()))
        steps, samples = self.frames()
        ranks = pd.DataFrame(
            [
                (r, self.node(r), self.gpu(r), _uuid(r), r % self.ranks_per_node, r, 0, 0, None)
                for r in range(self.world)
            ],
            columns=[column.name for column in archive.RANKS],
        )
        pq.write_table(_table(ranks, archive.RANKS), folder / archive.RANKS_FILE)
        pq.write_table(_table(steps, OLDEST_STEPS), folder / archive.STEPS_FILE)
        parts = folder / archive.SAMPLES_FILE
        parts.mkdir()
        half = len(samples) // 2
        for number, part in enumerate((samples[:half], samples[half:])):
            name = parts / f"part-{number}.parquet"
            pq.write_table(_table(part, archive.SAMPLES), name)
        return folder


class _Adder:
    """Appends rows of one scrape."""

    def __init__(self, rows: list[tuple[Any, ...]], time: float, node: str) -> None:
        self._rows, self._time, self._node = rows, time, node

    def __call__(
        self, metric: str, value: float, labels: str = "", *, rank: int | None = None,
        gpu: int | None = None,
    ) -> None:  # fmt: skip
        self._rows.append((self._time, self._node, gpu, rank, metric, labels, float(value)))


def _counter(add: _Adder, column: str, value: float, rank: int) -> None:
    name = column.removesuffix("_seconds")
    if name in PHASES:
        add("lockstep_train_phase_seconds_total", value, f'phase="{name}"', rank=rank)
    else:
        add(f"lockstep_train_{name}_seconds_total", value, rank=rank)


def _no_samples() -> pd.DataFrame:
    frame = pd.DataFrame({column.name: [] for column in archive.SAMPLES})
    return frame.astype({"time": float, "value": float, "metric": str, "labels": str, "node": str,
                         "gpu": "Int32", "rank": "Int32"})  # fmt: skip


def _table(frame: pd.DataFrame, columns: tuple[archive.Column, ...]) -> pa.Table:
    schema = pa.schema([(column.name, column.dtype) for column in columns])
    return pa.Table.from_pandas(frame, schema=schema, preserve_index=False)


def _uuid(rank: int) -> str:
    return f"GPU-{rank:08d}"


@pytest.fixture(scope="session")
def synthetic() -> type[Synthetic]:
    """`synthetic(seed=..., faults=[...]).run()`."""
    return Synthetic


@pytest.fixture
def fault() -> type[Fault]:
    """`fault("thermal", 2, factor=1.5, first=80)`."""
    return Fault
