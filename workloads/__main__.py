"""A rank that mpirun, torchrun or srun started: `python -m lockstep.workloads JOB`.

JOB is a file as job_file.py writes it, or its text. `--keep` is what our own mpirun launcher adds.
"""

import argparse
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic_ns, sleep
from types import FrameType

from lockstep.collector.contract.ring import file_name
from lockstep.collector.contract.visible import visible_line
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.processes import die_with_parent
from lockstep.workloads.launch.joining import run_directory
from lockstep.workloads.launch.joining.job_file import Job, JobError, read
from lockstep.workloads.launch.joining.meeting import Meeting, check, meet_by_mpi, mpi_installed
from lockstep.workloads.launch.joining.rendezvous import (
    MPI_STARTERS,
    Member,
    RendezvousError,
    host_name,
    identify,
)
from lockstep.workloads.launch.keeper import KEPT_SECONDS, Keeper, Report
from lockstep.workloads.loop.first_ring import first_ring
from lockstep.workloads.measure.process import process_began_ns
from lockstep.workloads.spec import DataError

_BEGUN_NS = process_began_ns()
"""Of this process, which forks the one that trains."""

Train = Callable[[Job, Member, Meeting | None, int], int]
"""What a rank does with its job: who it is, where the others are if that is known, and on how many
hosts they are; its exit code."""


def main(arguments: list[str] | None = None, train: Train | None = None) -> int:
    """Run one rank to its end; its exit code.

    Args:
        train: What the rank does; None = it trains.
    """
    parser = argparse.ArgumentParser(prog="python -m lockstep.workloads", description=__doc__)
    parser.add_argument("job", metavar="JOB", help="a job file, or the text of one")
    parser.add_argument("--keep", action="store_true", help="report to the mpirun launcher")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _leave)
    if given.keep:
        die_with_parent(os.getppid(), signal.SIGKILL)
    rank: int | None = None
    try:
        job = read(given.job)
        member = identify(os.environ)
        rank = member.rank
        with ExitStack() as stack:
            if ours := job.directory is None:
                job = replace(job, directory=run_directory.default(job.spec.run))
                stack.enter_context(run_directory.shared(_directory(job)))
            return _rank(job, member, train or trained, keep=given.keep, ring_goes=ours)
    except (JobError, DataError, RendezvousError, OSError) as error:
        if given.keep:
            # The launcher ends the run; if this process failed, mpirun might drop the words.
            _tell(Report(-1 if rank is None else rank, socket.gethostname(), refused=str(error)))
            sleep(KEPT_SECONDS)
        who = "" if rank is None else f"rank {rank}: "
        print(visible_line(f"lockstep: {who}{error}"), file=sys.stderr)
        return _code(error)


def _rank(job: Job, member: Member, train: Train, *, keep: bool, ring_goes: bool) -> int:
    hosts = job.hosts or member.hosts or 1
    meeting = _met_without_torch(job, member)
    if meeting is not None:
        check(meeting, job.spec.layout, hosts)
    if not keep:
        return train(job, member, meeting, hosts)
    rank = member.rank if meeting is None else meeting.rank
    node_dir = _node_dir(job, rank, hosts)
    logs = job.output / "logs"
    for folder in (node_dir, logs):
        folder.mkdir(parents=True, exist_ok=True)
    keeper = Keeper(
        rank, socket.gethostname(), node_dir / file_name(rank), logs / f"rank-{rank}.log", _tell,
        ring_goes=ring_goes,
    )  # fmt: skip
    return keeper.keep(partial(_in_child, train, job, member, meeting, hosts))


def _met_without_torch(job: Job, member: Member) -> Meeting | None:
    """How the ranks meet where that can be before a fork; None = they must meet by torch."""
    folder = _directory(job)
    if member.starter in MPI_STARTERS and mpi_installed():
        return _timed(partial(meet_by_mpi, member.world, folder, member.master))
    rendezvous = job.rendezvous
    if member.world == 1 and member.master is None:
        rendezvous = f"file://{folder}/rendezvous-{os.getpid()}"
    if rendezvous is None or member.local_world != member.world:
        return None
    return Meeting(member.rank, (host_name(),) * member.world, rendezvous, "lo")


def _in_child(train: Train, job: Job, member: Member, meeting: Meeting | None, hosts: int) -> int:
    try:
        return train(job, member, meeting, hosts)
    except (DataError, RendezvousError, OSError) as error:
        rank = member.rank if meeting is None else meeting.rank
        print(visible_line(f"rank {rank}: {error}"), file=sys.stderr)
        return _code(error)


def _code(error: Exception) -> int:
    wrong_input = isinstance(error, JobError | DataError)
    return ExitCode.BAD_INPUT if wrong_input else ExitCode.UNREACHABLE


def trained(job: Job, member: Member, meeting: Meeting | None, hosts: int) -> int:
    """Train: all of a rank that needs torch.

    Raises:
        RendezvousError: The ranks do not meet, or not where they were asked to be.
        DataError: The user's own data are wrong.
        OSError: A folder or the data cannot be made.
    """
    rank = member.rank if meeting is None else meeting.rank
    folder = _node_dir(job, rank, hosts)
    with first_ring(job.spec, rank, _node(job, rank, hosts), folder) as ring_is_there:
        from lockstep.workloads.launch.joining.by_store import meet
        from lockstep.workloads.loop.rank import rank_job
        from lockstep.workloads.loop.train import run_rank

        if meeting is None:
            meeting = _timed(partial(meet, member))
            check(meeting, job.spec.layout, hosts)
        data = job.data or run_directory.prepared(job.spec, _directory(job))
        return run_rank(rank_job(job, meeting, folder, data, _BEGUN_NS), ring_is_there)


def _timed(meet: Callable[[], Meeting]) -> Meeting:
    """A meeting with the time that it took, of which waiting for the last rank is most."""
    begin = monotonic_ns()
    meeting = meet()
    return replace(meeting, span=(begin, monotonic_ns()))


def _directory(job: Job) -> Path:
    assert job.directory is not None
    return job.directory


def _node_dir(job: Job, rank: int, hosts: int) -> Path:
    """A host of its own needs no folder a node; emulated nodes share one host."""
    folder = _directory(job)
    return folder if hosts > 1 else folder / job.spec.layout.node(rank)


def _node(job: Job, rank: int, hosts: int) -> str | None:
    """Name of the host that a rank is on; None = its node is emulated."""
    index = rank // job.spec.layout.ranks_per_node
    if hosts == 1:
        return None
    return job.nodes[index] if index < len(job.nodes) else host_name()


def _tell(report: Report) -> None:
    os.write(1, report.line().encode())


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
