"""Whose dump a file can be: anybody may write one under the name of somebody else's rank."""

from collections.abc import Iterable, Mapping, Sequence

from collector.reading import RankProcess
from collector.sources.flight_recorder.places import REMEMBERED_SECONDS, Place


class RankOwners:
    """The user of each rank of this node, by its ring; remembered for as long as its dumps are.

    A dump is written by the process that writes the ring. So beside a ring it lies in the same
    folder, and everywhere it is of the same user.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[RankProcess, float]] = {}

    def see(self, ranks: Iterable[RankProcess], now: float) -> None:
        """Take in the ranks that have a ring now, in Unix seconds."""
        known = {key: one for key, one in self._known.items() if now - one[1] < REMEMBERED_SECONDS}
        self._known = known | {(one.run, one.rank): (one, now) for one in ranks}

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
        if any(_fits(one, place, user) for one in owners):
            return ""
        wanted = " or ".join(sorted({_words(one, place) for one in owners}))
        return f"it is of user {user}, and the ring of rank {place.rank} is {wanted}"

    def _of(self, place: Place) -> list[RankProcess]:
        """The ranks that may have written it."""
        if place.run:
            known = self._known.get((place.run, place.rank))
            return [] if known is None else [known[0]]
        every = [one for one, _ in self._known.values()]
        return [one for one in every if one.rank == place.rank] or every


def _fits(one: RankProcess, place: Place, user: int) -> bool:
    elsewhere = not place.prefix and one.folder not in (None, place.path.parent)
    return not elsewhere and one.user in (None, user)


def _words(one: RankProcess, place: Place) -> str:
    where = f" in {one.folder}" if not place.prefix and one.folder is not None else ""
    return f"of user {one.user}{where}"
