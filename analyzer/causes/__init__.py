"""(Grid, Finding) -> Evidence, one file a cause; `unknown` is what attribute says without them."""

from typing import Protocol

from analyzer.causes.crash import Crash
from analyzer.causes.data import Data
from analyzer.causes.freeze import Freeze
from analyzer.causes.host_cpu import HostCpu
from analyzer.causes.power import Power
from analyzer.causes.slow_gpu import SlowGpu
from analyzer.causes.thermal import Thermal
from analyzer.run import Evidence, Finding, Grid


class Cause(Protocol):
    """Weighs what must and must not be seen if it were the cause."""

    def weigh(self, grid: Grid, finding: Finding) -> Evidence:
        """Log odds against "unknown" for one finding, with the facts for and against."""
        ...


CAUSES: tuple[Cause, ...] = (
    Thermal(), Power(), SlowGpu(), HostCpu(), Data(), Freeze(), Crash(),
)  # fmt: skip
