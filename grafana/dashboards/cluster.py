"""All nodes and GPUs: which one is unlike the others?"""

from lockstep.collector.contract.xid import NOT_OF_HARDWARE, PAGED, listed
from lockstep.grafana.annotations import BOOTS, XIDS, findings
from lockstep.grafana.board import board
from lockstep.grafana.links import lead, of_row
from lockstep.grafana.panels import heat, lines, number, rows, tell
from lockstep.grafana.settings import Json, Settings
from lockstep.grafana.targets import ROWS, highest, instant, lowest, per_second, query, row, worst

_BANDS = ((0.0, "lowest"), (0.05, "5 %"), (0.5, "median"), (0.95, "95 %"), (1.0, "highest"))
_TO_NODE = lead("node", "node", "node")
_ROW_TO_NODE = lead("node", "node", "node", value=of_row)
_ROW_TO_GPU = lead("node", "node", "node", "gpu", value=of_row)


def make(settings: Settings) -> Json:
    """The dashboard."""
    return board(
        "cluster", "Which node or GPU is unlike the others?",
        [
            _counts(),
            [_silent(), _health()],
            [_map()],
            [
                _spread("GPU utilisation", "percentunit", "lockstep_gpu_utilization_ratio",
                        "Share of time with a kernel running. High says busy, not fast.",
                        "the band is narrow while one run uses all GPUs.", 'node=~"$node"'),
                _spread("GPU temperature", "celsius", "lockstep_gpu_temperature_celsius",
                        "Of the core.", "a few degrees between 5 % and 95 %.",
                        'node=~"$node",sensor="gpu"'),
            ],
            [
                _spread("SM clock", "hertz", "lockstep_gpu_clock_hertz",
                        "Clock of the multiprocessors.", "under load all are alike.",
                        'node=~"$node",domain="sm"'),
                _throttled(),
            ],
            [_straggling(), _network()],
            [_xids(), _ecc()],
            [_bandwidth(), _quarantine()],
        ],
        settings, events=[findings('node=~"$node"'), XIDS, BOOTS],
    )  # fmt: skip


def _counts() -> list[Json]:
    return [
        number(
            "Nodes", "none",
            [instant("count(max by (node) (lockstep_node_expected) == 1)", "expected"),
             instant('count(count by (node) (lockstep_build_info{node=~"$node"}))', "answer")],
            tell("Nodes scraped in the last day, and those that answer now.", "both are equal.",
                 "see the table of silent nodes."), lead("self", "health"),
        ),
        number(
            "GPUs", "none",
            [instant('sum(max by (node) (lockstep_gpu_expected{node=~"$node"}))', "on the bus"),
             instant('sum(max by (node) (lockstep_gpu_present{node=~"$node"}))', "answer")],
            tell("GPUs on the PCI bus, and those that their driver counts.", "both are equal.",
                 "look for XID 79 below: a GPU fell off the bus."),
            lead("node", "cluster"), nothing="no GPU is reported",
        ),
        number(
            "Mean utilisation", "percentunit",
            [instant('avg(lockstep_gpu_utilization_ratio{node=~"$node"})', "of all GPUs")],
            tell("Mean over GPUs of the share of time with a kernel running.",
                 "depends on how much of the cluster is in use.",
                 "look at the map for GPUs that are held and idle."),
            lead("run", "cluster"), nothing="no GPU is reported",
        ),
        number(
            "Power", "watt", [instant('sum(lockstep_gpu_power_watts{node=~"$node"})', "all GPUs")],
            tell("Draw of all GPUs.", "follows the load.",
                 "a fall under load is throttling, or a run that stands still."),
            lead("node", "cluster"), nothing="no GPU is reported",
        ),
        number(
            "Remediator", "none",
            [instant("max(lockstep_remediation_breaker_open)", "breaker open"),
             instant("sum(lockstep_node_quarantined)", "quarantined")],
            tell("Nodes that carry our taint, and whether so many look degraded at once that none "
                 "is touched any more (1).", "0 and 0.",
                 "runbook LockstepRemediationBreakerTripped: a human resets it. Limit: 1."),
            lead("self", "cluster"), limit=1, nothing="no remediator runs",
        ),
    ]  # fmt: skip


def _silent() -> Json:
    return rows(
        "Silent nodes", "none",
        [row('max by (node) (lockstep_node_expected{node=~"$node"}) == 1\n'
             "unless on (node) lockstep_build_info")],
        tell("Nodes that were scraped in the last day and do not answer.", "no row.",
             "runbook LockstepCollectorDown."),
        _ROW_TO_NODE, names=("expected",), nothing="None is silent",
    )  # fmt: skip


def _health() -> Json:
    return rows(
        "Least healthy nodes", "percentunit",
        [row('bottomk(20, min by (node) (lockstep_node_health_score{node=~"$node"}) < 1)')],
        tell("1 is healthy; open findings lower it by how sure they are. A node that is not here "
             "was found well, or not all of it could be looked at.", "no row.",
             "click the node."),
        _ROW_TO_NODE, names=("health",), nothing="None is unhealthy",
    )  # fmt: skip


def _map() -> Json:
    utilization = 'lockstep_gpu_utilization_ratio{node=~"$node"}'
    return heat(
        "GPU utilisation by node", "percentunit",
        [query(worst(f"avg by (node) ({utilization})", "node", lowest(utilization, "node"),
                     ROWS, "bottomk"),
               "{{node}}")],
        tell(f"A row a node, the mean of its GPUs; the {ROWS} that were lowest in the range.",
             "nodes of one run look alike.",
             "a dark row among bright ones is idle or hangs; a bright one among dark ones waits "
             "for no other: click it."),
        _TO_NODE, low=0, high=1,
    )  # fmt: skip


