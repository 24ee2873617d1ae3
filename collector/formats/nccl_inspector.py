"""Lines of NCCL Inspector: which collectives, how large, how long; whether the file agrees.

Formats v4.0 to v4.2 say in every line whose it is. From v4.3 on (pull request 2359 of nccl,
plugins/profiler/inspector/README.md) a marker line says it of as many lines as it counts, and those
have no header of their own.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.bandwidth import (
    OPERATIONS,
    algorithm_bandwidth,
    bus_factor,
    whole_bytes,
)
from lockstep.collector.contract.bounded_json import mended, unambiguous

TOLERANCE = 1e-3
"""Share by which a bandwidth of the file may differ from ours."""
CHECKED = 64
"""Lines of a batch whose bandwidth is looked at, evenly; a file that is wrong is so in most."""
ROUNDING_GBS = 1e-6
"""The file has six digits after the point: of slow transfers they are less than TOLERANCE."""
MAX_NAME = 64
_IDENTITY = re.compile(r"0x[0-9a-fA-F]{1,16}", re.ASCII)
"""NCCL writes the communicator's hash (plugins/profiler/inspector/inspector.cc: 0x%lx)."""
SHORTEST = 64
"""Bytes; Inspector's shortest line has three times as many."""
MAX_RANKS = 1 << 24
MAX_MICROSECONDS = 10_000_000_000
"""Nearly three hours; a difference of times that fell below zero is far above."""
UNKNOWN = "unknown"
UNTOLD = -1
NOT_JSON = "a line is not JSON of Inspector"
BELONGS = "a line has no header, and no marker line says whose it is"
MAX_HELD = 100_000
"""Lines behind one marker that wait; a ring of Inspector has 1,024 by default."""
_HEADER = b'"header"'
RECORDS = frozenset({"coll_perf", "p2p_perf", "proxy_trace"})
"""Members of a line, one of which it has unless it is a marker."""
_RECORDS = tuple(f'"{name}"'.encode() for name in sorted(RECORDS))
_DUMP = b'"dump_stats"'

_STAMP = b'"dump_timestamp_us":'
_WORD = rb'"\w{0,40}+"'
_WHOLE = rb"(?!0[0-9])[0-9]{1,18}+"
_POSITIVE = rb"[1-9][0-9]{0,17}+"
_GBS = rb"((?!0[0-9])[0-9]{1,12}+\.[0-9]{1,9}+)"
_BODY = (
    rb'(?:,"coll_algo":' + _WORD + rb',"coll_proto":' + _WORD + rb')?+'
    rb',"\2_sn":(' + _WHOLE + rb')(?:,"p2p_peer":' + _WHOLE + rb')?+'
    rb',"\2_msg_size_bytes":(' + _POSITIVE + rb')'
    rb',"\2_exec_time_us":([1-9][0-9]{0,9}+(?:\.[0-9]{1,6}+)?+)'
    rb'(?:,"\2_timing_source":"(?:kernel_gpu|kernel_cpu|collective_cpu)")?+'
    rb',"\2_algobw_gbs":' + _GBS + rb',"\2_busbw_gbs":' + _GBS
    + rb'(?:,"graphCaptured":(?:true|false))?+(?:,"event_trace_sn":\{[ -~]*\})?\}\}'
)  # fmt: skip
_REST = re.compile(_STAMP + rb'[0-9]{1,18}+([^{]*+\{"(coll|p2p)":"\w{1,20}+")' + _BODY, re.ASCII)
"""What Inspector writes from the time on; traces are not read. What differs is left to json."""
_BARE = re.compile(rb'(\{"(coll|p2p)_perf":\{"\2":"\w{1,20}+")' + _BODY, re.ASCII)
"""The same of a line without a header."""


class Marker(NamedTuple):
    """A line of format v4.3 that says whose the lines behind it are.

    Attributes:
        metadata: Host, process and time of writing; None = the line has none.
        lines: How many lines behind it are its own.
    """

    header: dict[str, Any]
    metadata: Any
    lines: int


def line_tree(line: bytes, *, limit: int | None = bounded_json.MAX_BYTES) -> Any:
    """The line's tree; under some locales its numbers have a comma for a point.

    Args:
        line: One line of a file.
        limit: Bytes at most; None = whoever read the line has bounded it.

    Raises:
        ValueError: It is no JSON.
    """
    text = line.decode("utf-8-sig")
    try:
        return bounded_json.loads(text, limit=limit, members=unambiguous)
    except ValueError:
        return bounded_json.loads(mended(text), limit=limit, members=unambiguous)


