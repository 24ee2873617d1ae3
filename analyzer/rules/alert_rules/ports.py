"""Alerts about InfiniBand and RoCE ports; rates as of `links`."""

from lockstep.analyzer.rules.alert_rules.shape import Alert, Recording, Severity
from lockstep.collector.contract.metric_rows.alerted import PORT_ERRORS_FATAL, RDMA_ERRORS_FATAL

_PORT = "{{ $labels.device }} port {{ $labels.port }} on {{ $labels.node }}"
_ACTIVE = "node_device_port:lockstep_ib_port_active:bool"
_FATAL = (
    f'lockstep_ib_port_errors_total{{kind=~"{"|".join(PORT_ERRORS_FATAL)}"}}',
    f'lockstep_rdma_hw_counters_total{{kind="{"|".join(RDMA_ERRORS_FATAL)}"}}',
)
_KINDS = "|".join(PORT_ERRORS_FATAL)
_FULL = f"""\
max by (node, device, port, kind) (lockstep_ib_port_counter_saturated{{kind=~"{_KINDS}"}})
and on (node, device, port, kind)
(
  max by (node, device, port, kind)
  (last_over_time(lockstep_ib_port_errors_total{{kind=~"{_KINDS}"}}[10m]))
  != 15 != 255
)"""
"""A register that counted ten minutes ago and stands at its maximum now."""

