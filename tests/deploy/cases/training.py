"""Alerts about training runs."""

from tests.deploy.cases.shape import Case, page, watch

RUN = {"run": "r"}
FOUND = {**RUN, "node": "a", "rank": "3", "gpu": "1", "cause": "thermal", "tier": "page"}

_WAITING = "lockstep_analyzer_alerts_undelivered"


def _finding(**changed: str) -> str:
    told = {name: value for name, value in (FOUND | changed).items() if value}
    return watch("lockstep_finding_active", **told)


FINDING = Case(
    "Finding", FOUND, "Run r: rank 3, GPU 1 on a, cause thermal",
    {
        "page": (_finding(), "_x60"),
        "record": (_finding(tier="record", run="", rank="", cause="ecc"), "_x60"),
        "network": (_finding(node="", rank="", gpu="", cause="congestion"), "_x60"),
        "replica": (_finding().replace("z:9411", "y:9411"), "_x60"),
        # Only with --alertmanager: open findings that one has not taken.
        "waiting": (watch(_WAITING, alertmanager="a"), "_x60"),
        "other waiting": (watch(_WAITING, alertmanager="b"), "_x60"),
        "replica waiting": (
            watch(_WAITING, alertmanager="a").replace("z:9411", "y:9411"), "_x60",
        ),
    },
    fires=[({"page": "_x8 1x40"}, "-1m45s +2m +9m"),
           ({"network": "1x40"}, "+5m", [{**RUN, "cause": "congestion", "tier": "page"}])],
    silent=[({}, "-5m"), ({"page": "0x60"}, "-5m"),
            ({"page": "1x60", "waiting": "0x60"}, "-0s -5m -10m")],
    boundary=[({"page": "0x20"}, "-5m"), ({"page": "0x19 1x20"}, "-4m45s +5m"),
              ({"page": "1x60", "waiting": "0x19 1x40"}, "-4m45s +5m")],
    clears=[({"page": "1x20 stale"}, "+5m +9m45s -10m15s"),
            ({"page": "1x60", "waiting": "1x20 0x40"}, "+5m +9m45s -10m15s")],
    more={
        "two replicas of watch are one alert": ({"page": "1x40", "replica": "1x40"}, "+5m"),
        "watch tells it itself; when it cannot any longer, the rule does": (
            {"page": "1x60", "waiting": "0x8 1x50"}, "-2m +2m15s"),
        "one of two Alertmanagers does not take it": (
            {"page": "1x60", "waiting": "0x60", "other waiting": "1x60"}, "+5m"),
        "what another watch delivers is not this one's finding": (
            {"page": "1x60", "replica waiting": "0x60"}, "+5m"),
        "a restart of watch ends nothing": ({"page": "1x20 stale _x8 1x30"}, "+5m +6m +7m +9m"),
    },
    severity="critical",
)  # fmt: skip

RECORDED = Case(
    "Finding", {"node": "a", "gpu": "1", "cause": "ecc", "tier": "record"},
    "Hardware: GPU 1 on a, cause ecc",
    {name: FINDING.series[name] for name in ("record", "waiting")},
    fires=[({"record": "1x40"}, "+5m")],
    silent=[({}, "-5m"), ({"record": "1x40", "waiting": "0x40"}, "-5m")],
    boundary=[({"record": "0x20"}, "-5m"), ({"record": "0x19 1x20"}, "-4m45s +5m")],
    clears=[({"record": "1x20 stale"}, "+5m +9m45s -10m15s")], severity="warning",
)  # fmt: skip


def _ratio(node: str) -> str:
    return watch("lockstep_node_straggler_ratio", run="r", node=node)


STRAGGLER = Case(
    "StragglerNode", {**RUN, "node": "a"}, "Run r: a needs 1.20 times its peers' time for a step",
    {
        "a": (_ratio("a"), "1x60"), "b": (_ratio("b"), "1x60"), "c": (_ratio("c"), "1x60"),
        "d": (_ratio("d"), "1x60"), "finding": (_finding(), "1x60"),
        "elsewhere": (_finding(run="other"), "_x60"),
        "record": (_finding(tier="record"), "_x60"),
    },
    fires=[({"a": "1.2x60"}, "+0s +9m"), ({"a": "1.2x60", "record": "1x60"}, "+9m")],
    silent=[({"a": "1.2x60", "finding": "_x60", "elsewhere": "1x60"}, "-9m"),
            ({"a": "1.2x60", "d": "_x60"}, "-9m"), ({}, "-9m")],
    boundary=[({"a": "1.1x60"}, "-9m"), ({"a": "1.101x60"}, "+9m")],
    clears=[({"a": "1.2x20 1x40"}, "+5m -6m"),
            ({"a": "1.2x60", "finding": "1x20 stale"}, "+5m -6m")],
)  # fmt: skip


