"""What reference runs will say of nodes. One row a metric; nothing exports them yet."""

from lockstep.collector.contract.metrics import ranges
from lockstep.collector.contract.metrics.shape import Kind, Metric

_G = Kind.GAUGE

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
