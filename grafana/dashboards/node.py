"""One machine and its GPUs."""

from lockstep.collector.contract.xid import NOT_OF_HARDWARE, listed
from lockstep.grafana.annotations import BOOTS, XIDS, findings
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
_GPU = 'node=~"$node",gpu=~"$gpu"'
_BY = "node, gpu, uuid"
_TO_GPU = lead("straggler", "node", "node", "gpu")
_TO_NODE = lead("cluster", "node", "node")
_LEGEND = "{{node}} gpu{{gpu}}"
_NO_GPUS = "No GPU of this node is reported"


def make(settings: Settings) -> Json:
    """The dashboard."""
    return board(
        "node", "Is this machine well, and what do its GPUs do?",
        [
            _numbers(),
            [_ranks(), _throttling()],
            [
                _gauge("GPU utilisation", "percentunit", "lockstep_gpu_utilization_ratio",
                       "Share of time with a kernel running.", "as its peers.",
                       "0 while others work: a rank is gone.", high=1),
                _gauge("SM clock", "hertz", "lockstep_gpu_clock_hertz",
                       "Clock of the multiprocessors.", "at its maximum under load.",
                       "runbook LockstepGpuClockBelowPeers.", 'domain="sm"'),
            ],
            [
                _gauge("Temperature", "celsius", "lockstep_gpu_temperature_celsius",
                       "Core and memory.", "below the GPU's limits; see the margin.",
                       "runbook LockstepGpuThermalViolation.", legend=" {{sensor}}",
                       by=f"{_BY}, sensor"),
                _gauge("Margin to slowdown", "celsius", "lockstep_gpu_temperature_margin_celsius",
                       "Degrees left until the GPU slows itself down.", "well above 0.",
                       "runbook LockstepGpuTempMarginLow. Limit: 0, where the GPU slows down.",
                       limit=0, below=True),
                _gauge("Power", "watt", "lockstep_gpu_power_watts", "Draw of the board.",
                       "under load close to its limit.",
                       "below its peers under load: runbook LockstepGpuPowerBrake."),
            ],
            [
                _gauge("GPU memory", "bytes", "lockstep_gpu_memory_used_bytes",
                       "Memory in use.", "steady in training.",
                       "rises without end: a leak, or fragments; the rank will fail."),
                _links(), _nvlink(),
            ],
            [_errors()],
            [_cpu(), _pressure(), _memory()],
            [_disk(), _network(), _network_errors()],
        ],
        settings, events=[findings(_NODE), XIDS, BOOTS],
    )  # fmt: skip


def _numbers() -> list[Json]:
    return [
        number(
            "Health", "percentunit",
            [instant(f"min by (node) (lockstep_node_health_score{{{_NODE}}})", "{{node}}")],
            tell("1 is healthy; open findings lower it by how sure they are. Grey: not everything "
                 "could be looked at.", "100 %.",
                 "see the findings that are drawn across the panels."),
            lead("straggler", "node", "node"),
        ),
        number(
            "GPUs that do not answer", "none",
            [instant(f"max by (node) (lockstep_gpu_expected{{{_NODE}}})"
                     f" - on (node) max by (node) (lockstep_gpu_present{{{_NODE}}})", "{{node}}")],
            tell("GPUs on the PCI bus less those that the driver counts.", "0.",
                 "runbook LockstepGpuLost. Limit: 1, as that alert."),
            _TO_NODE, limit=1, nothing="no GPU is reported",
        ),
        number(
            "Driver wants", "none",
            [instant(f"topk(1, max by ({_BY}) (lockstep_gpu_recovery_action{{{_GPU}}}))",
                     _LEGEND)],
            tell("Of the GPU of which it wants most: 1 GPU reset, 2 node reboot, 3 drain peers, "
                 "4 drain and reset.", "0.",
                 "drain the node, then do what the driver wants. Limit: 1, any action."),
            _TO_GPU, limit=1,
        ),
    ]  # fmt: skip


def _ranks() -> Json:
    by = "run, rank, attempt, dp, pp, tp, node, gpu"
    return rows(
        "Ranks on this node", "none",
        [row(f"max by ({by}) (lockstep_rank_info{{{_NODE}}})")],
        tell("Which ranks of which run train here, and their place in the layout.",
             "one a GPU.", "no row while the scheduler says otherwise: the rank is gone."),
        lead("run", "run", "run", value=of_row), names=("present",), sort="rank",
        nothing="No rank trains here",
    )  # fmt: skip