def marker(tree: Any) -> Marker | None:
    """The marker that a line is; None = it is none, or does not hold together."""
    stats = tree.get("dump_stats") if isinstance(tree, dict) else None
    if not isinstance(stats, dict) or RECORDS.intersection(tree):
        return None
    header = tree.get("header")
    counts = [stats.get(f"{kind}_records", 0) for kind in ("coll", "p2p", "proxy")]
    if not isinstance(header, dict) or any(type(count) is not int or count < 0 for count in counts):
        return None
    return Marker(header, tree.get("metadata"), sum(counts))


class LineError(ValueError):
    """A line is not usable; `reason` is a word of a small set."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Operation(NamedTuple):
    """What is the same in many lines.

    Attributes:
        communicator: Its id, another one at every start.
        group: Its name, or `unknown`.
        ranks: Its size.
        op: A word of bandwidth.OPERATIONS.
        numbered: Whether NCCL numbers these operations one by one; not so send and recv.
        rank: Who tells, by its number in the communicator; UNTOLD = it does not fit.
    """

    communicator: str
    group: str
    ranks: int
    op: str
    numbered: bool
    rank: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines of one operation, as one rank saw them; waiting for its peers is included.

    Attributes:
        sequences: Numbers among the communicator's operations of this kind.
        sizes: S of the bandwidth formulas, bytes.
        seconds: Durations.
        disagreeing: Lines whose own bandwidths are not what the formulas give, of some CHECKED.
    """

    operation: Operation
    sequences: list[int]
    sizes: list[int]
    seconds: list[float]
    disagreeing: int


_COLUMNS = 5
_Rows = list[Any]
"""Number, bytes of a rank, microseconds, algorithm and bus bandwidth in GB/s, or their digits: line
after line in one list, because a tuple a line costs as much as its numbers."""


@dataclass(slots=True)
class _Marked:
    """What a marker line says of the lines behind it.

    Attributes:
        left: Lines that are still to come.
        held: Those lines, until it is sure that they are its own; None = they are.
        known: Rows by the beginning of a line.
    """

    header: dict[str, Any]
    left: int
    held: list[bytes] | None
    known: dict[bytes, _Rows] = field(default_factory=dict)


class LineReader:
    """Reads the lines of one file, in parts as they come.

    Where lines behind a marker are not as many as it counts, one is lost or out of place: whether
    those behind the next marker are its own is known only once they are as many as that counts.
    """

    def __init__(self) -> None:
        self._marked: _Marked | None = None
        self._doubtful = False

    def begin_anew(self) -> None:
        """What comes next does not follow on what came before."""
        self._marked, self._doubtful = None, False

    def batches(self, lines: Iterable[bytes]) -> tuple[list[Batch], Counter[tuple[str, str]]]:
        """The collectives in the lines, by operation.

        Lines that tell of something else, as of a dump or of a proxy, are no defect.

        Returns:
            The batches; and of the lines that are not usable, how many there are by reason and
            words.
        """
        rows_of: dict[Operation, _Rows] = {}
        bad: Counter[tuple[str, str]] = Counter()
        if self._marked is not None:
            self._marked.known = {}
        self._read(lines, rows_of, bad)
        return [_batch(operation, rows) for operation, rows in rows_of.items()], bad

    def _read(
        self,
        lines: Iterable[bytes],
        rows_of: dict[Operation, _Rows],
        bad: Counter[tuple[str, str]],
    ) -> None:
        lines = list(lines)
        # Most blocks have no marker: which lines are none is seen where they are read.
        done = _self_contained(lines, rows_of, bad, stops=True) if self._marked is None else 0
        own: list[bytes] = []
        for line in lines[done:]:
            if _HEADER not in line and any(word in line for word in _RECORDS):
                self._behind_marker(line, rows_of, bad)
            elif _DUMP in line:
                _self_contained(own, rows_of, bad)
                own.clear()
                if (marked := _marker(line)) is not None:
                    self._mark(marked, rows_of, bad)
                else:
                    bad["header", "a marker line is not understood"] += 1
                    self._marked, self._doubtful = None, True
            else:
                if self._marked is not None:
                    self._marked.left -= 1
                own.append(line)
        _self_contained(own, rows_of, bad)

    def _mark(
        self, marked: _Marked, rows_of: dict[Operation, _Rows], bad: Counter[tuple[str, str]]
    ) -> None:
        before, self._marked = self._marked, marked
        if self._doubtful or (before is not None and before.held is None and before.left > 0):
            marked.held = []
        self._doubtful = False
        if before is not None and before.held is not None:
            if len(before.held) == before.left:
                for line in before.held:
                    _bare(line, before, rows_of, bad)
            elif before.held:
                bad["header", BELONGS] += len(before.held)
                marked.held = []

    def _behind_marker(
        self, line: bytes, rows_of: dict[Operation, _Rows], bad: Counter[tuple[str, str]]
    ) -> None:
        marked = self._marked
        if marked is None:
            bad["header", BELONGS] += 1
            self._doubtful = True
        elif marked.held is not None:
            marked.held.append(line)
            if len(marked.held) > MAX_HELD:
                bad["header", BELONGS] += len(marked.held)
                self._marked, self._doubtful = None, True
        elif marked.left <= 0:
            bad["header", BELONGS] += 1
            self._doubtful = True
        else:
            marked.left -= 1
            _bare(line, marked, rows_of, bad)


