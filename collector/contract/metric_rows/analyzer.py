"""What the page of `lockstep watch` says about runs, nodes, findings and itself. One row a metric.

`node` is a label of these series themselves: the target of `watch` must not have one.
"""

from lockstep.collector.contract.metric_rows import ranges
from lockstep.collector.contract.metric_rows.shape import Kind, Metric, Unshown

_C, _G = Kind.COUNTER, Kind.GAUGE
_RUN = ("run",)

RUN_ACTIVE = Metric(
    "lockstep_run_active",
    _G,
    _RUN,
    "1 while a rank of the run lives; absent once none is reported.",
    within=ranges.FLAG,
)
RUN_STATUS = Metric(
    "lockstep_run_status", _G, (*_RUN, "status", "reason"),
    "1 for the assessment of a living run: status = healthy, degraded or unknown. Healthy needs a"
    " fresh diagnosis, own times of all ranks, and everything else that was reported before; reason"
    " = what is missing where it is unknown, else empty. Absent = not assessed.",
    within=ranges.FLAG,
)  # fmt: skip
RUN_SLOWDOWN = Metric(
    "lockstep_run_slowdown_ratio", _G, _RUN,
    "Step time over what it would be without its culprits, by a fresh diagnosis of the run; absent"
    " where that does not show it.",
    within=ranges.RELATION,
)  # fmt: skip
RUN_COVERAGE = Metric(
    "lockstep_run_coverage_ratio", _G, _RUN,
    "Share of the run's ranks that reported how long their steps took in the last minutes, 0 to 1.",
)  # fmt: skip
RUN_KNOWN_RANKS = Metric(
    "lockstep_run_known_ranks", _G, _RUN,
    "Ranks of the run whose own time is known in the last minutes: all their collectives were"
    " timed, and their page answers now.",
)  # fmt: skip
RUN_STEP_MEDIAN = Metric(
    "lockstep_run_step_duration_median_seconds", _G, _RUN,
    "Wall time of a step over the last minutes, median over ranks; of a run that stands still, the"
    " last that was known.",
)  # fmt: skip
RUN_BASELINE_RATIO = Metric(
    "lockstep_run_throughput_baseline_ratio", _G, _RUN,
    "Steps per second over the baseline's: the archive of the same workload and world size given"
    " with --baseline, else the run's own best hour without a finding; absent while it stands.",
    within=ranges.RELATION,
)  # fmt: skip
RANK_STRAGGLER = Metric(
    "lockstep_rank_straggler_ratio", _G, ("run", "rank"),
    "Own time of a step over the median of the rank's peers (same stage and tensor part) in the"
    " last minutes, 1 = like them; of the 256 slowest ranks of a run.",
    within=ranges.RELATION,
)  # fmt: skip
NODE_STRAGGLER = Metric(
    "lockstep_node_straggler_ratio", _G, ("run", "node"),
    "The same of the node's slowest rank, for every node of the run.",
    within=ranges.RELATION,
)  # fmt: skip
GPU_CLOCK_PEER_RATIO = Metric(
    "lockstep_gpu_sm_clock_peer_ratio", _G, ("run", "node", "gpu", "uuid"),
    "SM clock over the median of the run's other GPUs of the same stage and tensor part.",
    within=ranges.RELATION,
)  # fmt: skip
NODE_EXPECTED = Metric(
    "lockstep_node_expected", _G, ("node",),
    "1 for each node whose collector was scraped in the last day.",
    within=ranges.FLAG,
)  # fmt: skip
GPU_NVLINK_EXPECTED = Metric(
    "lockstep_gpu_nvlink_expected", _G, ("node", "gpu", "uuid"),
    "The most NVLinks of the GPU that were up at once in the last day; absent where none was.",
    unshown=Unshown.EVIDENCE,
)  # fmt: skip
IB_PORT_EXPECTED = Metric(
    "lockstep_ib_port_expected", _G, ("node", "device", "port"),
    "1 for each InfiniBand or RoCE port that was active in the last day.",
    unshown=Unshown.EVIDENCE,
    within=ranges.FLAG,
)  # fmt: skip
NODE_SCRAPED = Metric(
    "lockstep_node_last_scrape_timestamp_seconds", _G, ("node",),
    "Unix time, on Prometheus' clock, of the last cycle that had a scrape of the node's collector;"
    " the health of a silent node is unknown.",
    unshown=Unshown.REMEDIATION,
)  # fmt: skip
NODE_HEALTH = Metric(
    "lockstep_node_health_score", _G, ("node",),
    "0 to 1, 1 = healthy: the product of 1 - confidence in the place of the node's open findings, a"
    " finding of tier record counting half. Absent where none is open and not everything was looked"
    " at.",
    within=ranges.SHARE,
)  # fmt: skip
FINDING_ACTIVE = Metric(
    "lockstep_finding_active", _G,
    ("run", "node", "rank", "gpu", "link", "cause", "tier", "kind", "xid"),
    "1 for each open finding; labels that do not apply are empty; tier = page or record; link = the"
    " link, or the leaf or rack that nodes share; kind = slow, stop, event or hardware: what sort"
    " of thing it is; xid = the number of the error that the driver logged.",
    within=ranges.FLAG,
)  # fmt: skip