def _throttling() -> Json:
    counter = f"lockstep_gpu_clock_event_seconds_total{{{_GPU}}}"
    return lines(
        "Throttled", "percentunit",
        [query(fastest(counter, f"{_BY}, reason"), f"{_LEGEND} {{{{reason}}}}")],
        tell("Share of time in which a GPU was held back, by reason.",
             "sw_power_cap under full load; the others 0.",
             "heat: runbook LockstepGpuThermalViolation. Limit: 10 %, as that alert."),
        _TO_GPU, limit=0.1, nothing="No GPU of this node was held back",
    )  # fmt: skip


def _gauge(
    title: str, unit: str, metric: str, what: str, normal: str, act: str, where: str = "", *,
    by: str = _BY, legend: str = "", limit: float | None = None, below: bool = False,
    high: float | None = None,
) -> Json:  # fmt: skip
    selector = f"{metric}{{{_GPU}{',' if where else ''}{where}}}"
    drawn = worst(f"max by ({by}) ({selector})", by, highest(selector, by))
    return lines(
        title, unit, [query(drawn, _LEGEND + legend)], tell(what, normal, act), _TO_GPU,
        limit=limit, below=below, high=high, low=0 if high else None, nothing=_NO_GPUS,
    )  # fmt: skip


def _links() -> Json:
    counter = f"lockstep_gpu_pcie_replay_total{{{_GPU}}}"
    width = f"lockstep_gpu_pcie_link_width{{{_GPU}}}"
    return lines(
        "Links: lanes missing, replays, NVLinks down", "none",
        [query(f"max by ({_BY}) (lockstep_gpu_pcie_link_width_max{{{_GPU}}})"
               f" - on ({_BY}) max by ({_BY}) ({width}) > 0", f"{_LEGEND} lanes missing"),
         query(fastest(counter, _BY), f"{_LEGEND} replays/s"),
         query(f"count by ({_BY}) (max by ({_BY}, link) (lockstep_gpu_nvlink_up{{{_GPU}}}) == 0)",
               f"{_LEGEND} NVLinks down")],
        tell("PCIe lanes that the GPU has and does not use, packets that were sent again, and "
             "NVLinks that are down.",
             "0 under load; an idle GPU may drop lanes.",
             "runbooks LockstepPcieDowntrained, LockstepPcieReplayRateHigh, LockstepNvlinkDown."),
        _TO_GPU, nothing="Nothing is missing, or it is not reported",
    )  # fmt: skip


def _nvlink() -> Json:
    counter = f"lockstep_gpu_nvlink_bytes_total{{{_GPU}}}"
    return lines(
        "NVLink", "Bps",
        [query(fastest(counter, f"{_BY}, direction"), f"{_LEGEND} {{{{direction}}}}")],
        tell("Payload over all links of a GPU.", "alike on all GPUs of a run.",
             "runbook LockstepNvlinkDown."), _TO_GPU,
        nothing="No NVLink is reported, or nothing was sent",
    )  # fmt: skip


def _errors() -> Json:
    columns = (
        ("lockstep_gpu_xid_errors_total", f"{_BY}, xid, severity"),
        ("lockstep_gpu_ecc_errors_total", f"{_BY}, type, counter"),
        ("lockstep_gpu_nvlink_errors_total", f"{_BY}, link, kind"),
        ("lockstep_gpu_pcie_errors_total", f"{_BY}, kind"),
        ("lockstep_gpu_fallen_off_bus_total", _BY),
    )
    return rows(
        "Errors in the range", "none",
        [*(row(grown(f"{metric}{{{_GPU}}}", by)) for metric, by in columns),
         row(grown(f"lockstep_oom_kills_total{{{_NODE}}}", "node")),
         row(grown(f"lockstep_kernel_events_total{{{_NODE}}}", "node, kind, severity"))],
        tell("XIDs that the driver logged; memory errors, corrected or not; errors of NVLink and "
             "PCIe; GPUs that fell off the bus; processes killed for lack of memory; other trouble "
             "in the kernel log.",
             f"none. XID {listed(NOT_OF_HARDWARE)} come from programs.",
             "runbooks LockstepGpuXidFatal, LockstepGpuEccUncorrectable, "
             "LockstepNvlinkReplayOrRecovery and LockstepKernelEventFatal."),
        lead("straggler", "node", "node", "gpu", value=of_row),
        names=("XIDs", "memory errors", "NVLink errors", "PCIe errors", "off the bus",
               "killed for memory", "kernel log"),
        nothing="None was counted in the range",
    )  # fmt: skip


