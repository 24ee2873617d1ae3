"""The training loop of one rank: read it from top to bottom."""

import gc
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from time import monotonic_ns, sleep, thread_time
from typing import SupportsFloat

import torch
import torch.distributed as dist

from collector.contract.device import file_name as device_file_name
from collector.contract.ring import file_name as ring_file_name
from collector.contract.words import Phase, RankState
from workloads import mesh, peak
from workloads.accelerator import Accelerator, accelerator
from workloads.checkpoint import Checkpoints
from workloads.clock_exchange import Clocks
from workloads.comm import Comm, PeerLostError
from workloads.cuda_events import cuda_timeline
from workloads.cuda_recording import StreamComm, StreamRecorder, ToldClock
from workloads.data.loader import Loader
from workloads.device import EmulatedDevice, device_seconds
from workloads.faults.cgroup import CpuGroup
from workloads.faults.inject import Injector
from workloads.flight_recorder import DumpOnRequest
from workloads.heartbeat import Heartbeat
from workloads.launchers import PEER_LOST_CODE
from workloads.model_setup import set_up
from workloads.optimizer import CLIP
from workloads.rank import RankJob, dice_seed, identity, simulated_gpu
from workloads.recording import StepRecorder
from workloads.resume import CheckpointError, about
from workloads.ring import RingWriter
from workloads.simulated_gpu import SimulatedGpu
from workloads.telling import Teller
from workloads.warmup import WARMUP_STEPS

SURVIVOR_SECONDS = 60.0
GC_STEPS = 100
"""Garbage is collected on all ranks in the same step, every so many steps; tagged `gc`."""


class JoinError(RuntimeError):
    """The process groups could not be made: a peer is gone, or no rank can reach another."""


