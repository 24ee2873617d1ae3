"""A rank as a process: it joins the others, trains (loop.py), and says how it ended."""

import os
import sys
from collections.abc import Callable
from functools import partial
from time import monotonic_ns, sleep

import torch
import torch.distributed as dist

from lockstep.collector.contract.device import file_name as device_file_name
from lockstep.collector.contract.ring import file_name as ring_file_name
from lockstep.collector.contract.words import ExitCode, RankState, StartPart
from lockstep.workloads.launch.launcher import PEER_LOST_CODE
from lockstep.workloads.loop.first_ring import first_step, identity
from lockstep.workloads.loop.loop import Loop
from lockstep.workloads.loop.rank import RankJob, accelerator, simulated_gpu
from lockstep.workloads.loop.resume import CheckpointError
from lockstep.workloads.measure.cuda import StreamComm, StreamRecorder, ToldClock, cuda_timeline
from lockstep.workloads.measure.flight_recorder import DumpOnRequest
from lockstep.workloads.measure.formats import timers
from lockstep.workloads.measure.heartbeat import Heartbeat, stacks_on_signal
from lockstep.workloads.measure.round_trip import RoundTrips
from lockstep.workloads.measure.starting import STARTING, Starting
from lockstep.workloads.parallel import mesh
from lockstep.workloads.parallel.comm import Comm, PeerLostError
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.ring import RingWriter
from lockstep.workloads.spec import DataError

SURVIVOR_SECONDS = 60.0


class JoinError(RuntimeError):
    """The process groups could not be made: a peer is gone, or no rank can reach another."""


def run_rank(job: RankJob, ring_is_there: Callable[[], None] = lambda: None) -> int:
    """`train` as a process: its exit code. After a peer is lost, wait to be ended.

    A survivor that stays shows the collector which collective it is stuck in, and who is missing.
    """
    try:
        train(job, ring_is_there)
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
    except DataError as error:
        print(f"rank {job.rank}: {error}", file=sys.stderr)  # noqa: T201
        return ExitCode.BAD_INPUT
    return 0


def train(job: RankJob, ring_is_there: Callable[[], None] = lambda: None) -> None:
    """Train to the end of the spec.

    Args:
        ring_is_there: Called once there is a ring, in place of the rank's first one.

    Raises:
        PeerLostError: A peer is gone; the ring says so and holds the collective it broke in.
        JoinError: The ranks did not come together.
        CheckpointError: A checkpoint cannot be read or written.
        DataError: The user's own data are wrong where nobody has looked before.
    """
    spec, layout = job.spec, job.spec.layout
    torch.set_num_threads(1)
    step = first_step(spec)
    where = accelerator(spec, job.local_index)
    where.use()
    clock = ToldClock() if where.is_cuda else None
    who = identity(spec, job.rank, job.node, job.start_wall_ns, where.uuid)
    path = job.node_dir / ring_file_name(job.rank)
    writer = RingWriter(path, who, step, now=clock or monotonic_ns)
    ring_is_there()
    gpu = simulated_gpu(job) if spec.pace else None
    beats: list[Callable[[], None]] = [
        writer.heartbeat,
        RoundTrips(writer.round_trip),
        DumpOnRequest(job.node_dir, spec.run, job.rank),
    ]
    if gpu is not None:
        beats.append(partial(gpu.write, job.node_dir / device_file_name(gpu.gpu)))
    on_signal = stacks_on_signal(job.node_dir, spec.run, job.rank)
    Heartbeat(*beats, *filter(None, [on_signal])).start()
    # gloo listens on this interface only: nothing of a local run is reachable from outside.
    os.environ["GLOO_SOCKET_IFNAME"] = job.interface
    others = timers(spec, job.rank, who.node, job.archive)
    starting = Starting(job.archive / STARTING, job.rank, job.begun_ns)
    starting.measures(StartPart.COMPILE)  # nothing of ours is compiled
    if job.met is not None:
        starting.add(StartPart.RENDEZVOUS, *job.met)
    starting.joins()
    try:
        dist.init_process_group(
            where.backend, init_method=job.rendezvous, rank=job.rank,
            world_size=layout.world, device_id=where.process_device,
        )  # fmt: skip
        groups = mesh.build(layout, where.device.type)
    except RuntimeError as error:
        raise JoinError(f"the ranks did not come together: {error}") from error
    starting.joined()
    recorder = StepRecorder(writer)
    comm = Comm(recorder, groups.groups, others)
    if clock is not None:
        recorder = on_stream = StreamRecorder(writer, cuda_timeline(where.device), clock)
        comm = StreamComm(on_stream, groups.groups)
    try:
        Loop(job, where, recorder, comm, groups, gpu).run(step)
    except PeerLostError:
        writer.state(RankState.PEER_LOST)
        raise
    except BaseException:
        writer.state(RankState.FAILED)
        raise
    for timer in others:
        timer.close()
    writer.state(RankState.FINISHED)
    dist.destroy_process_group()
