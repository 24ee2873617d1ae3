"""Opens the ring of a rank that somebody else's program is."""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING

from lockstep.collector.contract import ring
from lockstep.collector.contract.ring import RingName
from lockstep.collector.contract.words import RankState
from lockstep.workloads.launch.joining.rendezvous import host_name, identify
from lockstep.workloads.measure.process import wall_minus_monotonic_ns
from lockstep.workloads.measure.starting import FOLDER_VARIABLE
from lockstep.workloads.ring import RingWriter
from lockstep.workloads.ring_file import Identity
from lockstep.workloads.sdk.amounts import INT32, index, whole
from lockstep.workloads.sdk.holder import Means, holder, may_take
from lockstep.workloads.sdk.interface import DIRECTORY_VARIABLE
from lockstep.workloads.sdk.warning import pass_on, shown, warn

if TYPE_CHECKING:
    from lockstep.workloads.sdk.recording import RingRecorder


class UnwritableError(Exception):
    """There is no ring for this rank; the message says why.

    Attributes:
        taken: Because another one writes it.
    """

    def __init__(self, sentence: str, *, taken: bool = False) -> None:
        super().__init__(sentence)
        self.taken = taken


def opened(
    environment: Mapping[str, str], *, rank: int | None, world: int | None, dp: int | None,
    tp: int, pp: int, first_step: int,
) -> "RingRecorder | None":  # fmt: skip
    """The recorder of a program that says its steps itself; None = it is not recorded.

    Where it should be and cannot, that is said.
    """
    from lockstep.workloads.sdk.recording import (
        RingRecorder,  # not in programs that only tell their log
    )

    try:
        writer = started(
            environment, Means.SDK, rank=rank, world=world, dp=dp, tp=tp, pp=pp,
            first_step=first_step,
        )  # fmt: skip
        recorder = recorded(writer, lambda: RingRecorder(writer))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is said here
        pass_on(error)
        warn(f"this rank is not recorded: {error}")
        return None
    _tell_of_start(environment, writer.identity.rank)
    return recorder


def recorded(writer: RingWriter, make: "Callable[[], RingRecorder]") -> "RingRecorder":
    """What `make` makes of the writer; the ring goes where that fails."""
    try:
        return make()
    except BaseException:
        writer.discard()
        raise


def _tell_of_start(environment: Mapping[str, str], rank: int) -> None:
    """How the ranks meet and what is compiled, where that is yet to come and torch does it."""
    if FOLDER_VARIABLE in environment and "torch" in sys.modules:
        with suppress(Exception):  # who does not tell of its start trains all the same
            import_module("lockstep.workloads.sdk.pytorch.start").follow(environment, rank)


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
        ValueError: The environment does not say which rank this is, or a place or the first step
            is no number that a ring can hold.
    """
    who = who_am_i(environment, Path(sys.argv[0] if sys.argv else "").stem, rank, world)
    highest = who.world - 1
    places = {
        "dp": whole(who.rank if dp is None else dp, "dp", highest),
        "pp": whole(pp, "pp", highest),
        "tp": whole(tp, "tp", highest),
    }
    step = whole(first_step, "first_step", ring.MAX_STEP)
    folder = Path(environment[DIRECTORY_VARIABLE]).absolute()  # the program may go to another one
    path = folder / ring.file_name(who.rank)
    other = holder(path)
    if other is not None and not may_take(
        other, who.run, who.attempt, os.getpid(), means, trains=trains
    ):
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
        **places,
        gpu=-1,  # the collector finds the GPU by the process
        start_wall_ns=monotonic_ns() + offset,
        wall_minus_monotonic_ns=offset,
    )
    try:
        writer = RingWriter(path, identity, step)
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
        local_rank = _number(environment.get("LOCAL_RANK", ""))
    world = whole(world, "the number of ranks", INT32)
    number = index(rank)
    if number is None or not 0 <= number < world:
        raise ValueError(f"rank {shown(rank)} of {world} ranks does not exist; ranks count from 0")
    return Who(
        run=run_name(environment, program),
        rank=number,
        world=world,
        local_rank=number if local_rank is None or local_rank >= world else local_rank,
        attempt=_number(environment.get("TORCHELASTIC_RESTART_COUNT", "")) or 0,
    )


def _number(text: str) -> int | None:
    """What a variable says; None where that is no number that a ring holds."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(INT32)):
        return None
    number = int(text)
    return number if number <= INT32 else None


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
