"""Lockstep itself: can these numbers be trusted?"""

from lockstep.grafana.annotations import BOOTS
from lockstep.grafana.board import board
from lockstep.grafana.links import lead, of_row
from lockstep.grafana.panels import lines, number, rows, tell
from lockstep.grafana.settings import Json, Settings
from lockstep.grafana.targets import (
    fastest,
    grown,
    highest,
    instant,
    per_second,
    query,
    rate,
    row,
    worst,
)

_NODE = 'node=~"$node"'
_TO = lead("home", "health")
_TO_NODE = lead("node", "health", "node")
_ROW = lead("node", "health", "node", value=of_row)
_NO_WATCH = "No data: is lockstep watch scraped?"


def make(settings: Settings) -> Json:
    """The dashboard."""
    return board(
        "self", "Can these numbers be trusted?",
        [
            _numbers(),
            [_analyzer_age(), _cycle()],
            [_diagnoses(), _failures()],
            [_delivered(), _undelivered()],
            [_post_mortems(), _versions()],
            [_sources(), _source_errors()],
            [_reading(), _series()],
            [_cost(), _dropped()],
            [_clock(), _allocation()],
        ],
        settings, events=[BOOTS],
    )  # fmt: skip


def _numbers() -> list[Json]:
    return [
        number(
            "Last judged", "s",
            [instant("time() - max(lockstep_analyzer_last_evaluation_timestamp_seconds)", "ago")],
            tell("Since lockstep watch last judged.", "under a minute.",
                 "runbook LockstepAnalyzerNotRunning. Limit: 300 s, as that alert."),
            _TO, limit=300, nothing=_NO_WATCH,
        ),
        number(
            "Prometheus answers", "none",
            [instant("min(lockstep_analyzer_prometheus_up)", "lockstep watch")],
            tell("1 if Prometheus answered the last cycle whole.", "1.",
                 "runbook LockstepAnalyzerBlind. Limit: 1, as that alert."),
            _TO, limit=1, below=True, nothing=_NO_WATCH,
        ),
        number(
            "Silent collectors", "none",
            [instant("count(max by (node) (lockstep_node_expected) == 1"
                     " unless on (node) lockstep_build_info)\nor 0 * count(lockstep_node_expected)",
                     "nodes")],
            tell("Nodes that were scraped in the last day and do not answer.", "0.",
                 "runbook LockstepCollectorDown. Limit: 1."),
            lead("cluster", "health"), limit=1, nothing=_NO_WATCH,
        ),
        number(
            "Findings open", "none", [instant("sum(lockstep_analyzer_findings_open)", "findings")],
            tell("What lockstep watch holds for wrong now.", "0.", "open Home."),
            lead("home", "now"), nothing=_NO_WATCH,
        ),
    ]  # fmt: skip


def _analyzer_age() -> Json:
    return lines(
        "Age of what is judged", "s",
        [query("max(lockstep_analyzer_data_age_seconds)", "newest scrape"),
         query("time() - max(lockstep_analyzer_last_evaluation_timestamp_seconds)", "last cycle")],
        tell("Age of the newest scrape that the last cycle judged, and of that cycle.",
             "about one scrape interval.",
             "runbook LockstepAnalyzerBlind. Limit: 120 s, as that alert."),
        _TO, limit=120, nothing=_NO_WATCH,
    )  # fmt: skip


def _cycle() -> Json:
    return lines(
        "Cycle of lockstep watch", "s",
        [query("max(lockstep_analyzer_cycle_duration_seconds)", "a cycle"),
         query(rate("lockstep_analyzer_cpu_seconds_total"), "CPU seconds a second"),
         query("max(lockstep_analyzer_post_mortem_duration_seconds)", "a post-mortem's report")],
        tell("How long a cycle and a report take, and CPU time per second.",
             "a cycle is shorter than --interval.", "give lockstep watch more CPU, or a longer "
             "--interval."), _TO, nothing=_NO_WATCH,
    )  # fmt: skip


def _diagnoses() -> Json:
    names = ("cycles", "diagnoses", "findings_opened")
    return lines(
        "What lockstep watch does", "cps",
        [query(f"sum({rate(f'lockstep_analyzer_{name}_total')})", name.replace("_", " "))
         for name in names],
        tell("Cycles, full diagnoses and new findings per second.", "cycles are steady.",
             "no cycles: it stands still. Many findings: open Home."), _TO, nothing=_NO_WATCH,
    )  # fmt: skip


