"""Flight-recorder dumps of all ranks of a run, from the collectors of its nodes (`GET /dumps`)."""

import binascii
import json
import math
import os
import threading
import zlib
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lockstep.analyzer.hangs.dumps import FactKind
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.flight_recorder import (
    DUMPS_MAX_BYTES,
    DUMPS_SCHEMA_VERSION,
    DUMPS_SECONDS,
    EVIDENCE_FILE,
)
from lockstep.collector.contract.words import PHASES
from lockstep.collector.formats.flight_recorder.dump import MAX_BYTES
from lockstep.collector.recorder.rows import AnswerError
from lockstep.runs.hang_dumps import MAX_FILES
from lockstep.watch.look.collectors import ask

SECONDS = DUMPS_SECONDS + 4.0
"""For all collectors together: ranks have DUMPS_SECONDS to answer, the rest is the network's."""
MOST_BYTES = 8 * DUMPS_MAX_BYTES
"""Of all answers: 1,024 ranks with 2,000 operations and stack traces each."""
MOST_UNPACKED = 16 * MOST_BYTES
"""Of all dumps as they are written: 4 MiB for each of these 1,024 ranks."""
AT_ONCE = 64
"""Collectors that are asked at the same time: most wait for their ranks, and cost nothing."""
MAX_RANKS = 1 << 10
"""Of one collector; it reads 64 rings."""
MAX_WORLD = MAX_FILES
"""A folder of dumps is read so far."""
LONGEST_FACT = 1 << 16
MAX_FACTS = 10_000


@dataclass(frozen=True, slots=True)
class RankTold:
    """One rank by its collector.

    Attributes:
        world: How many ranks the run has, by this one.
        written: Unix seconds at which its dump was written; None = there is none.
        why: Why there is none.
        phase: Of PHASES; "" = not told.
        silence: Seconds since it began or ended anything; None = not told.
    """

    rank: int
    node: str
    world: int
    attempt: int
    written: float | None
    why: str
    phase: str
    silence: float | None


@dataclass(frozen=True, slots=True)
class Collected:
    """What the collectors of a run gave; the dumps lie in the folder that was handed in.

    Attributes:
        ranks: By rank, those of the newest attempt.
        silent: Address -> why it gave nothing.
        asked: How many were asked.
    """

    ranks: Mapping[int, RankTold] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    asked: int = 0

    @property
    def dumps(self) -> int:
        """How many ranks gave one."""
        return sum(one.written is not None for one in self.ranks.values())

    @property
    def silence(self) -> float | None:
        """Seconds since any rank began or ended anything; None = no rank tells."""
        told = [one.silence for one in self.ranks.values() if one.silence is not None]
        return min(told, default=None)

    @property
    def world(self) -> tuple[int, ...]:
        """Every rank that the run has, as the most of them tell it."""
        most = Counter(one.world for one in self.ranks.values()).most_common(1)
        return tuple(sorted({*range(most[0][0] if most else 0), *self.ranks}))


def fetch(
    pages: Sequence[str],
    run: str,
    folder: Path,
    seconds: float = SECONDS,
    most: int = MOST_BYTES,
    unpacked: int = MOST_UNPACKED,
) -> Collected:
    """Ask the collectors, and write dumps and evidence.json into a folder; never raises for them.

    Args:
        pages: Addresses of their pages.
        run: The run's id.
        folder: That is there and empty.
        seconds: For all.
        most: Bytes of all answers together.
        unpacked: Bytes of all dumps together, as the ranks wrote them.

    Raises:
        OSError: The folder cannot be written.
    """
    place = _Folder(folder, run, unpacked)
    _, silent = ask(pages, f"/dumps?run={quote(run, safe='')}", place.take, seconds, most, AT_ONCE)
    place.close()
    return Collected(dict(sorted(place.ranks.items())), silent, len(set(pages)))


