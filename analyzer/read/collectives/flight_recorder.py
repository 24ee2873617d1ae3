"""Dumps of PyTorch's flight recorder whose entries have durations, one file a rank.

Format: pytorch/pytorch torch/csrc/distributed/c10d/FlightRecorder.hpp. `duration_ms` is there on
NCCL with TORCH_NCCL_ENABLE_TIMING=1. The buffer holds the last entries of a rank
(TORCH_FR_BUFFER_SIZE).
"""

import os
import re
import stat
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lockstep.analyzer.read.collectives.rows import MOST_COMMUNICATORS, MOST_ROWS, Rows
from lockstep.analyzer.shapes.waits import ALONE, Communicator, Process
from lockstep.collector.contract import bounded_json
from lockstep.collector.formats.flight_recorder.fields import (
    PICKLE,
    WRONG,
    members,
    operation_name,
    whole,
)

MOST_FILES = 20_000
MOST_BYTES = 256 << 20
"""Of one file; 100,000 entries without stack traces have 50 MB."""
MOST_MEMBERS = 1 << 20
MOST_SECONDS = 1e6
LONGEST_NAME = 256
HEAD = 4096
NAME = re.compile(r"[\w.-]{0,200}?([0-9]{1,7})", re.ASCII)
"""`nccl_trace_rank_7`, `_dump_7`: the number at its end is the rank."""
FILE_KEYS = (b'"entries"', b'"pg_config"', b'"version"')
Unpickle = Callable[[bytes], bytes]


def files(folder: Path) -> dict[int, Path]:
    """Rank -> its dump, of the files in a folder.

    Raises:
        OSError: The folder cannot be read.
    """
    found: dict[int, Path] = {}
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        match = NAME.fullmatch(entry.name)
        if match is None or not entry.is_file(follow_symlinks=False) or len(found) >= MOST_FILES:
            continue
        path = Path(entry.path)
        if _begins(path):
            found.setdefault(int(match[1]), path)
    return found


