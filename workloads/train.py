"""The training loop of one rank: read it from top to bottom."""

import gc
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import sleep, thread_time

import torch
import torch.distributed as dist
from torch.nn import functional

from collector.contract.device import file_name as device_file_name
from collector.contract.ring import file_name as ring_file_name
from collector.contract.words import Phase, RankState
from workloads.clocksync import wall_minus_monotonic_ns
from workloads.comm import Comm, GradientBuckets, PeerLostError
from workloads.data.markov import MarkovSource
from workloads.device import EmulatedDevice, device_seconds
from workloads.faults.cgroup import CpuGroup
from workloads.faults.inject import Injector
from workloads.flight_recorder import DumpOnRequest
from workloads.flops import per_token
from workloads.models.configs import TINY
from workloads.models.gpt import Gpt
from workloads.recording import StepRecorder
from workloads.ring import Heartbeat, Identity, RingWriter
from workloads.simulated_gpu import SimulatedGpu
from workloads.spec import RunSpec
from workloads.warmup import WARMUP_STEPS

SAMPLES_PER_RANK = 2
BUCKET_BYTES = 256 * 1024
SURVIVOR_SECONDS = 60.0
GC_STEPS = 100
"""Garbage is collected on all ranks in the same step, every so many steps; tagged `gc`."""
LEARNING_RATE = 3e-3
WARMUP_RATE_STEPS = 20
CLIP = 1.0


@dataclass(frozen=True, slots=True)
class RankJob:
    """What one rank process needs to know."""

    spec: RunSpec
    rank: int
    node_dir: Path
    rendezvous: Path
    cores: int
    start_wall_ns: int


def train(job: RankJob) -> None:
    """Train to the end of the spec.

    Raises:
        PeerLostError: A peer is gone; the ring says so and holds the collective it broke in.
    """
    spec, layout = job.spec, job.spec.layout
    torch.set_num_threads(1)
    torch.manual_seed(spec.seed)
    writer = RingWriter(job.node_dir / ring_file_name(job.rank), _identity(job))
    gpu = _simulated_gpu(job) if spec.pace else None
    beats: list[Callable[[], None]] = [
        writer.heartbeat,
        DumpOnRequest(job.node_dir, spec.run, job.rank),
    ]
    if gpu is not None:
        beats.append(partial(gpu.write, job.node_dir / device_file_name(gpu.gpu)))
    Heartbeat(*beats).start()
    # gloo listens on this interface only: nothing of a local run is reachable from outside.
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo", init_method=f"file://{job.rendezvous}", rank=job.rank, world_size=layout.world
    )
    world = dist.group.WORLD
    assert world is not None
    recorder = StepRecorder(writer)
    comm = Comm(recorder, {"world": world, "dp": world})
    try:
        _loop(job, recorder, comm, gpu)
    except PeerLostError:
        writer.state(RankState.PEER_LOST)
        raise
    except BaseException:
        writer.state(RankState.FAILED)
        raise
    writer.state(RankState.FINISHED)
    dist.destroy_process_group()


def run_rank(job: RankJob) -> int:
    """`train` as a process: its exit code. After a peer is lost, wait to be ended.

    A survivor that stays shows the collector which collective it is stuck in, and who is missing.
    """
    try:
        train(job)
    except PeerLostError as error:
        print(f"rank {job.rank}: {error}", file=sys.stderr)  # noqa: T201 - the rank's log
        sleep(SURVIVOR_SECONDS)
        return 1
    return 0


