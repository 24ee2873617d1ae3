"""Alerts about the monitor itself, and about what it changes on nodes."""

from lockstep.analyzer.rules.alert_rules.shape import Alert, Severity

MONITOR = (
    # Not `up == 0`: a pod that vanishes from service discovery has no `up`, and a series of the
    # page itself needs no certain name of the job. A failed scrape ends it at once. A node that is
    # gone from the cluster is no page: while Prometheus knows nodes by the targets on them (of
    # whatever job), or by kube-state-metrics, a node that neither names is gone. Where nothing
    # reports any node, none is known to be gone.
    Alert(
        "CollectorDown",
        """\
max by (node) (lockstep_node_expected) == 1
unless on (node)
lockstep_build_info
unless on (node) (
  max by (node) (lockstep_node_expected)
  unless on (node) (up or kube_node_info)
  and on ()
  group (up{node!=""} or kube_node_info{node!=""})
)""",
        Severity.WARNING, "collector",
        summary="{{ $labels.node }}: its collector is not scraped",
        description=(
            "The state of this node is unknown: neither its hardware nor its ranks are watched. If"
            " it answers otherwise, only the collector is gone."
        ),
        source=(
            "Crusoe's \"loss of telemetry\"; five minutes are a choice of ours. A node without a"
            " target and without kube_node_info is gone from the cluster, as after a scale-down."
        ),
        wait="5m",
    ),
    Alert(
        "CollectorStale",
        """\
time() - max by (node, source) (lockstep_source_last_success_timestamp_seconds) > 120
and on (node, source)
max by (node, source) (lockstep_source_available) == 1""",
        Severity.WARNING, "collector",
        summary=(
            '{{ $labels.node }}: source {{ $labels.source }} has not answered for {{ printf "%.0f"'
            " $value }} s"
        ),
        description=(
            "The collector lives, but this source hangs or fails; its series are absent, and alerts"
            " on them are blind. A driver that hangs hangs NVML first."
        ),
        source="NVSentinel's DCGM watchdog (three polls); 120 s are four of our slow readings.",
        wait="2m",
    ),
    Alert(
        "SeriesDropped",
        "max by (node) (increase(lockstep_series_dropped_total[5m])) > 0",
        Severity.WARNING, "collector",
        summary="{{ $labels.node }}: its page has more series than its cap, and some are left out",
        description=(
            "Series of links and ports go first, those that verdicts need last; what is left out is"
            " not watched. The counter names the families."
        ),
        source="One series is one too many; five minutes let a start or a reload pass.",
        wait="5m",
        dashboard="self",
    ),
    Alert(
        "SourceNamesUnread",
        "max by (node, source) (lockstep_source_names_unread) > 0",
        Severity.INFO, "collector",
        summary=(
            "{{ $labels.node }}: source {{ $labels.source }} meets {{ $value }} names that it does"
            " not know"
        ),
        description=(
            "Their values are lost. After an upgrade of a dcgm-exporter or a driver, alerts and"
            " verdicts may need them. `lockstep capture` and `lockstep doctor --raw` name them."
        ),
        source=(
            "DCGM 4.6 and 4.7 renamed dozens of fields; a quarter of an hour is a choice of ours,"
            " so that a page in the middle of an upgrade is silent."
        ),
        wait="15m",
    ),
    Alert(
        "GpuClocksUnknown",
        """\
max by (node) (lockstep_gpu_up) == 1
unless on (node)
max by (node) (lockstep_gpu_clock_hertz{domain="sm"})""",
        Severity.WARNING, "collector",
        summary="{{ $labels.node }} has GPUs, and no source reports their clocks",
        description=(
            "A GPU that slows down is not seen on this node: alerts on clocks are blind, and a slow"
            " rank's cause is unknown. Mostly a dcgm-exporter whose list of counters lacks the"
            " clock, or reports it under an unknown name."
        ),
        source="DCGM_FI_DEV_SM_CLOCK is in every default list of dcgm-exporter (1.x to 4.x).",
        wait="10m",
    ),
    Alert(
        "ClockNotSynchronized",
        """\
max by (node) (lockstep_clock_synchronized) == 0
and on (node)
max by (node) (lockstep_clock_max_error_seconds) >= 16""",
        Severity.WARNING, "platform",
        summary="{{ $labels.node }}: its clock is not synchronized",
        description=(
            "The kernel no longer vouches for the node's clock: its events are ordered wrongly"
            " among those of other nodes."
        ),
        source=(
            "node_exporter's NodeClockNotSynchronising: unsynchronized for ten minutes at an error"
            " of 16 s, the kernel's maximum."
        ),
        wait="10m",
    ),
    Alert(
        "AnalyzerNotRunning",
        """\
absent(lockstep_analyzer_last_evaluation_timestamp_seconds)
or
time() - max(lockstep_analyzer_last_evaluation_timestamp_seconds) > 300""",
        Severity.CRITICAL, "platform",
        summary="lockstep watch judges nothing",
        description=(
            "No cycle in the last five minutes, or no page at all: no straggler, hang or crash will"
            " be found, and alerts that read its series are silent."
        ),
        source="kube-prometheus' absent() pattern; 300 s are twenty cycles.",
        wait="5m",
        dashboard="self",
    ),
    Alert(
        "AnalyzerBlind",
        """\
min(lockstep_analyzer_prometheus_up) == 0
or
max(lockstep_analyzer_data_age_seconds) > 120""",
        Severity.CRITICAL, "platform",
        summary="lockstep watch gets no fresh data from its Prometheus",
        description=(
            "The Prometheus that it asks is away, answers in part, or has no scrapes of the last"
            " two minutes. Findings neither open nor close."
        ),
        source="120 s are eight cycles; a choice of ours.",
        wait="5m",
        dashboard="self",
    ),
    # Cycles that are in time leave pauses; one that is late begins as the one before it ends.
    Alert(
        "AnalyzerSlow",
        """\
max(
  avg_over_time(lockstep_analyzer_cycle_duration_seconds[10m])
  * rate(lockstep_analyzer_cycles_total[10m])
) > 0.90""",
        Severity.WARNING, "platform",
        summary='lockstep watch is in its cycles {{ printf "%.2f" $value }} of the time',
        description=(
            "Its cycles take as long as its interval or longer: findings open and close later than"
            " they should. Too little CPU, a slow Prometheus, or more ranks than the interval"
            " allows."
        ),
        source="Nine tenths of the time: a choice of ours; a watch that suspects takes half.",
        wait="5m",
        dashboard="self",
    ),
    # Undelivered says itself that it has lasted two minutes.
    Alert(
        "FindingsUndelivered",
        """\
max by (alertmanager) (lockstep_analyzer_alerts_undelivered) > 0
or
max by (alertmanager) (increase(lockstep_analyzer_alerts_dropped_total[15m])) > 0
or
max by (alertmanager) (increase(lockstep_analyzer_alerts_rejected_total[15m])) > 0""",
        Severity.CRITICAL, "platform",
        summary="Alertmanager {{ $labels.alertmanager }} does not take findings of lockstep watch",
        description=(
            "Findings wait, were refused as wrong, or were dropped before it answered; the log of"
            " watch names them."
        ),
        source="One finding is one too many: it is what the monitor is for.",
        dashboard="self",
    ),
    Alert(
        "AnalyzerWriteFailed",
        """\
max(increase(lockstep_analyzer_archive_write_failures_total[15m])) > 0
or
max(increase(lockstep_analyzer_state_write_failures_total[15m])) > 0""",
        Severity.WARNING, "platform",
        summary="lockstep watch cannot write archives or its state",
        description=(
            "Evidence of a finding is lost, or a restart will open findings twice: the disk is"
            " full, or read-only, or not its own."
        ),
        source="One lost archive is one too many.",
        dashboard="self",
    ),
    Alert(
        "ThreadFailed",
        "max by (node, job, thread) (increase(lockstep_thread_failures_total[15m])) > 0",
        Severity.WARNING, "platform",
        summary=(
            "{{ $labels.job }}{{ if $labels.node }} on {{ $labels.node }}{{ end }}: its thread {{"
            " $labels.thread }} failed"
        ),
        description=(
            "A bug of Lockstep: an exception would have ended the thread. It begins again after a"
            " pause of at most a minute, and what it does stands still meanwhile; the log has the"
            " traceback."
        ),
        source="One failure is one too many: no thread is to fail.",
        dashboard="self",
    ),
    Alert(
        "RemediationBreakerTripped",
        "max(lockstep_remediation_breaker_open) == 1",
        Severity.CRITICAL, "human",
        summary="Too many nodes seem degraded at once: remediation has stopped itself",
        description=(
            "The check, a driver roll-out or the fabric is a likelier cause than so many nodes. No"
            " node is changed until a human resets the breaker."
        ),
        source="NVSentinel's breaker, which is reset by hand.",
        dashboard="self",
    ),
    Alert(
        "QuarantineStuck",
        """\
max by (node) (lockstep_node_quarantined) == 1
and on (node)
max by (node) (lockstep_node_health_score) > 0.9""",
        Severity.WARNING, "human",
        summary="{{ $labels.node }} is kept out of work and looks healthy",
        description=(
            "The node has carried our taint for an hour without an open finding: it costs money and"
            " does nothing."
        ),
        source="NVSentinel #458, #1299 and #753: nodes that were never released.",
        wait="1h",
    ),
    # Fires always: whoever waits for it outside knows that the chain to them works.
    Alert(
        "Watchdog",
        "vector(1)",
        Severity.NONE, "",
        summary="Alerts of Lockstep reach you",
        description=(
            "It always fires. When a dead man's switch no longer receives it, Prometheus or"
            " Alertmanager is down."
        ),
        source="kube-prometheus' Watchdog.",
        dashboard="self",
    ),
)  # fmt: skip