def _rank(metric: str, rank: str, node: str, pod: str = "c-1") -> str:
    return page(metric, node, pod, run="r", rank=rank)


_AGE = "lockstep_train_progress_age_seconds"

STALLED = Case(
    "RunStalled", RUN, "Run r: no rank has made progress for 135 s",
    {
        "0": (_rank(_AGE, "0", "a"), "0.1x60"), "1": (_rank(_AGE, "1", "b"), "0.2x60"),
        "median": (watch("lockstep_run_step_duration_median_seconds", **RUN), "2x60"),
        "active": (watch("lockstep_run_active", **RUN), "1x60"),
    },
    fires=[({"0": "0x16 0+15x40", "1": "0x16 0+15x40"}, "-6m15s +6m30s +12m")],
    silent=[({"0": "0+15x60"}, "-12m"),
            ({"0": "0+15x60", "1": "0+15x60", "active": "0x60"}, "-12m"),
            ({"0": "0+15x60", "1": "0+15x60", "median": "100x60"}, "-14m")],
    boundary=[({"0": "60x60", "1": "60x60"}, "-12m"), ({"0": "61x60", "1": "61x60"}, "-45s +1m"),
              ({"0": "200x60", "1": "200x60", "median": "20x60"}, "-12m"),
              ({"0": "201x60", "1": "201x60", "median": "20x60"}, "+12m")],
    clears=[({"0": "90x20 0.1x40", "1": "90x20 0.1x40"}, "+5m -6m"),
            ({"0": "90x20 stale", "1": "90x20 stale", "active": "1x20 stale"}, "+5m -6m")],
)  # fmt: skip

_RANK_UP = "lockstep_rank_up"

GONE = Case(
    "RankGone", {**RUN, "rank": "3", "node": "a"},
    "Run r: the process of rank 3 on a is gone",
    {
        "3": (_rank(_RANK_UP, "3", "a"), "1x60"), "4": (_rank(_RANK_UP, "4", "b"), "1x60"),
        "3 elsewhere": (_rank(_RANK_UP, "3", "c"), "_x60"),
    },
    fires=[({"3": "1x8 0x40"}, "-2m30s +2m45s +6m")],
    silent=[({"3": "1x8 0x40", "4": "1x8 0x40"}, "-6m"),
            ({"3": "1x8 0x40", "3 elsewhere": "_x8 1x40"}, "-6m"), ({}, "-6m")],
    boundary=[({"3": "1x8 0x40", "4": "1x10 0x40"}, "-2m30s -2m45s -4m"),
              ({"3": "1x8 0x40", "4": "1x11 0x40"}, "-2m30s +2m45s -4m")],
    clears=[({"3": "1x8 0x20 1x30"}, "+6m -8m"), ({"3": "1x8 0x40 stale"}, "+12m -12m30s"),
            ({"3": "1x8 0x40", "3 elsewhere": "_x20 1x30"}, "+4m -6m")],
)  # fmt: skip

BASELINE = Case(
    "RunSlowVsBaseline", RUN, "Run r: 0.85 of its baseline's throughput",
    {"ratio": (watch("lockstep_run_throughput_baseline_ratio", **RUN), "1x200")},
    fires=[({"ratio": "0.85x130"}, "-14m45s +16m")],
    silent=[({}, "-31m"), ({"ratio": "1x40 0.5x12 1x100"}, "-31m")],
    boundary=[({"ratio": "0.9x130"}, "-31m"), ({"ratio": "0.89x130"}, "-14m45s +15m")],
    clears=[({"ratio": "0.85x80 1x100"}, "+20m -40m")],
)  # fmt: skip


def _reference(metric: str, **labels: str) -> str:
    pairs = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f'{metric}{{job="lockstep-reference",instance="y:9412",{pairs}}}'


