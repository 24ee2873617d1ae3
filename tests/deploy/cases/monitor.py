"""Alerts about the monitor itself."""

from tests.deploy.cases.shape import GPU, Case, page, watch

_BUILD = {"version": "1", "python": "3"}

DOWN = Case(
    "CollectorDown", {"node": "a"}, "a: its collector is not scraped",
    {
        "a": (watch("lockstep_node_expected", node="a"), "1x80"),
        "b": (watch("lockstep_node_expected", node="b"), "1x80"),
        "a page": (page("lockstep_build_info", "a", **_BUILD), "1x80"),
        "b page": (page("lockstep_build_info", "b", **_BUILD), "1x80"),
        "a up": ('up{job="lockstep-collector",instance="a",node="a"}', "1x80"),
        "b up": ('up{job="lockstep-collector",instance="b",node="b"}', "1x80"),
        "other": ('up{job="node-exporter",instance="a:9100",node="a"}', "1x80"),
        "kube": ('kube_node_info{job="kube-state-metrics",instance="k",node="a"}', "_x80"),
        "other job": ('lockstep_build_info{job="gpus",instance="a:9410",node="a"}', "_x80"),
        "no node": ('lockstep_build_info{job="gpus",instance="a:9410"}', "_x80"),
    },
    fires=[({"a page": "1x8 stale"}, "+8m"),
           ({"a page": "1x8 stale", "a up": "1x8 0x72", "other": "_x80"}, "+8m")],
    silent=[({}, "-15m"), ({"a": "_x80", "a page": "_x80"}, "-15m"),
            ({"a page": "1x8 stale", "a up": "1x8 stale", "other": "1x12 stale"}, "-8m -15m"),
            ({"a page": "_x80", "other job": "1x80"}, "-15m")],
    boundary=[({"a page": "1x19 stale _x19 1x30"}, "-9m45s -10m"),
              ({"a page": "1x19 stale _x20 1x30"}, "-9m45s +10m")],
    clears=[({"a page": "1x8 stale _x32 1x30"}, "+9m -11m")],
    more={
        "a target without the label node is of no node": (
            {"a page": "_x80", "no node": "1x80"}, "+8m"),
        "a pod that vanished from a node that other targets are on is down": (
            {"a page": "1x8 stale", "a up": "1x8 stale"}, "+8m"),
        "so it is on a node that only kube-state-metrics tells of": (
            {"a page": "1x8 stale", "a up": "1x8 stale", "other": "_x80", "kube": "1x80"}, "+8m"),
        "until the node is gone there too": (
            {"a page": "1x8 stale", "a up": "1x8 stale", "other": "_x80", "kube": "1x36 stale"},
            "+8m -10m"),
        "where no target has a node, none is known to be gone": (
            {"a page": "1x8 stale", "a up": "_x80", "b up": "_x80", "other": "_x80"}, "+8m"),
    },
)  # fmt: skip

_SUCCESS = "lockstep_source_last_success_timestamp_seconds"

STALE = Case(
    "CollectorStale", {"node": "a", "source": "nvml"},
    "a: source nvml has not answered for 330 s",
    {
        "success": (page(_SUCCESS, source="nvml"), "0+15x80"),
        "available": (page("lockstep_source_available", source="nvml"), "1x80"),
        "other": (page(_SUCCESS, source="procfs"), "0+15x80"),
    },
    fires=[({"success": "0+15x10 150x70"}, "-4m +8m")],
    silent=[({}, "-15m"), ({"success": "0+15x10 150x70", "available": "1x10 0x70"}, "-8m")],
    boundary=[({"success": "-120+15x80"}, "-15m"), ({"success": "-121+15x80"}, "-1m45s +2m")],
    clears=[({"success": "0+15x10 150x30 615+15x40"}, "+9m -12m")],
)  # fmt: skip

_FAMILY = {"family": "lockstep_gpu_nvlink_up"}

