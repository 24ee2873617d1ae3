"""A link is full: its packets are told to wait and arrive."""

from lockstep.analyzer.causes.cause_spec import AGAINST, MUST, CauseSpec
from lockstep.collector.contract.words import Cause

SPEC = CauseSpec(
    cause=Cause.CONGESTION,
    kinds=("link",),
    expects={
        MUST: ("longer transfers", "full link"),
        AGAINST: ("lossy link",),
    },
    must_see="Pauses (PFC) or waiting for credit at the node, since the transfers take longer.",
    must_not_see="Errors, losses or a lower speed of its link.",
    words="the link is full",
    node_words="its link is full",
    runbook="LockstepRoceCongestionDiscards",
    of_network=True,
    explains=("network",),
)  # fmt: skip
