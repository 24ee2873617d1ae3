"""The GPU's links to its neighbours are down or full of errors."""

from analyzer import symptoms
from analyzer.cause_spec import DRAIN, Action, CauseSpec
from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.symptoms.weigh import other_symptom_log_odds, symptom_log_odds
from analyzer.symptoms.xid import xid_log_odds
from collector.contract.words import Cause, Phase


def evidence(grid: Grid, finding: Finding) -> Evidence:
    """Strong with links that failed with the slowdown."""
    if finding.kind != "slow":
        return Evidence(Cause.NVLINK, -8.0)
    facts: list[Fact] = []
    missing: list[str] = []
    odds = symptom_log_odds(symptoms.nvlink(grid, finding), "the GPU's NVLinks", facts, missing)
    odds += xid_log_odds(grid, finding, Cause.NVLINK, facts)
    share = finding.share.get(Phase.GRAD_SYNC, 0.0)
    out = share >= 0.5
    text = f"{share:.0%} of the excess is where gradients leave the GPU"
    facts.append(Fact(out, text, "phase shares of the finding"))
    odds += 1.0 if out else -2.0
    odds += other_symptom_log_odds(symptoms.pcie(grid, finding), facts)
    return Evidence(Cause.NVLINK, odds, tuple(facts), tuple(missing))


SPEC = CauseSpec(
    cause=Cause.NVLINK,
    evidence=evidence,
    must_see=(
        "Links down, or CRC, replay and recovery errors, that began with it. In a"
        " tensor-parallel group all ranks slow together."
    ),
    must_not_see=(
        "PCIe replays, or the excess anywhere but where gradients and activations leave the GPU."
    ),
    words="NVLinks of its GPU are down or full of errors",
    node_words="NVLinks of its GPUs are down or full of errors",
    advice=(
        Action("verify", "See which links are down or count errors.",
               "ssh {node} 'nvidia-smi nvlink -s -i {gpu}; nvidia-smi nvlink -e -i {gpu}'"),
        DRAIN,
    ),
    runbook="LockstepNvlinkDown",
    of_gpu=True,
    of_network=True,
    explains=("driver",),
)  # fmt: skip
