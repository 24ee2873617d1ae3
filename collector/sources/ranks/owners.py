"""Whose a ring is, and whose a run: one tenant neither hides nor replaces what is another's."""

import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lockstep.collector.contract.metrics import RANK_GONE_SECONDS
from lockstep.collector.readings.source import Rejected
from lockstep.collector.sources.ranks.header import Header

RankKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of this node.

    Attributes:
        up: False once its process is gone.
        pid: Its process in our process table; None if it is gone, or not visible here. In a
            container a rank knows itself by another one, `header.identity.pid`.
        there_ns: Since when its file has been there at the latest, in Unix nanoseconds: the word of
            the kernel, not of who writes it.
        user: Whose the file is, the word of the kernel too; None = nobody looked.
    """

    path: Path
    header: Header
    up: bool
    pid: int | None
    there_ns: int = 0
    user: int | None = None

    @property
    def key(self) -> RankKey:
        """(run, rank)."""
        return self.header.identity.run, self.header.identity.rank

    @property
    def started(self) -> int:
        """When it says that it started, in Unix nanoseconds."""
        return self.header.identity.start_wall_ns


MAX_CLAIMS = 1024
"""Runs and ranks whose owners are remembered."""

USER = "user "
"""What stands before the number of an owner that is a user."""

Claim = tuple[str] | tuple[str, int]
"""A run, or one rank of it."""


class Owners:
    """Says whose a ring is, as of one moment.

    Where only the node's root may make folders, as the kubelet does for pods, the folder tells: in
    its own folder a pod may write as whom it likes. Where anybody may, the user tells: one user may
    make a thousand folders.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shared = _mode(folder) & (stat.S_IWOTH | stat.S_IWGRP) != 0
        self._users: dict[Path, int] = {}

    def unsafe(self, paths: Iterable[Path]) -> list[Rejected]:
        """The folders in which one user can replace or remove what is another's, with these rings.

        Where anybody may write, the sticky bit keeps files for their users, and for the user of the
        folder (inode(7)): who should be root, or the user that reads them.
        """
        below = {path.parent for path in paths} if self._shared else set()
        dangers = ((folder, _danger(folder)) for folder in sorted({self._folder, *below}))
        return [Rejected("unsafe_folder", f"{folder}: {why}") for folder, why in dangers if why]

    def of(self, path: Path, uid: int) -> str:
        """The owner of a ring in a file of this user."""
        below = path.parent
        if below == self._folder:
            return f"{USER}{uid}"
        if not self._shared:
            return f"folder {below.name}"
        if below not in self._users:
            self._users[below] = _user(below)
        return f"{USER}{self._users[below]}"


