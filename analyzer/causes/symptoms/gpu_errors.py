"""Errors of a GPU: its PCIe link, its NVLinks, its memory, and the XIDs that the driver logged.

The catalogue (`collector.contract.xid`) says which part of the GPU an XID is about, and whose fault
it is; XIDs that the application caused, or that follow another one, show nothing of the hardware.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lockstep.analyzer.causes.symptoms.series import (
    EVENTS,
    WHOLE,
    Level,
    Sensor,
    Symptom,
    is_near,
    level,
    series_name,
    symptom,
    tolerance,
    total,
    with_more,
)
from lockstep.analyzer.shapes.labels import number
from lockstep.analyzer.shapes.run import Finding, FloatGrid, Grid
from lockstep.analyzer.shapes.wording import MINUTE
from lockstep.analyzer.stats.before_after import column_of, gpu_words, query
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import Cause
from lockstep.collector.contract.xid import BY_LINE, NOT_OF_HARDWARE, XIDS, Part, Severity, describe

WIDTH, GENERATION = metrics.GPU_PCIE_WIDTH.series(), metrics.GPU_PCIE_GENERATION.series()
REPLAY = metrics.GPU_PCIE_REPLAY.name


def pcie(grid: Grid, finding: Finding) -> Symptom | None:
    """The PCIe link of the rank's GPU; None without data.

    Width and generation may fall on an idle link, so both are judged against before and against
    the peers in the same windows, and never against the maximum.
    """
    link = f"{gpu_words(grid, finding.rank)}'s PCIe link"
    silent = f"{link} kept its width and generation"
    width, generation = (total(grid, name) for name in (WIDTH, GENERATION))
    fell = symptom(
        grid, finding, _octaves(width, generation), WHOLE,
        lambda reading: f"{link} fell to {_width_words(grid, finding, reading)}",
        query(grid, finding, WIDTH),
        silent=silent,
    )  # fmt: skip
    again = symptom(
        grid, finding, total(grid, REPLAY), EVENTS,
        lambda reading: f"{link} sent {reading.during:.0f} packets a second again",
        query(grid, finding, REPLAY), silent=silent, mild=True,
    )  # fmt: skip
    return with_more(fell, again, said=link)


def _octaves(width: FloatGrid | None, generation: FloatGrid | None) -> FloatGrid | None:
    """(W, R) what the link can carry, as the binary logarithm of lanes of generation 1.

    Lanes come in powers of two, and a generation carries twice the one before: each is one less.
    """
    if width is None:
        return None
    lanes = np.log2(np.where(width > 0, width, np.nan))
    return lanes if generation is None else lanes + generation - 1.0


def _width_words(grid: Grid, finding: Finding, reading: Level) -> str:
    """Lanes and generation, now and normally; whole ones, because there are none between."""
    width, generation = (level(grid, finding, total(grid, name)) for name in (WIDTH, GENERATION))
    if width is None or generation is None:
        return f"{2 ** (reading.during - reading.usual(WHOLE)):.2f} of what it carried"
    lanes, age = (
        usual.before if np.isfinite(width.before) else usual.peers for usual in (width, generation)
    )
    return (
        f"x{width.during:.0f} generation {generation.during:.0f}"
        f" from x{lanes:.0f} generation {age:.0f}"
    )


NVLINK_UP, NVLINK_ERRORS = metrics.GPU_NVLINK_UP.name, metrics.GPU_NVLINK_ERRORS.name


def nvlink(grid: Grid, finding: Finding) -> Symptom | None:
    """NVLinks of the rank's GPU that are down or count errors; None without data."""
    gpu = gpu_words(grid, finding.rank)

    def down(reading: Level) -> str:
        normal = reading.usual(WHOLE)
        return f"{normal - reading.during:.0f} of {gpu}'s {normal:.0f} NVLinks are down"

    links = symptom(
        grid, finding, total(grid, NVLINK_UP), WHOLE, down,
        f"sum({query(grid, finding, NVLINK_UP)})",
        silent=f"{gpu}'s NVLinks are up",
    )  # fmt: skip
    errors = symptom(
        grid, finding, total(grid, NVLINK_ERRORS), EVENTS,
        lambda reading: f"{gpu} counts {reading.during:.0f} NVLink errors a second",
        f"sum({query(grid, finding, NVLINK_ERRORS)})",
        silent=f"{gpu} counts no NVLink errors", mild=True,
    )  # fmt: skip
    return with_more(links, errors, said=f"{gpu} counts", joined=", with")


ECC_ERRORS, ROWS = metrics.GPU_ECC_ERRORS, metrics.GPU_REMAPPED_ROWS.name
COUNTERS = ("volatile", "aggregate")
ANY = Sensor(0.0, healthy=0.0)
"""One uncorrectable error is one too many."""
REPLACED = Sensor(0.0, compared=False)
"""What was replaced long ago is no symptom: a number that only grows tells nothing without past."""


