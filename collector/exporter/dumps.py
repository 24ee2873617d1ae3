"""`GET /dumps`: flight-recorder dumps of a run's ranks here (contract/flight_recorder.py).

They are sent with what this node's sensors know of these ranks. A dump is served as the bytes that
were parsed: the owner of its folder may put another file in its place.
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
            ranks = self._rings.scan().ranks
            mine = sorted(
                (rank for rank in ranks if rank.key[0] == query.run), key=lambda one: one.key
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
        for rank in answers.ranks:
            part, size = _part(rank, left, self._clock)
            left -= size
            parts.append(part)
        known = facts([rank.rank for rank in answers.ranks], self._heard(), self._proc, self._clock)
        tree = {
            "schema_version": DUMPS_SCHEMA_VERSION, "run": run, "ranks": parts, "facts": known,
        }  # fmt: skip
        return json.dumps(tree, separators=(",", ":")).encode()


def _part(answer: Answer, left: int, clock: Clock) -> tuple[dict[str, Any], int]:
    """One rank's, and how many bytes of what is left it takes."""
    who, live = answer.rank.header.identity, answer.rank.header.live
    age = None
    if live is not None and answer.rank.up:
        age = max(0.0, clock.monotonic() - live.progress_ns / 1e9)
    part: dict[str, Any] = {
        "rank": who.rank, "node": who.node, "world": who.world, "attempt": who.attempt,
        "phase": live.phase or None if live is not None and answer.rank.up else None,
        "progress_age": age, "written": None, "why": answer.why, "dump": None,
    }  # fmt: skip
    if answer.dump is None:
        return part, 0
    packed = b64encode(answer.packed)
    if len(packed) > left:
        return part | {"why": f"the dumps of this node are over {DUMPS_MAX_BYTES >> 20} MiB"}, 0
    dump = {"written": answer.dump.written_at, "why": "", "dump": packed.decode()}
    return part | dump, len(packed)
