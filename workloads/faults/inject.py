"""Injects the planned faults into one rank, from inside the rank."""

import gc
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import monotonic, sleep

from lockstep.collector.contract.words import FaultKind
from lockstep.collector.contract.xid import describe
from lockstep.workloads.faults.cpu_quota import CpuGroup, Quota, QuotaLoop, StepModel
from lockstep.workloads.faults.device import SHARES, EmulatedDevice
from lockstep.workloads.faults.disturbances import Disturber, Kind
from lockstep.workloads.faults.kinds import COPY_KINDS, DATA_KINDS, DEVICE_KINDS, GPU_KINDS
from lockstep.workloads.faults.measure import Added
from lockstep.workloads.faults.plan import Fault
from lockstep.workloads.faults.simulated_gpu import HEATING_LEAD_SECONDS, SimulatedGpu, Trouble
from lockstep.workloads.measure.heartbeat import HEARTBEAT_SECONDS

CPU_STEPS = 64
SIZED_KINDS = (*DEVICE_KINDS, *DATA_KINDS, *COPY_KINDS, FaultKind.GC)
"""Kinds that hold the rank up for a time that this process decides."""
XID_REPEAT_SECONDS = 2.0


class Injector:
    """The faults of one rank, step by step.

    A factor is of the rank's own time per step, so the healthy own time is measured first and
    the fault sized from it.

    Args:
        group: The cgroup of a cpu-quota fault; None where there is none.
        disturber: What the run does by design.
        proof: Where to write what the faults did, as JSON, when the rank ends, and beside it as
            `.jsonl` what they added to each step, when it ends; None = nowhere.
    """

    def __init__(
        self, faults: tuple[Fault, ...], device: EmulatedDevice, group: CpuGroup | None,
        disturber: Disturber | None = None, proof: Path | None = None,
    ) -> None:  # fmt: skip
        self._faults = faults
        self._device = device
        self._group = group
        self._disturber = disturber
        self._proof = proof
        self._added = Added(None if proof is None else proof.with_suffix(".jsonl"))
        self._asked_of_device: dict[Fault, float] = {}
        self._sizing = Sizing()
        self._garbage = Garbage()
        self._cpu: deque[tuple[float, ...]] = deque(maxlen=CPU_STEPS)
        self._throttle: Throttle | None = None
        self._seconds: dict[str, float] = {}
        self._device_factor = 1.0
        self._since_xid = XID_REPEAT_SECONDS

    def before_step(self, step: int) -> None:
        """Stop the rank if it is time to; set the device's and the quota's slowdown."""
        for fault in self._faults:
            if step == fault.from_step and fault.stops is not None:
                _stop(fault)
            if fault.kind is FaultKind.CPU_QUOTA:
                self._set_quota(fault, step)
        self._asked_of_device = self._asked(step, DEVICE_KINDS)
        extra = sum(self._asked_of_device.values())
        seconds = self._device.seconds
        self._device_factor = 1.0 + extra / seconds if seconds else 1.0
        if self._disturber is None:
            self._device.start_step(extra)
        else:
            weight = self._disturber.weight(step)
            self._device.start_step(extra, self._disturber.work(step), weight)

    def stall_data(self, step: int) -> None:
        """Make the loader or the copy to the device late; call it in the data phase."""
        self._hold(step, DATA_KINDS, sleep)

    def stall_copies(self, step: int) -> None:
        """Make gradients late on their way out of the device; call it before they are reduced."""
        self._hold(step, COPY_KINDS, sleep)

    def collect_garbage(self, step: int) -> None:
        """A storm of garbage collection; call it once in a step, outside the other phases."""
        self._hold(step, (FaultKind.GC,), self._garbage.storm)
        designed = self._by_design(Kind.GC, step)
        if designed > 0.0:
            self._garbage.storm(designed)

    def evaluate(self, step: int) -> None:
        """Compute as long as a disturbance asks; call it in the eval phase."""
        self._device.compute(self._by_design(Kind.EVAL, step))

    def end_step(self, step: int) -> None:
        """Write down by how much the faults held the step up that has ended."""
        if self._asked_of_device:
            self._added.add(self._asked_of_device, self._device.added_seconds)
        self._added.end_step(step)

    def after_step(self, step: int, own_seconds: float) -> None:
        """Learn from the step that has ended."""
        slowing = [f for f in self._faults if f.from_step <= step < f.to_step]
        if not slowing:
            self._sizing.learn_healthy(own_seconds)
            self._cpu.append(tuple(self._device.cpu_seconds[name] for name in SHARES))
        elif len(slowing) == 1 and slowing[0].kind in SIZED_KINDS:
            self._sizing.learn(slowing[0], step, own_seconds)
        if self._throttle is not None:
            self._throttle.observe(own_seconds)

    def tell(self, gpu: SimulatedGpu, step: int, wall_seconds: float) -> None:
        """Let the simulated GPU live through the step."""
        kinds = {f.kind for f in self._faults if f.kind in GPU_KINDS and f.strength(step) > 0.0}
        lead = HEATING_LEAD_SECONDS / max(wall_seconds, 1e-3)
        heating = any(
            f.kind is FaultKind.THERMAL and f.from_step - lead <= step < f.to_step
            for f in self._faults
        )
        busy = min(1.0, self._device.busy_seconds / max(wall_seconds, 1e-9))
        xids = self._xids(step, wall_seconds)
        gpu.advance(
            wall_seconds, busy, Trouble(frozenset(kinds), self._device_factor, heating, xids)
        )

    def close(self) -> None:
        """Leave the cgroup, and write down what was done."""
        self._added.close()
        done: dict[str, dict[str, float]] = {}
        if self._seconds:
            done["seconds"] = dict(self._seconds)
        if self._garbage.collections:
            done["garbage"] = {
                "collections": self._garbage.collections,
                "objects": self._garbage.objects,
                "seconds": self._garbage.seconds,
            }
        if self._throttle is not None:
            self._throttle.lift()
            done["quota"] = self._throttle.proof()
            self._throttle = None
        if self._proof is not None and done:
            self._proof.parent.mkdir(parents=True, exist_ok=True)
            self._proof.write_text(json.dumps(done))

    def _hold(
        self, step: int, kinds: tuple[FaultKind, ...], act: Callable[[float], object]
    ) -> None:
        """Hold the step up for as long as faults of these kinds do, and measure it."""
        asked = self._asked(step, kinds)
        seconds = sum(asked.values())
        if seconds > 0.0:
            began = monotonic()
            act(seconds)
            self._added.add(asked, monotonic() - began)

    def _asked(self, step: int, kinds: tuple[FaultKind, ...]) -> dict[Fault, float]:
        """Seconds by which each fault of these kinds should hold the step up."""
        asked: dict[Fault, float] = {}
        for fault in self._faults:
            if fault.kind in kinds and fault.factor is not None and fault.strength(step) > 0.0:
                asked[fault] = self._sizing.added(fault, step)
                self._seconds[fault.kind] = self._seconds.get(fault.kind, 0.0) + asked[fault]
        return asked

    def _by_design(self, kind: Kind, step: int) -> float:
        """Seconds that a disturbance takes at the end of a step."""
        disturbance = None if self._disturber is None else self._disturber.due(kind, step)
        if disturbance is None or not self._sizing.is_known:
            return 0.0
        assert disturbance.factor is not None
        return (disturbance.factor - 1.0) * self._sizing.baseline

    def _set_quota(self, fault: Fault, step: int) -> None:
        if fault.strength(step) > 0.0:
            if self._throttle is None:
                assert self._group is not None
                self._throttle = Throttle(self._group, self._model())
            self._throttle.hold(self._sizing.wanted(fault, step))
        elif self._throttle is not None:
            self._throttle.lift()

    def _model(self) -> StepModel:
        """What a step is made of."""
        cpu = [median(column) for column in zip(*self._cpu, strict=True)]
        device = [share * (self._device.seconds or 0.0) for share in SHARES.values()]
        busy = sum(max(pair) for pair in zip(device, cpu, strict=True))
        return StepModel(device, cpu, max(0.0, self._sizing.baseline - busy))

    def _xids(self, step: int, wall_seconds: float) -> tuple[int, ...]:
        """XIDs of a step: at the onset, then every so often; a fatal one in the step before."""
        xids = []
        for fault in self._faults:
            if fault.xid is None:
                continue
            if fault.stops is not None:
                if step == fault.from_step - 1:
                    xids.append(fault.xid)
            elif fault.strength(step) > 0.0:
                self._since_xid += wall_seconds
                if self._since_xid >= XID_REPEAT_SECONDS:
                    self._since_xid = 0.0
                    xids.append(fault.xid)
        return tuple(xids)