DROPPED = Case(
    "SeriesDropped", {"node": "a"},
    "a: its page has more series than its cap, and some are left out",
    {"dropped": (page("lockstep_series_dropped_total", **_FAMILY), "0x100"),
     "other": (page("lockstep_series_dropped_total", "b", **_FAMILY), "9x100")},
    fires=[({"dropped": "0x10 5+5x90"}, "+9m")],
    silent=[({}, "-15m"), ({"dropped": "7x100"}, "-15m"), ({"dropped": "_x100"}, "-15m")],
    boundary=[({"dropped": "0x10 5x89"}, "-7m45s -10m"),
              ({"dropped": "0x10 5x1 6x88"}, "-7m30s +7m45s")],
    clears=[({"dropped": "0x10 5+5x40 205x60"}, "+10m -18m")],
)  # fmt: skip

_UNREAD = "lockstep_source_names_unread"

NAMES_UNREAD = Case(
    "SourceNamesUnread", {"node": "a", "source": "dcgm_exporter"},
    "a: source dcgm_exporter meets 3 names that it does not know",
    {
        "unread": (page(_UNREAD, source="dcgm_exporter"), "0x120"),
        "next pod": (page(_UNREAD, source="dcgm_exporter", pod="c-2"), "_x120"),
        "ethtool": (page(_UNREAD, source="ethtool"), "0x120"),
    },
    fires=[({"unread": "0x8 3x110"}, "-16m +18m")],
    silent=[({}, "-25m"), ({"unread": "0x8 3x40 0x70"}, "-25m")],
    boundary=[({"unread": "1x59 0x60"}, "-14m45s -20m"), ({"unread": "1x120"}, "-14m +16m")],
    clears=[({"unread": "3x70 0x50"}, "+16m -20m")],
    more={"a collector that is rolled out does not restart it": (
        {"unread": "3x40 stale", "next pod": "_x40 3x80"}, "+16m")},
)  # fmt: skip

_SM = {"gpu": "0", "uuid": "GPU-0", "domain": "sm"}

CLOCKS_UNKNOWN = Case(
    "GpuClocksUnknown", {"node": "a"}, "a has GPUs, and no source reports their clocks",
    {
        "up": (page("lockstep_gpu_up", **GPU), "1x120"),
        "clock": (page("lockstep_gpu_clock_hertz", **_SM), "1980000000x120"),
        "b up": (page("lockstep_gpu_up", "b", **GPU), "1x120"),
        "b clock": (page("lockstep_gpu_clock_hertz", "b", **_SM), "1980000000x120"),
        "memory": (page("lockstep_gpu_clock_hertz", **{**_SM, "domain": "mem"}), "1x120"),
        "device": (page("lockstep_gpu_up", gpu="0", uuid="GPU-0/gi7"), "_x120"),
    },
    fires=[({"clock": "1980000000x8 stale"}, "-11m +13m")],
    silent=[({}, "-25m"), ({"up": "_x120", "clock": "_x120"}, "-25m"),
            ({"clock": "1980000000x20 stale _x20 1980000000x70"}, "-25m"),
            ({"up": "0x120", "clock": "_x120"}, "-25m")],
    boundary=[({"clock": "_x39 0x80"}, "-9m45s -10m"), ({"clock": "_x120"}, "-9m45s +10m")],
    clears=[({"clock": "_x60 1980000000x60"}, "+14m -16m")],
    more={"MIG devices whose GPU tells its clock are fine": ({"device": "1x120"}, "-25m"),
          "MIG devices without any clock are not": (
              {"up": "_x120", "clock": "_x120", "device": "1x120"}, "+11m")},
)  # fmt: skip

_EVALUATED = "lockstep_analyzer_last_evaluation_timestamp_seconds"

NOT_RUNNING = Case(
    "AnalyzerNotRunning", {}, "lockstep watch judges nothing",
    {"evaluated": (watch(_EVALUATED), "0+15x100"),
     "replica": (watch(_EVALUATED).replace("z:9411", "y:9411"), "_x100")},
    fires=[({"evaluated": "0+15x10 150x90"}, "-12m30s +14m"), ({"evaluated": "_x100"}, "-4m +6m")],
    silent=[({}, "-20m"), ({"evaluated": "0x100", "replica": "0+15x100"}, "-20m")],
    boundary=[({"evaluated": "-300+15x100"}, "-20m"), ({"evaluated": "-301+15x100"}, "-4m45s +5m")],
    clears=[({"evaluated": "_x40 600+15x60"}, "+9m -11m")],
)  # fmt: skip

