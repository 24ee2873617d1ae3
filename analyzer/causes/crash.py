"""The rank's process is gone."""

from analyzer import symptoms
from analyzer.cause_spec import Action, CauseSpec
from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.slowness.before_after import query
from collector.contract import metrics
from collector.contract.words import Cause


def evidence(grid: Grid, finding: Finding) -> Evidence:
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


ADVICE = (
    Action("verify", "Look for the kernel's reason.",
           "ssh {node} 'dmesg -T | grep -iE \"oom|killed|xid|segfault\" | tail'"),
    Action("mitigate", "Restart from the last checkpoint; drain the node if it crashes again."),
)  # fmt: skip

SPEC = CauseSpec(
    cause=Cause.CRASH,
    evidence=evidence,
    must_see="`lockstep_rank_up` 0 while the peers were still inside a collective.",
    must_not_see="An XID of its GPU shortly before, which ends a process from outside.",
    words="its process is gone",
    node_words="its processes are gone",
    advice=ADVICE,
    advice_without_gpu=(
        Action("verify", "Look for the kernel's reason.",
               "ssh {node} 'dmesg -T | grep -iE \"oom|killed|segfault\" | tail'"),
        *ADVICE[1:],
    ),
    runbook="LockstepRankGone",
    explains=("gone",),
)  # fmt: skip
