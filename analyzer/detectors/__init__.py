"""Grid -> Findings; `null` stands beside the tuple as the baseline that never finds anything."""

from collections.abc import Sequence
from typing import Protocol

from analyzer.detectors.change import Change
from analyzer.detectors.cpu import Cpu
from analyzer.detectors.hang import Hang
from analyzer.detectors.history import History
from analyzer.detectors.links import Links
from analyzer.detectors.nodes import Nodes
from analyzer.detectors.peers import Peers
from analyzer.detectors.ramp import Ramp
from analyzer.detectors.recent import Recent
from analyzer.detectors.rhythm import Rhythm
from analyzer.detectors.waits import Waits
from analyzer.run import Finding, Grid


class Detector(Protocol):
    """Finds what is off, not why."""

    def detect(self, grid: Grid) -> Sequence[Finding]:
        """The findings of one Grid; none is an ordinary result."""
        ...


DETECTORS: tuple[Detector, ...] = (
    Peers(), History(), Rhythm(), Ramp(), Recent(), Nodes(), Waits(), Cpu(), Change(), Links(),
    Hang(),
)  # fmt: skip
