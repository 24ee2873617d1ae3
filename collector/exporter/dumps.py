"""`GET /dumps`: flight-recorder dumps of a run's ranks here (contract/flight_recorder.py).

With them goes what this node's sensors told of these ranks. A dump is served as the bytes that were
parsed: whoever owns its folder may put another file in its place.
"""

import json
import threading
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from lockstep.collector.clock import Clock
from lockstep.collector.contract.flight_recorder import (
    DUMPS_AGAIN_SECONDS,
    DUMPS_MAX_BYTES,
    DUMPS_SCHEMA_VERSION,
    DUMPS_SECONDS,
)
from lockstep.collector.exporter.ops import QueryError
from lockstep.collector.on_demand.dumps import Answer, of_newest_attempt, request_dumps
from lockstep.collector.on_demand.rank_facts import Heard, facts
from lockstep.collector.sources.ranks.owners import Rank
from lockstep.collector.sources.ranks.rings import Rings

MAX_REMEMBERED = 64
"""Runs of which it is known when their ranks were asked; a node has a few."""


@dataclass(frozen=True, slots=True)
class DumpsQuery:
    """Of which run."""

    run: str

    @classmethod
    def parse(cls, query: str) -> "DumpsQuery":
        """From the part of the URL behind the question mark.

        Raises:
            QueryError: The run is missing, or there is more than it.
        """
        try:
            fields = parse_qs(query, keep_blank_values=True, max_num_fields=8)
        except ValueError as error:
            raise QueryError(f"cannot read the query: {error}") from error
        if fields.keys() - {"run"} or any(len(values) > 1 for values in fields.values()):
            raise QueryError("the query takes run, once")
        if not fields.get("run", [""])[0]:
            raise QueryError("the query needs run=RUN")
        return cls(fields["run"][0])


class NodeDumps:
    """Asks the ranks of this node; for many threads, one at a time.

    Args:
        rings: Of this node's ranks.
        heard: What the sources last told.
        proc: The process table.
        clock: For waiting.
        seconds: How long ranks have to answer.
    """

    def __init__(
        self,
        rings: Rings,
        heard: Callable[[], Heard],
        proc: Path,
        clock: Clock,
        seconds: float = DUMPS_SECONDS,
    ) -> None:
        self._rings, self._heard = rings, heard
        self._proc, self._clock, self._seconds = proc, clock, seconds
        self._alone = threading.Lock()
        self._asked: dict[str, tuple[float, int]] = {}
        """Run -> when its ranks were asked, by our clock and by that of the file system."""

    def answer(self, query: DumpsQuery) -> bytes | None:
        """The JSON of the query, or None when this node has no rank of the run."""
        with self._alone:
            found = self._rings.scan().ranks
            mine = sorted(
                (one for one in found if one.key[0] == query.run), key=lambda one: one.key
            )
            return self._answer(query.run, of_newest_attempt(mine)) if mine else None

    def _answer(self, run: str, ranks: list[Rank]) -> bytes:
        now = self._clock.monotonic()
        at, since = self._asked.get(run, (float("-inf"), 0))
        again = now - at < DUMPS_AGAIN_SECONDS
        asked = since if again else None
        answers = request_dumps(ranks, self._proc, self._clock, self._seconds, asked)
        if not again:
            self._asked.pop(run, None)
            self._asked[run] = now, answers.since
            while len(self._asked) > MAX_REMEMBERED:
                del self._asked[next(iter(self._asked))]
        left = DUMPS_MAX_BYTES
        parts: list[dict[str, Any]] = []
        for one in answers.ranks:
            part, size = _part(one, left, self._clock)
            left -= size
            parts.append(part)
        told = facts([one.rank for one in answers.ranks], self._heard(), self._proc, self._clock)
        tree = {
            "schema_version": DUMPS_SCHEMA_VERSION, "run": run, "ranks": parts, "facts": told,
        }  # fmt: skip
        return json.dumps(tree, separators=(",", ":")).encode()


def _part(one: Answer, left: int, clock: Clock) -> tuple[dict[str, Any], int]:
    """One rank's, and how many bytes of what is left it takes."""
    who, live = one.rank.header.identity, one.rank.header.live
    age = None
    if live is not None and one.rank.up:
        age = max(0.0, clock.monotonic() - live.progress_ns / 1e9)
    part: dict[str, Any] = {
        "rank": who.rank, "node": who.node, "world": who.world, "attempt": who.attempt,
        "phase": live.phase or None if live is not None and one.rank.up else None,
        "progress_age": age, "written": None, "why": one.why, "dump": None,
    }  # fmt: skip
    if one.dump is None:
        return part, 0
    packed = b64encode(one.packed)
    if len(packed) > left:
        return part | {"why": f"the dumps of this node are over {DUMPS_MAX_BYTES >> 20} MiB"}, 0
    dump = {"written": one.dump.written_at, "why": "", "dump": packed.decode()}
    return part | dump, len(packed)
