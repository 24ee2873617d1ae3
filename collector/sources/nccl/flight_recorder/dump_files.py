"""Files of dumps: beside the rings and where torch puts them, their owners, and requests."""

import os
import re
import stat
import tempfile
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from lockstep.collector.contract.flight_recorder import PREFIX, of_dump, request_name
from lockstep.collector.files.finder import find
from lockstep.collector.files.opening import MAX_ENTRIES, environment
from lockstep.collector.readings.source import RankProcess, Rejected, SourceError

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
    prefixes: dict[int, str | None] = {}
    rejected = []
    for rank in ranks:
        if rank.pid in known:
            prefixes[rank.pid] = known[rank.pid]
            continue
        prefixes[rank.pid] = None
        try:
            prefixes[rank.pid] = named_prefix(environment(proc, rank.pid))
        except SourceError as error:
            # Another user's process, or one that has just ended: the usual places stay.
            if error.reason not in ("missing", "permission"):
                rejected.append(Rejected.of(error))
    return prefixes, rejected


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
    tellers = {
        key: teller for key, teller in before.items() if now - teller.seen < REMEMBERED_SECONDS
    }
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


# Owners of dumps: anybody may write one under the name of another user's rank.

RankKey = tuple[str, int]
_Rings = dict[Path | None, tuple[RankProcess, float]]
"""Of one rank and one user, by folder, with the Unix time when the rank lived last."""


class RankOwners:
    """The user of each rank of this node, by its ring; remembered for as long as its dumps are.

    A dump is written by the process that writes the ring. So beside a ring it lies in the same
    folder, and everywhere it is of the same user. A rank is its user's for REMEMBERED_SECONDS after
    it lived last, whoever makes a ring of its name meanwhile; a restart of the same user may lie in
    another folder, and the dumps of both count.
    """

    def __init__(self) -> None:
        self._known: dict[RankKey, _Rings] = {}
        self._lately: list[RankProcess] = []

    def see(self, ranks: Iterable[RankProcess], living: Container[RankKey], now: float) -> None:
        """Take in the ranks that have a ring now.

        Args:
            ranks: Living or gone.
            living: Those that live.
            now: Unix time.
        """
        known: dict[RankKey, _Rings] = {}
        for key, rings in self._known.items():
            if lately := {at: ring for at, ring in rings.items() if _is_lately(ring, now)}:
                known[key] = lately
        for rank in ranks:
            key = rank.run, rank.rank
            rings = known.setdefault(key, {})
            if all(other.user == rank.user for other, _ in rings.values()):
                before, lived = self._known.get(key, {}).get(rank.folder, (rank, now))
                gone = before.user == rank.user and key not in living
                rings[rank.folder] = rank, lived if gone else now
        self._known = known
        every = [ring for rings in known.values() for ring in rings.values()]
        self._lately = [ring[0] for ring in every if _is_lately(ring, now)]

    def why_foreign(self, file: Place, user: int, beside: Mapping[str, Sequence[int]]) -> str:
        """Why a file of this user is not the rank's dump; "" = it can be.

        Args:
            file: The file.
            user: Whose it is.
            beside: By prefix, the users of all files with it. Where no rank of this node has a
                ring, they are of one user, or nobody knows whose word counts.
        """
        if not file.run and not self._known:
            several = len(set(beside.get(file.prefix, ()))) > 1
            return "no rank has a ring, and others have files of that name" if several else ""
        owners = self._of(file)
        if not owners:
            return "no rank here that has a ring writes it"
        fitting = [owner for owner in owners if _fits(owner, file, user)]
        # Of one run a rank may have had several folders; without a run every ring has its word.
        if len(fitting) == len(owners) or (fitting and file.run):
            return ""
        wanted = " or ".join(sorted({_words(owner, file) for owner in owners}))
        if fitting:
            return f"no run is known of it, and a ring of rank {file.rank} is {wanted}"
        return f"it is of user {user}, and the ring of rank {file.rank} is {wanted}"

    def _of(self, place: Place) -> list[RankProcess]:
        """The ranks that may have written it."""
        if place.run:
            return [rank for rank, _ in self._known.get((place.run, place.rank), {}).values()]
        every = self._lately or [
            rank for rings in self._known.values() for rank, _ in rings.values()
        ]
        return [rank for rank in every if rank.rank == place.rank] or every


def _is_lately(ring: tuple[RankProcess, float], now: float) -> bool:
    return now - ring[1] < REMEMBERED_SECONDS


def _fits(rank_process: RankProcess, place: Place, user: int) -> bool:
    elsewhere = not place.prefix and rank_process.folder not in (None, place.path.parent)
    return not elsewhere and rank_process.user in (None, user)


def _words(rank_process: RankProcess, place: Place) -> str:
    where = (
        f" in {rank_process.folder}" if not place.prefix and rank_process.folder is not None else ""
    )
    return f"of user {rank_process.user}{where}"


# Requests for dumps: in a shared folder somebody else may hold the name first.

DENIED = "request_denied"
"""The reason of what has the name of a request, and lets nobody make one."""


def check_request(name: str, status: os.stat_result) -> None:
    """It is a file of one name, which a link to somebody's file has not.

    Raises:
        SourceError: It is another thing.
    """
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise SourceError(DENIED, f"{name} is there, and is no request")


def denied(rank: RankProcess) -> Rejected | None:
    """Why the rank cannot be asked for its dump, though somebody may write to its folder.

    Who asks is root, the rank's user or we: what another user made under the name of the request,
    only root can make anew by its time.
    """
    if rank.folder is None:
        return None
    path = Path(rank.folder) / request_name(rank.run)
    try:
        status = os.lstat(path)
        check_request(str(path), status)
    except OSError:  # no request, as nearly always
        return None
    except SourceError as error:
        return Rejected.of(error)
    if status.st_uid in (0, rank.user, us := os.geteuid()) or us == 0:
        return None
    return Rejected(DENIED, f"{path} is of user {status.st_uid}: no collector can ask for dumps")