BLIND = Case(
    "AnalyzerBlind", {}, "lockstep watch gets no fresh data from its Prometheus",
    {"up": (watch("lockstep_analyzer_prometheus_up"), "1x100"),
     "age": (watch("lockstep_analyzer_data_age_seconds"), "12x100")},
    fires=[({"up": "0x100"}, "+6m"), ({"age": "200x100"}, "+6m")],
    silent=[({}, "-20m"), ({"up": "1x8 0x10 1x40"}, "-3m -4m -5m")],
    boundary=[({"age": "120x100"}, "-20m"), ({"age": "121x100"}, "-4m45s +5m"),
              ({"up": "1x19 0x19 1x40"}, "-9m45s -10m"), ({"up": "1x19 0x20 1x40"}, "+10m")],
    clears=[({"up": "0x40 1x40"}, "+10m -11m")],
)  # fmt: skip

_TO = {"alertmanager": "http://am:9093"}

UNDELIVERED = Case(
    "FindingsUndelivered", _TO,
    "Alertmanager http://am:9093 does not take findings of lockstep watch",
    {
        "waiting": (watch("lockstep_analyzer_alerts_undelivered", **_TO), "0x120"),
        "dropped": (watch("lockstep_analyzer_alerts_dropped_total", **_TO), "0x120"),
        "rejected": (watch("lockstep_analyzer_alerts_rejected_total", **_TO), "0x120"),
        "other": (watch("lockstep_analyzer_alerts_undelivered", alertmanager="http://b"), "0x120"),
    },
    fires=[({"waiting": "2x60"}, "+0s"), ({"dropped": "0x20 1x60"}, "+5m15s"),
           ({"rejected": "0x20 1x60"}, "+5m15s")],
    silent=[({}, "-5m"), ({"dropped": "7x60", "rejected": "7x60"}, "-5m")],
    boundary=[({"waiting": "0x60"}, "-5m"), ({"waiting": "0x19 1x60"}, "-4m45s +5m")],
    clears=[({"waiting": "1x20 0x40"}, "+5m -6m"), ({"dropped": "0x20 1x100"}, "+19m -21m")],
)  # fmt: skip

WRITE = Case(
    "AnalyzerWriteFailed", {}, "lockstep watch cannot write archives or its state",
    {"archive": (watch("lockstep_analyzer_archive_write_failures_total"), "0x120"),
     "state": (watch("lockstep_analyzer_state_write_failures_total"), "0x120")},
    fires=[({"archive": "0x20 1x60"}, "+5m15s"), ({"state": "0x20 1x60"}, "+5m15s")],
    silent=[({}, "-5m"), ({"archive": "7x60", "state": "9x60"}, "-5m")],
    boundary=[({"archive": "3x60"}, "-10m"), ({"archive": "3x20 4x40"}, "-5m +5m15s")],
    clears=[({"archive": "0x20 1x100"}, "+19m -21m")],
)  # fmt: skip

_FAILURES = "lockstep_thread_failures_total"

THREAD = Case(
    "ThreadFailed", {"node": "a", "job": "lockstep-collector", "thread": "dumps"},
    "lockstep-collector on a: its thread dumps failed",
    {"page": (page(_FAILURES, thread="dumps"), "0x120"),
     "beside": (page(_FAILURES, thread="rules"), "3x120"),
     "watch": (watch(_FAILURES, thread="alertmanager"), "0x120")},
    fires=[({"page": "0x20 1x60"}, "+5m15s"),
           ({"watch": "0x20 1x60"}, "+5m15s",
            [{"job": "lockstep-analyzer", "thread": "alertmanager"}])],
    silent=[({}, "-5m"), ({"page": "7x120"}, "-5m -25m"), ({"page": "7x20 0x100"}, "-6m -25m")],
    boundary=[({"page": "3x60"}, "-10m"), ({"page": "3x20 4x40"}, "-5m +5m15s")],
    clears=[({"page": "0x20 1x100"}, "+19m -21m")],
)  # fmt: skip


