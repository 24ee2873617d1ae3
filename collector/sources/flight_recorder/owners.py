"""Whose dump a file can be: anybody may write one under the name of somebody else's rank."""

from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path

from lockstep.collector.reading import RankProcess
from lockstep.collector.sources.flight_recorder.places import REMEMBERED_SECONDS, Place

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

    def why_foreign(self, place: Place, user: int, beside: Mapping[str, Sequence[int]]) -> str:
        """Why a file of this user is not the rank's dump; "" = it can be.

        Args:
            place: The file.
            user: Whose it is.
            beside: By prefix, the users of all files with it. Where no rank of this node has a
                ring, they are of one user, or nobody knows whose word counts.
        """
        if not place.run and not self._known:
            several = len(set(beside.get(place.prefix, ()))) > 1
            return "no rank has a ring, and others have files of that name" if several else ""
        owners = self._of(place)
        if not owners:
            return "no rank here that has a ring writes it"
        fitting = [one for one in owners if _fits(one, place, user)]
        # Of one run a rank may have had several folders; without a run every ring has its word.
        if len(fitting) == len(owners) or (fitting and place.run):
            return ""
        wanted = " or ".join(sorted({_words(one, place) for one in owners}))
        if fitting:
            return f"no run is known of it, and a ring of rank {place.rank} is {wanted}"
        return f"it is of user {user}, and the ring of rank {place.rank} is {wanted}"

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


def _fits(one: RankProcess, place: Place, user: int) -> bool:
    elsewhere = not place.prefix and one.folder not in (None, place.path.parent)
    return not elsewhere and one.user in (None, user)


def _words(one: RankProcess, place: Place) -> str:
    where = f" in {one.folder}" if not place.prefix and one.folder is not None else ""
    return f"of user {one.user}{where}"