def ecc(grid: Grid, finding: Finding) -> Symptom | None:
    """Memory errors of the rank's GPU: corrected, uncorrectable, rows that were replaced.

    NVIDIA's "GPU Memory Error Management", of A100 and later: single-bit errors are corrected and
    counted; an uncorrectable one is contained and its row put down for replacement at a reset.
    None if it reports none and no zero.
    """
    gpu = gpu_words(grid, finding.rank)
    bad, corrected = (_ecc_counts(grid, finding, kind) for kind in ("uncorrected", "corrected"))

    def uncorrectable(reading: Level) -> str:
        rate = MINUTE * reading.during
        return f"{gpu} counts {rate:.1f} uncorrectable memory errors a minute"

    key = _ecc_query(grid, finding, "uncorrected")
    fatal = symptom(grid, finding, bad, ANY, uncorrectable, key)
    rows = symptom(
        grid, finding, total(grid, ROWS), REPLACED,
        lambda reading: f"{gpu} replaced memory rows: {reading.before:.0f} before, more during",
        query(grid, finding, ROWS),
    )  # fmt: skip
    numbers = symptom(
        grid, finding, corrected, EVENTS,
        lambda reading: f"{gpu} corrects {reading.during:.1f} memory errors a second",
        _ecc_query(grid, finding, "corrected"), silent=f"{gpu} counts no memory errors", mild=True,
    )  # fmt: skip
    if fatal and fatal.seen and numbers and numbers.seen:
        # Corrected ones come first and in numbers: their begin is the better known.
        text = f"{fatal.text} and{numbers.text.removeprefix(gpu)}"
        return replace(numbers, text=text, query=fatal.query, grave=True)
    return next((trouble for trouble in (fatal, rows) if trouble and trouble.seen), numbers)


def _ecc_counts(grid: Grid, finding: Finding, kind: str) -> FloatGrid | None:
    """Errors a second; the volatile count where it is told, since aggregate repeats it."""
    totals = (total(grid, ECC_ERRORS.name, type=kind, counter=counter) for counter in COUNTERS)
    return next((cells for cells in totals if level(grid, finding, cells) is not None), None)


def _ecc_query(grid: Grid, finding: Finding, kind: str) -> str:
    labels = ",".join(ECC_ERRORS.selector(type=kind))
    return query(grid, finding, f"{ECC_ERRORS.name}{{{labels}}}")


XID_LAST = metrics.GPU_XID_LAST.name
XID_COUNT = metrics.GPU_XID_ERRORS.name
LISTENER = metrics.SOURCE_UP.series(source="xid")
STOPPED_SECONDS = 30.0
"""How long before a rank stops the error may be logged that stops it: chosen, as NCCL's heartbeat
monitor and a driver's reset take tens of seconds."""


class Logged(NamedTuple):
    """An XID: when it was first logged (unix seconds), which, its signal and the severity there."""

    time: float
    xid: int
    signal: str
    severity: str

    @property
    def is_news(self) -> bool:
        """No trouble by its line, which alone rates it: as a recovery action that is None again."""
        return self.xid in BY_LINE and self.severity == Severity.INFO


def xid_of(part: Cause | None) -> Callable[[Grid, Finding], Symptom | None]:
    """The symptom of an XID about a part of the GPU; None = about none that is a cause of its own.

    Of a rank that stopped any XID counts: which part it was is no cause of its own there.

    The XID nearest to the finding's onset that is not the application's own. The time of the last
    event is read, not the count: a first count is a new series, of which no rate is known. There is
    no symptom where the driver's log is not read.
    """

    def measured(grid: Grid, finding: Finding) -> Symptom | None:
        gpu, hang = gpu_words(grid, finding.rank), finding.kind == "hang"
        every = list(_logged(grid, finding))
        logged = [
            event
            for event in every
            if event.xid not in NOT_OF_HARDWARE
            and not event.is_news
            and (PART.get(event.xid) == part or hang)
        ]
        if not logged:
            silent = "" if every or part else f"the driver logged no XID of {gpu}"
            silent_symptom = Symptom(False, silent, query(grid, finding, XID_COUNT))
            return silent_symptom if _listened(grid, finding) else None
        onset = _onset(grid, finding)
        nearest = min(logged, key=lambda event: abs(event.time - (onset or event.time)))
        words = f"the driver logged XID {nearest.xid} ({describe(nearest.xid).text}) of {gpu}"
        shown = query(grid, finding, nearest.signal)
        if onset is None:
            return Symptom(True, words, shown)
        late, slack = nearest.time - onset, tolerance(grid)
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
        metric, labels = series_name(key)
        named = dict(labels)
        xid = number(named, "xid") if metric == XID_LAST else None
        if xid is None:
            continue
        seen = grid.signals[key][:, column] if key in grid.signals else np.empty(0)
        times = np.append(seen, last[column])
        times = times[np.isfinite(times) & (times >= first) & (times <= end)]
        if times.size:
            yield Logged(float(times.min()), xid, key, named.get("severity", ""))


def _listened(grid: Grid, finding: Finding) -> bool:
    """Whether somebody reads the driver's log on the rank's node."""
    listening = grid.last.get(LISTENER)
    column = column_of(grid, finding.rank)
    return listening is not None and column is not None and bool(listening[column] > 0)


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