def _remediator(metric: str, **labels: str) -> str:
    pairs = "".join(f',{name}="{value}"' for name, value in labels.items())
    return f'{metric}{{job="lockstep-remediator",instance="x:9413"{pairs}}}'


BREAKER = Case(
    "RemediationBreakerTripped", {},
    "Too many nodes seem degraded at once: remediation has stopped itself",
    {"open": (_remediator("lockstep_remediation_breaker_open"), "0x60")},
    fires=[({"open": "1x60"}, "+0s +5m")], silent=[({}, "-5m"), ({"open": "_x60"}, "-5m")],
    boundary=[({"open": "0x60"}, "-9m"), ({"open": "0x19 1x40"}, "-4m45s +5m")],
    clears=[({"open": "1x20 0x40"}, "+5m -6m")],
)  # fmt: skip

STUCK = Case(
    "QuarantineStuck", {"node": "a"}, "a is kept out of work and looks healthy",
    {
        "a": (_remediator("lockstep_node_quarantined", node="a"), "0x100"),
        "score": (watch("lockstep_node_health_score", node="a"), "1x100"),
        "b": (_remediator("lockstep_node_quarantined", node="b"), "1x100"),
        "b score": (watch("lockstep_node_health_score", node="b"), "0.2x100"),
    },
    fires=[({"a": "1x100"}, "+1h5m")],
    silent=[({}, "-1h10m"), ({"a": "1x100", "score": "0.5x100"}, "-1h10m")],
    boundary=[({"a": "1x100", "score": "0.9x100"}, "-1h10m"),
              ({"a": "1x100", "score": "0.91x100"}, "-59m +1h")],
    clears=[({"a": "1x70 0x30"}, "+1h5m -1h15m")],
    interval="1m",
)  # fmt: skip

WATCHDOG = Case(
    "Watchdog", {}, "Alerts of Lockstep reach you", {},
    # It knows no threshold, is never silent and never clears.
    fires=[({}, "+0s +1m")], silent=[], boundary=[], clears=[],
)  # fmt: skip

UNSYNCHRONIZED = Case(
    "ClockNotSynchronized", {"node": "a"}, "a: its clock is not synchronized",
    {
        "synchronized": (page("lockstep_clock_synchronized"), "1x120"),
        "error": (page("lockstep_clock_max_error_seconds"), "16x120"),
        "b": (page("lockstep_clock_synchronized", "b"), "0x120"),
        "b error": (page("lockstep_clock_max_error_seconds", "b"), "0.2x120"),
    },
    fires=[({"synchronized": "1x8 0x110"}, "-12m +13m")],
    silent=[({}, "-25m"), ({"synchronized": "0x20 1x100"}, "-5m -25m"),
            ({"synchronized": "0x120", "error": "0.1x120"}, "-25m")],
    boundary=[({"synchronized": "0x120", "error": "15.9x120"}, "-25m"),
              ({"synchronized": "0x120"}, "-9m45s +10m")],
    clears=[({"synchronized": "0x60 1x60"}, "+14m -16m")],
)  # fmt: skip

_SECONDS = "lockstep_analyzer_cycle_duration_seconds"

SLOW = Case(
    "AnalyzerSlow", {}, "lockstep watch is in its cycles 1.00 of the time",
    {"seconds": (watch(_SECONDS), "3x120"),
     "cycles": (watch("lockstep_analyzer_cycles_total"), "0+1x120")},
    fires=[({"seconds": "30x120", "cycles": "0+0.5x120"}, "-5m -12m +16m")],
    silent=[({}, "-25m"), ({"seconds": "1x120", "cycles": "0+7.5x120"}, "-25m"),
            ({"seconds": "_x120", "cycles": "_x120"}, "-25m")],
    boundary=[({"seconds": "13.5x120"}, "-25m"), ({"seconds": "13.6x120"}, "+16m")],
    clears=[({"seconds": "15x60 3x60"}, "+15m -22m")],
)  # fmt: skip

CASES = (
    UNSYNCHRONIZED, SLOW,
    DOWN, STALE, DROPPED, NAMES_UNREAD, CLOCKS_UNKNOWN, NOT_RUNNING, BLIND, UNDELIVERED, WRITE,
    THREAD, BREAKER, STUCK, WATCHDOG,
)  # fmt: skip