def _loop(job: RankJob, recorder: StepRecorder, comm: Comm, gpu: SimulatedGpu | None) -> None:
    spec, rank = job.spec, job.rank
    dp, _, _ = spec.layout.coordinates(rank)
    source = MarkovSource(TINY.vocabulary, spec.seed)
    model = Gpt(TINY)
    parameters = list(model.parameters())
    buckets = GradientBuckets(parameters, BUCKET_BYTES)
    optimizer = torch.optim.AdamW(
        parameters, lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.1, foreach=True
    )
    tokens = SAMPLES_PER_RANK * TINY.sequence
    flops = per_token(TINY.shape) * tokens
    device = EmulatedDevice(None, spec.device_noise, seed=_seed(spec.seed, rank))
    mine = tuple(f for f in spec.faults if rank in f.ranks(spec.layout.ranks_per_node))
    injector = Injector(mine, device, CpuGroup(spec.run, rank) if mine else None)
    warmup_cpu: list[float] = []
    gc.collect()
    gc.freeze()  # what torch made at import is never garbage: leave it out of every collection
    gc.disable()
    recorder.writer.state(RankState.RUNNING)
    for step in range(spec.steps):
        if spec.pace and step == WARMUP_STEPS:
            slowest = comm.all_reduce_max(
                median(warmup_cpu), op="world-all-reduce", group="world", tag="device-time"
            )
            device.seconds = device_seconds(
                spec.device_seconds, slowest, spec.layout.world, job.cores
            )
        injector.before_step(step)
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * _rate(step, spec.steps)
        cpu_began = thread_time()
        recorder.start_step()
        if step < WARMUP_STEPS:
            recorder.tag_step("warmup")
        with recorder.phase(Phase.DATA):
            batch = torch.from_numpy(source.batch(dp, step, SAMPLES_PER_RANK, TINY.sequence + 1))
            injector.stall_data(step)
        with recorder.phase(Phase.FORWARD), device.segment("forward"):
            logits = model(batch[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        with recorder.phase(Phase.BACKWARD), device.segment("backward"):
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
        with recorder.phase(Phase.GRAD_SYNC):
            buckets.all_reduce(comm)
        with recorder.phase(Phase.OPTIMIZER), device.segment("optimizer"):
            # Gradients are equal on all ranks now, so their norm needs no collective.
            torch.nn.utils.clip_grad_norm_(parameters, CLIP)
            optimizer.step()
        if (step + 1) % GC_STEPS == 0:
            _collect_garbage(recorder)
        recorder.end_step(samples=SAMPLES_PER_RANK, tokens=tokens, flops=flops, loss=loss.item())
        warmup_cpu.append(thread_time() - cpu_began)
        if step >= WARMUP_STEPS:
            injector.after_step(step, recorder.own_seconds)
        if gpu is not None:
            injector.tell(gpu, step, recorder.wall_seconds)
    injector.close()


def _collect_garbage(recorder: StepRecorder) -> None:
    recorder.tag_step("gc")
    with recorder.local("gc"):
        gc.collect()


def _rate(step: int, steps: int) -> float:
    """Linear warm-up, then cosine to zero."""
    warm = min(1.0, (step + 1) / WARMUP_RATE_STEPS)
    return warm * 0.5 * (1.0 + math.cos(math.pi * step / steps))


def _seed(seed: int, rank: int) -> int:
    return seed * 1_000_003 + rank


def _identity(job: RankJob) -> Identity:
    layout, rank = job.spec.layout, job.rank
    dp, pp, tp = layout.coordinates(rank)
    offset, _ = wall_minus_monotonic_ns()
    return Identity(
        run=job.spec.run,
        node=layout.node(rank),
        uuid=job.spec.gpu_uuid(rank) or "",
        rank=rank,
        world=layout.world,
        local_rank=layout.local_rank(rank),
        attempt=0,
        dp=dp,
        pp=pp,
        tp=tp,
        gpu=layout.local_rank(rank) if job.spec.pace else -1,
        start_wall_ns=job.start_wall_ns,
        wall_minus_monotonic_ns=offset,
    )


def _simulated_gpu(job: RankJob) -> SimulatedGpu:
    uuid = job.spec.gpu_uuid(job.rank)
    assert uuid is not None
    return SimulatedGpu(job.spec.layout.local_rank(job.rank), uuid, _seed(job.spec.seed, job.rank))
