"""Alerts about NVLink and PCIe.

Rates are over two minutes: the collector reads these registers every 30 s, and a rate over one
minute would see one or two steps of a steady count.
"""

from lockstep.analyzer.rules.alert_rules.shape import GPU, Alert, Severity

_LINK = GPU + ", NVLink {{ $labels.link }}"

NVLINK = (
    # From NVLink 5 on the link layer counts dl_crc, dl_replay and dl_recovery in place of the older
    # kinds; which errors it still counts under the older names was not checked on hardware.
    Alert(
        "NvlinkCrcRateHigh",
        """\
sum by (node, gpu, uuid, link) (
  max by (node, gpu, uuid, link, kind)
  (rate(lockstep_gpu_nvlink_errors_total{kind=~"crc_flit|crc_data|dl_crc"}[2m]))
) > 100""",
        Severity.CRITICAL, "quarantine",
        summary=_LINK + ': {{ printf "%.0f" $value }} CRC errors a second',
        description=(
            "So many packets arrive damaged that the link is busy with sending again: every"
            " collective over it is slow. Link all = the sum over the GPU's links."
        ),
        source="DCGM_LIMIT_MAX_NVLINK_CRC_ERROR is 100/s (FAIL).",
        wait="1m",
    ),
    Alert(
        "NvlinkReplayOrRecovery",
        """\
sum by (node, gpu, uuid, link) (
  max by (node, gpu, uuid, link, kind) (increase(lockstep_gpu_nvlink_errors_total{
    kind=~"replay|recovery|dl_replay|dl_recovery|link_recovery"}[10m]))
) >= 1""",
        Severity.WARNING, "diag",
        summary=_LINK + ': {{ printf "%.0f" $value }} replays or recoveries in 10 minutes',
        description=(
            "The link has resent packets or retrained for more than ten minutes; all traffic over"
            " it stops each time."
        ),
        source=(
            "DCGM_LIMIT_MAX_NVLINK_ERROR is 1. DCGM calls one replay or recovery a failure;"
            " warning, and only when they go on, is a choice of ours: one recovery does not stop a"
            " run."
        ),
        wait="10m",
    ),
    Alert(
        "NvlinkDown",
        """\
sum by (node, gpu, uuid) (max by (node, gpu, uuid, link) (lockstep_gpu_nvlink_up))
< on (node, gpu, uuid)
max by (node, gpu, uuid) (lockstep_gpu_nvlink_expected)""",
        Severity.CRITICAL, "quarantine",
        summary=GPU + ": only {{ $value }} of its NVLinks are up",
        description=(
            "The GPU had more links up in the last day. Tensor-parallel traffic over the missing"
            " ones goes elsewhere or nowhere."
        ),
        source=(
            "DCGM NVLINK_DOWN, which NVSentinel answers with RESTART_VM; nothing is expected of"
            " GPUs that never had a link up (NVSentinel #1481)."
        ),
        wait="1m",
    ),
)  # fmt: skip

PCIE = (
    Alert(
        "PcieReplayRateHigh",
        """\
max by (node, gpu, uuid) (rate(lockstep_gpu_pcie_replay_total[2m])) * 60
> on (node, gpu, uuid)
ceil(
  0.06 * 2 ^ max by (node, gpu, uuid) (lockstep_gpu_pcie_link_generation)
  * on (node, gpu, uuid) max by (node, gpu, uuid) (lockstep_gpu_pcie_link_width)
)""",
        Severity.WARNING, "diag",
        summary=GPU + ': {{ printf "%.0f" $value }} PCIe replays a minute',
        description=(
            "Packets between host and GPU arrive damaged more often than the standard allows:"
            " riser, cable, slot or the board itself."
        ),
        source=(
            "DCGM GetExpectedPcieReplayRate, ceil(0.06 x GT/s x lanes) a minute for a bit error"
            " rate of 1e-12: 8 for Gen3 x16, 16 for Gen4, 31 for Gen5."
        ),
        wait="2m",
    ),
    # An idle link drops its speed, never its width.
    Alert(
        "PcieDowntrained",
        """\
max by (node, gpu, uuid) (lockstep_gpu_pcie_link_width)
< on (node, gpu, uuid)
max by (node, gpu, uuid) (lockstep_gpu_pcie_link_width_max)
or
(
  max by (node, gpu, uuid) (lockstep_gpu_pcie_link_generation)
  < on (node, gpu, uuid)
  max by (node, gpu, uuid) (lockstep_gpu_pcie_link_generation_max)
  and on (node, gpu, uuid)
  max by (node, gpu, uuid) (lockstep_gpu_utilization_ratio) > 0.1
)""",
        Severity.WARNING, "taint_noschedule",
        summary=GPU + ": its PCIe link runs below what it can do",
        description=(
            "The link came up with fewer lanes or a lower generation. Copies from and to the host,"
            " and network traffic that goes through it, are slower by as much."
        ),
        source=(
            "DCGM PCIE_GENERATION and PCIE_WIDTH, CONTACT_SUPPORT; busy = over 10 %, a choice of"
            " ours."
        ),
        wait="5m",
    ),
)  # fmt: skip
