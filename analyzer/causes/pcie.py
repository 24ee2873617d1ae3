"""The way between host and GPU has become narrow, or repeats itself."""

from analyzer import symptoms
from analyzer.cause_spec import DRAIN, Action, CauseSpec
from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.slowness.before_after import compute_share
from analyzer.symptoms.weigh import other_symptom_log_odds, symptom_log_odds
from collector.contract.words import Cause


def evidence(grid: Grid, finding: Finding) -> Evidence:
    """Strong with a link that fell with the slowdown."""
    if finding.kind != "slow":
        return Evidence(Cause.PCIE, -8.0)
    facts: list[Fact] = []
    missing: list[str] = []
    odds = symptom_log_odds(symptoms.pcie(grid, finding), "the GPU's PCIe link", facts, missing)
    share = compute_share(grid, finding)
    if share is not None:
        copying = 1.0 - share
        copies = copying >= 0.5
        text = f"{copying:.0%} of the excess is where data is copied, outside the compute phases"
        facts.append(Fact(copies, text, "phase shares of the finding"))
        odds += 1.0 if copies else -4.0
    odds += other_symptom_log_odds(symptoms.nvlink(grid, finding), facts)
    return Evidence(Cause.PCIE, odds, tuple(facts), tuple(missing))


SPEC = CauseSpec(
    cause=Cause.PCIE,
    evidence=evidence,
    must_see="Fewer lanes, a lower generation or replays (NVML F94) that began with it.",
    must_not_see="NVLink errors, or the excess in the compute phases, where nothing is copied.",
    words="the PCIe link of its GPU has become slow",
    node_words="the PCIe links of its GPUs have become slow",
    advice=(
        Action("verify", "Compare the link's width and generation with their maximum.",
               "ssh {node} nvidia-smi -i {gpu}"
               " --query-gpu=pcie.link.gen.current,pcie.link.gen.max,"
               "pcie.link.width.current,pcie.link.width.max --format=csv"),
        DRAIN,
        Action("prevent", "Have the GPU and its riser reseated."),
    ),
    runbook="LockstepPcieDowntrained",
    of_gpu=True,
)  # fmt: skip
