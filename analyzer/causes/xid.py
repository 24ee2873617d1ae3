"""The driver logged an error of the rank's GPU, and no part of it tells more."""

from analyzer import symptoms
from analyzer.cause_spec import DRAIN, Action, CauseSpec
from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.symptoms.weigh import symptom_log_odds
from analyzer.symptoms.xid import parts
from collector.contract.words import Cause

OF_A_PART = 5.0
STOPPED = 9.0
"""A process that ends right after its GPU's error ended for it: more than that it ended."""


def evidence(grid: Grid, finding: Finding) -> Evidence:
    """Strong by the time of the event alone."""
    if finding.kind not in ("slow", "hang"):
        return Evidence(Cause.XID, -8.0)
    facts: list[Fact] = []
    missing: list[str] = []
    logged = symptoms.xid(grid, finding)
    odds = symptom_log_odds(logged, "the driver's log", facts, missing)
    if logged is None or not logged.explains:
        return Evidence(Cause.XID, min(odds, 0.0), tuple(facts), tuple(missing))
    if finding.kind == "hang":
        return Evidence(Cause.XID, STOPPED, tuple(facts), tuple(missing))
    told = parts(grid, finding)
    if told and None not in told:
        names = ", ".join(sorted(str(part) for part in told))
        text = f"the XIDs are about a part that is a cause of its own: {names}"
        facts.append(Fact(False, text, logged.query))
        odds -= OF_A_PART
    return Evidence(Cause.XID, odds, tuple(facts), tuple(missing))


SPEC = CauseSpec(
    cause=Cause.XID,
    evidence=evidence,
    must_see="An XID at the onset, or shortly before the rank stopped, not the application's.",
    must_not_see="XIDs of memory or links only; those parts are causes of their own.",
    words="the driver logged an error of its GPU",
    node_words="the driver logged errors of its GPUs",
    advice=(
        Action("verify", "Read the driver's messages; the XID catalogue says what each wants.",
               "ssh {node} \"dmesg -T | grep -i xid | tail\""),
        DRAIN,
    ),
    runbook="LockstepGpuXidFatal",
    of_gpu=True,
    explains=("driver", "gone",),
)  # fmt: skip