def _failures() -> Json:
    names = ("query_failures", "diagnosis_failures", "operation_fetch_failures",
             "archive_write_failures", "state_write_failures")  # fmt: skip
    return lines(
        "What fails in lockstep watch", "cps",
        [query(f"sum({rate(f'lockstep_analyzer_{name}_total')})", name.replace("_", " "))
         for name in names],
        tell("Failures per second: of queries, of diagnoses, of fetching operations, of writing "
             "archives and state.", "0.",
             "its log says why; runbook LockstepAnalyzerWriteFailed for writing."),
        _TO, nothing=_NO_WATCH,
    )  # fmt: skip


def _delivered() -> Json:
    return lines(
        "Alerts to Alertmanager", "cps",
        [query(f"sum by (alertmanager) ({rate('lockstep_analyzer_alerts_delivered_total')})",
               "{{alertmanager}} took"),
         query("sum by (alertmanager, reason)"
               f" ({rate('lockstep_analyzer_alert_posts_failed_total')})",
               "{{alertmanager}} failed: {{reason}}"),
         query(f"sum by (alertmanager) ({rate('lockstep_analyzer_alerts_rejected_total')})",
               "{{alertmanager}} rejected"),
         query(f"sum by (alertmanager) ({rate('lockstep_analyzer_alerts_dropped_total')})",
               "{{alertmanager}} dropped")],
        tell("Alerts per second that an Alertmanager took, and those that it did not.",
             "failed, rejected and dropped are 0.", "runbook LockstepFindingsUndelivered."),
        _TO, nothing="No Alertmanager is reported",
    )  # fmt: skip


def _undelivered() -> Json:
    return lines(
        "Not delivered", "none",
        [query("max by (alertmanager) (lockstep_analyzer_alerts_undelivered)", "{{alertmanager}}")],
        tell("Open findings whose alert an Alertmanager has not taken in two minutes.", "0.",
             "runbook LockstepFindingsUndelivered. Limit: 1, as that alert."),
        _TO, limit=1, nothing="No Alertmanager is reported",
    )  # fmt: skip


def _post_mortems() -> Json:
    return lines(
        "Webhooks and post-mortems", "cps",
        [query(per_second("lockstep_analyzer_webhooks_total", "result"), "webhook {{result}}"),
         query(per_second("lockstep_analyzer_post_mortems_total", "result"),
               "post-mortem {{result}}"),
         query("max(lockstep_analyzer_post_mortems_waiting)", "waiting"),
         query(f"sum({rate('lockstep_analyzer_webhook_alerts_truncated_total')})", "truncated")],
        tell("Notifications that came back from Alertmanager, and reports written of them, per "
             "second; and how many wait.", "written; none fails.", "its log says why."),
        lead("home", "runs"), nothing=_NO_WATCH,
    )  # fmt: skip


def _versions() -> Json:
    return rows(
        "Versions", "none",
        [row(f"count by (version, python) (lockstep_build_info{{{_NODE}}})")],
        tell("How many collectors run which version.", "one row.",
             "update those that are behind: findings compare what they all report."),
        _TO, names=("collectors",),
    )  # fmt: skip


def _sources() -> Json:
    by = "node, source"
    available = f"max by ({by}) (lockstep_source_available{{{_NODE}}}) == 1"
    return rows(
        "Sources that do not answer", "none",
        [row(f"max by ({by}) (lockstep_source_up{{{_NODE}}}) == 0 and on ({by}) {available}"),
         row(f"max by ({by}) (lockstep_source_stalled{{{_NODE}}}) == 1"),
         row(f"time() - max by ({by}) (lockstep_source_last_success_timestamp_seconds{{{_NODE}}})"
             f" > 120 and on ({by}) {available}")],
        tell("Sources that a node has and that failed, hang, or have been silent for two minutes.",
             "no row.", "runbook LockstepCollectorStale; a driver that hangs hangs NVML first."),
        _ROW, names=("up", "hangs", "silent"), units=("none", "none", "s"),
        nothing="None fails",
    )  # fmt: skip


