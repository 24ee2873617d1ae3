"""How the log of a rank ends: the exception that ended the program, else its last line."""

import os
import re
from pathlib import Path

SHOWN_CHARACTERS = 300
TAIL_BYTES = 1 << 18
"""Of a log that is looked at; a traceback is shorter."""
NOTHING_MORE_LINES = 40
"""After an exception that ended a program libraries still write; one that goes on writes more."""

_HEAD = re.compile(
    r"^(?P<front>.*?)(?:  \+ Exception Group )?Traceback \(most recent call last\):\s*$"
)
_RAISED = re.compile(r"^(?:[^\W\d]\w*\.)*[^\W\d]\w*(?:: .*)?$")
"""`package.Name: message`, or the name alone (traceback.format_exception_only)."""
_LINK = re.compile(
    r"During handling of the above exception|The above exception was the direct cause"
)
_CPP = re.compile(r"^terminate called after throwing an instance of '(?P<kind>[^']+)'")
_WHAT = re.compile(r"^\s*what\(\):\s*(?P<message>.*)$")
_ALONE = re.compile(
    r"^(?:[^\W\d]\w*\.)*[^\W\d]\w*(?:Error|Exception|Interrupt|Timeout|Fault)(?:: .*)?$"
)
_PEER_LOST = re.compile(
    r"connection (?:was )?(?:likely )?(?:closed|reset|refused|lost)|broken pipe"
    r"|socket (?:closed|timeout)|remote process exited|ncclRemoteError|failed to recv"
    r"|communicator was aborted"
    r"|caused pair closure|connectFullMesh|(?:wait|application|socket|store) time ?out"
    r"|timed out (?:waiting|after)|collective operation timeout|MPI_ERR_PROC_FAILED"
    r"|remote worker crash|HorovodInternalError",
    re.IGNORECASE,
)
"""What gloo, NCCL, TCPStore, MPI and horovod write where another process is gone."""
_OF_COLLECTIVES = re.compile(
    r"^(?:RuntimeError|Dist\w+Error|(?:torch|c10|c10d|gloo|std|mpi4py|horovod)(?:\.|::)[\w.:]+"
    r"|MPI\.\w+|HorovodInternalError)(?:: |$)"
    r"|gloo|nccl|TCPStore|c10d|ProcessGroup",
    re.IGNORECASE,
)
"""Types that these raise, or their names in a message. A connection of anything else, as one to a
store of data, may be lost without any other rank."""
_CONNECTION = re.compile(
    r"^(?:ConnectionResetError|BrokenPipeError|ConnectionAbortedError)(?:: |$)"
)
"""Of a socket, whoever is at its other end."""


def last_line(log: Path, begin: int = 0) -> str:
    """The last line of a rank's log from byte `begin` on, cut; empty where there is none."""
    lines = _tail(log, begin).strip().splitlines()
    return lines[-1][:SHOWN_CHARACTERS] if lines else ""


def last_words(log: Path) -> str:
    """The exception with which a log ends; where it ends with none, its last line."""
    return exception(log) or last_line(log)


def exception(log: Path, begin: int = 0) -> str:
    """Type and first line of the message of the exception with which a log ends; empty = none.

    What stands before byte `begin` is not looked at: the program went on after it.

    Of a chain of exceptions it is the last. But where the first tells of a lost peer all others
    follow from it, and where only later ones do, the program met them as it ended.
    """
    lines = _tail(log, begin).splitlines()
    chain: list[str] = []
    after = len(lines)
    for start in range(len(lines) - 1, -1, -1):
        if not chain and (cpp := _CPP.match(lines[start])) is not None:
            return "" if _goes_on(lines, start) else _cpp(cpp["kind"], lines[start + 1 :])
        if (head := _HEAD.match(lines[start])) is None:
            continue
        at, raised = _raised(lines[:after], start, head["front"])
        if chain and not any(_LINK.search(line) for line in lines[at:after]):
            break
        if not chain and _goes_on(lines, at):
            return ""
        chain.insert(0, raised)
        after = start
    if not chain:  # a SyntaxError of the program itself has no traceback
        return as_exception(last_line(log, begin))
    if of_a_lost_peer(chain[0]):
        return chain[0]
    return [error for error in chain if not of_a_lost_peer(error)][-1]


def as_exception(line: str) -> str:
    """The line, where it is one that ends a traceback; else empty."""
    return line if _ALONE.match(line) else ""


def of_a_lost_peer(raised: str) -> bool:
    """Whether an exception says that another process was gone: it follows from that one's end."""
    return _PEER_LOST.search(raised) is not None and _OF_COLLECTIVES.search(raised) is not None


def of_a_connection(raised: str) -> bool:
    """Whether an exception says that a connection was lost, and not whose: perhaps a peer's."""
    return _CONNECTION.search(raised) is not None


def _raised(lines: list[str], start: int, front: str) -> tuple[int, str]:
    """(number of the line, exception) that ends the traceback which begins there."""
    for at in range(start + 1, len(lines)):
        if not lines[at].startswith(front):
            continue  # of another process that writes into the same log
        line = lines[at][len(front) :]
        if line[:1].isspace() or not line:
            continue
        return at, line[:SHOWN_CHARACTERS] if _RAISED.match(line) else ""
    return start, ""


def _goes_on(lines: list[str], at: int) -> bool:
    """Whether the program wrote on afterwards: it had handled the exception."""
    return sum(bool(line.strip()) for line in lines[at + 1 :]) > NOTHING_MORE_LINES


def _cpp(kind: str, after: list[str]) -> str:
    match = next((candidate for line in after[:2] if (candidate := _WHAT.match(line))), None)
    return (kind if match is None else f"{kind}: {match['message']}")[:SHOWN_CHARACTERS]


def _tail(log: Path, begin: int) -> str:
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(begin, size - TAIL_BYTES))
            return file.read(TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""
