"""(Grid, Finding) -> Evidence, one file a cause; `unknown` is what attribute says without them."""

from typing import Protocol

from analyzer.causes.checkpoint import Checkpoint
from analyzer.causes.congestion import Congestion
from analyzer.causes.crash import Crash
from analyzer.causes.data import Data
from analyzer.causes.ecc import Ecc
from analyzer.causes.freeze import Freeze
from analyzer.causes.garbage import Garbage
from analyzer.causes.host_cpu import HostCpu
from analyzer.causes.link import Link
from analyzer.causes.nvlink import Nvlink
from analyzer.causes.pcie import Pcie
from analyzer.causes.power import Power
from analyzer.causes.slow_gpu import SlowGpu
from analyzer.causes.software import Software
from analyzer.causes.thermal import Thermal
from analyzer.causes.xid import Xid
from analyzer.run import Evidence, Finding, Grid


class Cause(Protocol):
    """Weighs what must and must not be seen if it were the cause."""

    def weigh(self, grid: Grid, finding: Finding) -> Evidence:
        """Log odds against "unknown" for one finding, with the facts for and against."""
        ...


CAUSES: tuple[Cause, ...] = (
    Thermal(), Power(), SlowGpu(), Ecc(), Xid(), Pcie(), Nvlink(), HostCpu(), Data(), Garbage(),
    Checkpoint(), Link(), Congestion(), Freeze(), Crash(), Software(),
)  # fmt: skip