def _source_errors() -> Json:
    by = "node, source, reason"
    return rows(
        "Failed readings in the range", "none",
        [row(grown(f"lockstep_source_errors_total{{{_NODE}}}", by)),
         row(grown(f"lockstep_events_dropped_total{{{_NODE}}}", "node, source"))],
        tell("Readings that failed or were rejected, and events that were lost.", "no row.",
             "the collector's log says why."), _ROW, names=("failed", "events lost"),
        nothing="None has failed",
    )  # fmt: skip


def _reading() -> Json:
    gauge = f"lockstep_source_collect_duration_seconds{{{_NODE}}}"
    scrape = f"lockstep_scrape_duration_seconds{{{_NODE}}}"
    by = "node, source"
    return lines(
        "Duration of readings and pages", "s",
        [query(worst(f"max by ({by}) ({gauge})", by, highest(gauge, by)), "{{node}} {{source}}"),
         query(worst(f"max by (node) ({scrape})", "node", highest(scrape, "node"), 5),
               "{{node}} page")],
        tell("The 20 slowest readings and the 5 slowest pages.", "well under a second.",
             "a source that grows is about to hang."), _TO_NODE,
    )  # fmt: skip


def _series() -> Json:
    gauge = f"lockstep_scrape_series{{{_NODE}}}"
    return lines(
        "Series of a page", "none",
        [query(worst(f"max by (node) ({gauge})", "node", highest(gauge, "node")), "{{node}}")],
        tell("Series on a collector's page; the 20 largest.", "under 2,500 with 8 GPUs.",
             "the cap bites at series_cap: see what is dropped. Limit: 2,500, the cap's default "
             "for 8 GPUs."), _TO_NODE, limit=2500,
    )  # fmt: skip


def _cost() -> Json:
    cpu = f"lockstep_collector_cpu_seconds_total{{{_NODE}}}"
    return lines(
        "CPU of collectors", "percentunit",
        [query(fastest(cpu, "node"), "{{node}}")],
        tell("Share of one processor that a collector takes; the 20 most.", "about 1 %.",
             "a source reads too much: see its duration."), _TO_NODE,
    )  # fmt: skip


def _dropped() -> Json:
    resident = f"lockstep_collector_resident_memory_bytes{{{_NODE}}}"
    return rows(
        "Dropped series, memory", "none",
        [row(grown(f"lockstep_series_dropped_total{{{_NODE}}}", "node, family")),
         row(f"topk(20, max by (node) ({resident}))"),
         row("max by (instance) (lockstep_analyzer_resident_memory_bytes)")],
        tell("Series that the cap dropped in the range, and memory of collectors (the 20 largest) "
             "and of lockstep watch.", "nothing is dropped; memory is steady.",
             "raise series_cap, or find out which labels multiply."),
        _ROW, names=("dropped", "collector", "lockstep watch"), units=("none", "bytes", "bytes"),
    )  # fmt: skip


def _clock() -> Json:
    error = f"lockstep_clock_max_error_seconds{{{_NODE}}}"
    return lines(
        "Clocks", "s",
        [query(worst(f"max by (node) ({error})", "node", highest(error, "node"), 10),
               "{{node}} at most wrong by"),
         query(f"max by (node) (lockstep_clock_synchronized{{{_NODE}}}) == 0",
               "{{node}} is not kept right")],
        tell("The kernel's bound on the error of the wall clock, ten nodes; and nodes whose clock "
             "nothing keeps right.", "milliseconds.",
             "start chrony or another NTP client; findings of windows need no exact clocks."),
        _TO_NODE,
    )  # fmt: skip


def _allocation() -> Json:
    age = f"lockstep_gpu_allocation_age_seconds{{{_NODE}}}"
    ras = "lockstep_nccl_ras_age_seconds"
    return lines(
        "Age of what others reported", "s",
        [query(worst(f"max by (node) ({age})", "node", highest(age, "node"), 10),
               "{{node}} kubelet"),
         query(worst(f"max by (run) ({ras})", "run", highest(ras, "run"), 10), "{{run}} NCCL RAS")],
        tell("Age of the kubelet's answer on who holds a GPU, and of the RAS document of a run.",
             "under a minute.", "the kubelet is down, or RAS does not answer."),
        _TO, nothing="Neither kubelet nor RAS is reported",
    )  # fmt: skip
