"""Counters whose first count an alert waits for: the collector tells them as 0 from the start.

A series that is born at 1 shows no increase. Rules and collector read these lists, nobody repeats
them.
"""

from collector.contract.xid.policy import DCGM

XIDS_FATAL = tuple(sorted(number for number, word in DCGM.items() if word == "FAIL"))
"""The GPU has to leave work: DCGM 4.6's always-fail list and its row-remapping failure (64)."""
XIDS_CONTAINED = (63, 94)
"""Memory errors that were contained: the second within a day matters."""
XIDS_APPLICATION = (13, 31)
"""Mostly the application's own; twice within a day on one GPU they may not be."""
XIDS = tuple(str(number) for number in (*XIDS_FATAL, *XIDS_CONTAINED, *XIDS_APPLICATION))
"""All of them, as the label says them."""

PORT_ERRORS = (
    "link_downed", "excessive_buffer_overrun_errors", "local_link_integrity_errors",
    "symbol_error", "link_error_recovery", "port_xmit_discards",
)  # fmt: skip
"""Kinds of `lockstep_ib_port_errors_total`."""
PORT_ERRORS_FATAL = PORT_ERRORS[:3]
"""Those of which one is one too many (NVSentinel's fatal delta counters)."""
RDMA_ERRORS_FATAL = ("rnr_nak_retry_err",)
"""The same of `lockstep_rdma_hw_counters_total`."""
