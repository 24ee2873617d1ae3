"""Grid -> Findings; `null` stands beside the tuple as the baseline that never finds anything."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analyzer.detectors.bursts import Bursts
from analyzer.detectors.change import Change
from analyzer.detectors.checkpoints import Checkpoints
from analyzer.detectors.cpu import Cpu
from analyzer.detectors.hang import Hang
from analyzer.detectors.history import History
from analyzer.detectors.links import Links
from analyzer.detectors.nodes import Nodes
from analyzer.detectors.peers import Peers
from analyzer.detectors.ramp import Ramp
from analyzer.detectors.recent import Recent
from analyzer.detectors.rhythm import Rhythm
from analyzer.detectors.tensor_groups import TensorGroups
from analyzer.detectors.waits import Waits
from analyzer.run import Finding, Grid


@dataclass(frozen=True, slots=True)
class DetectorSpec:
    """A detector in one row.

    Attributes:
        name: `Finding.detector` of all that it finds.
        detect: The findings of one Grid: what is off, not why; none is an ordinary result.
        precedence: Of findings of kind `slow` about the same windows of a rank, those of the
            lowest number stay, so that it is accused once. None = after all others, in the order
            of the rows.
    """

    name: str
    detect: Callable[[Grid], Sequence[Finding]]
    precedence: int | None = None


LONE = 2
"""Precedence of those who compare a rank with its peers or its past, and of operations."""

DETECTORS: tuple[DetectorSpec, ...] = (
    DetectorSpec("peers", Peers().detect, LONE),
    DetectorSpec("history", History().detect, LONE),
    # What explains most of the windows stays: turns and climbs before a part of them ...
    DetectorSpec("rhythm", Rhythm().detect, 0),
    DetectorSpec("ramp", Ramp().detect, 1),
    DetectorSpec("recent", Recent().detect, 3),
    # ... and a rank for itself before its share of a node.
    DetectorSpec("nodes", Nodes().detect, 4),
    # What is there all the time is told as that.
    DetectorSpec("bursts", Bursts().detect, 5),
    DetectorSpec("checkpoints", Checkpoints().detect, 6),
    DetectorSpec("tensor_groups", TensorGroups().detect, 7),
    DetectorSpec("waits", Waits().detect),
    DetectorSpec("cpu", Cpu().detect),
    DetectorSpec("change", Change().detect),
    DetectorSpec("links", Links().detect),
    DetectorSpec("hang", Hang().detect),
)
"""Every detector, in the order in which they look."""
_LAST = max(spec.precedence or 0 for spec in DETECTORS)
PRECEDENCE: dict[str, int] = {
    spec.name: _LAST + place if spec.precedence is None else spec.precedence
    for place, spec in enumerate(DETECTORS, start=1)
}
"""Name -> precedence; who is not in a row has that of LONE."""
