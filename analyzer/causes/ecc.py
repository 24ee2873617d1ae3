"""The GPU's memory makes errors: corrected ones cost time, uncorrectable ones cost rows."""

from analyzer import symptoms
from analyzer.cause_spec import QUERY, Action, CauseSpec
from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.symptoms.weigh import outside_compute, symptom_log_odds
from analyzer.symptoms.xid import xid_log_odds
from collector.contract.words import Cause


def evidence(grid: Grid, finding: Finding) -> Evidence:
    """Strong with uncorrectable errors that began with the slowdown, fair with corrected."""
    if finding.kind != "slow":
        return Evidence(Cause.ECC, -8.0)
    facts: list[Fact] = []
    missing: list[str] = []
    odds = symptom_log_odds(symptoms.ecc(grid, finding), "memory errors of the GPU", facts, missing)
    odds += xid_log_odds(grid, finding, Cause.ECC, facts)
    odds += outside_compute(grid, finding, facts)
    return Evidence(Cause.ECC, odds, tuple(facts), tuple(missing))


SPEC = CauseSpec(
    cause=Cause.ECC,
    evidence=evidence,
    must_see=(
        "Memory errors or replaced rows (NVML F3 to F6, F142 to F145) that began with it. XID"
        " 48, 63, 64, 94 or 95 with it say the same."
    ),
    must_not_see="The excess outside the compute phases.",
    words="its GPU's memory makes errors",
    node_words="the memory of its GPUs makes errors",
    advice=(
        Action("verify", "Count corrected and uncorrected errors and remapped rows.",
               QUERY + "ECC,ROW_REMAPPER"),
        Action("mitigate", "Reset the GPU if a remap is pending; drain the node if it fails.",
               "ssh {node} nvidia-smi --gpu-reset -i {gpu}"),
        Action("prevent", "Have the GPU replaced when rows can no longer be remapped."),
    ),
    runbook="LockstepGpuEccUncorrectable",
    of_gpu=True,
)  # fmt: skip
