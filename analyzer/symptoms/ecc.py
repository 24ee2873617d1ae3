"""Memory errors: corrected ones in numbers, uncorrectable ones, rows that were replaced.

As NVIDIA's "GPU Memory Error Management" has it of A100 and later: single-bit errors are corrected
and counted; an uncorrectable one is contained and its row put down for replacement at a reset.
"""

from dataclasses import replace

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.before_after import gpu_words, query
from analyzer.symptoms.make import EVENTS, MILD, Sensor, deviations, symptom
from analyzer.symptoms.series import Level, level, total
from analyzer.symptoms.shape import Symptom
from collector.contract import metrics

ERRORS = metrics.GPU_ECC_ERRORS
UNCORRECTED, CORRECTED = (
    f"{ERRORS.name}{{{','.join(ERRORS.selector(type=kind))}}}"
    for kind in ("uncorrected", "corrected")
)
COUNTERS = ("volatile", "aggregate")
ANY = Sensor(0.0, healthy=0.0)
"""One uncorrectable error is one too many."""
ROWS = ANY._replace(healthy=float("nan"))
"""What was replaced long ago is no symptom: a number that only grows tells nothing without past."""


def ecc(grid: Grid, finding: Finding) -> Symptom | None:
    """Memory errors of the rank's GPU; None if it tells of none and of no zero."""
    bad = _errors(grid, finding, "uncorrected")
    corrected = _errors(grid, finding, "corrected")
    rows = total(grid, metrics.GPU_REMAPPED_ROWS.name)
    remapped = level(grid, finding, rows)
    gpu = gpu_words(grid, finding.rank)
    numbers = None if corrected is None else symptom(
        grid, finding, *corrected, EVENTS, mild=True,
        text=f"{gpu} corrects {corrected[1].during:.1f} memory errors a second",
        silent=f"{gpu} counts no memory errors", query=query(grid, finding, CORRECTED),
    )  # fmt: skip
    if bad is not None and deviations(bad[1], ANY) >= MILD:
        words = f"{gpu} counts {60.0 * bad[1].during:.1f} uncorrectable memory errors a minute"
        if corrected is not None and corrected[1].during > 0:
            words += f" and corrects {corrected[1].during:.1f} a second"
        key = query(grid, finding, UNCORRECTED)
        if numbers is not None and numbers.seen:
            # Corrected ones come first and in numbers: their begin is the better known.
            return replace(numbers, text=words, query=key, grave=True)
        return symptom(grid, finding, *bad, ANY, text=words, query=key)
    remapped = None if remapped is None else replace(remapped, peers=float("nan"))
    if rows is not None and remapped is not None and deviations(remapped, ROWS) >= MILD:
        words = f"{gpu} replaced memory rows: {remapped.before:.0f} before, more during"
        key = query(grid, finding, metrics.GPU_REMAPPED_ROWS.name)
        return symptom(grid, finding, rows, remapped, ROWS, text=words, query=key)
    return numbers


def _errors(grid: Grid, finding: Finding, kind: str) -> tuple[FloatGrid, Level] | None:
    """Errors a second; the volatile count where it is told, since aggregate repeats it."""
    for counter in COUNTERS:
        cells = total(grid, ERRORS.name, type=kind, counter=counter)
        told = level(grid, finding, cells)
        if cells is not None and told is not None:
            return cells, told
    return None