def batches(lines: Iterable[bytes]) -> tuple[list[Batch], Counter[tuple[str, str]]]:
    """`LineReader.batches` of a whole file."""
    return LineReader().batches(lines)


def _bare(
    line: bytes, marked: _Marked, rows_of: dict[Operation, _Rows], bad: Counter[tuple[str, str]]
) -> None:
    """A line whose header its marker has."""
    match = _BARE.fullmatch(line)
    if match is not None and (rows := marked.known.get(match[1])) is not None:
        rows += match.group(3, 4, 5, 6, 7)
        return
    try:
        record = _understood(line, marked.header)
    except LineError as error:
        bad[error.reason, str(error)] += 1
        return
    if record is not None:
        rows = rows_of.setdefault(record[0], [])
        rows += record[1]
        if match is not None and record[1] == _numbers(match):
            marked.known[match[1]] = rows


def _marker(line: bytes) -> _Marked | None:
    """None = the line is no marker, whatever else it is."""
    try:
        parsed = marker(line_tree(line))
    except ValueError:
        return None
    return None if parsed is None else _Marked(parsed.header, parsed.lines, None)


def _self_contained(
    lines: Iterable[bytes], rows_of: dict[Operation, _Rows], bad: Counter[tuple[str, str]],
    *, stops: bool = False,
) -> int:  # fmt: skip
    """Lines that have a header of their own; how many were read.

    With `stops` reading ends before the first that is a marker or has no header.
    """
    beginnings: dict[bytes, dict[bytes, _Rows]] = {}
    beginning, cut, known, short = b"\n", -1, dict[bytes, _Rows](), 0
    number = -1
    for number, line in enumerate(lines):
        # Most lines begin as the one before, up to the time of writing.
        if not line.startswith(beginning):
            cut = line.find(_STAMP)
            beginning = line[: cut + len(_STAMP)] if cut >= 0 else b"\n"
            known = beginnings.setdefault(beginning, {})
        match = _REST.fullmatch(line, cut) if cut >= 0 else None
        if match is not None:
            rows = known.get(match[1])
            if rows is not None:
                rows += match.group(3, 4, 5, 6, 7)
                continue
        if stops and (_DUMP in line or _HEADER not in line):
            number -= 1
            break
        if len(line) < SHORTEST:  # so that a flood of them costs little
            short += 1
            continue
        try:
            one = _understood(line)
        except LineError as error:
            bad[error.reason, str(error)] += 1
            continue
        if one is None:
            continue
        rows = rows_of.setdefault(one[0], [])
        rows += one[1]
        # That json found the same numbers shows that they stand where they seem to stand: so they
        # do behind every beginning that is equal.
        if match is not None and one[1] == _numbers(match):
            known[match[1]] = rows
    if short:
        bad["json", NOT_JSON] += short
    return number + 1


def _numbers(match: re.Match[bytes]) -> tuple[Any, ...]:
    return (*map(int, match.group(3, 4)), *map(float, match.group(5, 6, 7)))


