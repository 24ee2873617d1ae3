"""Whose a ring is, and whose a run: one tenant neither hides nor replaces what is another's."""

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from collector.reading import Rejected
from collector.sources.rank_ring.rank import Rank

MAX_CLAIMS = 1024
"""Runs and ranks whose owners are remembered."""

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

    def of(self, path: Path, uid: int) -> str:
        """The owner of a ring in a file of this user."""
        below = path.parent
        if below == self._folder:
            return f"user {uid}"
        if not self._shared:
            return f"folder {below.name}"
        if below not in self._users:
            self._users[below] = _user(below)
        return f"user {self._users[below]}"


class Claims:
    """Remembers who had a run first. It is his as long as he lives, and for longer if nobody asks.

    A user has a run with all its ranks; a folder has the ranks that it had first, because several
    pods of one node may be of one run.
    """

    def __init__(self) -> None:
        self._holders: dict[Claim, str] = {}

    def settle(self, rings: Iterable[tuple[Rank, str]]) -> tuple[list[Rank], list[Rejected]]:
        """One rank of each (run, rank), and what was refused because another had it first.

        Of two rings of one owner the living one counts, then the one started last: a restart.

        Args:
            rings: Every ring that was read, with its owner.
        """
        # Who comes at the same time: a writer whose process is known goes before one that claims.
        known = sorted(rings, key=lambda one: (one[0].pid is None, one[0].started, one[0].path))
        living = [(rank, owner) for rank, owner in known if rank.up]
        alive = {(claim, owner) for rank, owner in living for claim in _claims(rank, owner)}
        for rank, owner in living:
            for claim in _claims(rank, owner):
                holder = self._holders.get(claim)
                if holder is None or (claim, holder) not in alive:
                    self._holders.pop(claim, None)  # to the end
                    self._holders[claim] = owner
        while len(self._holders) > MAX_CLAIMS:
            del self._holders[next(iter(self._holders))]
        settled: dict[tuple[str, int], tuple[Rank, str]] = {}
        refused: list[Rejected] = []
        for rank, owner in known:
            of_others = self._of_others(rank, owner, alive)
            if of_others:
                if rank.up:  # else what was replaced
                    refused.append(_conflict(rank, owner, of_others))
                continue
            other = settled.get(rank.key)
            if other is None or self._weight(*other) < self._weight(rank, owner):
                settled[rank.key] = rank, owner
        return [rank for rank, _ in settled.values()], refused

    def _of_others(self, rank: Rank, owner: str, alive: set[tuple[Claim, str]]) -> str:
        """Who else has this rank or its run, and lives; empty if nobody has."""
        for claim in _claims(rank, owner):
            holder = self._holders.get(claim, owner)
            if holder != owner and (claim, holder) in alive:
                return holder
        return ""

    def _weight(self, rank: Rank, owner: str) -> tuple[bool, bool, int]:
        """The last word of a rank that is gone is that of who had it."""
        held = any(self._holders.get(claim) == owner for claim in _claims(rank, owner))
        return rank.up, held, rank.started


def _claims(rank: Rank, owner: str) -> Sequence[Claim]:
    run, _ = rank.key
    return ((run,), rank.key) if owner.startswith("user ") else (rank.key,)


def _conflict(rank: Rank, owner: str, holder: str) -> Rejected:
    run, number = rank.key
    text = f"{rank.path}: rank {number} of run {run} is {holder}'s, which lives; {owner} claims it"
    return Rejected("conflict", text)


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
