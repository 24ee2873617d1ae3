"""What a rank that somebody else started is told, once it knows where the others are."""

import os
from pathlib import Path
from time import monotonic_ns

from lockstep.collector.contract.archive import RESULTS_FILE
from lockstep.workloads.clocksync import wall_minus_monotonic_ns
from lockstep.workloads.joining.job_file import Job
from lockstep.workloads.joining.meeting import Meeting
from lockstep.workloads.rank import RankJob


def rank_job(
    job: Job, meeting: Meeting, node_dir: Path, data: Path, begun_ns: int | None = None
) -> RankJob:
    """The job of one rank; its folders are made.

    Args:
        begun_ns: When the first process of the rank was started, monotonic; None = this one is it.

    Raises:
        OSError: A folder cannot be made.
    """
    node = None
    if len(meeting.distinct) > 1:
        index = meeting.rank // job.spec.layout.ranks_per_node
        node = (job.nodes or meeting.distinct)[index]
    for folder in (node_dir, job.output):
        folder.mkdir(parents=True, exist_ok=True)
    offset, _ = wall_minus_monotonic_ns()
    return RankJob(
        spec=job.spec,
        rank=meeting.rank,
        node_dir=node_dir,
        rendezvous=meeting.rendezvous,
        dataset=data,
        checkpoints=job.output / "checkpoints",
        # Of all hosts: the emulated device's time is for all ranks on all cores.
        cores=len(os.sched_getaffinity(0)) * len(meeting.distinct),
        start_wall_ns=monotonic_ns() + offset,
        events=job.output / "tensorboard",
        peak_flops=job.peak_flops,
        results=job.output / RESULTS_FILE,
        node=node,
        interface=meeting.interface,
        begun_ns=begun_ns,
        met=meeting.span,
    )