def run_rank(job: RankJob) -> int:
    """`train` as a process: its exit code. After a peer is lost, wait to be ended.

    A survivor that stays shows the collector which collective it is stuck in, and who is missing.
    """
    try:
        train(job)
    except PeerLostError as error:
        print(f"rank {job.rank}: {error}", file=sys.stderr)  # noqa: T201 - the rank's log
        sleep(SURVIVOR_SECONDS)
        return PEER_LOST_CODE
    except JoinError as error:
        print(f"rank {job.rank}: {error}", file=sys.stderr)  # noqa: T201
        return PEER_LOST_CODE
    except CheckpointError as error:
        print(f"rank {job.rank}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def train(job: RankJob) -> None:
    """Train to the end of the spec.

    Raises:
        PeerLostError: A peer is gone; the ring says so and holds the collective it broke in.
        JoinError: The ranks did not come together.
        CheckpointError: A checkpoint cannot be read or written.
    """
    spec, layout = job.spec, job.spec.layout
    torch.set_num_threads(1)
    resume = spec.training.resume
    first_step = 0 if resume is None else about(Path(resume)).step
    where = accelerator(spec, job.rank)
    where.use()
    clock = ToldClock() if where.is_cuda else None
    who = identity(job, where)
    path = job.node_dir / ring_file_name(job.rank)
    writer = RingWriter(path, who, first_step, now=clock or monotonic_ns)
    gpu = simulated_gpu(job) if spec.pace else None
    beats: list[Callable[[], None]] = [
        writer.heartbeat,
        DumpOnRequest(job.node_dir, spec.run, job.rank),
    ]
    if gpu is not None:
        beats.append(partial(gpu.write, job.node_dir / device_file_name(gpu.gpu)))
    Heartbeat(*beats).start()
    # gloo listens on this interface only: nothing of a local run is reachable from outside.
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        dist.init_process_group(
            where.backend, init_method=f"file://{job.rendezvous}", rank=job.rank,
            world_size=layout.world, device_id=where.process_device,
        )  # fmt: skip
        groups = mesh.build(layout, where.device.type)
    except RuntimeError as error:
        raise JoinError(f"the ranks did not come together: {error}") from error
    recorder = StepRecorder(writer)
    comm = Comm(recorder, groups.groups)
    if clock is not None:
        recorder = on_stream = StreamRecorder(writer, cuda_timeline(where.device), clock)
        comm = StreamComm(on_stream, groups.groups)
    try:
        _Loop(job, where, recorder, comm, groups, gpu).run(first_step)
    except PeerLostError:
        writer.state(RankState.PEER_LOST)
        raise
    except BaseException:
        writer.state(RankState.FAILED)
        raise
    writer.state(RankState.FINISHED)
    dist.destroy_process_group()


class _Loop:
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
        mine = tuple(f for f in spec.faults if rank in f.ranks(spec.layout.ranks_per_node))
        self._injector = Injector(mine, self._device, CpuGroup(spec.run, rank) if mine else None)
        # First in the ring's short table: without micro-batches a trace cannot be taken apart.
        for chunk in range(spec.training.virtual_stages):
            for index in range(spec.training.micro_batches):
                recorder.writer.tag(f"c{chunk}.m{index}")
        self._parts = set_up(
            spec, rank, groups, comm, job.dataset, self._segment, self._device.reach,
            where.device,
        )  # fmt: skip
        self._clocks = Clocks(comm, spec.layout, rank, recorder.writer)
        self._checkpoints = Checkpoints(
            job.checkpoints, self._parts.chunks, self._parts.optimizer, groups.grid["tp"], comm,
            spec.batch,
        )  # fmt: skip
        most = peak.of(where.name, job.peak_flops)
        self._teller = Teller(spec, most, job.events) if self._parts.tells else None
        self._slowest = comm.collective("world-all-reduce", "world", "device-time")
        self._warmup_cpu: list[float] = []

    def run(self, first_step: int) -> None:
        """Train from a step to the last one."""
        parts, spec = self._parts, self._spec
        if spec.training.resume is not None:
            self._checkpoints.load(Path(spec.training.resume))
        loader = Loader(parts.batch, first_step)
        gc.collect()
        gc.freeze()  # what torch made at import is never garbage: leave it out of every collection
        gc.disable()
        self._recorder.writer.state(RankState.RUNNING)
        try:
            for step in range(first_step, spec.steps):
                self._step(step, step - first_step, loader)
            self._recorder.flush()
        finally:
            loader.close()
            self._injector.close()
            if self._teller is not None:
                self._teller.close()

    def _step(self, step: int, done: int, loader: Loader) -> None:
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
        parts.gradients.zero()
        loss = parts.execution.step(batch[:, :-1], batch[:, 1:])
        with recorder.phase(Phase.GRAD_SYNC):
            parts.gradients.finish()
        with recorder.phase(Phase.OPTIMIZER), self._device.segment("optimizer"):
            norm = parts.gradients.clip(CLIP)
            rate = parts.optimizer.step(step, norm)
        if (step + 1) % GC_STEPS == 0:
            self._collect_garbage()
        self._maybe_checkpoint(step)
        told = math.nan if loss is None else self._where.fetched(loss)
        recorder.end_step(samples=parts.samples, tokens=parts.tokens, flops=parts.flops, loss=told)
        if done < WARMUP_STEPS:
            self._warmup_cpu.append(thread_time() - cpu_began)
        else:
            injector.after_step(step, recorder.own_seconds)
        if self._gpu is not None:
            injector.tell(self._gpu, step, recorder.wall_seconds)
        if self._teller is not None:
            on_device = norm, parts.optimizer.skipped
            values = [self._where.fetched(value) for value in on_device]
            recorder.after(partial(self._tell, self._teller, step, told, rate, *values))

    def _tell(
        self, teller: Teller, step: int, loss: SupportsFloat, rate: float, norm: torch.Tensor,
        skipped: torch.Tensor,
    ) -> None:  # fmt: skip
        teller.step(step, self._recorder.wall_seconds, float(loss), rate, norm, skipped)

    @contextmanager
    def _segment(self, name: str, tag: str) -> Iterator[None]:
        """One micro-batch's forward or backward: a phase, an operation, and the device's pace."""
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

    def _collect_garbage(self) -> None:
        self._recorder.tag_step("gc")
        with self._recorder.local("gc"):
            gc.collect()

    def _maybe_checkpoint(self, step: int) -> None:
        every = self._spec.training.checkpoint_every
        if every and (step + 1) % every == 0:
            self._recorder.tag_step("checkpoint")
            with self._recorder.phase(Phase.CHECKPOINT):
                self._checkpoints.save(step + 1)
