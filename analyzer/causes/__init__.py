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
from analyzer.slowness.before_after import has_gpu


class Cause(Protocol):
    """Weighs what must and must not be seen if it were the cause."""

    def weigh(self, grid: Grid, finding: Finding) -> Evidence:
        """Log odds against "unknown" for one finding, with the facts for and against."""
        ...


OF_A_GPU: tuple[Cause, ...] = (Thermal(), Power(), Ecc(), Xid(), Pcie(), Nvlink())
"""What only a rank with a GPU can have; nothing of it is missing on the others."""
OTHERS: tuple[Cause, ...] = (
    SlowGpu(), HostCpu(), Data(), Garbage(), Checkpoint(), Link(), Congestion(), Freeze(), Crash(),
    Software(),
)  # fmt: skip
CAUSES = (*OF_A_GPU, *OTHERS)
IMPOSSIBLE = -8.0
"""Log odds: as each cause gives for findings of a kind that it cannot make."""


def weigh_causes(grid: Grid, finding: Finding) -> list[Evidence]:
    """The evidence of every cause, in the order of CAUSES."""
    told = [cause.weigh(grid, finding) for cause in CAUSES]
    if has_gpu(grid, finding.rank):
        return told
    count = len(OF_A_GPU)
    return [*(Evidence(one.cause, IMPOSSIBLE) for one in told[:count]), *told[count:]]
