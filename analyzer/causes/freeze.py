"""The rank's process is there and does not run."""

from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.slowness.before_after import query
from collector.contract import metrics
from collector.contract.words import Cause


class Freeze:
    """Must see: a heartbeat that stopped (helper thread, every second) while the process exists."""

    def weigh(self, grid: Grid, finding: Finding) -> Evidence:
        """Speaks about hangs only; the detector's state of the missing rank decides."""
        if finding.kind != "hang":
            return Evidence(Cause.FREEZE, -8.0)
        so = finding.details.get("state") == "frozen"
        text = (
            "its heartbeat stopped while its process was there"
            if so
            else "no stopped heartbeat was seen"
        )
        fact = Fact(so, text, query(grid, finding, metrics.TRAIN_HEARTBEAT_AGE.name))
        return Evidence(Cause.FREEZE, 6.0 if so else -6.0, (fact,))
