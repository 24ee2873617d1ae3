"""A link is full: its packets are told to wait and arrive."""

import numpy as np

from analyzer.cause_spec import CauseSpec
from analyzer.run import Evidence, Fact, Finding, Grid
from analyzer.symptoms.network import BAD_LINK, FULL_LINK, SPEEDS, is_known, movements
from analyzer.symptoms.series import spans
from collector.contract.words import Cause


def evidence(grid: Grid, finding: Finding) -> Evidence:
    """Strong with counters of the node; nothing without them."""
    if finding.kind != "link":
        return Evidence(Cause.CONGESTION, -8.0)
    during, before = (np.flatnonzero(each) for each in spans(grid, finding))
    waits = movements(grid, during, before, FULL_LINK)
    facts = [Fact(True, each.text, each.query) for each in waits]
    if not waits:
        missing = () if is_known(grid, FULL_LINK) else ("pauses and credits of the links",)
        return Evidence(Cause.CONGESTION, -4.0, (), missing)
    bad = movements(grid, during, before, (*SPEEDS, *BAD_LINK))
    facts += [Fact(False, each.text, each.query) for each in bad]
    return Evidence(Cause.CONGESTION, 1.0 if bad else 6.0, tuple(facts))


SPEC = CauseSpec(
    cause=Cause.CONGESTION,
    evidence=evidence,
    must_see="Pauses (PFC) or waiting for credit at the node, since the transfers take longer.",
    must_not_see="Errors, losses or a lower speed of its link.",
    words="the link is full",
    node_words="its link is full",
    runbook="LockstepRoceCongestionDiscards",
    of_network=True,
    explains=("network",),
)  # fmt: skip
