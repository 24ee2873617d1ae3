"""`GET /stacks`: where ranks of a run on this node stand (contract/stacks.py), if that is allowed.

Whoever may scrape may ask, so the setting is off unless somebody turns it on; it also says whether
native frames are read, which stop each process for a moment. However often somebody asks, a process
is read once in STACKS_AGAIN_SECONDS.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs

from lockstep.collector.clock import Clock
from lockstep.collector.contract.stacks import (
    SCHEMA_VERSION,
    STACKS_AGAIN_SECONDS,
    STACKS_MOST,
    STACKS_SECONDS,
    Depth,
    Stacks,
    as_tree,
)
from lockstep.collector.exporter.ops import QueryError
from lockstep.collector.on_demand.stacks import take_stacks
from lockstep.collector.sources.ranks.owners import Rank
from lockstep.collector.sources.ranks.rings import Rings

MAX_DIGITS = 9
Take = Callable[[list[Rank], list[int], Depth, Path, Clock, float], list[Stacks]]


class ForbiddenError(Exception):
    """It is turned off here; the text says how it is turned on."""


@dataclass(frozen=True, slots=True)
class StacksQuery:
    """Of which ranks of which run."""

    run: str
    ranks: tuple[int, ...]

    @classmethod
    def parse(cls, query: str) -> "StacksQuery":
        """From the part of the URL behind the question mark.

        Raises:
            QueryError: The run or its ranks are missing, or there is more than that.
        """
        try:
            fields = parse_qs(query, keep_blank_values=True, max_num_fields=8)
        except ValueError as error:
            raise QueryError(f"cannot read the query: {error}") from error
        if fields.keys() - {"run", "ranks"} or any(len(values) > 1 for values in fields.values()):
            raise QueryError("the query takes run and ranks, each once")
        run, numbers = fields.get("run", [""])[0], fields.get("ranks", [""])[0].split(",")
        if not run:
            raise QueryError("the query needs run=RUN")
        if not all(
            each.isascii() and each.isdigit() and len(each) <= MAX_DIGITS for each in numbers
        ):
            raise QueryError("the query needs ranks=RANK,..., each a whole number")
        if len(numbers) > STACKS_MOST:
            raise QueryError(f"the query names {len(numbers)} ranks; it may name {STACKS_MOST}")
        return cls(run, tuple(dict.fromkeys(int(each) for each in numbers)))


class NodeStacks:
    """Reads the ranks of this node; for many threads, one at a time.

    Args:
        rings: Of this node's ranks.
        depth: What is allowed.
        take: Reads them.
    """

    def __init__(
        self, rings: Rings, depth: Depth, proc: Path, clock: Clock, take: Take = take_stacks
    ) -> None:
        self._rings, self._depth = rings, depth
        self._proc, self._clock, self._take = proc, clock, take
        self._alone = threading.Lock()
        self._known: dict[tuple[str, int], tuple[float, Stacks]] = {}

    def answer(self, query: StacksQuery) -> bytes | None:
        """The JSON of the query, or None when this node has no rank of the run.

        Raises:
            ForbiddenError: The setting is off.
        """
        if self._depth is Depth.OFF:
            raise ForbiddenError("stacks are off here; [collector] stacks = python turns them on")
        with self._alone:
            mine = {one.key[1]: one for one in self._rings.scan().ranks if one.key[0] == query.run}
            if not mine:
                return None
            wanted = [rank for rank in query.ranks if rank in mine]
            self._read(query.run, mine, wanted)
            told = [as_tree(self._known[query.run, rank][1]) for rank in wanted]
        tree = {"schema_version": SCHEMA_VERSION, "run": query.run, "ranks": told}
        return json.dumps(tree, separators=(",", ":")).encode()

    def _read(self, run: str, mine: dict[int, Rank], wanted: list[int]) -> None:
        """Read those of which nothing is known that is fresh, and forget what is not."""
        now = self._clock.monotonic()
        fresh = now - STACKS_AGAIN_SECONDS
        self._known = {key: stacks for key, stacks in self._known.items() if stacks[0] > fresh}
        due = [rank for rank in wanted if (run, rank) not in self._known]
        ranks = [mine[rank] for rank in due]
        for stacks in self._take(ranks, due, self._depth, self._proc, self._clock, STACKS_SECONDS):
            self._known[run, stacks.rank] = self._clock.monotonic(), stacks
