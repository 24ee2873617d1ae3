"""The rank's process is gone."""

from analyzer import symptoms
from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.slowness.before_after import query
from collector.contract import metrics
from collector.contract.words import Cause


class Crash:
    """Must see: lockstep_rank_up 0 while the peers were still inside a collective.

    Must not see: an XID of its GPU shortly before, which ends a process from outside.
    """

    def weigh(self, grid: Grid, finding: Finding) -> Evidence:
        """Speaks about hangs only; the detector's state of the missing rank decides."""
        if finding.kind != "hang":
            return Evidence(Cause.CRASH, -8.0)
        so = finding.details.get("state") == "dead"
        text = "its process is gone" if so else "its process was there"
        fact = Fact(so, text, query(grid, finding, metrics.RANK_UP.name))
        logged = symptoms.xid(grid, finding)
        if so and logged is not None and logged.explains:
            return Evidence(Cause.CRASH, 4.0, (fact, Fact(False, logged.text, logged.query)))
        return Evidence(Cause.CRASH, 6.0 if so else -6.0, (fact,))
