"""Injects the planned faults into one rank, from inside the rank."""

import os
import signal
from collections import deque
from statistics import median
from time import sleep

from collector.contract.words import FaultKind
from workloads.device import SHARES, EmulatedDevice
from workloads.faults.cgroup import CpuGroup, Quota
from workloads.faults.plan import DEVICE_KINDS, Fault
from workloads.faults.quota import StepModel, corrected
from workloads.simulated_gpu import HEATING_LEAD_SECONDS, SimulatedGpu

BASELINE_STEPS = 64
CORRECTION_STEPS = 12
SETTLING_STEPS = 2


class Injector:
    """The faults of one rank, step by step.

    A factor is of the rank's own time per step, so the healthy own time is measured first and
    the fault sized from it.
    """

    def __init__(
        self, faults: tuple[Fault, ...], device: EmulatedDevice, group: CpuGroup | None
    ) -> None:
        self._faults = faults
        self._device = device
        self._group = group
        self._own: deque[float] = deque(maxlen=BASELINE_STEPS)
        self._cpu: deque[tuple[float, ...]] = deque(maxlen=BASELINE_STEPS)
        self._quota: _QuotaInForce | None = None
        self._device_factor = 1.0

    def before_step(self, step: int) -> None:
        """Stop the rank if it is time to; set the device's and the quota's slowdown."""
        for fault in self._faults:
            if step == fault.from_step and fault.kind is FaultKind.CRASH:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == fault.from_step and fault.kind is FaultKind.FREEZE:
                os.kill(os.getpid(), signal.SIGSTOP)
            if fault.kind is FaultKind.CPU_QUOTA:
                self._set_quota(fault, step)
        extra = 0.0
        for fault in self._active(step, DEVICE_KINDS):
            assert fault.factor is not None
            extra += (fault.factor - 1.0) * self._baseline()
        seconds = self._device.seconds
        self._device_factor = 1.0 + extra / seconds if seconds else 1.0
        self._device.start_step(extra)

    def stall_data(self, step: int) -> None:
        """Make the loader late, as slow storage does."""
        for fault in self._active(step, (FaultKind.DATA,)):
            assert fault.factor is not None
            sleep((fault.factor - 1.0) * self._baseline())

    def after_step(self, step: int, own_seconds: float) -> None:
        """Learn from the step that has ended."""
        slowing = [f for f in self._faults if f.from_step <= step < f.to_step]
        if not slowing:
            self._own.append(own_seconds)
            self._cpu.append(tuple(self._device.cpu_seconds[name] for name in SHARES))
        if self._quota is not None:
            self._quota.observe(own_seconds)

    def tell(self, gpu: SimulatedGpu, step: int, wall_seconds: float) -> None:
        """Let the simulated GPU live through the step."""
        told = self._active(step, (FaultKind.THERMAL, FaultKind.POWER))
        kind = told[0].kind if told else None
        lead = HEATING_LEAD_SECONDS / max(wall_seconds, 1e-3)
        heating = any(
            f.kind is FaultKind.THERMAL and f.from_step - lead <= step < f.to_step
            for f in self._faults
        )
        busy = min(1.0, self._device.busy_seconds / max(wall_seconds, 1e-9))
        gpu.advance(wall_seconds, busy, kind, self._device_factor, heating)

    def close(self) -> None:
        """Leave the cgroup."""
        if self._quota is not None:
            self._quota.leave()
            self._quota = None

    def _active(self, step: int, kinds: tuple[FaultKind, ...]) -> list[Fault]:
        return [f for f in self._faults if f.kind in kinds and f.from_step <= step < f.to_step]

    def _baseline(self) -> float:
        """Healthy own seconds of a step."""
        return median(self._own)

    def _set_quota(self, fault: Fault, step: int) -> None:
        if step == fault.from_step:
            assert fault.factor is not None
            assert self._group is not None
            own = self._baseline()
            cpu = [median(column) for column in zip(*self._cpu, strict=True)]
            device = [share * (self._device.seconds or 0.0) for share in SHARES.values()]
            busy = sum(max(pair) for pair in zip(device, cpu, strict=True))
            model = StepModel(device, cpu, max(0.0, own - busy))
            self._quota = _QuotaInForce(model, fault.factor * own, self._group)
        elif step == fault.to_step:
            self.close()


class _QuotaInForce:
    """A quota on this process that is corrected once, from the steps after it has settled."""

    def __init__(self, model: StepModel, wanted: float, group: CpuGroup) -> None:
        self._model = model
        self._wanted = wanted
        self._group = group
        self._share = model.share_for(wanted)
        self._seen: list[float] = []
        self._corrected = False
        group.enter(Quota.of(self._share))

    def observe(self, own_seconds: float) -> None:
        """Take a step into account; correct the quota when there are enough."""
        self._seen.append(own_seconds)
        if self._corrected or len(self._seen) < SETTLING_STEPS + CORRECTION_STEPS:
            return
        settled = self._seen[SETTLING_STEPS:]
        measured = sum(settled) / len(settled)
        self._share = corrected(self._model, self._share, self._wanted, measured)
        self._group.limit(Quota.of(self._share))
        self._corrected = True

    def leave(self) -> None:
        """Lift the quota."""
        self._group.leave()
