"""Where the threads of a rank stand: the shape of it, and `stacks.json`, which keeps it.

A stack is what another user's program says of itself: names are made visible and cut, frames and
threads counted, and nothing but names of functions, files and lines is kept: local variables and
arguments hold secrets.
"""

import json
import math
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.ring import RingName
from lockstep.collector.contract.visible import visible_line

FILE = "stacks.json"
SCHEMA_VERSION = 1
SIGNAL_VARIABLE = "LOCKSTEP_STACK_SIGNAL"
"""Name of a signal, as USR2: a program that sets it has its recorder answer that signal."""
SIGNALS = ("SIGUSR1", "SIGUSR2")
"""Those that are the program's own to use (signal(7))."""
PREFIX = "stacks-"

# GET /stacks?run=RUN&ranks=RANK,... gives the stacks of those of these ranks that are on this node,
# as FILE has them and "run" beside. 403 where the setting `[collector] stacks` is off, 404 without
# a rank of the run here. It takes up to STACKS_SECONDS.
STACKS_SECONDS = 10.0
"""For the stacks of all that are asked for: py-spy takes 0.1 s a process, 1 s on a busy machine."""
STACKS_MOST = 32
"""Ranks in one question; a node has 8 or 16."""
STACKS_AGAIN_SECONDS = 10.0
"""A rank is not read again before; an earlier request gets the last reading."""

MAX_FUNCTION = 200
MAX_FILE = 400
MAX_LINE = 10_000_000
MAX_FRAMES = 200
"""Of a thread, the innermost; Python's own limit of recursion is 1,000."""
MAX_THREADS = 64
"""Of a process, its main thread among them; and of a rank with all the processes it started."""
MAX_RANKS = 4096
MAX_BYTES = 32 << 20


class Reader(StrEnum):
    """Who read the stacks of a process."""

    PY_SPY = "py-spy"
    FAULTHANDLER = "faulthandler"


class Depth(StrEnum):
    """What may be read: the words of `[collector] stacks`."""

    OFF = "off"
    PYTHON = "python"
    NATIVE = "native"


@dataclass(frozen=True, slots=True)
class Frame:
    """One call.

    Attributes:
        file: As the interpreter knows it; of a native frame its library or source.
        line: 0 = not told.
        native: Whether it is of a library in C and not of Python.
    """

    function: str
    file: str
    line: int
    native: bool = False


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread that runs Python.

    Attributes:
        pid: Of its process: the rank's, or one that the rank started, as a data loader's worker.
        name: "" = not told.
        main: Whether it is the main thread of its process.
        holds_gil: None = not told.
        frames: The outermost call first.
    """

    pid: int
    name: str
    main: bool
    holds_gil: bool | None
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Stacks:
    """Where one rank stood at one moment.

    Attributes:
        pid: In the process table of who read it; None = it has no process there.
        state: The letter of proc_pid_stat(5); "" = not told.
        taken: Unix time.
        reader: None = nobody could read it, and `why` says why, and what would be right.
        why: Of stacks that were read: what they lack, or "".
    """

    rank: int
    node: str
    pid: int | None
    state: str
    taken: float
    reader: Reader | None
    native: bool = False
    why: str = ""
    threads: tuple[Thread, ...] = ()

    @property
    def main(self) -> Thread | None:
        """The main thread of the rank's own process."""
        own = (thread for thread in self.threads if thread.main and thread.pid == self.pid)
        return next(own, None)


def stacks_name(run: str, rank: int) -> str:
    """Beside the ring: what faulthandler of this rank writes into; there while it would.

    Raises:
        ValueError: The run is no RingName.
    """
    return f"{PREFIX}{RingName(run)}-{rank}"


def signal_of(name: str) -> int | None:
    """The number of a signal that may carry the question; None = it is none.

    As USR2 or SIGUSR2. Not those whose handlers are somebody's already, and none that cannot be
    caught: a program asked for one that it does not use.
    """
    wanted = name if name.startswith("SIG") else f"SIG{name}"
    return int(signal.Signals[wanted]) if wanted in SIGNALS else None


