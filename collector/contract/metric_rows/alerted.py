"""Counters whose first count an alert waits for: the collector tells them as 0 from the start.

A series that is born at 1 shows no increase. Rules and collector read these lists, nobody repeats
them.
"""

from lockstep.collector.contract import xid

XID_ZEROS = tuple(
    (str(number), str(row.severity))
    for number, row in xid.XIDS.items()
    if (number in xid.PAGED and row.dcgm == "FAIL") or row.repeats
)
"""XIDs that are told as 0, as the labels xid and severity say them: those that are counted over a
day, and of those that page the ones that DCGM's health check knows. The others are seen by the time
of their last event, so that a node of eight GPUs does not tell 200 zeros for what no GPU had."""

PORT_ERRORS = (
    "link_downed", "excessive_buffer_overrun_errors", "local_link_integrity_errors",
    "symbol_error", "link_error_recovery", "port_xmit_discards",
)  # fmt: skip
"""Kinds of `lockstep_ib_port_errors_total`."""
PORT_ERRORS_FATAL = PORT_ERRORS[:3]
"""Those of which one is one too many (NVSentinel's fatal delta counters)."""
RDMA_ERRORS_FATAL = ("rnr_nak_retry_err",)
"""The same of `lockstep_rdma_hw_counters_total`."""
