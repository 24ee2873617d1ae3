"""What a rank does between the start of its process and its first step, told for the ledger.

A rank writes a file of a few hundred bytes when it begins to meet the others and when it has met
them; a step costs nothing. Standard library only: programs of others tell by it, too.
"""

import json
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns

from lockstep.collector.contract.whole_file import write_whole
from lockstep.collector.contract.words import StartPart
from lockstep.workloads.measure.process import process_began_ns, wall_minus_monotonic_ns

STARTING = "starting"
"""Folder of an archive where each rank tells of its start, until run.json has it."""
FOLDER_VARIABLE = "LOCKSTEP_STARTING"
"""Where the rank of somebody else's program finds that folder."""
FOLLOWER = "_lockstep_start"
"""Attribute of torch: what follows the start of such a program (workloads.sdk.torch_start)."""
MOST_SPANS = 200
"""Of one part: a program that compiles more often tells of the first ones."""

Span = tuple[int, int | None]
"""Begin and end, monotonic nanoseconds; without an end: until the first step."""


class Starting:
    """Spans of the start of one rank, by what was done; what nobody measures has no entry.

    Args:
        folder: Where to tell; None = nowhere.
        begun_ns: When the process was started, monotonic; None = as /proc says.
    """

    def __init__(self, folder: Path | None, rank: int, begun_ns: int | None = None) -> None:
        self._path = None if folder is None else folder / f"rank-{rank}.json"
        self._spans: dict[StartPart, list[Span]] = {}
        begun = process_began_ns() if begun_ns is None else begun_ns
        if begun is not None:
            self._spans[StartPart.PROGRAM] = [(begun, None)]

    @property
    def full(self) -> bool:
        """Whether no more compilations are told."""
        return len(self._spans.get(StartPart.COMPILE, ())) >= MOST_SPANS

    def add(self, what: StartPart, begin_ns: int, end_ns: int | None = None) -> None:
        """Something was done, or begins."""
        spans = self._spans.setdefault(what, [])
        if len(spans) < MOST_SPANS:
            spans.append((begin_ns, end_ns))

    def measures(self, what: StartPart) -> None:
        """From now on it is told: without a span it took no time."""
        self._spans.setdefault(what, [])

    def joins(self) -> None:
        """The rank is ready to meet the others: whom it waits for now is late."""
        now = monotonic_ns()
        self._end(StartPart.PROGRAM, now)
        self.add(StartPart.RENDEZVOUS, now)
        self.write()

    def parted(self) -> None:
        """They did not meet: until it tries again, what follows is the program's."""
        now = monotonic_ns()
        self._end(StartPart.RENDEZVOUS, now)
        self.add(StartPart.PROGRAM, now)
        self.write()

    def joined(self) -> None:
        """All ranks have met: what follows, until the first step, is loading."""
        now = monotonic_ns()
        self._end(StartPart.RENDEZVOUS, now)
        self.add(StartPart.LOAD, now)
        self.write()

    def write(self) -> None:
        """Tell what is known; who cannot tell it trains all the same."""
        if self._path is None:
            return
        offset, _ = wall_minus_monotonic_ns()
        told = {
            what: [[_seconds(begin, offset), None if end is None else _seconds(end, offset)]
                   for begin, end in spans]
            for what, spans in self._spans.items()
        }  # fmt: skip
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps(told), mode=None)

    def _end(self, what: StartPart, end_ns: int) -> None:
        spans = self._spans.get(what)
        if spans and spans[-1][1] is None:
            spans[-1] = spans[-1][0], end_ns


def first_step_ended() -> None:
    """Of a program whose start is followed; of any other it does nothing."""
    follower = getattr(sys.modules.get("torch"), FOLLOWER, None)
    if follower is not None:
        follower.stepped()


def _seconds(moment_ns: int, offset_ns: int) -> float:
    return (moment_ns + offset_ns) / 1e9
