"""Opens the ring of a rank that somebody else's program is."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns

from collector.contract import ring
from collector.contract.ring_name import RingName
from collector.contract.words import RankState
from workloads.clocksync import wall_minus_monotonic_ns
from workloads.joining.host_name import host_name
from workloads.joining.rendezvous import identify
from workloads.ring import RingWriter
from workloads.ring_file import Identity
from workloads.sdk.holder import Means, holder, may_take

DIRECTORY_VARIABLE = "LOCKSTEP_DIR"


class UnwritableError(Exception):
    """There is no ring for this rank; the message says why.

    Attributes:
        taken: Because another one writes it.
    """

    def __init__(self, sentence: str, *, taken: bool = False) -> None:
        super().__init__(sentence)
        self.taken = taken


def started(
    environment: Mapping[str, str], means: Means, *, rank: int | None = None,
    world: int | None = None, dp: int | None = None, tp: int = 0, pp: int = 0,
    trains: bool = True, first_step: int = 0,
) -> RingWriter:  # fmt: skip
    """The writer of this process's ring, in the folder LOCKSTEP_DIR.

    Args:
        trains: Whether it is known that this process takes steps.

    Raises:
        UnwritableError: The ring cannot be made, or another process writes it.
        ValueError: The environment does not say which rank this is.
    """
    who = who_am_i(environment, Path(sys.argv[0] if sys.argv else "").stem, rank, world)
    path = Path(environment[DIRECTORY_VARIABLE]) / ring.file_name(who.rank)
    other = holder(path)
    if other is not None and not may_take(other, who.run, os.getpid(), means, trains=trains):
        raise UnwritableError(
            f"process {other.pid} records rank {who.rank} of {who.run} already;"
            " set RANK, and call lockstep.recorder in one process a rank",
            taken=True,
        )
    offset, _ = wall_minus_monotonic_ns()
    identity = Identity(
        run=who.run,
        node=host_name(environment),
        uuid="",
        rank=who.rank,
        world=who.world,
        local_rank=who.local_rank,
        attempt=who.attempt,
        dp=who.rank if dp is None else dp,
        pp=pp,
        tp=tp,
        gpu=-1,  # the collector finds the GPU by the process
        start_wall_ns=monotonic_ns() + offset,
        wall_minus_monotonic_ns=offset,
    )
    try:
        writer = RingWriter(path, identity, first_step)
    except OSError as error:
        raise UnwritableError(f"{path} cannot be written ({error.strerror})") from error
    writer.tag(means)
    writer.state(RankState.RUNNING)
    return writer


@dataclass(frozen=True, slots=True)
class Who:
    """One rank of a run."""

    run: str
    rank: int
    world: int
    local_rank: int
    attempt: int


def who_am_i(
    environment: Mapping[str, str], program: str, rank: int | None, world: int | None
) -> Who:
    """The rank that this process is.

    Args:
        program: What names the run where nobody else does.
        rank: What the program says; None = what the launcher says.
        world: Likewise; the program gives both or neither.

    Raises:
        ValueError: The environment contradicts itself, or the rank is not below the world's size.
    """
    if (rank is None) != (world is None):
        raise ValueError("rank and world belong together; give both or neither")
    local_rank: int | None
    if rank is None or world is None:
        member = identify(environment)
        rank, world, local_rank = member.rank, member.world, member.local_rank
    else:
        text = environment.get("LOCAL_RANK", "")
        local_rank = int(text) if text.isascii() and text.isdigit() else None
    if not 0 <= rank < world:
        raise ValueError(f"rank {rank} of {world} ranks does not exist; ranks count from 0")
    restarts = environment.get("TORCHELASTIC_RESTART_COUNT", "")
    return Who(
        run=run_name(environment, program),
        rank=rank,
        world=world,
        local_rank=rank if local_rank is None else local_rank,
        attempt=int(restarts) if restarts.isascii() and restarts.isdigit() else 0,
    )


def run_name(environment: Mapping[str, str], program: str) -> str:
    """The same name on every rank: given, or of the launcher's job, or of the program."""
    job = environment.get("TORCHELASTIC_RUN_ID", "")
    slurm = environment.get("SLURM_JOB_ID", "")
    name = (
        environment.get("LOCKSTEP_RUN")
        or ("" if job == "none" else job)
        or (f"slurm-{slurm}" if slurm else "")
        or program
        or "run"
    )
    return RingName.mapped(name, "run")
