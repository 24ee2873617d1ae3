"""A rank of a test's own run: its process group over gloo, its ring, and its recorder."""

import os
from pathlib import Path

import torch
import torch.distributed as dist

from lockstep.collector.contract import ring
from lockstep.workloads.parallel.comm import Comm
from lockstep.workloads.recording import StepRecorder
from lockstep.workloads.ring import Identity, RingWriter
from lockstep.workloads.spec import Layout


def recorder_of(
    rank: int, layout: Layout, folder: Path, rendezvous: str = "rendezvous"
) -> StepRecorder:
    """The recorder of a rank that has met the others on the loopback; its first step has begun.

    Args:
        folder: Of the ring and of the file where the ranks meet.
        rendezvous: Name of that file; two groups in one folder need two.
    """
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    where = f"file://{folder}/{rendezvous}"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=layout.world)
    dp, pp, tp = layout.coordinates(rank)
    who = Identity(
        "run", "node-0", "", rank, layout.world, rank, 0, dp, pp, tp, -1, start_wall_ns=0,
        wall_minus_monotonic_ns=0,
    )  # fmt: skip
    recorder = StepRecorder(RingWriter(folder / ring.file_name(rank), who))
    recorder.start_step()
    return recorder


def comm_of(rank: int, world: int, folder: Path) -> Comm:
    """The collectives of a rank, whose only group is the world."""
    recorder = recorder_of(rank, Layout(1, world, world), folder)
    group = dist.group.WORLD
    assert group is not None
    return Comm(recorder, {"world": group, "dp": group})
