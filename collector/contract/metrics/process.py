"""What every page of ours says about the process that serves it. One row a metric."""

from lockstep.collector.contract.metrics.shape import Kind, Metric, Unshown

THREAD_FAILURES = Metric(
    "lockstep_thread_failures_total", Kind.COUNTER, ("thread",),
    "Exceptions that would have ended a thread of this process; loops begin again after a pause.",
    unshown=Unshown.OWN_TROUBLE,
)  # fmt: skip
