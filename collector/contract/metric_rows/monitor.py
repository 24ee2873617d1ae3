"""What the page says about the monitor itself. One row a metric."""

from lockstep.collector.contract.metric_rows import ranges
from lockstep.collector.contract.metric_rows.shape import Kind, Metric, Unshown

_C, _G = Kind.COUNTER, Kind.GAUGE

BUILD_INFO = Metric("lockstep_build_info", _G, ("version", "python"), "Version of this collector.")
SOURCE_UP = Metric(
    "lockstep_source_up",
    _G,
    ("source",),
    "1 if the source's last reading succeeded, else 0.",
    within=ranges.FLAG,
)
SOURCE_AVAILABLE = Metric(
    "lockstep_source_available",
    _G,
    ("source",),
    "1 if this node has what the source reads.",
    within=ranges.FLAG,
)
SOURCE_STALLED = Metric(
    "lockstep_source_stalled",
    _G,
    ("source",),
    "1 while a reading has overrun its deadline.",
    within=ranges.FLAG,
)
SOURCE_LAST_SUCCESS = Metric(
    "lockstep_source_last_success_timestamp_seconds", _G, ("source",),
    "Unix time of the source's last good reading.",
)  # fmt: skip
SOURCE_DURATION = Metric(
    "lockstep_source_collect_duration_seconds", _G, ("source",), "Duration of the last reading."
)
SOURCE_ERRORS = Metric(
    "lockstep_source_errors_total", _C, ("source", "reason"), "Failed or rejected readings."
)
SOURCE_NAMES_UNREAD = Metric(
    "lockstep_source_names_unread", _G, ("source",),
    "Names in the source's last reading that it does not know, each counted once: fields of a"
    " dcgm-exporter's page; statistics of network drivers that sound like trouble and are not 0."
    " `lockstep doctor --raw` names them.",
    unshown=Unshown.OWN_TROUBLE,
)  # fmt: skip
SOURCE_RESTARTS = Metric(
    "lockstep_source_restarts_total", _C, ("source",),
    "Times that the process through which the source reads crashed, or hung and was killed.",
    unshown=Unshown.OWN_TROUBLE,
)  # fmt: skip
SCRAPE_DURATION = Metric(
    "lockstep_scrape_duration_seconds", _G, (), "Time to render the previous page."
)
SCRAPE_SERIES = Metric("lockstep_scrape_series", _G, (), "Series on this page.")
SERIES_DROPPED = Metric(
    "lockstep_series_dropped_total", _C, ("family",), "Series dropped by the cardinality cap."
)
PROCESS_CPU = Metric(
    "lockstep_collector_cpu_seconds_total", _C, (), "CPU time of all processes of the collector."
)
PROCESS_RSS = Metric(
    "lockstep_collector_resident_memory_bytes",
    _G,
    (),
    "Resident memory of all processes of the collector.",
)


# Of the process that serves the page, whichever page it is.

THREAD_FAILURES = Metric(
    "lockstep_thread_failures_total", Kind.COUNTER, ("thread",),
    "Exceptions that would have ended a thread of this process; loops begin again after a pause.",
    unshown=Unshown.OWN_TROUBLE,
)  # fmt: skip
