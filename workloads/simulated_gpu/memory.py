"""Memory errors of the simulated GPU, and the rows that are replaced for them.

As NVIDIA's "GPU Memory Error Management" has it of A100 and later: single-bit errors are corrected
and counted; an uncorrectable one is contained, its row is put down for replacement, which XID 63
tells, and stays pending until the GPU is reset. Volatile counts begin with the driver, aggregate
ones are the part's life; a simulated part begins its life with the run.
"""

import random

from collector.contract.device import ECC_COUNTS, REMAP_CAUSES
from collector.contract.words import FaultKind
from workloads.simulated_gpu.trouble import Trouble

CORRECTED_PER_SECOND = 40.0
FIRST_UNCORRECTED_SECONDS = 1.0
"""Corrected errors come first."""
UNCORRECTED_SECONDS = 4.0
"""Between two uncorrectable ones."""
ROW_REMAPPED_XID = 63
_BURST = 8
"""Most corrected errors in one go: a bad row is read again and again."""


class Memory:
    """Counts of a memory that goes bad while an ecc fault is in force."""

    def __init__(self, dice: random.Random) -> None:
        self.errors = dict.fromkeys(ECC_COUNTS, 0.0)
        self.rows = dict.fromkeys(REMAP_CAUSES, 0.0)
        self.pending = 0.0
        self._dice = dice
        self._due = 0.0
        self._bad_seconds = 0.0
        self._next_uncorrected = FIRST_UNCORRECTED_SECONDS

    def advance(self, seconds: float, trouble: Trouble) -> tuple[int, ...]:
        """Live through one step; the XIDs that the driver logs."""
        if FaultKind.ECC not in trouble.kinds:
            return ()
        self._bad_seconds += seconds
        self._due += CORRECTED_PER_SECOND * seconds
        while self._due >= 1.0:
            burst = float(self._dice.randint(1, _BURST))
            self._due -= burst
            self._count("corrected", burst)
        if self._bad_seconds < self._next_uncorrected:
            return ()
        self._next_uncorrected += UNCORRECTED_SECONDS
        self._count("uncorrected", 1.0)
        self.rows["uncorrectable"] += 1.0
        self.pending = 1.0
        return (ROW_REMAPPED_XID,)

    def _count(self, kind: str, errors: float) -> None:
        for counter in ("volatile", "aggregate"):
            self.errors[f"{kind}/{counter}"] += errors
