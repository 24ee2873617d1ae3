"""A rank's ring before torch is imported: who imports for a minute is seen as starting meanwhile.

Another process beats for it, for the loader holds the interpreter while it maps libraries: from a
cold disk that takes longer than a heartbeat may be old. Standard library only.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic_ns, sleep

from lockstep.collector.contract.ring import file_name
from lockstep.collector.contract.words import RankState
from lockstep.terminal.processes import die_with_parent
from lockstep.workloads.launch.joining.rendezvous import RendezvousError
from lockstep.workloads.loop.resume import CheckpointError, about
from lockstep.workloads.measure.heartbeat import HEARTBEAT_SECONDS
from lockstep.workloads.measure.process import wall_minus_monotonic_ns
from lockstep.workloads.ring import RingWriter
from lockstep.workloads.ring_file import Identity
from lockstep.workloads.spec import RunSpec


class _FirstRing:
    """Until the rank makes the ring that it trains with, in the same place."""

    def __init__(self, folder: Path, who: Identity, step: int) -> None:
        self._writer = RingWriter(folder / file_name(who.rank), who, step)
        self._beats: int | None = _beating(self._writer)

    def replaced(self) -> None:
        """Another one is there in its place."""
        if self._beats is not None:
            with suppress(ProcessLookupError, ChildProcessError):  # who ignores SIGCHLD has none
                os.kill(self._beats, signal.SIGKILL)
                os.waitpid(self._beats, 0)
            self._beats = None
            self._writer.close()

    def ended(self, state: RankState) -> None:
        """The rank ends before there is another one."""
        if self._beats is not None:
            self._writer.state(state)
            self.replaced()


@contextmanager
def first_ring(
    spec: RunSpec, rank: int, node: str | None, folder: Path
) -> Iterator[Callable[[], None]]:
    """The ring of a rank while it gets ready; what is yielded is called once another is there.

    A rank that the run does not have has none, nor does one whose checkpoint cannot be read: both
    are refused with their reason later.

    Args:
        node: Its name; None = the emulated one of the layout.
        folder: Of the ring.

    Raises:
        OSError: There is no room for it.
    """
    try:
        step = first_step(spec)
    except CheckpointError:
        step = -1
    if step < 0 or rank >= spec.layout.world:
        yield lambda: None
        return
    offset, _ = wall_minus_monotonic_ns()
    ring = _FirstRing(folder, identity(spec, rank, node, monotonic_ns() + offset), step)
    state = RankState.FAILED
    try:
        yield ring.replaced
    except RendezvousError:  # it waited for others
        state = RankState.PEER_LOST
        raise
    except BaseException as error:
        if not isinstance(error, Exception):  # somebody ends it
            ring.replaced()
        raise
    finally:
        ring.ended(state)


def identity(
    spec: RunSpec, rank: int, node: str | None, start_wall_ns: int, uuid: str = ""
) -> Identity:
    """What the rank's ring says of it, with its clocks as they are now.

    Args:
        node: Its name; None = the emulated one of the layout.
        uuid: Of its real GPU, once that is known.
    """
    layout = spec.layout
    dp, pp, tp = layout.coordinates(rank)
    offset, _ = wall_minus_monotonic_ns()
    has_gpu = spec.pace or spec.device == "cuda"
    return Identity(
        run=spec.run,
        node=node or layout.node(rank),
        uuid=spec.gpu_uuid(rank) or uuid,
        rank=rank,
        world=layout.world,
        local_rank=layout.local_rank(rank),
        attempt=0,
        dp=dp,
        pp=pp,
        tp=tp,
        gpu=layout.local_rank(rank) if has_gpu else -1,
        start_wall_ns=start_wall_ns,
        wall_minus_monotonic_ns=offset,
    )


def first_step(spec: RunSpec) -> int:
    """The number of the first step that the run takes.

    Raises:
        CheckpointError: It goes on from one that cannot be read.
    """
    resume = spec.training.resume
    return 0 if resume is None else about(Path(resume)).step


def _beating(writer: RingWriter) -> int:
    """Process id of a child that beats until it is killed, or this process ends."""
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the whole terminal group
        die_with_parent(parent, signal.SIGKILL)
        while True:
            writer.heartbeat()
            sleep(HEARTBEAT_SECONDS)
    finally:
        os._exit(1)