PORT = (
    # A port passes down, init, armed on its way up: changes of the state itself count too many.
    Recording(_ACTIVE, "max by (node, device, port) (lockstep_ib_port_state_id) == bool 4"),
    # The second part: the adapter itself is gone, while its node still reports itself.
    Alert(
        "IbLinkDown",
        f"""\
{_ACTIVE} == 0 and on (node, device, port)
max by (node, device, port) (lockstep_ib_port_expected) == 1
or
(
  max by (node, device, port) (lockstep_ib_port_expected) == 1
  unless on (node, device, port) {_ACTIVE}
  and on (node) lockstep_build_info
)""",
        Severity.CRITICAL, "quarantine",
        summary=_PORT + " is down",
        description=(
            "The port was active in the last day and is not, or its adapter is gone. Runs over it"
            " hang or use a longer path."
        ),
        source="gpud: 4 minutes (NVSentinel acts at once).",
        wait="4m",
    ),
    # The second and fourth part see what was counted while nobody scraped. A first sight of an old
    # count is no event: these registers count from the last reset of the port. The last part sees
    # one that has reached its maximum and is reported as that from now on; earlier collectors
    # reported the maximum itself as a count, which is no count of before. A link that went down
    # and is up again is a flap that is over: IbLinkFlapping is about those that come back.
    Alert(
        "IbLinkDownedCounter",
        "(\n"
        + "\nor\n".join(
            f"max by (node, device, port, kind) (increase({series}[5m])) > 0\nor\n"
            f"max by (node, device, port, kind) ({series})\n"
            "> on (node, device, port, kind)\n"
            f"max by (node, device, port, kind) (last_over_time({series}[1h] offset 5m))"
            for series in _FATAL
        )
        + f"\nor\n{_FULL}\n)\n"
        "unless on (node, device, port, kind)\n"
        f'label_replace(max_over_time({_ACTIVE}[1m]) == 1, "kind", "link_downed", "", "")',
        Severity.CRITICAL, "quarantine",
        summary=_PORT + ": {{ $labels.kind }}",
        description=(
            "The link is lost, or lost data for good: operations in flight failed or will time out."
        ),
        source=(
            "NVSentinel's fatal delta counters for NICs; link_downed only while the port has not"
            " been active for a minute, a choice of ours: one flap that is over stops no run."
        ),
    ),
    Alert(
        "IbSymbolErrorsFatal",
        """\
max by (node, device, port)
(increase(lockstep_ib_port_errors_total{kind="symbol_error"}[1h])) > 120""",
        Severity.CRITICAL, "quarantine",
        summary=_PORT + ': {{ printf "%.0f" $value }} symbol errors in an hour',
        description="The bit error rate of cable or optics is above what the standard allows.",
        source="NVSentinel symbol_error_fatal, from the InfiniBand standard's bit error rate.",
    ),
    Alert(
        "IbSymbolErrorRate",
        """\
max by (node, device, port)
(rate(lockstep_ib_port_errors_total{kind="symbol_error"}[2m])) > 10""",
        Severity.WARNING, "diag",
        summary=_PORT + ': {{ printf "%.0f" $value }} symbol errors a second',
        description=(
            "Cable or optics degrade; the link will go down if this goes on."
        ),
        source="NVSentinel symbol_error.",
        wait="1m",
    ),
    Alert(
        "IbLinkErrorRecovery",
        """\
max by (node, device, port)
(rate(lockstep_ib_port_errors_total{kind="link_error_recovery"}[5m])) * 60 > 5""",
        Severity.WARNING, "diag",
        summary=_PORT + ': retrains {{ printf "%.0f" $value }} times a minute',
        description="The link recovers from errors again and again, and carries nothing meanwhile.",
        source="NVSentinel link_error_recovery.",
        wait="1m",
    ),
    Alert(
        "RoceCongestionDiscards",
        """\
max by (node, device, port)
(rate(lockstep_ib_port_errors_total{kind="port_xmit_discards"}[2m])) > 100""",
        Severity.WARNING, "fabric",
        summary=_PORT + ': {{ printf "%.0f" $value }} packets discarded a second',
        description=(
            "The network does not take what the port sends: congestion, or flow control (PFC, ECN)"
            " that is set wrongly. Many ports at once: the fabric, not the node."
        ),
        source="NVSentinel port_xmit_discards.",
        wait="5m",
    ),
    Alert(
        "IbRateReduced",
        f"""\
max by (node, device, port) (lockstep_ib_port_rate_bytes_per_second)
< on (node, device, port)
max by (node, device, port) (max_over_time(lockstep_ib_port_rate_bytes_per_second[1d]))
and on (node, device, port)
{_ACTIVE} == 1""",
        Severity.WARNING, "taint_noschedule",
        summary=_PORT + ': its link is active at {{ printf "%.3g" $value }} B/s, less than before',
        description=(
            "The link was trained with less speed or fewer lanes than it had in the last day:"
            " collectives over it are slower by as much."
        ),
        source=(
            "The port's own rate of the last day; cluster-health-scanner and gpud compare with a"
            " configured rate. Five minutes are a choice of ours."
        ),
        wait="5m",
    ),
    Alert(
        "PfcPauseSustained",
        """\
max by (node, device, priority)
(rate(lockstep_net_pfc_pause_seconds_total{direction="receive"}[2m])) > 0.10""",
        Severity.WARNING, "fabric",
        summary=(
            "{{ $labels.device }} on {{ $labels.node }}, priority {{ $labels.priority }}: paused"
            ' {{ printf "%.2f" $value }} of the time'
        ),
        description=(
            "The switch pauses what this port sends: its onward path is congested, or a receiver"
            " behind it is slow. Many ports at once: the fabric, not the node."
        ),
        source="A tenth of the time, as for heat: a choice of ours.",
        wait="5m",
    ),
    Alert(
        "EthernetLinkDown",
        """\
max by (node, device) (lockstep_net_up) == 0
and on (node, device)
max by (node, device) (max_over_time(lockstep_net_up[1d])) == 1""",
        Severity.WARNING, "fabric",
        summary="{{ $labels.device }} on {{ $labels.node }}: its Ethernet link is down",
        description=(
            "The link was up in the last day and is not. Storage, bootstrap of NCCL or RoCE over it"
            " fails, or goes over what is left of a bond."
        ),
        source="Four minutes as for InfiniBand (gpud).",
        wait="4m",
    ),
)  # fmt: skip

FLAPPING = (
    Alert(
        "IbLinkFlapping",
        f"""\
floor(changes({_ACTIVE}[12h]) / 2) >= 3
or
max by (node, device, port) (
  changes(lockstep_ib_port_errors_total{{kind="link_downed"}}[12h])
  - resets(lockstep_ib_port_errors_total{{kind="link_downed"}}[12h])
) >= 3""",
        Severity.CRITICAL, "taint_noschedule",
        summary=_PORT + ": went down and came back {{ $value }} times in 12 hours",
        description=(
            "The link comes and goes: cable, optics or switch port. Runs over it stall each time."
        ),
        source=(
            "gpud: 3 flaps in 12 hours; a flap is two changes of the state, or a rise of"
            " link_downed where no scrape saw the port down."
        ),
    ),
)  # fmt: skip