LAST_EVALUATION = Metric(
    "lockstep_analyzer_last_evaluation_timestamp_seconds", _G, (),
    "Unix time, on Prometheus' clock, of the last cycle that judged the data of Prometheus.",
)  # fmt: skip
CYCLE_DURATION = Metric(
    "lockstep_analyzer_cycle_duration_seconds", _G, (), "Duration of the last cycle."
)
CYCLES = Metric("lockstep_analyzer_cycles_total", _C, (), "Cycles begun.")
DATA_AGE = Metric(
    "lockstep_analyzer_data_age_seconds", _G, (),
    "Age of the newest scrape that the last cycle judged, on Prometheus' clock.",
)  # fmt: skip
PROMETHEUS_UP = Metric(
    "lockstep_analyzer_prometheus_up",
    _G,
    (),
    "1 if Prometheus answered the last cycle whole.",
    within=ranges.FLAG,
)
QUERY_FAILURES = Metric(
    "lockstep_analyzer_query_failures_total", _C, (),
    "Cycles, diagnoses and questions about hardware that Prometheus did not answer, or not whole.",
)  # fmt: skip
DIAGNOSES = Metric("lockstep_analyzer_diagnoses_total", _C, (), "Runs diagnosed in full.")
DIAGNOSIS_FAILURES = Metric(
    "lockstep_analyzer_diagnosis_failures_total", _C, (), "Diagnoses of a run that gave no verdict."
)
FINDINGS_OPEN = Metric("lockstep_analyzer_findings_open", _G, (), "Findings open now.")
FINDINGS_OPENED = Metric("lockstep_analyzer_findings_opened_total", _C, (), "Findings opened.")
OPERATION_FETCH_FAILURES = Metric(
    "lockstep_analyzer_operation_fetch_failures_total", _C, (),
    "Collectors that did not give the operations of a finding's steps.",
)  # fmt: skip
ARCHIVE_FAILURES = Metric(
    "lockstep_analyzer_archive_write_failures_total", _C, (),
    "Archives of findings that could not be written.",
)  # fmt: skip
STATE_FAILURES = Metric(
    "lockstep_analyzer_state_write_failures_total", _C, (),
    "Cycles whose state could not be saved.",
)  # fmt: skip
ANALYZER_CPU = Metric(
    "lockstep_analyzer_cpu_seconds_total", _C, (), "CPU time of the analyzer's process."
)
ANALYZER_RSS = Metric(
    "lockstep_analyzer_resident_memory_bytes", _G, (), "Resident memory of the analyzer's process."
)


# Alerts on their way out, webhooks on their way in.

ALERTS_DELIVERED = Metric(
    "lockstep_analyzer_alerts_delivered_total", _C, ("alertmanager",),
    "Alerts of findings that an Alertmanager took, those sent again and resolved ones included.",
)  # fmt: skip
ALERT_POSTS_FAILED = Metric(
    "lockstep_analyzer_alert_posts_failed_total", _C, ("alertmanager", "reason"),
    "Requests that an Alertmanager did not take and that are tried again: unreachable, timeout, or"
    " status (it answered, with another status than 200).",
)  # fmt: skip
ALERTS_REJECTED = Metric(
    "lockstep_analyzer_alerts_rejected_total", _C, ("alertmanager",),
    "Alerts that an Alertmanager called wrong (status 400 or 422); the log has its reason.",
)  # fmt: skip
ALERTS_DROPPED = Metric(
    "lockstep_analyzer_alerts_dropped_total", _C, ("alertmanager",),
    "Alerts that an Alertmanager never received: too many at once, or not taken within a day.",
)  # fmt: skip
ALERTS_UNDELIVERED = Metric(
    "lockstep_analyzer_alerts_undelivered", _G, ("alertmanager",),
    "Open findings whose alert an Alertmanager has not taken in the last 120 s.",
)  # fmt: skip
WEBHOOKS = Metric(
    "lockstep_analyzer_webhooks_total", _C, ("result",),
    "Notifications of an Alertmanager by what became of them: accepted, malformed, too_large,"
    " unauthorized, foreign (from a page of another site, or no JSON) or busy (the Alertmanager was"
    " asked to try again).",
)  # fmt: skip
WEBHOOK_ALERTS_TRUNCATED = Metric(
    "lockstep_analyzer_webhook_alerts_truncated_total", _C, (),
    "Alerts that an Alertmanager left out of its notifications (max_alerts).",
)  # fmt: skip
POST_MORTEMS = Metric(
    "lockstep_analyzer_post_mortems_total", _C, ("result",),
    "Alerts by what became of their post-mortem: written, failed (the log says why) or unmatched"
    " (they are about no run that is known).",
)  # fmt: skip
POST_MORTEMS_WAITING = Metric(
    "lockstep_analyzer_post_mortems_waiting",
    _G,
    (),
    "Alerts that are yet to be matched with an archive, and reports that are yet to be written.",
)
POST_MORTEM_DURATION = Metric(
    "lockstep_analyzer_post_mortem_duration_seconds", _G, (),
    "Duration of writing the last post-mortem's report.",
)  # fmt: skip
