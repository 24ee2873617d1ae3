"""Alerts about training runs."""

from lockstep.analyzer.rules.alert_rules.shape import BY_TIER, Alert, Severity

AGAINST_BASELINE = "min by (run) (avg_over_time(lockstep_run_throughput_baseline_ratio[15m]))"
BELOW_BASELINE = 0.90
"""Of its locked baseline: a tenth lost, as by new firmware, is to be seen before users do."""
TRAINING = (
    # No `for`: the sequential test has decided when `watch` opens a finding. Labels as on the
    # alert that `watch` itself sends, so that both are one in Alertmanager: hence no action. Of two
    # senders the younger's annotations win, so this one is silent while `watch` of the same page
    # reaches every Alertmanager that it knows (it knows none without --alertmanager), and outlasts
    # its restart.
    Alert(
        "Finding",
        """\
max by (run, node, rank, gpu, link, cause, tier, xid) (
  lockstep_finding_active == 1
  unless on (job, instance)
  max by (job, instance) (lockstep_analyzer_alerts_undelivered) == 0
)""",
        BY_TIER, "",
        summary=(
            "{{ if $labels.run }}Run {{ $labels.run }}{{ else }}Hardware{{ end }}: {{ if"
            " $labels.rank }}rank {{ $labels.rank }}, {{ end }}{{ if $labels.gpu }}GPU {{"
            " $labels.gpu }} on {{ end }}{{ if $labels.node }}{{ $labels.node }}{{ else }}no node{{"
            " end }}, cause {{ $labels.cause }}"
        ),
        description=(
            "`lockstep watch` has found who holds the run back; the verdict with its evidence is in"
            " the archive that it wrote."
        ),
        source=(
            "The sequential test's budget of false alarms per node and month"
            " (analyzer/hardware/sequential_test/false_alarms)."
        ),
        keep="5m",
        dashboard="run",
    ),
    Alert(
        "StragglerNode",
        """\
max by (run, node) (lockstep_node_straggler_ratio) > 1.10
and on (run)
count by (run) (max by (run, node) (lockstep_node_straggler_ratio)) >= 4
and on (run, node)
max by (run, node) (lockstep_finding_active) == 1""",
        Severity.WARNING, "diag",
        summary=(
            'Run {{ $labels.run }}: {{ $labels.node }} needs {{ printf "%.2f" $value }} times its'
            " peers' time for a step"
        ),
        description=(
            "Its slowest rank is late in every step and all others wait. The sequential test"
            " agrees: a finding on this node is open."
        ),
        source=(
            "ByteDance (OSDI '25) counts a run as straggling from a slowdown of 1.1; four nodes, so"
            " that peers are a majority, are a choice of ours."
        ),
        dashboard="run",
    ),
    Alert(
        "RunStalled",
        """\
min by (run) (lockstep_train_progress_age_seconds)
> on (run)
clamp_min(10 * max by (run) (lockstep_run_step_duration_median_seconds), 60)
and on (run)
max by (run) (lockstep_run_active) == 1""",
        Severity.CRITICAL, "page_run_owner",
        summary='Run {{ $labels.run }}: no rank has made progress for {{ printf "%.0f" $value }} s',
        description=(
            "All ranks wait: one is frozen, gone, or in another collective than the others. NCCL"
            " gives up after ten minutes and the run ends; until then all its GPUs idle."
        ),
        source=(
            "Ten median steps, at least a minute: NCCL's default time-out is ten minutes, and"
            " PyTorch (PR 110947) says collectives should time out within seconds."
        ),
        wait="1m",
        dashboard="run",
    ),
    Alert(
        "RankGone",
        """\
max by (run, rank, node) (lockstep_rank_up) == 0
unless on (run, rank)
max by (run, rank) (lockstep_rank_up) == 1
and on (run)
max by (run) (lockstep_rank_up) == 1""",
        Severity.CRITICAL, "page_run_owner",
        summary=(
            "Run {{ $labels.run }}: the process of rank {{ $labels.rank }} on {{ $labels.node }} is"
            " gone"
        ),
        description=(
            "Other ranks of the run live and wait for it until their collectives time out. Its last"
            " sequence numbers stay on the node's page for ten minutes."
        ),
        source=(
            "Half a minute is a choice of ours: ranks that end well end within seconds of each"
            " other."
        ),
        wait="30s",
        dashboard="run",
    ),
    Alert(
        "CommunicatorStuck",
        "max by (run, group) (lockstep_nccl_communicator_stuck) == 1",
        Severity.CRITICAL, "page_run_owner",
        summary="Run {{ $labels.run }}: communicator {{ $labels.group }} makes no progress",
        description=(
            "Ranks of the communicator have launched different numbers of collectives, and none has"
            " launched one for 20 s: some wait for others that do not come."
        ),
        source=(
            "NCCL RAS' count of launched collectives, equal in three polls; a minute more is a"
            " choice of ours."
        ),
        wait="1m",
        dashboard="run",
    ),
    # A loss that is no number is not exported (it would be the same as none): so what goes on to
    # step and exported a loss before has lost it. A page that omits the series for its cap is no
    # sign.
    Alert(
        "LossNotFinite",
        """\
max by (run) (abs(lockstep_train_loss)) == Inf
or
(
  max by (run) (last_over_time(lockstep_train_loss[1h]))
  unless on (run)
  max by (run) (last_over_time(lockstep_train_loss[10m]))
  and on (run)
  max by (run) (increase(lockstep_train_steps_total[10m])) > 0
  unless on ()
  max(increase(lockstep_series_dropped_total{family="lockstep_train_loss"}[1h])) > 0
)""",
        Severity.WARNING, "page_run_owner",
        summary="Run {{ $labels.run }}: its loss is not a finite number, or no longer reported",
        description=(
            "Steps go on, and no rank has reported a finite loss for ten minutes though it did"
            " before: the loss is NaN or infinite, and the steps train nothing."
        ),
        source="Ten minutes are a choice of ours: mixed precision skips single steps.",
        wait="1m",
        dashboard="run",
    ),
    Alert(
        "RunSlowVsBaseline",
        f"{AGAINST_BASELINE} < {BELOW_BASELINE:.2f}",
        Severity.WARNING, "analyze",
        summary="Run {{ $labels.run }}: {{ printf \"%.2f\" $value }} of its baseline's throughput",
        description=(
            "The run as a whole is slower than its baseline, whether or not one node stands out:"
            " software, firmware, data or the fabric may have changed for all."
        ),
        source="The same tenth as for stragglers; a quarter of an hour twice is a choice of ours.",
        wait="15m",
        dashboard="run",
    ),
    Alert(
        "ReferenceRunFailed",
        "min by (spec) (lockstep_reference_run_success) == 0",
        Severity.WARNING, "analyze",
        summary="Reference run {{ $labels.spec }} did not reach its goal",
        description=(
            "A fixed workload on known nodes fails or is slower than it was: what changed since the"
            " last good one is suspect."
        ),
        source="cluster-health-scanner and NVSentinel's preflight: any failure counts.",
        dashboard="self",
    ),
    Alert(
        "ReferenceBusbwLow",
        """\
min by (node, sku) (lockstep_reference_bus_bandwidth_bytes_per_second)
< on (sku) group_left ()
max by (sku) (lockstep_reference_bus_bandwidth_floor_bytes_per_second)""",
        Severity.CRITICAL, "quarantine",
        summary=(
            '{{ $labels.node }}: all-reduce at {{ printf "%.3g" $value }} B/s, below the floor of'
            " {{ $labels.sku }}"
        ),
        description=(
            "With nothing else running, the node's collectives are slower than any healthy node of"
            " its kind: NVLink, PCIe or network."
        ),
        source=(
            "cluster-health-scanner's floors by kind of node; NVSentinel's preflight asks for 150"
            " GB/s within, 100 GB/s between nodes."
        ),
    ),
)  # fmt: skip
