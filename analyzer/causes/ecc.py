"""The GPU's memory makes errors: corrected ones cost time, uncorrectable ones cost rows."""

from analyzer import symptoms
from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.symptoms.weigh import outside_compute, symptom_log_odds
from analyzer.symptoms.xid import xid_log_odds
from collector.contract.words import Cause


class Ecc:
    """Must see: memory errors or replaced rows (NVML F3 to F6, F142 to F145) that began with it.

    XID 48, 63, 64, 94 or 95 with it say the same. Must not see: the excess outside the compute
    phases (reference 7, L6).
    """

    def weigh(self, grid: Grid, finding: Finding) -> Evidence:
        """Strong with uncorrectable errors that began with the slowdown, fair with corrected."""
        if finding.kind != "slow":
            return Evidence(Cause.ECC, -8.0)
        facts: list[Fact] = []
        missing: list[str] = []
        odds = symptom_log_odds(
            symptoms.ecc(grid, finding), "memory errors of the GPU", facts, missing
        )
        odds += xid_log_odds(grid, finding, Cause.ECC, facts)
        odds += outside_compute(grid, finding, facts)
        return Evidence(Cause.ECC, odds, tuple(facts), tuple(missing))
