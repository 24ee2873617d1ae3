"""What the page of the remediator will say. One row a metric; nothing exports them yet."""

from collector.contract.metrics.shape import Kind, Metric

_G = Kind.GAUGE

NODE_QUARANTINED = Metric(
    "lockstep_node_quarantined", _G, ("node",),
    "1 while the node carries a taint of ours, 0 of every other node that the remediator watches.",
)  # fmt: skip
BREAKER_OPEN = Metric(
    "lockstep_remediation_breaker_open", _G, (),
    "1 while so many nodes seem degraded at once that the remediator touches none; a human resets"
    " it.",
)  # fmt: skip