REFERENCE = Case(
    "ReferenceRunFailed", {"spec": "allreduce"},
    "Reference run allreduce did not reach its goal",
    {"mine": (_reference("lockstep_reference_run_success", spec="allreduce"), "1x60"),
     "other": (_reference("lockstep_reference_run_success", spec="gpt"), "1x60")},
    fires=[({"mine": "0x60"}, "+5m")], silent=[({}, "-5m"), ({"mine": "_x60"}, "-5m")],
    boundary=[({"mine": "1x60"}, "-5m"), ({"mine": "1x20 0x40"}, "-5m +5m15s")],
    clears=[({"mine": "0x20 1x40"}, "+5m -6m")],
)  # fmt: skip

_BANDWIDTH = "lockstep_reference_bus_bandwidth_bytes_per_second"
_FLOOR = "lockstep_reference_bus_bandwidth_floor_bytes_per_second"

BANDWIDTH = Case(
    "ReferenceBusbwLow", {"node": "a", "sku": "h100"},
    "a: all-reduce at 2e+11 B/s, below the floor of h100",
    {
        "a": (_reference(_BANDWIDTH, node="a", sku="h100"), "3e11x60"),
        "b": (_reference(_BANDWIDTH, node="b", sku="h100"), "3e11x60"),
        "floor": (_reference(_FLOOR, sku="h100"), "2.5e11x60"),
        "other floor": (_reference(_FLOOR, sku="a100"), "9e11x60"),
    },
    fires=[({"a": "2e11x60"}, "+5m")],
    silent=[({}, "-5m"), ({"a": "2e11x60", "floor": "_x60"}, "-5m")],
    boundary=[({"a": "2.5e11x60"}, "-5m"), ({"a": "2.49e11x60"}, "+5m")],
    clears=[({"a": "2e11x20 3e11x40"}, "+5m -6m")],
)  # fmt: skip

_STUCK = "lockstep_nccl_communicator_stuck"

STUCK = Case(
    "CommunicatorStuck", {**RUN, "group": "dp"}, "Run r: communicator dp makes no progress",
    {"stuck": (page(_STUCK, run="r", group="dp"), "0x60"),
     "seen elsewhere": (page(_STUCK, "b", run="r", group="dp"), "_x60"),
     "other": (page(_STUCK, run="r", group="tp"), "0x60")},
    fires=[({"stuck": "0x8 1x40"}, "-3m +4m")],
    silent=[({}, "-10m"), ({"stuck": "_x60"}, "-10m"), ({"stuck": "0x8 1x2 0x40"}, "-3m -5m")],
    boundary=[({"stuck": "0x8 1x3 0x40"}, "-3m -3m15s"), ({"stuck": "0x8 1x40"}, "-3m +3m15s")],
    clears=[({"stuck": "1x20 0x40"}, "+5m -6m")],
    more={"two nodes that tell of one communicator are one alert": (
        {"stuck": "1x40", "seen elsewhere": "1x40"}, "+5m")},
)  # fmt: skip

_INFINITE = "0.5x20 " + "Inf " * 40

LOSS = Case(
    "LossNotFinite", RUN, "Run r: its loss is not a finite number, or no longer reported",
    {
        "loss": (_rank("lockstep_train_loss", "0", "a"), "0.5x200"),
        "steps": (_rank("lockstep_train_steps_total", "0", "a"), "0+3x200"),
        "dropped": (page("lockstep_series_dropped_total", family="lockstep_train_loss"), "0x200"),
    },
    fires=[({"loss": _INFINITE}, "-6m +7m"), ({"loss": "0.5x20 stale"}, "-14m +17m +40m"),
           ({"loss": "0.5x20 stale", "steps": "0x40 1x160"}, "-14m +17m")],
    silent=[({}, "-40m"), ({"loss": "_x200"}, "-40m"),
            ({"loss": "0.5x20 stale", "steps": "0+3x20 60x180"}, "-17m -40m"),
            ({"loss": "0.5x20 stale", "dropped": "0x20 1x180"}, "-17m -40m"),
            ({"loss": "0.5x20 _x20 0.4x160"}, "-17m -40m")],
    boundary=[({"loss": "0.5x20 " + "Inf " * 4 + "0.5x60"}, "-6m -6m15s"),
              ({"loss": "0.5x20 " + "Inf " * 5 + "0.5x60"}, "-6m +6m15s -7m")],
    clears=[({"loss": _INFINITE + "0.5x60"}, "+7m -16m"),
            ({"loss": "0.5x20 _x80 0.4x60"}, "+20m -26m")],
)  # fmt: skip

CASES = (STUCK, LOSS, FINDING, RECORDED, STRAGGLER, STALLED, GONE, BASELINE, REFERENCE, BANDWIDTH)