class Claims:
    """Remembers who had a run first. It is his as long as he lives, and for longer if nobody asks.

    A user has a run with all its ranks, and keeps it for RANK_GONE_SECONDS after the last of them:
    so long the collector reports them, and somebody else's rank would speak for them. A folder has
    the ranks that it had first, because several pods of one node may be of one run, and only while
    they live, because a pod comes again in another folder. Who was first is remembered over a
    restart; where nothing is remembered the kernel's word decides, not what a ring says of itself.
    """

    def __init__(self) -> None:
        self._holders: dict[Claim, tuple[str, float]] = {}
        """With when each lived last, in monotonic seconds.

        Replaced as a whole: another thread may ask for the memory.
        """

    def memory(self) -> dict[str, Any]:
        """The holders, as JSON values: owner, run, and the rank if it is of one rank.

        Beside them when each lived last, in monotonic seconds.
        """
        holders = self._holders
        return {
            "holders": [[owner, *claim] for claim, (owner, _) in holders.items()],
            "lived": [lived for _, lived in holders.values()],
        }

    def recall(self, tree: Any, times: Any) -> None:
        """Take over the holders and times that `memory` gave to an earlier process of this boot.

        Who has no time, as in the memory of an older version, is gone for long.

        Raises:
            ValueError: It is not of that form.
        """
        holders: dict[Claim, tuple[str, float]] = {}
        rows = tree if isinstance(tree, list) else [tree]
        known = times if isinstance(times, list) and len(times) == len(rows) else []
        gone = [-RANK_GONE_SECONDS] * len(rows)
        for row, lived in list(zip(rows, known or gone, strict=True))[-MAX_CLAIMS:]:
            match row, lived:
                case [str(owner), str(run)], int() | float():
                    holders[run,] = owner, lived
                case [str(owner), str(run), int(rank)], int() | float():
                    holders[run, rank] = owner, lived
                case _:
                    raise ValueError(f"{row!r} is not an owner with a run and a rank")
        self._holders = holders

    def settle(
        self, rings: Iterable[tuple[Rank, str]], now: float
    ) -> tuple[list[Rank], list[Rejected]]:
        """One rank of each (run, rank), and what was refused because another had it first.

        Of two rings of one owner the living one counts, then the one started last: a restart.

        Args:
            rings: Every ring that was read, with its owner.
            now: When, in monotonic seconds.
        """
        # Who comes at the same time: a writer whose process is known goes before one that claims.
        known = sorted(rings, key=lambda one: (one[0].pid is None, one[0].there_ns, one[0].path))
        living = [(rank, owner) for rank, owner in known if rank.up]
        alive = {(claim, owner) for rank, owner in living for claim in _claims(rank, owner)}
        holders = {
            claim: (owner, now if (claim, owner) in alive else lived)
            for claim, (owner, lived) in self._holders.items()
        }
        held = {
            claim: owner
            for claim, (owner, lived) in holders.items()
            if (claim, owner) in alive
            or (owner.startswith(USER) and 0 <= now - lived < RANK_GONE_SECONDS)
        }
        for rank, owner in living:
            if not _other(held, rank, owner):
                for claim in _claims(rank, owner):
                    holders[claim] = owner, now
                    held[claim] = owner
        while len(holders) > MAX_CLAIMS:
            del holders[_least(holders)]
        self._holders = holders
        settled: dict[tuple[str, int], tuple[Rank, str]] = {}
        refused: list[Rejected] = []
        for rank, owner in known:
            holder = _other(held, rank, owner)
            if holder:
                if rank.up:  # else what was replaced
                    refused.append(_conflict(rank, owner, holder))
                continue
            other = settled.get(rank.key)
            if other is None or self._goes_before(rank, owner, *other):
                settled[rank.key] = rank, owner
        return [rank for rank, _ in settled.values()], refused

    def _goes_before(self, rank: Rank, owner: str, other: Rank, others: str) -> bool:
        """The last word of a rank that is gone is that of who had it.

        When it started, a ring may only say to its owner's own.
        """
        ours, theirs = (rank.up, self._holds(rank, owner)), (other.up, self._holds(other, others))
        return ours > theirs or (
            ours == theirs and owner == others and rank.started > other.started
        )

    def _holds(self, rank: Rank, owner: str) -> bool:
        return any(self._holders.get(claim, ("",))[0] == owner for claim in _claims(rank, owner))


def _least(holders: Mapping[Claim, tuple[str, float]]) -> Claim:
    """What of whoever has most has been gone for longest: nobody pushes out another's."""
    crowd = Counter(owner for owner, _ in holders.values()).most_common(1)[0][0]
    return min(
        (claim for claim, (owner, _) in holders.items() if owner == crowd),
        key=lambda claim: holders[claim][1],
    )


def _other(held: Mapping[Claim, str], rank: Rank, owner: str) -> str:
    """Who else has this rank or its run now; "" = nobody."""
    return next((one for c in _claims(rank, owner) if (one := held.get(c, owner)) != owner), "")


def _claims(rank: Rank, owner: str) -> Sequence[Claim]:
    run, _ = rank.key
    return ((run,), rank.key) if owner.startswith(USER) else (rank.key,)


def _conflict(rank: Rank, owner: str, holder: str) -> Rejected:
    run, number = rank.key
    text = (
        f"{rank.path}: rank {number} of run {run} is {holder}'s, which lives or lately did;"
        f" {owner} claims it"
    )
    return Rejected("conflict", text)


def _danger(folder: Path) -> str:
    """What others can do in it; "" = nothing."""
    try:
        status = folder.stat()
    except OSError:
        return ""
    if not status.st_mode & stat.S_IWOTH:
        return ""
    if not status.st_mode & stat.S_ISVTX:
        return (
            "every user may write to it and it has no sticky bit, so that each can replace the"
            " rings of others; chmod 1777 it"
        )
    if status.st_uid not in (0, os.geteuid()):
        return (
            f"every user may write to it and it is of user {status.st_uid}, who can remove the"
            " rings of others; chown it to root"
        )
    return ""


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def _user(path: Path) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_uid
    except OSError:
        return -1