def _begins(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return False
    return head[:1] == PICKLE or (head[:1] == b"{" and any(key in head for key in FILE_KEYS))


def read(paths: Mapping[int, Path], missing: list[str], unpickle: Unpickle | None) -> Rows:
    """Every entry of the dumps that has a duration.

    Args:
        paths: Rank -> file.
        missing: Gets what was not read, in words.
        unpickle: A pickle as JSON, without running code; raises ValueError where it will not. None
            = pickles are not read.
    """
    trees: dict[int, Mapping[str, Any]] = {}
    why: Counter[str] = Counter()
    for rank, path in paths.items():
        try:
            trees[rank] = _tree(path, unpickle)
        except (OSError, ValueError) as error:
            why[str(error)[:120]] += 1
    missing += [f"{count} dumps cannot be read: {words}" for words, count in why.most_common(4)]
    groups = _members(trees)
    rows, untimed, bad = Rows(together=True), 0, 0
    for rank, tree in trees.items():
        for entry in tree["entries"]:
            try:
                timed = _add(rows, rank, entry, groups)
            except WRONG:
                bad += 1
                continue
            untimed += not timed
            if len(rows) >= MOST_ROWS:
                missing.append(f"there are more than {MOST_ROWS} entries: the rest is not read")
                return rows
    if bad:
        missing.append(f"{bad} entries of the flight recorder do not hold together")
    if untimed:
        missing.append(
            f"{untimed} entries of the flight recorder have no duration: set"
            " TORCH_NCCL_ENABLE_TIMING=1"
        )
    return rows


def _tree(path: Path, unpickle: Unpickle | None) -> Mapping[str, Any]:
    with path.open("rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        data = file.read(MOST_BYTES + 1)
    if data[:1] == PICKLE:
        if unpickle is None:
            raise ValueError("it is a pickle, and JSON alone is read here")
        data = unpickle(data)
    tree = bounded_json.loads(data, limit=MOST_BYTES)
    entries = tree.get("entries") if isinstance(tree, dict) else None
    if not isinstance(entries, list):
        raise ValueError("it has no entries")  # noqa: TRY004 - of its content
    return {**tree, "entries": [one for one in entries if isinstance(one, dict)]}


def _members(trees: Mapping[int, Mapping[str, Any]]) -> dict[str, tuple[str, Sequence[int]]]:
    """Group -> its description and ranks: as torch reports them, else whoever has entries of it.

    On gloo torch reports no ranks.
    """
    told: dict[str, tuple[int, ...]] = {}
    words: dict[str, str] = {}
    having: defaultdict[str, set[int]] = defaultdict(set)
    for rank, tree in trees.items():
        config = tree.get("pg_config")
        for name, one in config.items() if isinstance(config, dict) else ():
            if isinstance(one, dict) and (ranks := _ranks(one.get("ranks"))):
                told.setdefault(str(name), ranks)
        for entry in tree["entries"]:
            group = entry.get("process_group")
            if isinstance(group, list) and len(group) == 2 and all(map(_word, group)):
                having[group[0]].add(rank)
                words.setdefault(group[0], group[1])
            if len(having) > MOST_COMMUNICATORS:
                return {}
    return {
        name: (words[name], told[name] if ranks <= set(told.get(name, ())) else sorted(ranks))
        for name, ranks in having.items()
    }


def _ranks(value: object) -> tuple[int, ...]:
    try:
        ranks = members(value)
    except WRONG:
        return ()
    return tuple(sorted(ranks)) if len(ranks) <= MOST_MEMBERS else ()


def _add(
    rows: Rows, rank: int, entry: Mapping[str, Any],
    groups: Mapping[str, tuple[str, Sequence[int]]],
) -> bool:  # fmt: skip
    """Add an entry; whether it has a duration.

    Raises:
        ValueError, TypeError, KeyError, IndexError, AttributeError: It is none of torch's.
    """
    milliseconds = entry.get("duration_ms")
    if milliseconds is None:
        return False
    seconds = float(milliseconds) / 1e3
    if not 0 <= seconds < MOST_SECONDS:
        raise ValueError("a duration that cannot be")
    name, _description = list(entry["process_group"])
    words, ranks = groups[name]
    operation = operation_name(entry["profiling_name"])
    # Some of torch's names have an underscore on either side.
    op = operation.op.removeprefix("_").removesuffix("_")
    if not op[:1].isalpha():
        raise ValueError("no operation")
    transfer = bool(entry.get("is_p2p"))
    peer = ALONE
    if transfer:
        mine, other = whole(operation.me), whole(operation.peer)
        peer = other
        if max(mine, other) >= len(ranks) or ranks[mine] != rank:
            raise ValueError("a transfer of somebody else")
    created = int(entry["time_created_ns"])
    sequence = int(entry["p2p_seq_id" if transfer else "collective_seq_id"])
    if not (0 <= sequence < 1 << 60 and 0 <= created < 1 << 62):
        raise ValueError("a number that cannot be")
    words = "" if words == "undefined" else words
    rows.add(
        Process(HOST, rank), Communicator(name, words, len(ranks)),
        ranks.index(rank), op, sequence, _bytes(entry), seconds,
        time=created / 1e9 + seconds, peer=peer,
        # What torch does not record has a number, too: transfers on gloo.
        counted=int(entry.get("op_id", sequence)),
    )  # fmt: skip
    return True


HOST = "unknown"
"""Dumps do not report where they were written."""
ITEM_BYTES: Mapping[str, int] = {
    "Double": 8, "Long": 8, "ComplexFloat": 8, "ComplexDouble": 16, "Half": 2, "BFloat16": 2,
    "Short": 2, "Byte": 1, "Char": 1, "Bool": 1, "Float8_e4m3fn": 1, "Float8_e5m2": 1,
}  # fmt: skip
"""Of torch's names of types; all others have 4."""


def _bytes(entry: Mapping[str, Any]) -> int:
    total = 0
    for sizes, kind in zip(entry["input_sizes"], entry["input_dtypes"], strict=False):
        count = 1
        for one in sizes:
            count *= int(one)
        total += count * ITEM_BYTES.get(str(kind), 4)
    return min(max(total, 0), 1 << 60)


def _word(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_NAME and value.isprintable()
