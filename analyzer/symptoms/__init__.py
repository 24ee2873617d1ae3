"""What the telemetry of a GPU shows of a finding: one file a part, read by causes of all kinds."""

from analyzer.run import Finding, Grid
from analyzer.symptoms.ecc import ecc
from analyzer.symptoms.nvlink import nvlink
from analyzer.symptoms.pcie import pcie
from analyzer.symptoms.shape import Symptom
from analyzer.symptoms.xid import xid

__all__ = ["Symptom", "ecc", "nvlink", "of_gpu", "pcie", "xid"]


def of_gpu(grid: Grid, finding: Finding) -> tuple[Symptom, ...]:
    """The troubles that began with the finding, whichever part of the GPU tells of them."""
    told = (ecc(grid, finding), xid(grid, finding), pcie(grid, finding), nvlink(grid, finding))
    return tuple(symptom for symptom in told if symptom is not None and symptom.explains)