def _stop(fault: Fault) -> None:
    """End or freeze this process."""
    if fault.kind is FaultKind.FREEZE:
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault.kind is FaultKind.CRASH:
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        assert fault.xid is not None
        # The driver logs the error before the application meets it at its next synchronization;
        # the state file that tells of it is written with the heartbeat.
        sleep(2 * HEARTBEAT_SECONDS)
        text = describe(fault.xid).text
        print(f"simulated GPU: XID {fault.xid}, {text}", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(1)


FIRST_RATE = 1e6
"""Objects made and collected in a second, before it was measured."""
ROUND_SECONDS = 0.0005
"""Time that one round of making and collecting should take: the storm ends that exactly."""
MOST_DEBT_SECONDS = 0.02
"""A longer stop of the process is not made up for."""


class Garbage:
    """Makes and collects garbage; the size of a round is learnt from what the last one cost.

    Attributes:
        objects: Made and collected so far.
        collections: Runs of the collector so far.
        seconds: Time spent so far.
    """

    def __init__(self) -> None:
        self.objects = 0
        self.collections = 0
        self.seconds = 0.0
        self._rate = FIRST_RATE
        self._debt = 0.0

    def storm(self, seconds: float) -> None:
        """Make and collect until the time is over; what it took too long, the next one is shorter.

        The last round of each runs over by a part of itself, more where others use the processor.
        """
        began = now = monotonic()
        until = began + seconds - self._debt
        while now < until:
            wanted = min(ROUND_SECONDS, until - now)
            made = max(1, round(self._rate * wanted))
            _make_cycles(made)
            self.objects += gc.collect()
            self.collections += 1
            took, now = monotonic() - now, monotonic()
            # In steps: a round that was descheduled says little of its cost.
            seen = made / max(took, 1e-9)
            self._rate = min(max(seen, self._rate / 2), self._rate * 2)
        took = monotonic() - began
        self.seconds += took
        self._debt = min(self._debt + took - seconds, MOST_DEBT_SECONDS)


def _make_cycles(count: int) -> None:
    """Lists that hold themselves: reference counts alone never free them."""
    for _ in range(count):
        cycle: list[object] = []
        cycle.append(cycle)


class Throttle:
    """Puts this process under the quota that a step needs, and out of it again."""

    def __init__(self, group: CpuGroup, model: StepModel) -> None:
        self._group = group
        self._loop = QuotaLoop(model)
        self._in_force = False
        self._wanted = 0.0

    def hold(self, wanted: float) -> None:
        """The step that begins should take `wanted` own seconds."""
        self._wanted = wanted
        quota = Quota.of(self._loop.share(wanted))
        if self._in_force:
            self._group.limit(quota)
        else:
            self._group.enter(quota)
            self._in_force = True

    def observe(self, own_seconds: float) -> None:
        """The step has ended."""
        if self._in_force:
            self._loop.observe(self._wanted, own_seconds)

    def lift(self) -> None:
        """No quota from here on."""
        if self._in_force:
            self._group.leave()
            self._loop.pause()
            self._in_force = False

    def proof(self) -> dict[str, float]:
        """What the kernel counted of it."""
        return self._group.statistics()


BASELINE_STEPS = 1000
TRIM = 0.1
"""Share of the slowest and fastest healthy steps left out, as measure.py does."""
LEARNING = 0.1
"""Share of a step's error that the next one makes up for."""
MOST_LEARNT = 0.5
"""By how much of itself a fault's size is corrected at most."""
OUTLIER = 0.5
"""A step that misses its aim by more of it (a checkpoint, an evaluation) teaches nothing."""


class Sizing:
    """Healthy own time, and the size of faults on it, corrected from what the steps really take."""

    def __init__(self) -> None:
        self._healthy: deque[float] = deque(maxlen=BASELINE_STEPS)
        self._mean: float | None = None
        self._learnt: dict[Fault, float] = {}

    def learn_healthy(self, own_seconds: float) -> None:
        """A step without a fault took so long."""
        self._healthy.append(own_seconds)
        self._mean = None

    @property
    def is_known(self) -> bool:
        """Whether there is a baseline yet."""
        return bool(self._healthy)

    @property
    def baseline(self) -> float:
        """Healthy own seconds of a step."""
        if self._mean is None:
            ordered = sorted(self._healthy)
            cut = int(TRIM * len(ordered))
            kept = ordered[cut : len(ordered) - cut]
            self._mean = sum(kept) / len(kept)
        return self._mean

    def wanted(self, fault: Fault, step: int) -> float:
        """Own seconds that a step should take."""
        assert fault.factor is not None
        return self.baseline * (1.0 + (fault.factor - 1.0) * fault.strength(step))

    def added(self, fault: Fault, step: int) -> float:
        """Seconds by which the fault should hold the step up."""
        return (self.wanted(fault, step) - self.baseline) * (1.0 + self._learnt.get(fault, 0.0))

    def learn(self, fault: Fault, step: int, own_seconds: float) -> None:
        """The only fault in force made a step take so long."""
        wanted = self.wanted(fault, step)
        error = wanted - own_seconds
        if wanted <= self.baseline or abs(error) > OUTLIER * wanted:
            return
        assert fault.factor is not None
        whole = self.baseline * (fault.factor - 1.0)
        learnt = self._learnt.get(fault, 0.0) + LEARNING * fault.strength(step) * error / whole
        self._learnt[fault] = min(MOST_LEARNT, max(-MOST_LEARNT, learnt))