def _batch(operation: Operation, rows: _Rows) -> Batch:
    ranks, op = operation.ranks, operation.op
    times = whole_bytes(op, 1, ranks)
    factor = bus_factor(op, ranks)
    # By columns: a line has a microsecond here.
    sequences, rank_bytes, durations, algorithm, bus = (
        rows[column::_COLUMNS] for column in range(_COLUMNS)
    )
    sizes = [size * times for size in map(int, rank_bytes)]
    seconds = [time / 1e6 for time in map(float, durations)]
    agreeing = 0
    some = slice(None, None, max(1, len(sizes) // CHECKED))
    looked_at = sizes[some]
    for size, time, reported, reported_bus in zip(
        looked_at, seconds[some], map(float, algorithm[some]), map(float, bus[some]), strict=True
    ):
        ours = size / time / 1e9
        allowed = TOLERANCE * ours + ROUNDING_GBS
        if -allowed <= reported - ours <= allowed:
            ours *= factor
            allowed = TOLERANCE * ours + ROUNDING_GBS
            agreeing += -allowed <= reported_bus - ours <= allowed
    return Batch(operation, list(map(int, sequences)), sizes, seconds, len(looked_at) - agreeing)


def _understood(
    line: bytes, header: dict[str, Any] | None = None
) -> tuple[Operation, tuple[Any, ...]] | None:
    try:
        tree = line_tree(line)
    except ValueError as error:
        raise LineError("json", NOT_JSON) from error
    if not isinstance(tree, dict):
        raise LineError("header", "a line has no header")
    header = tree.get("header", header)
    if not isinstance(header, dict):
        raise LineError("header", "a line has no header")
    kind = next((kind for kind in ("coll", "p2p") if f"{kind}_perf" in tree), None)
    if kind is None:
        return None
    perf = tree[f"{kind}_perf"]
    if not isinstance(perf, dict):
        raise LineError("content", f"{kind}_perf is no object")
    op = OPERATIONS.get(perf[kind]) if isinstance(perf.get(kind), str) else None
    if op is None:
        raise LineError("operation", f"a line names no operation of {', '.join(OPERATIONS)}")
    time = _number(perf, f"{kind}_exec_time_us")
    if not 0 < time < MAX_MICROSECONDS:
        raise LineError("time", f"{kind}_exec_time_us is not above 0 and below {MAX_MICROSECONDS}")
    operation = _operation(header, op, numbered=kind == "coll")
    size = _integer(perf, f"{kind}_msg_size_bytes", 1)
    ours = algorithm_bandwidth(op, size, operation.ranks, time) / 1e3
    return operation, (
        _integer(perf, f"{kind}_sn", 0),
        size,
        time,
        _bandwidth(perf, f"{kind}_algobw_gbs", ours),
        _bandwidth(perf, f"{kind}_busbw_gbs", ours * bus_factor(op, operation.ranks)),
    )


def _operation(header: dict[str, Any], op: str, *, numbered: bool) -> Operation:
    identity = header.get("id")
    if not isinstance(identity, str) or not _IDENTITY.fullmatch(identity):
        raise LineError("header", "the header's id is no hash of a communicator")
    ranks = _integer(header, "n_ranks", 1)
    if ranks > MAX_RANKS:
        raise LineError("header", f"n_ranks is above {MAX_RANKS}")
    number = header.get("rank")
    rank = number if type(number) is int and 0 <= number < ranks else UNTOLD
    name = header.get("comm_name")
    name = " ".join(filter(None, name.split(" "))) if isinstance(name, str) else None
    known = name is not None and 0 < len(name) <= MAX_NAME and name.isprintable()
    return Operation(identity, name if known and name else UNKNOWN, ranks, op, numbered, rank)


def _number(tree: dict[str, Any], key: str) -> float:
    value: Any = tree.get(key)
    if type(value) not in (int, float) or not abs(value) < 1e300:
        raise LineError("content", f"{key} is not a number")
    return float(value)


def _integer(tree: dict[str, Any], key: str, least: int) -> int:
    value = tree.get(key)
    if type(value) is not int or not least <= value < 1 << 60:
        raise LineError("content", f"{key} is not a whole number of at least {least}")
    return value


def _bandwidth(tree: dict[str, Any], key: str, ours: float) -> float:
    """A bandwidth; ours where the file has none, one that cannot be where it has no number."""
    value: Any = tree.get(key)
    if value is None:
        return ours
    return float(value) if type(value) in (int, float) and abs(value) < 1e300 else -1.0
