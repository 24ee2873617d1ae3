"""Memory errors: corrected ones in numbers, uncorrectable ones, rows that were replaced.

As NVIDIA's "GPU Memory Error Management" has it of A100 and later: single-bit errors are corrected
and counted; an uncorrectable one is contained and its row put down for replacement at a reset.
"""

from dataclasses import replace

from lockstep.analyzer.causes.symptoms.series import EVENTS, Level, Sensor, level, symptom, total
from lockstep.analyzer.causes.symptoms.shape import Symptom
from lockstep.analyzer.shapes.run import Finding, FloatGrid, Grid
from lockstep.analyzer.shapes.wording import MINUTE
from lockstep.analyzer.stats.before_after import gpu_words, query
from lockstep.collector.contract import metrics

ERRORS, ROWS = metrics.GPU_ECC_ERRORS, metrics.GPU_REMAPPED_ROWS.name
COUNTERS = ("volatile", "aggregate")
ANY = Sensor(0.0, healthy=0.0)
"""One uncorrectable error is one too many."""
REPLACED = Sensor(0.0, compared=False)
"""What was replaced long ago is no symptom: a number that only grows tells nothing without past."""


def ecc(grid: Grid, finding: Finding) -> Symptom | None:
    """Memory errors of the rank's GPU; None if it tells of none and of no zero."""
    gpu = gpu_words(grid, finding.rank)
    bad, corrected = (_errors(grid, finding, kind) for kind in ("uncorrected", "corrected"))

    def uncorrectable(told: Level) -> str:
        rate = MINUTE * told.during
        return f"{gpu} counts {rate:.1f} uncorrectable memory errors a minute"

    key = _query(grid, finding, "uncorrected")
    fatal = symptom(grid, finding, bad, ANY, uncorrectable, key)
    rows = symptom(
        grid, finding, total(grid, ROWS), REPLACED,
        lambda told: f"{gpu} replaced memory rows: {told.before:.0f} before, more during",
        query(grid, finding, ROWS),
    )  # fmt: skip
    numbers = symptom(
        grid, finding, corrected, EVENTS,
        lambda told: f"{gpu} corrects {told.during:.1f} memory errors a second",
        _query(grid, finding, "corrected"), silent=f"{gpu} counts no memory errors", mild=True,
    )  # fmt: skip
    if fatal and fatal.seen and numbers and numbers.seen:
        # Corrected ones come first and in numbers: their begin is the better known.
        text = f"{fatal.text} and{numbers.text.removeprefix(gpu)}"
        return replace(numbers, text=text, query=fatal.query, grave=True)
    return next((one for one in (fatal, rows) if one and one.seen), numbers)


def _errors(grid: Grid, finding: Finding, kind: str) -> FloatGrid | None:
    """Errors a second; the volatile count where it is told, since aggregate repeats it."""
    told = (total(grid, ERRORS.name, type=kind, counter=counter) for counter in COUNTERS)
    return next((cells for cells in told if level(grid, finding, cells) is not None), None)


def _query(grid: Grid, finding: Finding, kind: str) -> str:
    labels = ",".join(ERRORS.selector(type=kind))
    return query(grid, finding, f"{ERRORS.name}{{{labels}}}")
