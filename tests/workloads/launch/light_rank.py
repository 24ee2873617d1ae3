"""A rank that trains nothing: `python -m lockstep.workloads` with a loop that only writes its ring.

For tests of launchers: it starts without torch, and MPI, keepers, rings and signals are real.
Its steps wait for nobody. As faults of the spec say, it stops itself or ends by SIGKILL.
"""

import os
import signal
import socket
import sys
import time

from lockstep.collector.contract import ring
from lockstep.collector.contract.words import PHASES, FaultKind
from lockstep.workloads.__main__ import main
from lockstep.workloads.launch.joining.job_file import Job
from lockstep.workloads.launch.joining.meeting import Meeting
from lockstep.workloads.launch.joining.rendezvous import Member
from lockstep.workloads.measure.heartbeat import Heartbeat
from lockstep.workloads.ring import Identity, RingWriter

STEP_SECONDS = 0.05


def write(job: Job, member: Member, meeting: Meeting | None, hosts: int) -> int:
    assert meeting is not None, "only ranks that meet without torch"
    assert job.directory is not None
    spec, layout, rank = job.spec, job.spec.layout, meeting.rank
    folder = job.directory if hosts > 1 else job.directory / layout.node(rank)
    who = Identity(
        spec.run, socket.gethostname(), "", rank, layout.world, layout.local_rank(rank), 0, rank,
        0, 0, -1, 1, 1,
    )  # fmt: skip
    writer = RingWriter(folder / ring.file_name(rank), who)
    Heartbeat(writer.heartbeat).start()
    sys.stdout.write(f"{rank} {meeting.hosts} {meeting.interface} {meeting.rendezvous}\n")
    sys.stdout.flush()
    for step in range(spec.steps):
        for fault in spec.faults:
            if fault.rank == rank and fault.from_step == step:
                stop = signal.SIGKILL if fault.kind is FaultKind.CRASH else signal.SIGSTOP
                os.kill(os.getpid(), stop)
        time.sleep(STEP_SECONDS)
        writer.end_step(
            start_ns=1, wall_ns=1, cpu_ns=1, own_ns=1, wait_ns=0,
            phase_ns=[0] * len(PHASES), tags=0,
            samples=1, tokens=1, flops=1.0, loss=1.0,
        )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(train=write))
