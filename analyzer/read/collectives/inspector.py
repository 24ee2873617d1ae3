"""Files of NCCL Inspector: one JSON object a collective or transfer, of one process or of many.

Format: NVIDIA/nccl plugins/profiler/inspector (inspector_json.cc). A duration is of the kernel on
the GPU, by its own clock, and includes waiting for peers. The time of a line is that of its writing
(`dump_timestamp_us`); with NCCL_INSPECTOR_DUMP_VERBOSE the times of the kernel are reported as
well. Up to format v4.2 every line says whose it is; from v4.3 on a marker line does, of those
behind it.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lockstep.analyzer.read.collectives.rows import MOST_COMMUNICATORS, MOST_ROWS, Rows
from lockstep.analyzer.shapes.waits import ALONE, Communicator, Process
from lockstep.collector.contract.bandwidth import OPERATIONS
from lockstep.collector.formats.nccl_inspector import (
    MAX_MICROSECONDS,
    RECORDS,
    UNKNOWN,
    line_tree,
    marker,
)

MOST_FILES = 20_000
MOST_NAMES = 100_000
LONGEST_LINE = 1 << 16
"""Bytes; with traces of 64 channels a line has twelve thousand."""
MOST_BYTES = 8 << 30
"""Of all files."""
MOST_RANKS = 1 << 20
LONGEST_NAME = 256
BEGINNING = b'{"header":{'
"""Of lines; files are recognised by it, not by their names, which rotation and people change."""
HOST_CALL = "collective_cpu"
"""Timing source that is not the collective: the host's call, which returns at once."""
STAMP = b'"dump_timestamp_us":'
USUAL = re.compile(
    STAMP + rb'([0-9]{1,17})(,"hostname":"[^"\\]{1,256}","pid":[0-9]{1,12}\},"coll_perf":'
    rb'\{"coll":"\w{1,20}",)"coll_sn":([0-9]{1,17}),"coll_msg_size_bytes":([0-9]{1,17}),'
    rb'"coll_exec_time_us":([1-9][0-9]{0,9}),"coll_timing_source":"kernel_([gc])pu",'
    rb'"coll_algobw_gbs":[0-9]{1,12}\.[0-9]{1,9},"coll_busbw_gbs":[0-9]{1,12}\.[0-9]{1,9}\}\}\n',
    re.ASCII,
)
"""What most lines are from their time on; all others are left to JSON."""
MOST_KNOWN = 10_000
HEAD = 2 * LONGEST_LINE
MOST_MARKED = 1 << 20
BELONGS = "without header, and no marker line says whose they are"
ENDINGS = (".parquet", ".gz", ".zst", ".prom", ".md", ".html")


def files(folder: Path) -> list[Path]:
    """The files in a folder, and one level below it, that begin as Inspector's do; by name.

    Raises:
        OSError: The folder cannot be read.
    """
    names: list[Path] = []
    for path in _names(folder):
        if _begins(path):
            names.append(path)
        if len(names) >= MOST_FILES:
            break
    return names


def _names(folder: Path) -> Iterator[Path]:
    below, left = [], MOST_NAMES
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        left -= 1
        if entry.is_dir(follow_symlinks=False):
            below.append(entry.path)
        elif left > 0 and entry.is_file(follow_symlinks=False):
            yield Path(entry.path)
    for path in below:
        if left <= 0 or path.endswith(ENDINGS):
            continue
        try:
            entries = sorted(os.scandir(path), key=lambda one: one.name)
        except OSError:
            continue
        for entry in entries[: max(left, 0)]:
            left -= 1
            if entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def _begins(path: Path) -> bool:
    if path.name.endswith(ENDINGS):
        return False
    try:
        with path.open("rb") as file:
            # What was rotated or cut may begin inside a line.
            return b"\n" + BEGINNING in b"\n" + file.read(HEAD)
    except OSError:
        return False


def read(paths: list[Path], missing: list[str]) -> Rows:
    """Every line of the files that is whole; the rest is counted.

    Args:
        paths: The files.
        missing: Gets what was not read, in words.
    """
    rows, bad = Rows(), Counter[str]()
    left = MOST_BYTES
    for path in paths:
        try:
            left = _file(path, rows, bad, left)
        except OSError as error:
            missing.append(f"{path.name} cannot be read: {error.strerror}")
        if left <= 0 or len(rows) >= MOST_ROWS:
            missing.append(
                f"NCCL Inspector wrote more than {MOST_ROWS} lines: the rest is not read"
            )
            break
    if bad:
        told = ", ".join(f"{count} {words}" for words, count in bad.most_common(4))
        missing.append(f"unusable lines of NCCL Inspector: {told}")
    return rows


@dataclass(slots=True)
class _Marked:
    """Lines of format v4.3 behind the marker that says whose they are, and how many.

    Where a marker counts more than came, a line is lost or out of place: those behind the next
    marker are its own only if they are as many as it counts.

    Attributes:
        strict: Whether lines before it are lost.
    """

    header: Any = None
    metadata: Any = None
    count: int = 0
    strict: bool = False
    lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, tree: dict[str, Any], bad: Counter[str]) -> None:
        """A line without a header."""
        if len(self.lines) < min(self.count, MOST_MARKED):
            self.lines.append(tree)
        else:
            bad[BELONGS] += 1

    def add_to(self, rows: Rows, bad: Counter[str]) -> bool:
        """Add its lines; whether some are lost."""
        lost = len(self.lines) < self.count
        if lost and self.strict:
            bad[BELONGS] += len(self.lines)
            return lost
        for one in self.lines:
            if why := _add({"header": self.header, "metadata": self.metadata, **one}, rows):
                bad[why] += 1
        return lost