def _cpu() -> Json:
    busy = f'lockstep_host_cpu_seconds_total{{{_NODE},mode!="idle"}}'
    return lines(
        "CPU", "percentunit",
        [query(f"sum by (node, mode) ({rate(busy)})\n/ on (node) group_left ()\n"
               f"max by (node) (lockstep_host_cpus{{{_NODE}}})", "{{node}} {{mode}}")],
        tell("Share of processors by what they do.", "far from 100 %.",
             "steal: the hypervisor takes time. system: look for a foreign program."),
        lead("run", "node", "node"), stacked=True, high=1,
    )  # fmt: skip


def _pressure() -> Json:
    counter = f'lockstep_pressure_stalled_seconds_total{{{_NODE},scope="some"}}'
    return lines(
        "Pressure", "percentunit",
        [query(per_second(counter, "node, resource"), "{{node}} {{resource}}"),
         query(per_second(f"lockstep_cpu_throttled_seconds_total{{{_NODE}}}", "node"),
               "{{node}} CPU quota")],
        tell("Share of time in which some task waited for CPU, memory or disk, and time per second "
             "in which CPU quotas held groups back.", "near 0.",
             "the resource that is named is short: find who takes it."),
        lead("run", "node", "node"),
    )  # fmt: skip


def _memory() -> Json:
    return lines(
        "Memory", "bytes",
        [query(f"min by (node) (lockstep_host_memory_available_bytes{{{_NODE}}})",
               "{{node}} available"),
         query(f"max by (node) (lockstep_memory_shared_bytes{{{_NODE}}})", "{{node}} shared"),
         query(f"max by (node) (lockstep_memory_dirty_bytes{{{_NODE}}})",
               "{{node}} to be written")],
        tell("What programs can still get, what they share (/dev/shm), what waits for the disk.",
             "steady.", "available near 0: the kernel will kill a rank."), _TO_NODE,
    )  # fmt: skip


def _disk() -> Json:
    return lines(
        "Disk", "Bps",
        [query(fastest(f"lockstep_disk_bytes_total{{{_NODE}}}", "node, device, direction"),
               "{{node}} {{device}} {{direction}}")],
        tell("Read and written.", "bursts at checkpoints.",
             "reads at the rate of the disk: the data loader holds the run back."),
        lead("run", "node", "node"), nothing="Nothing was read or written",
    )  # fmt: skip


def _network() -> Json:
    return lines(
        "Network", "Bps",
        [query(fastest(f"{metric}{{{_NODE}}}", "node, device, direction"),
               "{{node}} {{device}} {{direction}}")
         for metric in ("lockstep_ib_port_data_bytes_total", "lockstep_net_bytes_total")],
        tell("Traffic of InfiniBand or RoCE ports, and of the kernel's devices.",
             "alike on all nodes of a run.", "less than its peers: its link, or its rank."),
        lead("nccl", "node", "node"), nothing="Nothing was sent or received",
    )  # fmt: skip


def _network_errors() -> Json:
    sets = (
        ("lockstep_ib_port_errors_total", "node, device, kind", "{{kind}}"),
        ("lockstep_net_errors_total", "node, device, direction", "errors {{direction}}"),
        ("lockstep_net_drops_total", "node, device, direction", "drops {{direction}}"),
        ("lockstep_net_phy_errors_total", "node, device, kind", "{{kind}}"),
        ("lockstep_net_carrier_changes_total", "node, device", "link came or went"),
    )
    return lines(
        "Network errors", "cps",
        [query(fastest(f"{metric}{{{_NODE}}}", by, 10), f"{{{{node}}}} {{{{device}}}} {name}")
         for metric, by, name in sets],
        tell("Errors and drops that were counted, per second.", "none.",
             "runbooks LockstepIbLinkErrorRecovery and LockstepIbSymbolErrorRate."),
        lead("nccl", "node", "node"), nothing="None was counted in the range",
    )  # fmt: skip