class _Folder:
    """Where answers are put as they come, so that they are not in memory together."""

    def __init__(self, folder: Path, run: str, unpacked: int) -> None:
        self.ranks: dict[int, RankTold] = {}
        self._folder, self._run, self._left = folder, run, unpacked
        self._facts: dict[tuple[int, str, str], None] = {}
        self._attempt = -1
        self._closed = False
        self._error: OSError | None = None
        self._lock = threading.Lock()

    def take(self, body: bytes) -> None:
        """One collector's answer.

        Raises:
            AnswerError: It is not as agreed.
        """
        try:
            tree = bounded_json.loads(body, limit=None)
            if tree["schema_version"] != DUMPS_SCHEMA_VERSION or tree["run"] != self._run:
                raise AnswerError("of another schema or run")
            rows = [_rank_and_dump(one) for one in tree["ranks"][:MAX_RANKS]]
            facts = [_fact(one) for one in tree["facts"][:MAX_FACTS]]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise AnswerError(f"the answer to /dumps is not as agreed: {error!r}") from error
        # Who answers after the deadline does not change what was judged.
        for told, packed in rows:
            with self._lock:
                if not self._closed:
                    self._put(told, packed)
        with self._lock:
            # Sensors may tell of other nodes' ranks, too: those go by the answer's attempt.
            attempts = {told.rank: told.attempt for told, _ in sorted(rows, key=_attempt)}
            newest = max(attempts.values(), default=-1)
            if newest == self._attempt and not self._closed:
                self._facts |= dict.fromkeys(
                    fact for fact in facts if attempts.get(fact[0], newest) == newest
                )

    def close(self) -> None:
        """Write evidence.json.

        Raises:
            OSError: Something could not be written.
        """
        with self._lock:
            self._closed = True
            if self._error is not None:
                raise self._error
            written = {str(n): one.written for n, one in self.ranks.items() if one.written}
            # Newer collectors may tell of what this version knows nothing of.
            facts = [
                {"rank": rank, "kind": kind, "value": value}
                for rank, kind, value in self._facts
                if kind in {each.value for each in FactKind}
            ]
            tree = {"schema_version": 1, "written": written, "facts": facts}
            (self._folder / EVIDENCE_FILE).write_text(json.dumps(tree, indent=1))

    def _put(self, told: RankTold, packed: str | None) -> None:
        """One rank of the newest attempt; what was of an older one goes."""
        if told.attempt < self._attempt:
            return
        if told.attempt > self._attempt:
            for number in self.ranks:
                self._path(number).unlink(missing_ok=True)
            self.ranks, self._facts, self._attempt = {}, {}, told.attempt
        known = self.ranks.get(told.rank)
        if known is not None and (known.written or 0.0) >= (told.written or 0.0):
            return
        if told.written is not None and packed is not None:
            try:
                dump = _unpacked(packed, self._left)
                self._left -= len(dump)
                self._path(told.rank).write_bytes(dump)
                os.utime(self._path(told.rank), (told.written,) * 2)
            except ValueError as error:
                told = replace(told, written=None, why=str(error))
                if known is not None:
                    return
            except OSError as error:
                self._error = error
        self.ranks[told.rank] = told

    def _path(self, rank: int) -> Path:
        return self._folder / f"dump_{rank}"


def _attempt(row: tuple[RankTold, str | None]) -> int:
    return row[0].attempt


def _rank_and_dump(tree: Any) -> tuple[RankTold, str | None]:
    """A rank and its dump, packed."""
    rank, world, attempt = tree["rank"], tree["world"], tree["attempt"]
    dump = tree["dump"]
    if dump is not None and not isinstance(dump, str):
        raise TypeError("a dump is no text")
    for number in (rank, world, attempt):
        if type(number) is not int or not 0 <= number < 1 << 24:
            raise ValueError("a rank, a world or an attempt is no count")
    if world > MAX_WORLD or rank >= MAX_WORLD:
        raise ValueError(f"a run of over {MAX_WORLD} ranks")
    phase, age = tree.get("phase"), tree.get("progress_age")
    told = RankTold(
        rank,
        str(tree["node"])[:256],
        world,
        attempt,
        None if dump is None else _seconds(tree["written"]),
        str(tree["why"])[:300],
        phase if phase in PHASES else "",
        None if age is None else _seconds(age),
    )
    return told, dump


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("no number of seconds")
    if not math.isfinite(value) or not 0 <= value < 1 << 40:
        raise ValueError("no number of seconds")
    return float(value)


def _unpacked(dump: str, left: int) -> bytes:
    """The file as the rank wrote it; ValueError says in words why there is none."""
    if left <= 0:
        raise ValueError("the dumps of all ranks together are too large")
    most = min(MAX_BYTES, left)
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(b64decode(dump, validate=True), most)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ValueError("its dump is not packed as agreed") from error
    if unpacking.eof:
        return data
    if len(data) < most:
        raise ValueError("its dump is torn")
    raise ValueError(
        f"its dump is over {MAX_BYTES >> 20} MiB"
        if most == MAX_BYTES
        else "the dumps of all ranks together are too large"
    )


def _fact(tree: Any) -> tuple[int, str, str]:
    rank, kind, value = tree["rank"], tree["kind"], tree["value"]
    if type(rank) is not int or not isinstance(value, str) or not isinstance(kind, str):
        raise ValueError("a fact is not as agreed")
    return rank, kind, value[:LONGEST_FACT]