class _Usual:
    """Lines that differ from an earlier one in their numbers alone, read without JSON.

    JSON has found the same numbers in that earlier line: so they stand where they seem to stand in
    each that is equal up to them.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._known: dict[tuple[bytes, bytes], tuple[int, ...]] = {}

    def add(self, line: bytes) -> bool:
        """Add the line; False where it is not usual, or the first of its kind."""
        match, key = self._numbers(line)
        known = None if match is None else self._known.get(key)
        if match is None or known is None:
            return False
        self._rows.again(known, int(match[3]), int(match[4]), int(match[5]) / 1e6,
                         int(match[1]) / 1e6)  # fmt: skip
        return True

    def learn(self, line: bytes) -> None:
        """Note where the numbers of the line stand that was added last."""
        match, key = self._numbers(line)
        if match is None or len(self._known) >= MOST_KNOWN:
            return
        found = (int(match[3]), int(match[4]), int(match[5]) / 1e6, int(match[1]) / 1e6)
        if self._rows.last_numbers() == found:
            self._known[key] = self._rows.last_names()

    def _numbers(self, line: bytes) -> tuple[re.Match[bytes] | None, tuple[bytes, bytes]]:
        cut = line.find(STAMP)
        match = USUAL.fullmatch(line, cut) if cut > 0 else None
        return match, (b"", b"") if match is None else (line[:cut], match[2] + match[6])


def _file(path: Path, rows: Rows, bad: Counter[str], left: int) -> int:
    with path.open("rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return left
        marked, usual = _Marked(), _Usual(rows)
        while left > 0 and len(rows) < MOST_ROWS:
            line = file.readline(LONGEST_LINE + 1)
            left -= len(line)
            if not line:
                break
            if not line.endswith(b"\n"):
                if len(line) <= LONGEST_LINE:
                    bad["half written"] += 1  # its process goes on, or was killed
                    break
                bad["too long"] += 1
                while line and not line.endswith(b"\n"):
                    line = file.readline(LONGEST_LINE)
                    left -= len(line)
                continue
            if line.isspace() or usual.add(line):
                continue
            try:
                tree = line_tree(line, limit=None)
            except ValueError:
                bad["not JSON"] += 1
                continue
            if (begun := marker(tree)) is not None:
                marked = _Marked(*begun, strict=marked.add_to(rows, bad))
            elif isinstance(tree, dict) and "header" not in tree and RECORDS.intersection(tree):
                marked.add(tree, bad)
            elif why := _add(tree, rows):
                bad[why] += 1
            elif len(rows):
                usual.learn(line)
    marked.add_to(rows, bad)
    return left


def _add(tree: Any, rows: Rows) -> str:
    """Add a line; why not, or nothing."""
    if not isinstance(tree, dict):
        return "not an object"
    header, metadata = tree.get("header"), tree.get("metadata")
    if not isinstance(header, dict) or not isinstance(metadata, dict):
        return "without header or metadata"
    kind = "coll" if "coll_perf" in tree else "p2p" if "p2p_perf" in tree else None
    if kind is None:
        return ""  # another kind of line, as of a proxy
    perf = tree[f"{kind}_perf"]
    if not isinstance(perf, dict):
        return f"whose {kind}_perf is no object"
    op = OPERATIONS.get(str(perf.get(kind)))
    sequence, payload = _whole(perf, f"{kind}_sn"), _whole(perf, f"{kind}_msg_size_bytes")
    time: Any = perf.get(f"{kind}_exec_time_us")
    if op is None or sequence is None or payload is None:
        return "without operation, number or size"
    if type(time) not in (int, float) or not 0 < time < MAX_MICROSECONDS:
        return "without a time that can be"
    rank, size = _whole(header, "rank"), _whole(header, "n_ranks")
    identity = header.get("id")
    if not _word(identity) or rank is None or size is None or not rank < size <= MOST_RANKS:
        return "without communicator or rank"
    peer = _whole(perf, "p2p_peer") if kind == "p2p" else ALONE
    if peer is None or peer >= size:
        return "without peer"
    host, pid = metadata.get("hostname"), _whole(metadata, "pid")
    if not _word(host) or pid is None:
        return "without host or process"
    name = header.get("comm_name")
    name = str(name) if _word(name) and name != UNKNOWN else ""
    communicator = Communicator(str(identity), name, size)
    if len(rows.communicators) >= MOST_COMMUNICATORS and communicator not in rows.communicators:
        return f"of more than {MOST_COMMUNICATORS} communicators"
    source = perf.get(f"{kind}_timing_source")
    rows.add(
        Process(str(host), pid), communicator, rank, op, sequence, payload,
        float("nan") if source == HOST_CALL else time / 1e6,
        time=_moment(perf, metadata), means=str(source) if _word(source) else "", peer=peer,
    )  # fmt: skip
    return ""


def _moment(perf: Mapping[str, Any], metadata: Mapping[str, Any]) -> float:
    """When its kernel ended, where traces report it; else when it was written; unix seconds."""
    trace = perf.get("event_trace_ts")
    events = trace.get("kernel_events") if isinstance(trace, dict) else None
    told = [
        one["kernel_stop_ts"] for one in (events if isinstance(events, list) else ())
        if isinstance(one, dict) and type(one.get("kernel_stop_ts")) is int
    ]  # fmt: skip
    moment = max(told, default=0) or _whole(metadata, "dump_timestamp_us")
    return moment / 1e6 if moment and moment < 1 << 60 else float("nan")


def _whole(tree: Mapping[str, Any], key: str) -> int | None:
    value = tree.get(key)
    return value if type(value) is int and 0 <= value < 1 << 60 else None


def _word(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME and value.isprintable()
