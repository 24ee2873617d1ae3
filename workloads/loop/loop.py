"""The training loop of one rank: read it from top to bottom."""

import gc
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from time import monotonic_ns, thread_time
from typing import Any, SupportsFloat

import torch
import torch.distributed as dist

from lockstep.collector.contract.words import PHASES, Phase, RankState
from lockstep.workloads.data.loader import Loader
from lockstep.workloads.faults.agreement import agree
from lockstep.workloads.faults.cpu_quota import CpuGroup
from lockstep.workloads.faults.device import EmulatedDevice, device_seconds
from lockstep.workloads.faults.disturbances import Disturber, Kind
from lockstep.workloads.faults.inject import Injector
from lockstep.workloads.faults.simulated_gpu import SimulatedGpu
from lockstep.workloads.loop.checkpoint import Checkpoints
from lockstep.workloads.loop.evaluation import Evaluation
from lockstep.workloads.loop.progress import Teller
from lockstep.workloads.loop.rank import Accelerator, RankJob, dice_seed
from lockstep.workloads.loop.resume import RESTORED, tell_restored
from lockstep.workloads.loop.trainable import Context, Trainable, Update
from lockstep.workloads.measure import peak
from lockstep.workloads.measure.clocks import Clocks
from lockstep.workloads.measure.process import wall_minus_monotonic_ns
from lockstep.workloads.models.gpt_setup import ModelParts
from lockstep.workloads.parallel import mesh
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.recording import WARMUP_STEPS, StepRecorder
from lockstep.workloads.ring import OP_INDEX, RingWriter
from lockstep.workloads.tasks.registry import find

GC_STEPS = 100
"""Garbage is collected on all ranks in the same step, every so many steps; tagged `gc`."""
PROOF_FOLDER = "faults"
"""Of the archive: what the injected faults of each rank did, until truth.json has it."""