def most(threads: Sequence[Thread]) -> tuple[Thread, ...]:
    """Of too many the main ones first, in the order that they had."""
    order = sorted(range(len(threads)), key=lambda index: not threads[index].main)[:MAX_THREADS]
    return tuple(threads[index] for index in sorted(order))


def frame(function: object, file: object, line: object, *, native: bool = False) -> Frame:
    """A frame of what somebody told: visible, cut, and with a line that can be one."""
    number = line if type(line) is int and 0 <= line <= MAX_LINE else 0
    return Frame(_cut(function, MAX_FUNCTION), _cut_left(file, MAX_FILE), number, native)


def as_text(stacks: Sequence[Stacks]) -> str:
    """`stacks.json`."""
    tree = {"schema_version": SCHEMA_VERSION, "ranks": [as_tree(stack) for stack in stacks]}
    return json.dumps(tree, indent=1)


def as_tree(stacks: Stacks) -> dict[str, Any]:
    """One entry of `ranks`."""
    return {
        "rank": stacks.rank,
        "node": stacks.node,
        "pid": stacks.pid,
        "state": stacks.state,
        "taken": stacks.taken,
        "reader": None if stacks.reader is None else stacks.reader.value,
        "native": stacks.native,
        "why": stacks.why,
        "threads": [
            {
                "pid": thread.pid,
                "name": thread.name,
                "main": thread.main,
                "holds_gil": thread.holds_gil,
                "frames": [
                    {"function": frame.function, "file": frame.file, "line": frame.line,
                     "native": frame.native}
                    for frame in thread.frames
                ],
            }
            for thread in stacks.threads
        ],
    }  # fmt: skip


def read(path: Path) -> list[Stacks]:
    """The stacks of a file that somebody sends.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no such file; the text says what is wrong.
    """
    return from_tree(bounded_json.read(path, limit=MAX_BYTES))


def from_tree(tree: Any) -> list[Stacks]:
    """The stacks of a tree.

    Raises:
        ValueError: It is no such tree.
    """
    ranks = tree.get("ranks") if isinstance(tree, Mapping) else None
    if not isinstance(ranks, list):
        raise ValueError("it has no list `ranks`")  # noqa: TRY004 - of a file, one kind of error
    try:
        return [_stacks(rank) for rank in ranks[:MAX_RANKS]]
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"a rank does not hold together: {type(error).__name__} {error}") from None


def _stacks(tree: Mapping[str, Any]) -> Stacks:
    reader = tree.get("reader")
    return Stacks(
        rank=int(tree["rank"]),
        node=_cut(tree.get("node", ""), MAX_FUNCTION),
        pid=None if tree.get("pid") is None else int(tree["pid"]),
        state=_cut(tree.get("state", ""), 8),
        taken=_moment(tree.get("taken", 0.0)),
        reader=None if reader is None else Reader(reader),
        native=bool(tree.get("native", False)),
        why=_cut(tree.get("why", ""), MAX_FILE),
        threads=most([_thread(thread) for thread in list(tree["threads"])]),
    )


def _thread(tree: Mapping[str, Any]) -> Thread:
    holds = tree.get("holds_gil")
    return Thread(
        pid=int(tree["pid"]),
        name=_cut(tree.get("name", ""), MAX_FUNCTION),
        main=bool(tree.get("main", False)),
        holds_gil=None if holds is None else bool(holds),
        frames=tuple(
            frame(row["function"], row["file"], row["line"], native=bool(row.get("native")))
            for row in list(tree.get("frames", ()))[-MAX_FRAMES:]
        ),
    )


def _moment(value: Any) -> float:
    moment = float(value)
    return moment if math.isfinite(moment) else 0.0


def _cut(value: object, most: int) -> str:
    text = visible_line(str(value)[: most + 1])
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _cut_left(value: object, most: int) -> str:
    """Of a path the end tells more."""
    text = visible_line(str(value)[-most - 1 :])
    return text if len(text) <= most else f"…{text[1 - most :]}"
