"""Where dumps may lie: beside the rings, and where torch was told to put them."""

import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from lockstep.collector.contract.flight_recorder import PREFIX, of_dump
from lockstep.collector.files import MAX_ENTRIES, environment
from lockstep.collector.finder import find
from lockstep.collector.reading import RankProcess, Rejected, SourceError

OLD_NAME = "nccl_trace_rank_"
"""In the temporary folder: where older versions of torch put dumps unless they are told."""
CACHE_NAME = "torch/comm_lib_trace_rank_"
"""In the user's cache folder: where newer ones do (c10d, DebugInfoWriter)."""
VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
"""What stands before the rank in a dump's path; the first one set counts."""
PIPE_VARIABLE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"

REMEMBERED_SECONDS = 600.0
SEEN_WITHIN_SECONDS = 30.0
"""A rank that has started is seen by then."""

Named = tuple[str, int, int | None]
"""A prefix, a rank, and the user of the rank's ring; None = nobody looked."""

_RANK = re.compile(r"\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """A file that may be a dump; `run` is "" where nobody says.

    Attributes:
        prefix: What stands before the rank in its path; "" = it lies beside a ring.
    """

    path: Path
    run: str
    rank: int
    prefix: str = ""

    def of(self, run: str) -> "Place":
        """The same, of that run."""
        return replace(self, run=run)


@dataclass(frozen=True, slots=True)
class Teller:
    """A run one of whose ranks names a prefix; older files there are not its own.

    Attributes:
        since: Unix time before which it was not seen.
        seen: Unix time when the rank was last seen alive.
    """

    run: str
    since: float
    seen: float


def named_prefix(variables: Mapping[str, str]) -> str | None:
    """Where a process with these variables writes its dumps; None = it has no home."""
    for name in VARIABLES:
        if variables.get(name):
            return variables[name]
    if variables.get("XDG_CACHE_HOME"):
        return f"{variables['XDG_CACHE_HOME']}/{CACHE_NAME}"
    return f"{variables['HOME']}/.cache/{CACHE_NAME}" if variables.get("HOME") else None


def old_prefix() -> str:
    """The usual place of older versions of torch."""
    return f"{tempfile.gettempdir()}/{OLD_NAME}"


def prefixes_of(
    ranks: Iterable[RankProcess], proc: Path, known: Mapping[int, str | None]
) -> tuple[dict[int, str | None], list[Rejected]]:
    """What the environment of each rank says, by process; `known` is not read again."""
    found: dict[int, str | None] = {}
    rejected = []
    for rank in ranks:
        if rank.pid in known:
            found[rank.pid] = known[rank.pid]
            continue
        found[rank.pid] = None
        try:
            found[rank.pid] = named_prefix(environment(proc, rank.pid))
        except SourceError as error:
            # Another user's process, or one that has just ended: the usual places stay.
            if error.reason not in ("missing", "permission"):
                rejected.append(Rejected.of(error))
    return found, rejected


def told_by(
    ranks: Sequence[RankProcess],
    said: Mapping[int, str | None],
    before: Mapping[Named, Teller],
    now: float,
) -> dict[Named, Teller]:
    """Who names a prefix for a rank, or lately did; the dumps of the dead are what matters.

    Ranks that were there before the collector may have written at any time. Each user's word is
    kept apart: anybody may name the prefix of somebody else's rank.
    """
    tellers = {key: one for key, one in before.items() if now - one.seen < REMEMBERED_SECONDS}
    # A rank whose environment may not be read writes where others of its run do.
    usual = {rank.run: said[rank.pid] for rank in ranks if said[rank.pid] is not None}
    for rank in ranks:
        prefix = said[rank.pid] or usual.get(rank.run)
        if prefix is not None:
            known = before.get((prefix, rank.rank, rank.user))
            since = now - SEEN_WITHIN_SECONDS if before else 0.0
            if known is not None and known.run == rank.run:
                since = known.since
            tellers[prefix, rank.rank, rank.user] = Teller(rank.run, since, now)
    return tellers


def beside_rings(folder: Path) -> tuple[list[Place], list[Rejected]]:
    """Dumps that ranks with a ring wrote when they were asked."""
    paths, rejected = find(folder, PREFIX, "")
    named = ((path, of_dump(path.name)) for path in paths)
    return [Place(path, *who) for path, who in named if who is not None], rejected


def with_prefix(prefix: str) -> tuple[list[Place], list[Rejected]]:
    """Files whose path is the prefix and a rank; of which run, they do not say."""
    folder, start = Path(prefix).parent, Path(prefix).name
    if prefix.endswith("/"):
        folder, start = Path(prefix), ""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MAX_ENTRIES)]
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    except OSError as error:
        return [], [Rejected("permission", f"{folder}: {error.strerror}")]
    rejected = []
    if len(names) == MAX_ENTRIES:
        words = f"{folder} holds over {MAX_ENTRIES} files; dumps among the rest are not seen"
        rejected.append(Rejected("too_many", words))
    ranks = [
        (name, name.removeprefix(start))
        for name in names
        if name.startswith(start) and _RANK.fullmatch(name.removeprefix(start))
    ]
    return [Place(folder / name, "", int(rank), prefix) for name, rank in ranks], rejected
