"""Grid -> Findings: what is off, by every observation of the run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lockstep.analyzer.hangs.detector import hang
from lockstep.analyzer.shapes.run import Finding, Grid
from lockstep.analyzer.stragglers.detectors.change import change
from lockstep.analyzer.stragglers.detectors.checkpoints import checkpoints
from lockstep.analyzer.stragglers.detectors.links import links
from lockstep.analyzer.stragglers.detectors.role_levels import role_levels
from lockstep.analyzer.stragglers.detectors.stage_levels import stage_levels
from lockstep.analyzer.stragglers.detectors.tensor_groups import tensor_groups
from lockstep.analyzer.stragglers.model.effects import effects


@dataclass(frozen=True, slots=True)
class DetectorSpec:
    """A detector in one row.

    Attributes:
        name: `Finding.detector` of all that it finds.
        detect: The findings of one Grid: what is off, not why; none is an ordinary result.
    """

    name: str
    detect: Callable[[Grid], Sequence[Finding]]


DETECTORS: tuple[DetectorSpec, ...] = (
    DetectorSpec("effects", effects),
    DetectorSpec("checkpoints", checkpoints),
    DetectorSpec("tensor_groups", tensor_groups),
    DetectorSpec("change", change),
    DetectorSpec("links", links),
    DetectorSpec("hang", hang),
    DetectorSpec("stage_levels", stage_levels),
    DetectorSpec("role_levels", role_levels),
)
"""Every detector, in the order in which they look: of findings of kind `slow` about the same
windows of a rank the first stays, so that it is accused once."""
