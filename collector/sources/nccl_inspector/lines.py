"""Lines of NCCL Inspector: which collectives, how large, how long; whether the file agrees."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from collector.contract import bounded_json
from collector.contract.bandwidth import (
    OPERATIONS,
    algorithm_bandwidth,
    bus_factor,
    whole_bytes,
)

TOLERANCE = 1e-3
"""Share by which a bandwidth of the file may differ from ours."""
ROUNDING_GBS = 1e-6
"""The file has six digits after the point: of slow transfers they are less than TOLERANCE."""
MAX_NAME = 64
SHORTEST = 64
"""Bytes; Inspector's shortest line has three times as many."""
MAX_RANKS = 1 << 24
MAX_MICROSECONDS = 10_000_000_000
"""Nearly three hours; a difference of times that fell below zero is far above."""
UNKNOWN = "unknown"
NOT_JSON = "a line is not JSON of Inspector"

_STAMP = b'"dump_timestamp_us":'
_WORD = rb'"\w{0,40}+"'
_WHOLE = rb"(?!0[0-9])[0-9]{1,18}+"
_POSITIVE = rb"[1-9][0-9]{0,17}+"
_GBS = rb"((?!0[0-9])[0-9]{1,12}+\.[0-9]{1,9}+)"
_REST = re.compile(
    _STAMP + rb'[0-9]{1,18}+([^{]*+\{"(coll|p2p)":"\w{1,20}+")'
    rb'(?:,"coll_algo":' + _WORD + rb',"coll_proto":' + _WORD + rb')?+'
    rb',"\2_sn":(' + _WHOLE + rb')(?:,"p2p_peer":' + _WHOLE + rb')?+'
    rb',"\2_msg_size_bytes":(' + _POSITIVE + rb')'
    rb',"\2_exec_time_us":([1-9][0-9]{0,9}+(?:\.[0-9]{1,6}+)?+)'
    rb'(?:,"\2_timing_source":"(?:kernel_gpu|kernel_cpu|collective_cpu)")?+'
    rb',"\2_algobw_gbs":' + _GBS + rb',"\2_busbw_gbs":' + _GBS
    + rb'(?:,"graphCaptured":(?:true|false))?+(?:,"event_trace_sn":\{[ -~]*\})?\}\}',
    re.ASCII,
)  # fmt: skip
"""What Inspector writes from the time on; traces are not read. What differs is left to json."""


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
    """

    communicator: str
    group: str
    ranks: int
    op: str
    numbered: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines of one operation, as one rank saw them; waiting for its peers is included.

    Attributes:
        sequences: Numbers among the communicator's operations of this kind.
        sizes: S of the bandwidth formulas, bytes.
        seconds: Durations.
        disagreeing: Lines whose own bandwidths are not what the formulas give.
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


def batches(lines: Iterable[bytes]) -> tuple[list[Batch], Counter[tuple[str, str]]]:
    """The collectives in the lines, by operation.

    Lines that tell of something else, as of a dump or of a proxy, are no defect.

    Returns:
        The batches; and of the lines that are not usable, how many there are by reason and words.
    """
    found: dict[Operation, _Rows] = {}
    beginnings: dict[bytes, dict[bytes, _Rows]] = {}
    bad: Counter[tuple[str, str]] = Counter()
    beginning, cut, known, short = b"\n", -1, dict[bytes, _Rows](), 0
    for line in lines:
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
        rows = found.setdefault(one[0], [])
        rows += one[1]
        # That json found the same numbers shows that they stand where they seem to stand: so they
        # do behind every beginning that is equal.
        if match is not None and one[1] == (
            *map(int, match.group(3, 4)), *map(float, match.group(5, 6, 7))
        ):  # fmt: skip
            known[match[1]] = rows
    if short:
        bad["json", NOT_JSON] += short
    return [_batch(operation, rows) for operation, rows in found.items()], bad


def _batch(operation: Operation, rows: _Rows) -> Batch:
    _, _, ranks, op, _ = operation
    times = whole_bytes(op, 1, ranks)
    factor = bus_factor(op, ranks)
    # By columns: a line has a microsecond here.
    sequences, rank_bytes, durations, algorithm, bus = (
        rows[column::_COLUMNS] for column in range(_COLUMNS)
    )
    sizes = [size * times for size in map(int, rank_bytes)]
    seconds = [time / 1e6 for time in map(float, durations)]
    agreeing = 0
    for size, time, told, told_bus in zip(
        sizes, seconds, map(float, algorithm), map(float, bus), strict=True
    ):
        ours = size / time / 1e9
        allowed = TOLERANCE * ours + ROUNDING_GBS
        if -allowed <= told - ours <= allowed:
            ours *= factor
            allowed = TOLERANCE * ours + ROUNDING_GBS
            agreeing += -allowed <= told_bus - ours <= allowed
    return Batch(operation, list(map(int, sequences)), sizes, seconds, len(sizes) - agreeing)


def _understood(line: bytes) -> tuple[Operation, tuple[Any, ...]] | None:
    try:
        tree = bounded_json.loads(line)
    except ValueError as error:
        raise LineError("json", NOT_JSON) from error
    if not isinstance(tree, dict) or not isinstance(tree.get("header"), dict):
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
    operation = _operation(tree["header"], op, numbered=kind == "coll")
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
    if not isinstance(identity, str) or not 0 < len(identity) <= MAX_NAME:
        raise LineError("header", "the header's id is not a short word")
    ranks = _integer(header, "n_ranks", 1)
    if ranks > MAX_RANKS:
        raise LineError("header", f"n_ranks is above {MAX_RANKS}")
    name = header.get("comm_name")
    known = isinstance(name, str) and 0 < len(name) <= MAX_NAME and name.isprintable()
    return Operation(identity, str(name) if known else UNKNOWN, ranks, op, numbered)


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
