"""PCIe and NVLink of the simulated GPU: a link with errors trains down, or goes down."""

from collector.contract.device import MOST_LINKS, NVLINK_ERRORS
from collector.contract.words import FaultKind
from workloads.simulated_gpu.nominal import PCIE_GENERATION, PCIE_WIDTH
from workloads.simulated_gpu.trouble import Trouble

DEGRADED_WIDTH = 4.0
DEGRADED_GENERATION = 4.0
REPLAYS_PER_SECOND = 25.0
DOWN_LINKS = (16, 17)
"""What the other links cannot carry for them comes late."""
NVLINK_ERRORS_PER_SECOND = {
    "all/crc_flit": 200.0, "all/crc_data": 80.0, "all/replay": 120.0, "all/recovery": 1.5,
}  # fmt: skip
"""A flit with a wrong checksum is replayed; where that does not help, the link is recovered."""


class Links:
    """State of the links, and what they have counted."""

    def __init__(self) -> None:
        self.width = PCIE_WIDTH
        self.generation = PCIE_GENERATION
        self._replays = 0.0
        self.up = {str(link): 1.0 for link in range(MOST_LINKS)}
        self._errors = dict.fromkeys(NVLINK_ERRORS, 0.0)

    @property
    def replays(self) -> float:
        """PCIe packets sent again."""
        return float(int(self._replays))

    @property
    def errors(self) -> dict[str, float]:
        """Errors of all NVLinks, by kind."""
        return {kind: float(int(count)) for kind, count in self._errors.items()}

    def advance(self, seconds: float, trouble: Trouble) -> None:
        """Live through one step."""
        slow = FaultKind.PCIE in trouble.kinds
        self.width = DEGRADED_WIDTH if slow else PCIE_WIDTH
        self.generation = DEGRADED_GENERATION if slow else PCIE_GENERATION
        if slow:
            self._replays += REPLAYS_PER_SECOND * seconds
        broken = FaultKind.NVLINK in trouble.kinds
        for link in DOWN_LINKS:
            self.up[str(link)] = float(not broken)
        if broken:
            for kind, rate in NVLINK_ERRORS_PER_SECOND.items():
                self._errors[kind] += rate * seconds
