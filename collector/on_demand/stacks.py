"""Where the threads of a rank stand: by py-spy from outside, or by faulthandler from within.

py-spy reads the memory of the process and does not stop it (`--nonblocking`, process_vm_readv(2)):
the stack of a program that stands still does not change meanwhile, and of one that runs a reading
that does not hold together is made again. Native frames need each thread stopped by ptrace(2) for
the time of the reading, which is why they have a switch of their own. faulthandler needs no
permission but that of sending a signal, and a program that asked for it (on_signal.py); a signal
can end a call of C early, so it comes second. Names of functions, files and lines are read, never
what variables hold.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lockstep.collector.clock import Clock
from lockstep.collector.contract.stacks import Depth, Reader, Stacks, Thread, most, stacks_name
from lockstep.collector.on_demand.on_signal import by_signal
from lockstep.collector.on_demand.process import ENDED, STOPPED, Status, children, status
from lockstep.collector.on_demand.py_spy import by_py_spy
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.ranks.owners import Rank

MAX_CHILDREN = 16
"""Processes that a rank started, as workers of its data loader, of which stacks are read."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A rank whose stacks are asked for.

    Attributes:
        pid: In our process table; None = it is gone, or not visible here.
        file: What its faulthandler writes into, if its recorder offers that.
        user: Whose the ring is that tells the pid; only processes of this user are touched.
    """

    rank: int
    node: str
    pid: int | None
    file: Path
    user: int | None


def read_stacks(
    ranks: Sequence[Asked], depth: Depth, proc: Path, clock: Clock, seconds: float
) -> list[Stacks]:
    """The stacks of each rank, all within so many seconds; who has none says why.

    Args:
        depth: PYTHON or NATIVE; where it is off nobody comes here.
        seconds: Of all ranks together; those that no time is left for say so.
    """
    until = clock.monotonic() + seconds
    stacks = []
    for index, rank in enumerate(ranks):  # what one does not use is of those behind it
        mine = _share(clock, until, len(ranks) - index)
        stacks.append(_of_rank(rank, depth, proc, clock, mine))
    return stacks


def _share(clock: Clock, until: float, parts: int) -> float:
    """Until when, so that each of these parts has as much of the time that is left."""
    now = clock.monotonic()
    return now + (until - now) / parts


def _of_rank(asked: Asked, depth: Depth, proc: Path, clock: Clock, until: float) -> Stacks:
    empty = Stacks(asked.rank, asked.node, asked.pid, "", clock.wall(), None)
    if asked.pid is None:
        return replace(empty, why="its process is gone, or in a process table that is not ours")
    if clock.monotonic() >= until:
        return replace(empty, why="no time was left for it: allow more seconds")
    try:
        known = status(proc, asked.pid)
    except SourceError as error:
        return replace(empty, why=str(error))
    if (foreign := _foreign(known, asked.user)) is not None:
        return replace(empty, pid=None, why=foreign)
    empty = replace(empty, state=known.state)
    if known.state in ENDED:
        return replace(empty, why=f"its process has ended (state {known.state})")
    try:
        return _from_outside(empty, asked.pid, known, depth, proc, clock, until)
    except SourceError as error:
        why = str(error)
    try:
        threads = by_signal(proc, asked.pid, known, asked.file, clock, until)
    except SourceError as error:
        return replace(empty, why=f"{why}; {error}")
    return replace(empty, reader=Reader.FAULTHANDLER, why=why, threads=threads)


def _foreign(known: Status, user: int | None) -> str | None:
    """Why a process is not touched: anyone may write a ring that tells the pid of another user's.

    As ptrace(2) compares users: the real, the effective and the saved one, so that a program that
    took on more rights is not read for who started it.
    """
    if user is not None and known.users == {user}:
        return None
    theirs = " and ".join(map(str, sorted(known.users))) or "unknown"
    return (
        f"the process that its ring names is of user {theirs}, and the ring of user {user}: stacks"
        " are read where one user has both"
    )


def _from_outside(
    empty: Stacks, pid: int, known: Status, depth: Depth, proc: Path, clock: Clock, until: float
) -> Stacks:
    """By py-spy, with the processes that the rank started.

    Raises:
        SourceError: The rank's own stacks cannot be read.
    """
    native, why = depth is Depth.NATIVE, ""
    if native and known.state in STOPPED:
        native, why = False, f"no native frames: ptrace would wait for one in state {known.state}"
    if proc.resolve() != Path("/proc"):
        raise SourceError(
            "other_table", f"py-spy knows the processes of /proc, not those of {proc}"
        )
    first = _share(clock, until, 2) if native else until  # Python's frames come behind native ones
    try:
        threads = by_py_spy(pid, native=native, proc=proc, clock=clock, until=first)
    except SourceError as error:
        if not native:
            raise
        native, why = False, f"no native frames: {error}"
        threads = by_py_spy(pid, native=False, proc=proc, clock=clock, until=until)
    for child in children(proc, pid)[:MAX_CHILDREN]:
        threads += _of_child(child, known.users, native, proc, clock, until)
    return replace(empty, reader=Reader.PY_SPY, native=native, why=why, threads=most(threads))


def _of_child(
    pid: int, users: frozenset[int], native: bool, proc: Path, clock: Clock, until: float
) -> tuple[Thread, ...]:
    """Its main thread; () of one of another user, that is no Python, or has ended."""
    try:
        known = status(proc, pid)
        if known.state in ENDED or known.users != users:
            return ()
        native = native and known.state not in STOPPED
        threads = by_py_spy(pid, native=native, proc=proc, clock=clock, until=until)
        return tuple(thread for thread in threads if thread.main)
    except SourceError:
        return ()


# Stacks of all ranks of a request.


def take_stacks(
    ranks: Iterable[Rank],
    chosen: Sequence[int],
    depth: Depth,
    proc: Path,
    clock: Clock,
    seconds: float,
) -> list[Stacks]:
    """The stacks of the chosen ones among these ranks of one run: see read_stacks."""
    by_rank = {rank.key[1]: rank for rank in ranks}
    asked = [_asked(by_rank[number]) for number in dict.fromkeys(chosen) if number in by_rank]
    return read_stacks(asked, depth, proc, clock, seconds)


def _asked(rank: Rank) -> Asked:
    run, number = rank.key
    file = rank.path.parent / stacks_name(run, number)
    return Asked(number, rank.header.identity.node, rank.pid, file, rank.user)
