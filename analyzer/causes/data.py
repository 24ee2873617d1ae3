"""The rank waits for its input data."""

from analyzer import symptoms
from analyzer.cause_spec import Action, CauseSpec
from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.slowness.before_after import query, signal_before_after
from collector.contract import metrics
from collector.contract.words import Cause, Phase

MOSTLY = 0.6
PARTLY = 0.4


def evidence(grid: Grid, finding: Finding) -> Evidence:
    """Strong by the phase alone: nothing else is inside it."""
    if finding.kind != "slow":
        return Evidence(Cause.DATA, -8.0)
    share = finding.share.get(Phase.DATA, 0.0)
    mostly = share >= MOSTLY
    text = f"{share:.0%} of the excess is in the data phase"
    facts = [Fact(mostly, text, "phase shares of the finding")]
    odds = 5.0 if mostly else 0.0 if share >= PARTLY else -5.0
    held = signal_before_after(grid, finding, metrics.RANK_THROTTLED.series())
    if held is not None and held.during >= 0.02:
        odds -= 2.0
        text = f"its CPU quota held the rank back {held.during:.0%} of the time"
        facts.append(Fact(False, text, query(grid, finding, metrics.RANK_THROTTLED.series())))
    copies = symptoms.pcie(grid, finding)
    if copies is not None and copies.explains:
        odds -= 5.0
        facts.append(Fact(False, copies.text, copies.query))
    return Evidence(Cause.DATA, odds, tuple(facts))


SPEC = CauseSpec(
    cause=Cause.DATA,
    evidence=evidence,
    must_see="The excess in the data phase, which the loop times around its loader.",
    must_not_see=(
        "A CPU quota at work, which slows the loader with everything else, or a PCIe link that"
        " fell, which slows the copy to the device in the same phase."
    ),
    words="it waits for its input data",
    node_words="its ranks wait for their input data",
    advice=(
        Action("verify", "See whether storage or the loader is slow on this node.",
               "ssh {node} 'iostat -x 1 3; df -h'"),
        Action("mitigate", "Give the rank more loader workers, or its shard another volume."),
    ),
)  # fmt: skip
