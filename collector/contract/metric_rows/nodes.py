"""What the page of `lockstep nodes`, who acts on nodes, says. One row a metric.

`node` is a label of these series themselves: the target must not have one.
"""

from lockstep.collector.contract.metric_rows import ranges
from lockstep.collector.contract.metric_rows.shape import Kind, Metric, Unshown

_C, _G = Kind.COUNTER, Kind.GAUGE

NODE_QUARANTINED = Metric(
    "lockstep_node_quarantined", _G, ("node",),
    "1 while the node carries a taint of ours, 0 of every other node that may be touched.",
    within=ranges.FLAG,
)  # fmt: skip
NODE_FAULTS = Metric(
    "lockstep_node_faults", _G, ("node",),
    "Faults that the node's annotation names, of every node that may be touched.",
    unshown=Unshown.REMEDIATION,
)  # fmt: skip
BREAKER_OPEN = Metric(
    "lockstep_remediation_breaker_open", _G, (),
    "1 while so many nodes seem degraded at once that none is touched; a human resets it.",
    within=ranges.FLAG,
)  # fmt: skip
REMEDIATION_HELD = Metric(
    "lockstep_remediation_held", _G, (),
    "1 while no finding is written, for whatever reason: paused, watch old or away, too few nodes"
    " answer, breaker open, another process leads, or the API away.",
    unshown=Unshown.REMEDIATION,
    within=ranges.FLAG,
)  # fmt: skip
REMEDIATION_WRITES = Metric(
    "lockstep_remediation_writes_total", _C, ("result",),
    "Writes of conditions, by result: done, conflict, gone, refused, unreachable.",
    unshown=Unshown.REMEDIATION,
)  # fmt: skip
REMEDIATION_CYCLES = Metric(
    "lockstep_remediation_cycles_total", _C, (), "Cycles begun.",
    unshown=Unshown.REMEDIATION,
)  # fmt: skip
REMEDIATION_LAST = Metric(
    "lockstep_remediation_last_success_timestamp_seconds", _G, (),
    "Unix time of the last cycle in which watch and the API answered.",
    unshown=Unshown.REMEDIATION,
)  # fmt: skip


# Reference runs; nothing exports these yet.

REFERENCE_SUCCESS = Metric(
    "lockstep_reference_run_success", _G, ("spec",),
    "1 if the last reference run of this specification reached its goal, 0 if it did not.",
    within=ranges.FLAG,
)  # fmt: skip
REFERENCE_BUS_BANDWIDTH = Metric(
    "lockstep_reference_bus_bandwidth_bytes_per_second", _G, ("node", "sku"),
    "Bus bandwidth of the node in its last all-reduce reference run; sku = the kind of node.",
)  # fmt: skip
REFERENCE_BUS_BANDWIDTH_FLOOR = Metric(
    "lockstep_reference_bus_bandwidth_floor_bytes_per_second", _G, ("sku",),
    "Least bus bandwidth that a healthy node of this kind has.",
)  # fmt: skip
OF_REFERENCE_RUNS = (REFERENCE_SUCCESS, REFERENCE_BUS_BANDWIDTH, REFERENCE_BUS_BANDWIDTH_FLOOR)
