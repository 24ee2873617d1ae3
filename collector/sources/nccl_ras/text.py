"""RAS' text report (NCCL 2.24 and newer) as a Status: its table, and the ranks it warns of."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from collector.reading import SourceError
from collector.sources.nccl_ras.document import MAX_COMMUNICATORS, operation
from collector.sources.nccl_ras.status import MISSING, Communicator, Rank, Status

ANY = "any"
"""The operation of reports that count all operations together (NCCL 2.24)."""

_TIME = re.compile(r"Communicators\.\.\. \((\d{1,9}\.\d{1,9})s\)", re.ASCII)
_ROW = re.compile(
    r"\s*(\d{1,9})\s+(\d{1,9})\s+\S+\s+\S+\s+(\d{1,9}(?:-\d{1,9})?)\s+\d{1,9}"
    r"\s+(INIT|RUNNING|FINALIZE|ABORT|NOCOMM)\s+(OK|MISMATCH|ERROR|INCOMPLETE)",
    re.ASCII,
)
_BLOCK = re.compile(r"#(\d{1,9})-\d{1,9} \(([0-9a-fA-F]{1,16})\) (MISMATCH|ERROR|INCOMPLETE)")
_COUNTED = re.compile(r"  Communicator ranks have different (\w{1,32}) operation counts", re.ASCII)
_REACHED = re.compile(r"  (?:(\d{1,9}) ranks have|Rank (\d{1,9}) has) launched up to operation"
                      r" (\d{1,18})", re.ASCII)  # fmt: skip
_NONE = re.compile(r"  (?:(\d{1,9}) ranks have|Rank (\d{1,9}) has) not launched any operations")
_RANK = re.compile(
    r"  Rank (\d{1,9})(?: has [^-]{1,80})? --(?: GPU \S{1,80} managed by process (\d{1,10})"
    r" on node (\S{1,255})| \[process information not found\])",
    re.ASCII,
)
_LOST = re.compile(r"  Missing communicator data from (\d{1,9}) (rank|job process)", re.ASCII)
_TIMEOUT = re.compile(r"  Encountered (\d{1,9}) communication timeout", re.ASCII)
_SEVERITY = ("ok", "mismatch", "incomplete", "error")


@dataclass(slots=True)
class _Row:
    size: int | None
    status: str


@dataclass(slots=True)
class _Trouble:
    """What the blocks say about one communicator so far."""

    health: str = "ok"
    missing: int | None = None
    counts: dict[str, list[int]] = field(default_factory=dict)
    ranks: dict[int, Rank] = field(default_factory=dict)


def parse(text: str) -> Status:
    """The report; of communicators in good health it tells the number only.

    Raises:
        SourceError: There is no table of communicators, or a line of it makes no sense.
    """
    try:
        return _status(text.replace("\r\n", "\n").split("\n"))
    except ValueError as error:
        raise SourceError("content", f"the report of RAS makes no sense: {error}") from error


def _status(lines: list[str]) -> Status:
    rows, kinds = _table(lines)
    seconds = next((float(m[1]) for line in lines if (m := _TIME.match(line))), None)
    if seconds is None:
        raise SourceError("content", "the report of RAS has no line of its communicators")
    troubles = _troubles(lines)
    known = [(key, row) for key in troubles if (row := rows.get(key[0])) is not None]
    return Status(
        tuple(_communicator(key[1], row, troubles[key]) for key, row in known),
        False,
        kinds,
        seconds,
        next((int(m[1]) for line in lines if (m := _TIMEOUT.match(line))), 0),
    )


def _table(lines: list[str]) -> tuple[dict[int, _Row], Counter[tuple[str, str]]]:
    rows: dict[int, _Row] = {}
    kinds: Counter[tuple[str, str]] = Counter()
    for line in lines:
        match = _ROW.fullmatch(line.rstrip())
        if match is None:
            continue
        number, count, size = int(match[1]), int(match[2]), match[3]
        rows[number] = _Row(None if "-" in size else int(size), match[4].lower())
        kinds[match[4].lower(), match[5].lower()] += count
    return rows, kinds


def _troubles(lines: list[str]) -> dict[tuple[int, str], _Trouble]:
    """By (number in the table, hash)."""
    found: dict[tuple[int, str], _Trouble] = {}
    for key, health, block in _blocks(lines):
        if len(found) >= MAX_COMMUNICATORS:
            raise SourceError("content", "the report of RAS names too many communicators")
        trouble = found.setdefault(key, _Trouble())
        trouble.health = max(trouble.health, health, key=_SEVERITY.index)
        _read_block(block, health, trouble)
    return found


def _blocks(lines: list[str]) -> Iterator[tuple[tuple[int, str], str, list[str]]]:
    """(key, health, the indented lines below) of every block of one communicator."""
    at = 0
    while at < len(lines):
        match = _BLOCK.match(lines[at])
        at += 1
        if match is not None:
            end = at
            while end < len(lines) and lines[end].startswith("  "):
                end += 1
            yield (int(match[1]), match[2].lower()), match[3].lower(), lines[at:end]
            at = end


def _read_block(lines: list[str], health: str, trouble: _Trouble) -> None:
    op: str = ANY
    reached: int | None = None
    for line in lines:
        if match := _COUNTED.match(line):
            op = ANY if match[1] == "collective" else operation(match[1])
            reached = None
            continue
        if match := _LOST.match(line):
            trouble.missing = int(match[1])
        count = _REACHED.match(line)
        none = _NONE.match(line)
        if count is not None or none is not None:
            reached = int(count[3]) if count is not None else 0
            trouble.counts.setdefault(op, []).append(reached)
        if match := _RANK.match(line):
            _note(trouble, match, health, op, reached)


def _note(
    trouble: _Trouble, match: re.Match[str], health: str, op: str, reached: int | None
) -> None:
    """One named rank: below a count it has launched that many, in INCOMPLETE it is missing."""
    number = int(match[1])
    before = trouble.ranks.get(number)
    launched = dict(before.launched) if before is not None else {}
    states = set(before.states) if before is not None else set()
    if health == "incomplete":
        states.add(MISSING)
    elif health == "mismatch" and reached is not None:
        launched[op] = reached
    trouble.ranks[number] = Rank(
        number,
        match[3] or "unknown",
        int(match[2]) if match[2] else None,
        launched,
        tuple(sorted(states)),
    )


def _communicator(name: str, row: _Row, trouble: _Trouble) -> Communicator:
    return Communicator(
        name,
        row.size,
        row.status,
        trouble.health,
        trouble.missing,
        {op: (min(counts), max(counts)) for op, counts in trouble.counts.items()},
        tuple(trouble.ranks[number] for number in sorted(trouble.ranks)),
    )