def _spread(title: str, unit: str, metric: str, what: str, normal: str, where: str) -> Json:
    return lines(
        f"{title}: spread over GPUs", unit,
        [query(f"quantile({share}, {metric}{{{where}}})", name) for share, name in _BANDS],
        tell(f"{what} Lowest, 5 %, median, 95 % and highest of all GPUs.", normal,
             "an end that leaves the band is one GPU: Straggler or Node say which."),
        lead("straggler", "cluster"), low=None,
    )  # fmt: skip


def _throttled() -> Json:
    return lines(
        "Throttled GPUs", "none",
        [query('sum by (reason) (lockstep_gpu_clock_event_active{node=~"$node"})', "{{reason}}")],
        tell("GPUs that are held back now, by reason.",
             "sw_power_cap under full load; the others 0.",
             "hw_thermal and hw_power_brake: runbooks LockstepGpuThermalViolation and "
             "LockstepGpuPowerBrake."),
        lead("node", "cluster"), stacked=True,
    )  # fmt: skip


def _straggling() -> Json:
    ratio = 'lockstep_node_straggler_ratio{node=~"$node",run=~"$run"}'
    return lines(
        "Nodes that take longest", "none",
        [query(worst(f"max by (run, node) ({ratio})", "run, node",
                     highest(ratio, "run, node")), "{{node}} in {{run}}")],
        tell("Own time of a step over the median of peers, of the node's slowest rank; 20 nodes.",
             "near 1.", "from 1.1 on it holds its run back: click it."),
        lead("straggler", "straggler", "run", "node"), low=None,
        nothing="No data: is lockstep watch scraped, and does a run train?",
    )  # fmt: skip


def _network() -> Json:
    return lines(
        "Network", "Bps",
        [query(per_second(f'{metric}{{node=~"$node"}}', "direction"), f"{name} {{{{direction}}}}")
         for metric, name in (("lockstep_ib_port_data_bytes_total", "InfiniBand"),
                              ("lockstep_net_bytes_total", "Ethernet"))],
        tell("Traffic of all nodes: InfiniBand or RoCE ports, and network devices of the kernel.",
             "follows the runs; sent and received are alike.",
             "a fall at full load: open Collectives for congestion and ports that are down."),
        lead("nccl", "cluster"),
    )  # fmt: skip


def _xids() -> Json:
    return rows(
        "XIDs in the range", "none",
        [row('sum by (node, gpu, uuid, xid, severity)'
             ' (increase(lockstep_gpu_xid_errors_total{node=~"$node"}[$__range])) > 0'),
         row('max by (node, gpu, uuid, xid, severity) (lockstep_gpu_xid_last_timestamp_seconds'
             '{node=~"$node"}) * 1000')],
        tell("Errors that the driver logged, by GPU and number, and when the last one came.",
             f"none. {listed(NOT_OF_HARDWARE)} come from programs.",
             f"runbook LockstepGpuXidFatal for severity fatal: {listed(PAGED)}."),
        _ROW_TO_GPU, names=("events", "last"), units=("none", "dateTimeAsIso"),
        nothing="No XID was logged in the range",
    )  # fmt: skip


def _ecc() -> Json:
    return rows(
        "Memory errors that were not corrected", "none",
        [row('topk(20, max by (node, gpu, uuid) (lockstep_gpu_ecc_errors_total'
             '{node=~"$node",type="uncorrected"}) > 0)'),
         *(row(f'topk(20, max by (node, gpu, uuid) ({metric}{{node=~"$node"}}) > 0)')
           for metric in ("lockstep_gpu_row_remap_pending", "lockstep_gpu_row_remap_failed"))],
        tell("Over the GPU's life, and whether rows wait for a reset or could not be replaced.",
             "no row.", "runbooks LockstepGpuRowRemapPending and LockstepGpuRowRemapFailed."),
        _ROW_TO_GPU, names=("errors", "reset pending", "replace"),
        nothing="No GPU reports one",
    )  # fmt: skip


def _bandwidth() -> Json:
    measured = (
        'min by (node, sku) (lockstep_reference_bus_bandwidth_bytes_per_second{node=~"$node"})'
    )
    return rows(
        "Reference runs: bus bandwidth", "Bps",
        [row(measured),
         row(f"{measured}\n/ on (sku) group_left ()\n"
             "max by (sku) (lockstep_reference_bus_bandwidth_floor_bytes_per_second)")],
        tell("Of each node in its last all-reduce reference run, and over the least that a healthy "
             "node of its kind has.", "at least 100 % of the floor.",
             "runbook LockstepReferenceBusbwLow."),
        _ROW_TO_NODE, names=("bandwidth", "of floor"), units=("Bps", "percentunit"),
        nothing="No reference run is reported",
    )  # fmt: skip


def _quarantine() -> Json:
    return rows(
        "Quarantined nodes, failed reference runs", "none",
        [row('max by (node) (lockstep_node_quarantined{node=~"$node"}) == 1'),
         row("max by (spec) (lockstep_reference_run_success) == 0")],
        tell("Nodes that carry our taint, and specifications whose last reference run failed.",
             "no row.", "runbooks LockstepQuarantineStuck and LockstepReferenceRunFailed."),
        _ROW_TO_NODE, names=("quarantined", "succeeded"), nothing="None",
    )  # fmt: skip
