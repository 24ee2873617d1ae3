"""The rank's process is there and does not run."""

from analyzer.cause_spec import Action, CauseSpec
from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.slowness.before_after import query
from collector.contract import metrics
from collector.contract.words import Cause


def evidence(grid: Grid, finding: Finding) -> Evidence:
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


SPEC = CauseSpec(
    cause=Cause.FREEZE,
    evidence=evidence,
    must_see="A heartbeat that stopped (helper thread, every second) while the process exists.",
    words="its process stands still",
    node_words="its processes stand still",
    advice=(
        Action("verify", "See what the process is waiting for.",
               "ssh {node} 'ps -eo pid,stat,wchan:32,cmd | grep -E \"^ *[0-9]+ +[DT]\"'"),
        Action("mitigate", "Restart the run without the node from the last checkpoint."),
    ),
    runbook="LockstepRunStalled",
    explains=("gone",),
)  # fmt: skip
