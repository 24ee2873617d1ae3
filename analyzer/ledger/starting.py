"""The parts of a start: image, rendezvous, compile, load, and who reported each.

Nothing is a remainder: a second that no mark covers is unknown (docs/method/ledger.md#starting).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from lockstep.analyzer.shapes.run import FloatGrid, RankInfo
from lockstep.collector.contract.words import StartPart

SPANS_AT_MOST = 1000
"""Of one part of one rank."""


@dataclass(frozen=True, slots=True)
class Row:
    """One part.

    Attributes:
        part: Its name.
        definition: What is in it.
        source: What it is reported by.
    """

    part: StartPart
    definition: str
    source: str


PARTS: tuple[Row, ...] = (
    Row(StartPart.LAUNCH, "from the launch until the rank's process was there, without the image",
        "run.json: started, starting"),
    Row(StartPart.IMAGE, "from when its pod was placed until its container ran: the image was"
        " pulled, volumes were mounted", "cluster.json: pods"),
    Row(StartPart.PROGRAM, "its process was there, and did not yet meet the others: interpreter,"
        " imports, what the program does first", "run.json: starting; /proc"),
    Row(StartPart.RENDEZVOUS, "it waited for the others to come, or met them",
        "run.json: starting"),
    Row(StartPart.LOAD, "from the rendezvous to the first step: model, weights, data",
        "run.json: starting"),
    Row(StartPart.COMPILE, "torch.compile compiled, or Inductor recorded CUDA graphs",
        "run.json: starting"),
    Row(StartPart.WARMUP, "what warm-up steps take beyond an ordinary one, compilations that were"
        " told not counted", "step tag warmup"),
    Row(StartPart.UNKNOWN, "it was not measured", "gaps between what is known"),
)  # fmt: skip
"""In the order in which they happen and are shown."""

PLACE: dict[StartPart, int] = {row.part: place for place, row in enumerate(PARTS)}
"""Part -> column."""
_OVER = (StartPart.LAUNCH, StartPart.IMAGE, StartPart.PROGRAM, StartPart.LOAD,
         StartPart.RENDEZVOUS, StartPart.COMPILE)  # fmt: skip
"""Of two that are reported one moment the later one counts: the inner."""
TOLD_BY_RANKS = (
    StartPart.PROGRAM,
    StartPart.RENDEZVOUS,
    StartPart.LOAD,
    StartPart.COMPILE,
)


@dataclass(frozen=True, slots=True)
class Marks:
    """What is reported the start of one rank.

    Attributes:
        spans: Part -> (K, 2) unix seconds.
        reported: Parts that somebody measured, also if they took no time.
        begins_at_once: Its first step is counted from before it loaded, as that of a program of
            others is whose optimizer alone is seen.
    """

    spans: Mapping[StartPart, FloatGrid]
    reported: frozenset[StartPart]
    begins_at_once: bool = False

    def between(self, begin: float, end: float) -> FloatGrid:
        """(len(PARTS),) seconds; they sum to `end - begin`."""
        return self._painted(begin, end, StartPart.UNKNOWN)

    def of_warm_up(self, begin: float, seconds: float, *, first: bool) -> FloatGrid:
        """(len(PARTS),) of so many seconds that a warm-up step from `begin` on took longer.

        Args:
            first: It is the first step of its launch.
        """
        unseen = first and self.begins_at_once
        return self._painted(
            begin, begin + seconds, StartPart.UNKNOWN if unseen else StartPart.WARMUP
        )

    def _painted(self, begin: float, end: float, otherwise: StartPart) -> FloatGrid:
        sums = np.zeros(len(PARTS))
        if not end > begin:
            return sums
        edges = np.unique(np.clip(
            np.concatenate([[begin, end], *(spans.ravel() for spans in self.spans.values())]),
            begin, end,
        ))  # fmt: skip
        middle = (edges[1:] + edges[:-1]) / 2
        part = np.full(len(middle), PLACE[otherwise])
        for each in _OVER:
            for one in self.spans.get(each, ()):
                part[(middle >= one[0]) & (middle < one[1])] = PLACE[each]
        np.add.at(sums, part, np.diff(edges))
        return sums


UNTOLD = Marks({}, frozenset())


def marks(
    meta: Mapping[str, Any], pods: Mapping[str, tuple[float, float]], info: RankInfo,
    launched: float, first: tuple[float, float], end: float,
) -> Marks:  # fmt: skip
    """What run.json, and cluster.json beside it, report the start of a rank.

    Args:
        meta: As of the Run.
        pods: Its pod_times.
        launched: Unix seconds of its launch.
        first: At which its first window of steps began and ended; NaN = it came to none.
        end: Of the attempt.
    """
    spans: dict[StartPart, FloatGrid] = {}
    told: set[StartPart] = set()
    ranks = meta.get("starting")
    mine = ranks.get(str(info.rank)) if isinstance(ranks, dict) else None
    mine = mine if isinstance(mine, dict) else {}
    means = meta.get("means")
    guessed = isinstance(means, dict) and "program" not in str(means.get(str(info.rank), "program"))
    # What was loaded before a first step whose begin is guessed is within it, and ends with it.
    until = first[1] if guessed else first[0]
    until = until if np.isfinite(until) else end
    began = float("nan")
    for part in TOLD_BY_RANKS:
        found = list(_spans(mine.get(part), until))
        if part is StartPart.PROGRAM:
            began = min((one[0] for one in found), default=began)
            # Without an end nobody saw the rank meet the others.
            found = [one for one in found if not one[2]]
        if found or (part is StartPart.COMPILE and part in mine):
            told.add(part)
        if found:
            spans[part] = np.array([one[:2] for one in found])
    pod = pods.get(info.node)
    if pod is not None:
        spans[StartPart.IMAGE] = np.array([pod])
        told.add(StartPart.IMAGE)
    # Of a rank that was started again in place this is not the first process.
    if np.isfinite(began) and launched <= began <= until:
        spans[StartPart.LAUNCH] = np.array([[launched, began]])
        told.add(StartPart.LAUNCH)
    return Marks(spans, frozenset(told), guessed)


def _spans(value: object, until: float) -> Iterator[tuple[float, float, bool]]:
    """Begin, end, and whether it had none; what is no span is left out."""
    for one in value[:SPANS_AT_MOST] if isinstance(value, list) else ():
        try:
            begin = float(one[0])
            end = until if one[1] is None else float(one[1])
        except (TypeError, ValueError, IndexError, KeyError):
            continue
        if np.isfinite([begin, end]).all() and begin <= end:
            yield begin, end, one[1] is None


def pod_times(meta: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Node -> unix seconds at which the only pod of the run there was placed, and ran."""
    pods = meta.get("pods")
    found: dict[str, list[tuple[float, float]]] = {}
    for one in pods.values() if isinstance(pods, dict) else ():
        try:
            placed, ran = (
                datetime.fromisoformat(str(one[name])).timestamp() for name in ("placed", "ran")
            )
            node = str(one["node"])
        except (TypeError, ValueError, KeyError, OverflowError, OSError):
            continue
        if placed <= ran:
            found.setdefault(node, []).append((placed, ran))
    return {node: spans[0] for node, spans in found.items() if len(spans) == 1}
