"""How the ranks of a run are started, watched and ended; one folder or file a launcher."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.spec import RunSpec

PEER_LOST_CODE = 75
"""Exit code of a rank that ended because it could not reach another one: never the first cause."""


class LaunchError(RuntimeError):
    """The ranks could not be started, or not where they were asked to be; says what to do."""


class Ending(StrEnum):
    """How a run ended."""

    FINISHED = "finished"
    HANG = "hang"
    CRASH = "crash"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is: completed steps of the slowest rank, and the last loss that a rank knows.

    Attributes:
        unseen_seconds: How long a program has run of which no step was ever seen; None while that
            is nothing to speak of.
    """

    step: int
    steps: int
    loss: float | None
    unseen_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Exit:
    """How a rank ended by itself.

    Attributes:
        code: Exit code; -N = by signal N.
        seconds: After the first end of a rank of the run, as it was seen.
    """

    rank: int
    code: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception with which the log of a rank ends.

    Attributes:
        error: Its type and the first line of its message, as Python writes them.
        of_lost_peer: Whether it says that another process was gone, so that it follows from that.
    """

    rank: int
    error: str
    of_lost_peer: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    `ranks` are those that crashed by themselves or hold the others up, `reason` says how. `exits`
    are the ends of ranks that were seen before the launcher ended the rest, in that order; a run
    that finished tells none. `raised` are exceptions with which logs of ranks end, also of ranks
    whose processes were still there.
    """

    ending: Ending
    ranks: tuple[int, ...] = ()
    reason: str = ""
    exits: tuple[Exit, ...] = ()
    raised: tuple[Raised, ...] = ()

    @property
    def rank(self) -> int | None:
        """The rank, where it is just one."""
        return self.ranks[0] if len(self.ranks) == 1 else None


def as_injected(spec: RunSpec, outcome: Outcome) -> bool:
    """Whether the run ended as its injected faults said it would."""
    wanted = {Ending.CRASH: FaultKind.CRASH, Ending.HANG: FaultKind.FREEZE}.get(outcome.ending)
    if wanted is None:
        return outcome.ending is Ending.FINISHED
    per_node = spec.layout.ranks_per_node
    asked = {rank for f in spec.faults if f.stops is wanted for rank in f.ranks(per_node)}
    return bool(outcome.ranks) and asked.issuperset(outcome.ranks)


class Handle(Protocol):
    """A run that has been launched."""

    def wait(self, on_progress: Callable[[Progress], None]) -> Outcome:
        """Block until all ranks have ended, or end them.

        Raises:
            LaunchError: They never came together; none is left.
        """
        ...

    def end(self) -> None:
        """End every rank now; returns when none is left."""
        ...


class Launcher(Protocol):
    """Starts the ranks of a run."""

    def launch(self, spec: RunSpec, workspace: Path, logs: Path) -> Handle:
        """Start every rank; its ring appears in `workspace/<node>/`, its output in `logs`.

        Raises:
            LaunchError: What starts them is missing or refuses.
            OSError: A file or a process could not be made; none of the run is left.
        """
        ...
