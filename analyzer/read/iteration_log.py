"""A run from the iteration lines of one Megatron-LM log (training_log).

A line has the moment it was written and the mean time of the iterations since the line before. It
has neither single ranks nor launches; what is not in it stays unknown.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd

from lockstep.analyzer.shapes.run import LoadError, RankInfo, Run
from lockstep.analyzer.shapes.windows import COLUMNS
from lockstep.collector.contract import archive

_LINE = re.compile(
    r"\[(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?P<part>\.\d{1,6})?\] +"
    r"iteration +(?P<number>[1-9]\d{0,14})/ *\d+ \|.*?"
    r"elapsed time per iteration \(ms\): (?P<each>\d{1,12}(?:\.\d{1,9})?) \|",
    re.ASCII,
)
UNNAMED = "unknown"
"""Node of every rank: a log of one rank names none."""
MOST_BYTES = 1 << 30
MOST_ROWS = 5_000_000
"""Lines times ranks: some GiB."""
FROM_LOG = "log"
"""`source` in `Run.meta`."""


@dataclass(frozen=True, slots=True)
class Line:
    """One iteration line.

    Attributes:
        number: Completed iterations.
        earliest, latest: Unix seconds between which it was written; stamps are cut to seconds.
        seconds: Mean wall time of an iteration since the line before.
    """

    number: int
    earliest: float
    latest: float
    seconds: float


def read(path: Path, ranks: int) -> Run:
    """The run of a log.

    Args:
        path: What the last rank printed, over all its restarts where it was appended to.
        ranks: Of the run; the log does not say.

    Raises:
        LoadError: It cannot be read, or has no iteration line with its time.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise LoadError(f"{path} is larger than {MOST_BYTES >> 30} GiB; give a log of one run")
        with path.open(encoding="utf-8", errors="replace") as text:
            lines = list(lines_of(text))
    except OSError as error:
        raise LoadError(f"{path} cannot be read: {error.strerror}") from error
    if not lines:
        raise LoadError(
            f"{path} has no iteration line of Megatron-LM with its time, as"
            " [2026-08-01 12:00:00] iteration 120/ 500 | elapsed time per iteration (ms): 641.2 |"
        )
    if len(lines) * ranks > MOST_ROWS:
        raise LoadError(
            f"{path} has {len(lines)} iteration lines, too many for {ranks} ranks; give at most"
            f" {MOST_ROWS // ranks} of them, or fewer --ranks: shares are the same"
        )
    return run_of(lines, path.name, ranks)


def lines_of(text: Iterable[str]) -> Iterable[Line]:
    """The iteration lines of a log; what cannot be a moment is none."""
    for line in text:
        found = _LINE.search(line[:4096])
        if found is None:
            continue
        try:
            at = datetime.fromisoformat(found["at"]).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
        part = found["part"]
        at += float(part) if part else 0.0
        latest = at if part else at + 1.0
        yield Line(int(found["number"]), at, latest, float(found["each"]) / 1e3)


def run_of(lines: Sequence[Line], name: str, ranks: int) -> Run:
    """The run, each rank as the log: steps of a synchronous program end together.

    A number that does not grow begins a launch anew.
    """
    rows: list[tuple[int, int, int, float, float]] = []  # attempt, from, to, start, end
    attempt, end = 0, -np.inf
    for place, line in enumerate(lines):
        before = lines[place - 1] if place else None
        if before is not None and line.number <= before.number:
            attempt += 1
        if before is not None and line.number > before.number:
            count = line.number - before.number
        else:  # of a launch's first line the interval is that of the next, at most
            later = lines[place + 1].number if place + 1 < len(lines) else 0
            count = later - line.number if later > line.number else 1
            count = max(1, min(count, line.number))
        # When the line was written its stamp leaves open by a second: durations fill it.
        spent = count * line.seconds
        earliest = max(line.earliest, end)
        moment = earliest if not rows else min(max(end + spent, earliest), max(line.latest, end))
        start = max(moment - spent, end)
        rows.append((attempt, line.number - count, line.number, start, moment))
        end = moment
    table = pd.DataFrame(rows, columns=["attempt", "from_step", "to_step", "start", "end"])
    table["steps"] = table["to_step"] - table["from_step"]
    table["wall_seconds"] = table["end"] - table["start"]
    table["tags"] = ""
    table = table.reindex(columns=[*COLUMNS])
    whole = pd.concat([table.assign(rank=rank) for rank in range(ranks)], ignore_index=True)
    numbers = [column for column in COLUMNS if column != "tags"]
    whole[numbers] = whole[numbers].astype(float)
    whole = whole.astype(dict.fromkeys(("rank", "attempt", "from_step", "to_step", "steps"), int))
    return Run(
        name=name,
        meta={"source": FROM_LOG},
        ranks=tuple(
            RankInfo(rank=rank, node=UNNAMED, gpu=None, uuid=None, local_rank=rank, dp=rank, pp=0,
                     tp=0)
            for rank in range(ranks)
        ),
        windows=whole,
        samples=pd.DataFrame(columns=[column.name for column in archive.SAMPLES]),
        ops=None,
        missing=("a log of one rank only",),
    )  # fmt: skip
