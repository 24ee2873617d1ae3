"""RAS' text report (NCCL 2.24 and newer) as a Status: its table, and the ranks it warns of.

The lines are those of src/ras/client_support.cc of nccl, v2.24.3-1 to v2.30.7-1. Blanks count once,
so that a report that came through a log reads the same. What is not understood is counted, and
ends what it stands in: whose the lines below it are is not known then.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.nccl.ras.document import MAX_COMMUNICATORS, operation
from lockstep.collector.sources.nccl.ras.status import (
    MISSING,
    SEVERITY,
    UNKNOWN,
    Communicator,
    Notes,
    Rank,
    Status,
    Version,
    host_of,
    version_of,
)

# The lines of RAS' text report: src/ras/client_support.cc of nccl, v2.24.3-1 to v2.30.7-1.
#
# Blanks count once: each pattern is of a line with single blanks and none at its ends.

BLANKS = re.compile(r"[ \t]+")
_STATUS = "INIT|RUNNING|FINALIZE|ABORT|NOCOMM|UNKNOWN"
_ERRORS = "OK|(?:MISMATCH|ERROR|INCOMPLETE)(?:,(?:MISMATCH|ERROR|INCOMPLETE)){0,2}"
_PROCESS = (
    r"(?:GPU \d{1,4}(?: \(NVML \d{1,4}\))? managed by process (?P<pid>\d{1,10})"
    r" on node (?P<host>\S{1,255})|\[process information not found\])"
)


def _line(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


VERSION = _line(r"NCCL version (\S{1,60}) compiled with CUDA \S{1,20}")
TIME = _line(r"Communicators\.\.\. \((\d{1,9})[.,](\d{1,9})s\)")
ROW = _line(
    r"(\d{1,9}) (\d{1,9}) \d{1,9}(?:-\d{1,9})? \d{1,9}(?:-\d{1,9})? (\d{1,9}(?:-\d{1,9})?)"
    rf" \d{{1,9}} ({_STATUS}) ({_ERRORS})"
)
NO_ROWS = "No communicator data collected!"
BLOCK = _line(r"#(\d{1,9})-(\d{1,9}) \(([0-9a-fA-F]{1,16})\) (MISMATCH|ERROR|INCOMPLETE)")
LOST_RANKS = _line(r"Missing communicator data from (\d{1,9}) ranks?")
NUMBERED = _line(r"The (missing|unknown) ranks?: (\d{1,9}(?:,\d{1,9})*)")
COUNTED = _line(r"Communicator ranks have different (\w{1,32}) operation counts")
DIFFERENT_STATUS = "Communicator ranks have different status"
FAILED = _line(r"(Initialization|Asynchronous) errors? on (\d{1,9}) ranks?")
SEVERAL = _line(
    r"(\d{1,9}) ranks (?:have launched up to operation (?P<reached>\d{1,18})"
    rf"|have (?P<none>not launched any operations)|have status (?P<status>{_STATUS})"
    r"|reported (?P<error>[\w ]{1,40}))"
)
ONE = _line(
    r"Rank (\d{1,9})(?: has launched up to operation (?P<reached>\d{1,18})"
    rf"| has (?P<none>not launched any operations)| has status (?P<status>{_STATUS})"
    rf"| reported (?P<error>[\w ]{{1,40}}))?(?: -- {_PROCESS})?"
)
LOST_PROCESSES = _line(r"Missing communicator data from \d{1,9} job process(?:es)?")
DEAD_PROCESSES = _line(r"\d{1,9} job process(?: is|es are) considered dead \(unreachable.*")
PROCESS_LINE = _line(
    r"Process (\d{1,10}) on node (\S{1,255}) managing GPUs? [\d,]{1,400}(?: \(NVML [\d,]{1,400}\))?"
)
TIMEOUT = _line(r"Encountered (\d{1,9}) communication timeouts? while gathering communicator data")
ORDER = (
    "broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce", "send_recv", "send",
    "recv",
)  # fmt: skip
"""Operations as NCCL numbers them (src/include/nccl_common.h, ncclFunc_t)."""
SECTIONS = frozenset(("Errors", "Warnings", "INCOMPLETE", "DEAD", "TIMEOUT"))
KNOWN = _line(
    r"=+|[\d -]+|Job summary|CUDA runtime version \S+, driver version \S+|The outlier nodes?:"
    r"|Node \S+ running process(?:es)? [\d,]+|\[could not find information on \d+ process(?:es)?\]"
    r"|(?:(?:Nodes|Processes|GPUs|Group|Comms|Ranks|Status|Errors|#|in group"
    r"|per (?:node|process|comm)|\(total\))(?: |$))+"
)
"""What else stands in a report: what it begins with, and the heads of its tables."""


ANY = "any"
"""The operation of reports that count all operations together (NCCL 2.24 and 2.25)."""
MOST_RANKS = 1 << 20
"""Named ranks of one report."""

_STATE_OF = {"ABORT": "abort", "FINALIZE": "finalize", "INIT": "initializing"}
"""A status of a rank as one of STATES; running is none, and who is no member is well, too."""
_NO_MEMBER = frozenset(("NOCOMM", "UNKNOWN"))
"""NCCL 2.26 and newer, and before (NCCL documentation, RAS)."""


@dataclass(slots=True)
class _Group:
    """Ranks that a line says the same of.

    Attributes:
        reached: How many operations they launched.
        state: A word of STATES.
        left: They are no members of the communicator any more, or not yet.
        ranks: Those that are named below the line: all, or none.
    """

    count: int
    reached: int | None
    state: str | None
    left: bool
    ranks: list[Rank] = field(default_factory=list)


@dataclass(slots=True)
class _Section:
    """What one property of a communicator's ranks is: the groups of ranks that differ in it.

    Attributes:
        kind: `launched`, `status`, or `failed`.
        op: Of `launched`.
        total: Of `failed`: the ranks of all groups together.
    """

    kind: str
    op: str = ""
    state: str = ""
    resumed: bool = False
    """Behind an empty line, as each but the first of a block is."""
    total: int | None = None
    groups: list[_Group] = field(default_factory=list)


@dataclass(slots=True)
class _Trouble:
    """What the blocks say about one communicator so far."""

    health: str = "ok"
    place: tuple[int, int] = (0, 0)
    """Row of the table, and number in it."""
    missing: int | None = None
    broken: bool = False
    lost: dict[int, Rank] = field(default_factory=dict)
    sections: list[_Section] = field(default_factory=list)


@dataclass(slots=True)
class _Report:
    """What was read so far, and where in the report that is."""

    notes: Notes = field(default_factory=Notes)
    version: Version | None = None
    seconds: float | None = None
    rows: dict[int, tuple[int, int | None, str, tuple[str, ...]]] = field(default_factory=dict)
    broken_table: bool = False
    ended_table: bool = False
    troubles: dict[tuple[int, str], _Trouble] = field(default_factory=dict)
    processes: dict[tuple[str, int], str] = field(default_factory=dict)
    timeouts: int | None = None
    warned: bool = False
    """The part in which time-outs would stand has gone by."""
    said_timeout: bool = False
    in_table: bool = False
    warnings: bool = False
    processes_are: str = ""
    trouble: _Trouble | None = None
    health: str = ""
    section: _Section | None = None
    open: bool = False
    """No blank line since the block or section began."""
    named: int = 0


def parse(text: str) -> Status:
    """The report; of communicators in good health it tells the number only.

    Raises:
        SourceError: Nothing of it is a report of RAS, or it names more than RAS could.
    """
    report = _Report()
    *lines, cut = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for line in lines:
        _read(report, line)
    if cut.strip():
        report.notes.add("the last line, which has no end")
        report.broken_table |= report.in_table
    if not report.rows and not report.troubles and not report.ended_table:
        raise SourceError("content", "the report of RAS makes no sense: it names no communicators")
    return _status(report)


def _read(report: _Report, raw: str) -> None:
    line = " ".join(filter(None, BLANKS.split(raw)))
    if not line:
        report.open, report.processes_are = False, ""
        return
    if (
        _about_report(report, line)
        or _about_processes(report, line)
        or _about_communicator(report, line)
    ):
        return
    if KNOWN.fullmatch(line):
        report.open = False
    else:
        report.notes.add(f"line {line[:60]!r}")
        report.broken_table |= report.in_table
        report.open = False
        if report.trouble is not None:
            report.trouble.broken = True
        if not raw[:1].isspace():
            report.trouble = None


def _about_report(report: _Report, line: str) -> bool:
    """Lines of the whole: version, time, table, headings."""
    if match := ROW.fullmatch(line):
        number, count, size = int(match[1]), int(match[2]), match[3]
        errors = tuple(match[5].lower().split(","))
        report.broken_table |= number in report.rows
        report.rows[number] = (
            count, (None if "-" in size else int(size) or None), match[4].lower(), errors,
        )  # fmt: skip
        report.in_table = True
    elif match := TIME.fullmatch(line):
        report.seconds, report.in_table = float(f"{match[1]}.{match[2]}"), True
    elif match := VERSION.fullmatch(line):
        report.version = version_of(match[1])
    elif match := TIMEOUT.fullmatch(line):
        report.timeouts = int(match[1])
    elif line == NO_ROWS:
        report.ended_table, report.in_table = True, False
    elif line in SECTIONS:
        report.trouble, report.section, report.open = None, None, False
        report.processes_are = ""
        report.ended_table |= report.in_table
        report.in_table = False
        report.warnings |= line == "Warnings"
        report.said_timeout |= line == "TIMEOUT"
    else:
        return False
    return True


def _about_processes(report: _Report, line: str) -> bool:
    """Lines of processes that gave no answer, or are dead."""
    if LOST_PROCESSES.fullmatch(line):
        report.processes_are = "unresponsive"
    elif DEAD_PROCESSES.fullmatch(line):
        report.processes_are = "dead"
    elif match := PROCESS_LINE.fullmatch(line):
        if not report.processes_are:
            return False
        report.processes[host_of(match[2]), int(match[1])] = report.processes_are
    else:
        return False
    return True


def _about_communicator(report: _Report, line: str) -> bool:
    """Lines of the block of one communicator."""
    if match := BLOCK.fullmatch(line):
        if len(report.troubles) >= MAX_COMMUNICATORS:
            raise SourceError("content", "the report of RAS names too many communicators")
        key, health = (int(match[1]), match[3].lower()), match[4].lower()
        place = (int(match[1]), int(match[2]))
        trouble = report.troubles.setdefault(key, _Trouble(place=place))
        trouble.health = max(trouble.health, health, key=SEVERITY.index)
        report.trouble, report.health, report.section, report.open = trouble, health, None, True
        report.warned |= report.warnings and health == "mismatch"
        return True
    if (current := report.trouble) is None:
        return False
    section = _section(line) if report.health == "mismatch" else None
    if section is not None and (report.open or _goes_on(current, section)):
        section.resumed = not report.open
        # Each operation of a block is followed by an empty line; the block goes on after it.
        current.sections.append(section)
        report.section, report.open = section, True
        return True
    if not report.open:
        return False
    if report.health == "incomplete":
        return _lost(report, current, line)
    if report.health == "error" and (match := FAILED.fullmatch(line)):
        state = "async_error" if match[1] == "Asynchronous" else "initializing"
        report.section = _Section("failed", state=state, total=int(match[2]))
        current.sections.append(report.section)
        return True
    return report.section is not None and _in_section(report, report.section, line)


def _section(line: str) -> _Section | None:
    """The property in which the ranks differ."""
    if line == DIFFERENT_STATUS:
        return _Section("status")
    match = COUNTED.fullmatch(line)
    if match is None:
        return None
    try:
        return _Section("launched", ANY if match[1] == "collective" else operation(match[1]))
    except ValueError:
        return None


def _goes_on(trouble: _Trouble, section: _Section) -> bool:
    """Whether a section behind an empty line is of the block before.

    Else the first line of its own is lost: a status stands first, and operations have their order.
    """
    if section.kind != "launched" or not trouble.sections:
        return False
    before = [one.op for one in trouble.sections]
    if section.op in ORDER and before[-1] in ORDER:
        return ORDER.index(before[-1]) < ORDER.index(section.op)
    return section.op not in before


def _lost(report: _Report, trouble: _Trouble, line: str) -> bool:
    """Who gave no answer about a communicator."""
    if match := LOST_RANKS.fullmatch(line):
        if trouble.missing is not None:
            return False
        trouble.missing = int(match[1])
    elif (match := NUMBERED.fullmatch(line)) and match[1] == "missing":
        for number in match[2].split(","):
            _name(report, trouble.lost, Rank(int(number), UNKNOWN, None, {}, (MISSING,)))
    elif (match := ONE.fullmatch(line)) and not _says(match) and " -- " in line:
        _name(report, trouble.lost, _rank(match, (MISSING,)))
    else:
        return False
    return True


def _in_section(report: _Report, section: _Section, line: str) -> bool:
    """A line of a property: so many ranks that it holds of, or one of them."""
    if match := SEVERAL.fullmatch(line):
        if (said := _property(section, match)) is None:
            return False
        section.groups.append(_Group(int(match[1]), *said))
        return True
    match = NUMBERED.fullmatch(line)
    if match is not None and match[1] == "unknown":
        return section.kind == "status"
    match = ONE.fullmatch(line)
    if match is None or not (_says(match) or " -- " in line):
        return False
    rank = _rank(match, ())
    if _says(match):
        if (said := _property(section, match)) is None:
            return False
        section.groups.append(_Group(1, *said, [rank]))
    elif section.groups and section.groups[-1].count > 1:
        section.groups[-1].ranks.append(rank)
    else:
        return False
    _one_more(report)
    return True


def _says(match: re.Match[str]) -> bool:
    return any(match[name] for name in ("reached", "none", "status", "error"))


_Said = tuple[int | None, str | None, bool]


def _property(section: _Section, match: re.Match[str]) -> _Said | None:
    """reached, state and left of _Group if the line is one of this property; else None."""
    if section.kind == "launched" and (match["reached"] or match["none"]):
        return int(match["reached"] or 0), None, False
    if (status := match["status"]) and section.kind == "status":
        return None, _STATE_OF.get(status), status in _NO_MEMBER
    if section.kind == "failed" and match["error"]:
        return None, section.state, False
    return None


def _rank(match: re.Match[str], states: tuple[str, ...]) -> Rank:
    pid = int(match["pid"]) if match["pid"] else None
    return Rank(int(match[1]), host_of(match["host"]), pid, {}, states)


def _name(report: _Report, ranks: dict[int, Rank], rank: Rank) -> None:
    ranks.setdefault(rank.rank, rank)
    _one_more(report)


def _one_more(report: _Report) -> None:
    report.named += 1
    if report.named > MOST_RANKS:
        raise SourceError("content", "the report of RAS names too many ranks")


def _status(report: _Report) -> Status:
    for number, _ in report.troubles:
        if number not in report.rows:
            report.broken_table = True
    whole = (
        report.ended_table
        and not report.broken_table
        and set(report.rows) == set(range(len(report.rows)))
    )
    kinds: Counter[tuple[str, str]] = Counter()
    for count, _, status, errors in report.rows.values():
        kinds[status, max(errors, key=SEVERITY.index)] += count
    # A report says time-outs where there were some: that there is no such line tells only that
    # there were none if the warnings go on after the place for it.
    timeouts = report.timeouts
    if timeouts is None and report.warned and not report.said_timeout:
        timeouts = 0
    _distrust(report)
    return Status(
        tuple(_communicator(report, key) for key in report.troubles),
        False,
        kinds if whole else {},
        report.seconds,
        timeouts,
        report.version,
        report.notes.rejected(),
    )


def _distrust(report: _Report) -> None:
    """Drop what may be of a block whose first line is lost, and seems to go on the one before.

    The table says how many communicators a row has; each of them has a block.
    """
    expected = [
        (row, number)
        for row in sorted(report.rows)
        if "mismatch" in report.rows[row][3]
        for number in range(min(report.rows[row][0], MAX_COMMUNICATORS))
    ]
    place = {trouble.place: trouble for trouble in report.troubles.values() if trouble.sections}
    for before, behind in pairwise(expected):
        if behind not in place and (trouble := place.get(before)) is not None:
            whole = [section for section in trouble.sections if not section.resumed]
            trouble.broken |= len(whole) < len(trouble.sections)
            trouble.sections = whole


def _communicator(report: _Report, key: tuple[int, str]) -> Communicator:
    trouble = report.troubles[key]
    _, size, status, _ = report.rows.get(key[0], (0, None, UNKNOWN, ()))
    ranks = {number: _judged(report, rank) for number, rank in trouble.lost.items()}
    bounds: dict[str, tuple[int, int]] = {}
    unknown = trouble.broken
    for section in trouble.sections:
        counts = [one.reached for one in section.groups if one.reached is not None]
        told = sum(one.count for one in section.groups)
        if section.kind == "launched":
            if not counts or told != _answering(trouble, size):
                unknown = True
                continue
            bounds[section.op] = (min(counts), max(counts))
        for group in _sound(section, trouble.broken):
            for rank in group.ranks:
                ranks[rank.rank] = _added(ranks.get(rank.rank, rank), section.op, group)
    return Communicator(
        key[1],
        size,
        status,
        trouble.health,
        trouble.missing,
        None if unknown else bounds,
        tuple(ranks[number] for number in sorted(ranks)),
    )


def _sound(section: _Section, broken: bool) -> list[_Group]:
    """Groups of which all ranks are named, or none: a line that is lost or out of place shows."""
    if section.total is not None and (
        broken or section.total != sum(group.count for group in section.groups)
    ):
        return []
    return [group for group in section.groups if len(group.ranks) == group.count]


def _answering(trouble: _Trouble, size: int | None) -> int | None:
    """Ranks whose counts RAS has: all but the missing and those that left the communicator."""
    if size is None or (trouble.health == "incomplete" and trouble.missing is None):
        return None
    groups = [group for section in trouble.sections for group in section.groups]
    return size - (trouble.missing or 0) - sum(one.count for one in groups if one.left)


def _added(rank: Rank, op: str, group: _Group) -> Rank:
    launched = dict(rank.launched)
    if group.reached is not None:
        launched[op] = group.reached
    states = {*rank.states, *([group.state] if group.state else [])}
    return Rank(rank.rank, rank.host, rank.pid, launched, tuple(sorted(states)))


def _judged(report: _Report, rank: Rank) -> Rank:
    """A missing rank with what the report says of its process."""
    known = rank.pid is not None and rank.host != UNKNOWN
    state = report.processes.get((rank.host, rank.pid or 0)) if known else None
    states = (*rank.states, *([state] if state else []))
    return Rank(rank.rank, rank.host, rank.pid, rank.launched, tuple(sorted(states)))
