"""Memory errors: corrected ones in numbers, uncorrectable ones, rows that were replaced.

As NVIDIA's "GPU Memory Error Management" has it of A100 and later: single-bit errors are corrected
and counted; an uncorrectable one is contained and its row put down for replacement at a reset.
"""

from analyzer.run import Finding, FloatGrid, Grid
from analyzer.slowness.before_after import gpu_words, query
from analyzer.symptoms.make import symptom
from analyzer.symptoms.series import Level, level, total
from analyzer.symptoms.shape import Symptom
from collector.contract import metrics

CORRECTED_PER_SECOND = 0.05
"""A healthy part corrects a few errors a day; NVIDIA's XID 92 tells of a high rate without a
number, and this is three orders above a few a day."""
ERRORS = metrics.GPU_ECC_ERRORS
UNCORRECTED, CORRECTED = (
    f"{ERRORS.name}{{{','.join(ERRORS.selector(type=kind))}}}"
    for kind in ("uncorrected", "corrected")
)
COUNTERS = ("volatile", "aggregate")


def ecc(grid: Grid, finding: Finding) -> Symptom | None:
    """Memory errors of the rank's GPU; None if it tells of none and of no zero."""
    bad = _errors(grid, finding, "uncorrected")
    corrected = _errors(grid, finding, "corrected")
    rows = total(grid, metrics.GPU_REMAPPED_ROWS.name)
    remapped = level(grid, finding, rows)
    gpu = gpu_words(grid, finding.rank)
    if bad is not None and bad[1].during > 2.0 * bad[1].other:
        words = f"{gpu} counts {60.0 * bad[1].during:.1f} uncorrectable memory errors a minute"
        if corrected is not None and corrected[1].during > 0:
            words += f" and corrects {corrected[1].during:.1f} a second"
        # Corrected ones come first and in numbers: their begin is the better known.
        cells, told = corrected if corrected is not None and _many(corrected[1]) else bad
        return symptom(grid, finding, cells, told, text=words,
                       query=query(grid, finding, UNCORRECTED), seen=True)  # fmt: skip
    if rows is not None and remapped is not None and remapped.before < remapped.during:
        words = f"{gpu} replaced memory rows: {remapped.before:.0f} before, more during"
        key = metrics.GPU_REMAPPED_ROWS.name
        return symptom(grid, finding, rows, remapped, text=words,
                       query=query(grid, finding, key), seen=True)  # fmt: skip
    if corrected is None:
        return None
    many = _many(corrected[1])
    words = f"{gpu} corrects {corrected[1].during:.1f} memory errors a second"
    return symptom(grid, finding, *corrected,
                   text=words if many else f"{gpu} counts no memory errors",
                   query=query(grid, finding, CORRECTED), seen=many, grave=False)  # fmt: skip


def _many(told: Level) -> bool:
    return told.during >= CORRECTED_PER_SECOND and told.during > 2.0 * told.other


def _errors(grid: Grid, finding: Finding, kind: str) -> tuple[FloatGrid, Level] | None:
    """Errors a second; the volatile count where it is told, since aggregate repeats it."""
    for counter in COUNTERS:
        cells = total(grid, ERRORS.name, type=kind, counter=counter)
        told = level(grid, finding, cells)
        if cells is not None and told is not None:
            return cells, told
    return None
