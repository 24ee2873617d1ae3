"""Errors that the driver logged of the rank's GPU at the finding's onset or during it.

Which part of a GPU an XID is about, where that part is a cause of its own.

The catalogue (`collector.contract.xid`) says which part of the GPU an XID is about, and whose fault
it is; XIDs that the application caused, or that follow another one, tell nothing of the hardware.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from lockstep.analyzer.causes.symptoms.series import is_near, tolerance
from lockstep.analyzer.causes.symptoms.shape import Symptom
from lockstep.analyzer.shapes.labels import number, parsed
from lockstep.analyzer.shapes.run import Finding, Grid
from lockstep.analyzer.stats.before_after import column_of, gpu_words, query
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import Cause
from lockstep.collector.contract.xid import BY_LINE, NOT_OF_HARDWARE, XIDS, describe
from lockstep.collector.contract.xid_catalogue.shape import Part, Severity

LAST = metrics.GPU_XID_LAST.name
COUNT = metrics.GPU_XID_ERRORS.name
LISTENER = metrics.SOURCE_UP.series(source="xid")
STOPPED_SECONDS = 30.0
"""How long before a rank stops the error may be logged that stops it: chosen, as NCCL's heartbeat
monitor and a driver's reset take tens of seconds."""


class Logged(NamedTuple):
    """An XID: when it was first logged (unix seconds), which, and the signal that tells of it."""

    time: float
    xid: int
    signal: str

    @property
    def is_news(self) -> bool:
        """No trouble by its line, which alone rates it: as a recovery action that is None again."""
        return self.xid in BY_LINE and parsed(self.signal).get("severity") == Severity.INFO


def xid_of(part: Cause | None) -> Callable[[Grid, Finding], Symptom | None]:
    """The symptom of an XID about a part of the GPU; None = about none that is a cause of its own.

    Of a rank that stopped any XID counts: which part it was is no cause of its own there.

    The XID nearest to the finding's onset that is not the application's own. The time of the last
    event is read, not the count: a first count is a new series, of which no rate is known. There is
    no symptom where nobody reads the driver's log.
    """

    def measured(grid: Grid, finding: Finding) -> Symptom | None:
        gpu, hang = gpu_words(grid, finding.rank), finding.kind == "hang"
        every = list(_logged(grid, finding))
        logged = [
            each
            for each in every
            if each.xid not in NOT_OF_HARDWARE
            and not each.is_news
            and (PART.get(each.xid) == part or hang)
        ]
        if not logged:
            silent = "" if every or part else f"the driver logged no XID of {gpu}"
            told = Symptom(False, silent, query(grid, finding, COUNT))
            return told if _listened(grid, finding) else None
        onset = _onset(grid, finding)
        one = min(logged, key=lambda each: abs(each.time - (onset or each.time)))
        words = f"the driver logged XID {one.xid} ({describe(one.xid).text}) of {gpu}"
        shown = query(grid, finding, one.signal)
        if onset is None:
            return Symptom(True, words, shown)
        late, slack = one.time - onset, tolerance(grid)
        with_onset = -(STOPPED_SECONDS if hang else slack) <= late <= slack
        return Symptom(True, words, shown, late, with_onset, is_near(grid, finding, late))

    return measured


def _logged(grid: Grid, finding: Finding) -> Iterator[Logged]:
    """Each XID in the run up to the finding's end.

    What stopped a rank is the last word before it, so of a hang only that counts.
    """
    column = column_of(grid, finding.rank)
    if column is None or not len(grid.start):
        return
    onset, end = _onset(grid, finding), _end(grid, finding)
    hang = finding.kind == "hang" and onset is not None
    first = onset - STOPPED_SECONDS if hang and onset is not None else float(grid.start[0])
    for key, last in grid.last.items():
        xid = number(parsed(key), "xid") if key.startswith(LAST) else None
        if xid is None:
            continue
        seen = grid.signals[key][:, column] if key in grid.signals else np.empty(0)
        times = np.append(seen, last[column])
        times = times[np.isfinite(times) & (times >= first) & (times <= end)]
        if times.size:
            yield Logged(float(times.min()), xid, key)


def _listened(grid: Grid, finding: Finding) -> bool:
    """Whether somebody reads the driver's log on the rank's node."""
    told = grid.last.get(LISTENER)
    column = column_of(grid, finding.rank)
    return told is not None and column is not None and bool(told[column] > 0)


def _onset(grid: Grid, finding: Finding) -> float | None:
    """Unix seconds; None for a finding that was there from the start."""
    if finding.kind == "hang":
        return float(grid.end.max()) if len(grid.end) else None
    return float(grid.start[finding.first]) if 0 < finding.first < len(grid.start) else None


def _end(grid: Grid, finding: Finding) -> float:
    if finding.last is None or finding.last >= len(grid.start):
        return float("inf")
    return float(grid.start[finding.last])


_CAUSE = {Part.MEMORY: Cause.ECC, Part.NVLINK: Cause.NVLINK, Part.PCIE: Cause.PCIE}
PART: Mapping[int, Cause] = {
    number: _CAUSE[row.part] for number, row in XIDS.items() if row.part in _CAUSE
}
"""XID -> the cause that explains it better than the number alone."""
