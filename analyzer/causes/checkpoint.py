"""The rank writes a checkpoint in steps that are not tagged as such."""

from analyzer.cause_spec import CauseSpec
from analyzer.run import Evidence, Fact, Finding, Grid
from collector.contract.words import Cause, Phase

MOSTLY = 0.6


def evidence(grid: Grid, finding: Finding) -> Evidence:
    """Strong by the phase alone: nothing else is inside it."""
    if finding.kind != "slow":
        return Evidence(Cause.CHECKPOINT, -8.0)
    share = finding.share.get(Phase.CHECKPOINT, 0.0)
    mostly = share >= MOSTLY
    text = f"{share:.0%} of the excess is in the checkpoint phase"
    fact = Fact(mostly, text, "phase shares of the finding")
    return Evidence(Cause.CHECKPOINT, 5.0 if mostly else -6.0, (fact,))


SPEC = CauseSpec(
    cause=Cause.CHECKPOINT,
    evidence=evidence,
    must_see=(
        "The excess in the checkpoint phase; steps tagged `checkpoint` are masked anyway. All"
        " ranks write at once by design; one that takes longer than its peers has slow storage."
    ),
    words="it writes checkpoints longer than the others",
    node_words="its ranks write checkpoints longer than the others",
)  # fmt: skip