class Loop:
    """The steps of one rank."""

    def __init__(
        self, job: RankJob, where: Accelerator, recorder: StepRecorder, comm: Comm,
        groups: mesh.Mesh, gpu: SimulatedGpu | None,
    ) -> None:  # fmt: skip
        spec, rank = job.spec, job.rank
        self._job, self._spec, self._where = job, spec, where
        self._recorder, self._comm, self._groups, self._gpu = recorder, comm, groups, gpu
        self._device = EmulatedDevice(
            None, spec.device_noise, dice_seed(spec.seed, rank), lambda: recorder.waited_seconds
        )
        # First in the ring's short table: without micro-batches a trace cannot be taken apart.
        for chunk in range(spec.training.virtual_stages):
            for index in range(spec.training.micro_batches):
                recorder.writer.tag(f"c{chunk}.m{index}")
        plan = agree(comm.collective("world-broadcast", "world", "fault-plan"), rank, spec.faults)
        mine = tuple(f for f in plan if rank in f.ranks(spec.layout.ranks_per_node))
        dp, pp, _ = spec.layout.coordinates(rank)
        self._disturber = Disturber(
            spec.disturbances, replica=dp, stage=pp, stages=spec.layout.pp, seed=spec.seed
        )
        self._injector = Injector(
            mine, self._device, CpuGroup(spec.run, rank) if mine else None, self._disturber,
            proof=job.checkpoints.parent / PROOF_FOLDER / f"rank-{rank}.json",
        )  # fmt: skip
        context = Context(
            spec, rank, groups, comm, job.dataset, self._segment, self._device.reach, where.device
        )
        self._parts: Trainable[Any] = find(spec.workload).set_up(context)
        self._clocks = Clocks(comm, spec.layout, rank, recorder.writer)
        self._checkpoints = (
            Checkpoints(
                job.checkpoints, self._parts.chunks, self._parts.optimizer, groups.grid["tp"],
                comm, spec.batch,
            )
            if isinstance(self._parts, ModelParts)
            else None
        )  # fmt: skip
        self._evaluation = Evaluation(spec, self._parts, recorder, comm, job.results)
        self._evaluating = False
        most = peak.of(where.name, job.peak_flops)
        self._teller = (
            Teller(spec, self._parts.counts, most, job.events)
            if self._parts.tells and self._parts.counts.flops
            else None
        )
        self._slowest = comm.collective("world-all-reduce", "world", "device-time")
        self._warmup_cpu: list[float] = []
        self._garbage = GarbageWatch(recorder.writer)

    def run(self, first_step: int) -> None:
        """Train from a step to the last one."""
        parts, spec = self._parts, self._spec
        if spec.training.resume is not None and self._checkpoints is not None:
            begun = monotonic_ns()
            self._checkpoints.load(Path(spec.training.resume))
            offset, _ = wall_minus_monotonic_ns()
            tell_restored(
                self._job.checkpoints.parent / RESTORED, self._job.rank, begun + offset,
                monotonic_ns() + offset,
            )  # fmt: skip
        loader = Loader(parts.batch, first_step)
        gc.collect()
        gc.freeze()  # what torch made at import is never garbage: leave it out of every collection
        gc.disable()
        self._recorder.writer.state(RankState.RUNNING)
        try:
            for step in range(first_step, spec.steps):
                self._step(step, step - first_step, loader)
                if self._evaluation.over:
                    break
            self._recorder.flush()
            self._evaluation.write()
        finally:
            loader.close()
            self._injector.close()
            self._garbage.close()
            if self._teller is not None:
                self._teller.close()

    def _step(self, step: int, done: int, loader: Loader[Any]) -> None:
        spec, recorder, parts, injector = self._spec, self._recorder, self._parts, self._injector
        self._clocks.before_step(step)
        if spec.pace and done == WARMUP_STEPS:
            self._start_pacing()
        injector.before_step(step)
        cpu_began = thread_time()
        recorder.start_step()
        if done < WARMUP_STEPS:
            recorder.tag_step("warmup")
        with recorder.phase(Phase.DATA):
            batch = self._where.batch(loader.next())
            injector.stall_data(step)
        loss = parts.train(batch)
        with recorder.phase(Phase.GRAD_SYNC):
            injector.stall_copies(step)
            parts.reduce()
        with recorder.phase(Phase.OPTIMIZER), self._device.segment("optimizer"):
            update = parts.update(step)
        self._collect_garbage(step)
        self._maybe_evaluate(step)
        self._maybe_checkpoint(step)
        loss_value = math.nan if loss is None else self._where.fetched(loss)
        self._garbage.write()
        counts = parts.counts
        recorder.end_step(
            samples=counts.samples, tokens=counts.tokens, flops=counts.flops, loss=loss_value
        )
        injector.end_step(step)
        self._evaluation.after_step(step, loss_value)
        if done < WARMUP_STEPS:
            self._warmup_cpu.append(thread_time() - cpu_began)
        else:
            injector.after_step(step, recorder.own_seconds)
        if self._gpu is not None:
            injector.tell(self._gpu, step, recorder.wall_seconds)
        if self._teller is not None:
            on_device = update.norm, update.skipped
            norm, skipped = (self._where.fetched(value) for value in on_device)
            fetched = Update(update.rate, norm, skipped)
            recorder.after(partial(self._tell, self._teller, step, loss_value, fetched))

    def _tell(self, teller: Teller, step: int, loss: SupportsFloat, update: Update) -> None:
        teller.step(
            step, self._recorder.wall_seconds, float(loss), update.rate, update.norm,
            update.skipped,
        )  # fmt: skip

    @contextmanager
    def _segment(self, name: str, tag: str) -> Iterator[None]:
        """One micro-batch's forward or backward: a phase, an operation, and the device's pace."""
        if self._evaluating:  # the phase is eval, and phases do not nest
            self._recorder.writer.phase(PHASES.index(Phase.EVAL))  # it gets on
            with self._device.segment(name), self._where.precision():
                yield
            return
        phase = Phase.FORWARD if name == "forward" else Phase.BACKWARD
        index = self._recorder.writer.tag(tag)
        training = self._spec.training
        parts = training.micro_batches * training.virtual_stages
        precision = self._where.precision() if phase is Phase.FORWARD else nullcontext()
        with self._recorder.phase(phase, index), self._device.segment(name, parts), precision:
            yield

    def _start_pacing(self) -> None:
        """Agree on a device time that this machine can keep on every rank."""
        slowest = torch.tensor([median(self._warmup_cpu)], dtype=torch.float64)
        self._slowest.all_reduce(slowest, dist.ReduceOp.MAX)
        self._device.seconds = device_seconds(
            self._spec.device_seconds, slowest.item(), self._spec.layout.world, self._job.cores
        )

    def _collect_garbage(self, step: int) -> None:
        planned = (step + 1) % GC_STEPS == 0
        if planned or self._disturber.due(Kind.GC, step):
            self._recorder.tag_step("gc")
        self._injector.collect_garbage(step)
        if planned:
            gc.collect()

    def _maybe_evaluate(self, step: int) -> None:
        if self._disturber.due(Kind.EVAL, step):
            self._recorder.tag_step("eval")
            with self._recorder.phase(Phase.EVAL):
                self._injector.evaluate(step)
        if self._evaluation.due(step):
            self._recorder.tag_step("eval")
            self._evaluating = True
            with self._recorder.phase(Phase.EVAL):
                self._evaluation.run()
            self._evaluating = False

    def _maybe_checkpoint(self, step: int) -> None:
        every = self._spec.training.checkpoint_every
        due = every > 0 and (step + 1) % every == 0
        due = due or self._disturber.due(Kind.CHECKPOINT, step) is not None
        if due and self._checkpoints is not None:
            self._recorder.tag_step("checkpoint")
            with self._recorder.phase(Phase.CHECKPOINT):
                self._checkpoints.save(step + 1)


_GC = OP_INDEX["gc"]


class GarbageWatch:
    """Sums the collections of the thread that made it, and records them as one operation.

    A storm of collections would fill the ring with operations of microseconds; how long they took
    together is what tells of it. Those of other threads are not the training thread's own time.
    """

    def __init__(self, writer: RingWriter) -> None:
        self._writer = writer
        self._thread = threading.get_ident()
        self._spent = self._began = 0
        gc.callbacks.append(self._seen)

    def write(self) -> None:
        """Record the collections since the last call as one that ends now; nothing if none was."""
        if self._spent:
            end = monotonic_ns()
            self._writer.local(_GC, end - self._spent, end)
            self._spent = 0

    def close(self) -> None:
        """Watch no longer."""
        gc.callbacks.remove(self._seen)

    def _seen(self, phase: str, _info: dict[str, Any]) -> None:
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._began = monotonic_ns()
        elif self._began:
            self._spent += monotonic_ns() - self._began
            self._began = 0
