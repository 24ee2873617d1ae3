"""Alerts about GPUs: whether they answer, how fast they may be, and their memory."""

from lockstep.analyzer.rules.alert_rules.shape import GPU, Alert, Severity
from lockstep.collector.contract.metric_rows.gpu import RECOVERY_ACTIONS

_SXID = 'lockstep_nvswitch_sxid_errors_total{severity="fatal"}'

STATE = (
    Alert(
        "GpuLost",
        """\
max by (node) (lockstep_gpu_expected) - on (node) max by (node) (lockstep_gpu_present) > 0
or
max by (node, gpu, uuid) (lockstep_gpu_up) == 0""",
        Severity.CRITICAL, "quarantine",
        summary=(
            "{{ $labels.node }} has lost {{ if $labels.gpu }}GPU {{ $labels.gpu }} ({{ $labels.uuid"
            " }}){{ else }}{{ $value }} of its GPUs{{ end }}"
        ),
        description=(
            "A GPU that is on the PCI bus does not answer its driver. Jobs on it are dead or hang,"
            " and new ones fail to start."
        ),
        source=(
            "HyperPod's GPU count check, AKS' GPUMissing, XID 79; two minutes are a choice of ours,"
            " so that a driver that reloads is silent."
        ),
        wait="2m",
    ),
    # The state that an XID 154 reports as an event: it lasts until somebody has done it.
    Alert(
        "GpuRecoveryActionRequired",
        "max by (node, gpu, uuid) (lockstep_gpu_recovery_action) > 0",
        Severity.CRITICAL, "quarantine",
        summary=GPU + ": its driver asks for recovery action {{ $value }}",
        description=(
            "The GPU cannot recover from an error by itself: "
            + ", ".join(f"{value} = {words}" for value, words in RECOVERY_ACTIONS.items() if value)
            + ". New work on it fails, or runs without its NVLinks."
        ),
        source=(
            "NVML's recovery action (field 230; NV2080_CTRL_GPU_RECOVERY_ACTION of the driver, 1 to"
            " 5 in R595); a minute is a choice of ours."
        ),
        wait="1m",
    ),
    # Count of this boot, without a 0 before the first: born while its node was scraped, it is new.
    Alert(
        "NvswitchSxidFatal",
        f"""\
max by (node, nvswitch, sxid) (increase({_SXID}[5m])) > 0
or
(
  max by (node, nvswitch, sxid) ({_SXID})
  unless on (node, nvswitch, sxid)
  max by (node, nvswitch, sxid) (last_over_time({_SXID}[1d] offset 5m))
  and on (node)
  max by (node) (last_over_time(lockstep_build_info[1d] offset 5m))
)""",
        Severity.CRITICAL, "quarantine",
        summary="NVSwitch {{ $labels.nvswitch }} on {{ $labels.node }}: fatal SXID"
        " {{ $labels.sxid }}",
        description=(
            "The switch's driver logged an error that it calls fatal. NVLink traffic of the GPUs"
            " behind the switch fails or hangs until switch and GPUs are reset."
        ),
        source="The driver's own word: NVIDIA's Fabric Manager guide distinguishes fatal SXIDs.",
    ),
    Alert(
        "GpuFabricUnhealthy",
        "max by (node, gpu, uuid) (lockstep_gpu_fabric_healthy) == 0",
        Severity.CRITICAL, "quarantine",
        summary=GPU + ": its NVLink fabric is not healthy",
        description=(
            "The GPU has not completed its registration with the Fabric Manager, or the fabric's"
            " health has a complaint: NVLink is slower, or jobs that use it do not start."
        ),
        source=(
            "NVML's fabric state and health mask (nvmlGpuFabricInfoV_t; DCGM 170, 174, 175); five"
            " minutes are a choice of ours, so that a node that boots is silent."
        ),
        wait="5m",
    ),
    Alert(
        "GpuThermalViolation",
        """\
max by (node, gpu, uuid, reason)
(rate(lockstep_gpu_clock_event_seconds_total{reason=~"hw_thermal|sw_thermal"}[5m])) > 0.10""",
        Severity.WARNING, "taint_noschedule",
        summary=GPU + ': too hot, slowed down {{ printf "%.2f" $value }} of the time',
        description=(
            "The clock is held down because the GPU is too hot ({{ $labels.reason }}): its rank is"
            " late in every step, and all others wait."
        ),
        source=(
            "DCGM warns on any violation within a minute and NVSentinel maps that to no action; a"
            " tenth of the time is a choice of ours."
        ),
        wait="5m",
    ),
    Alert(
        "GpuHwSlowdownSustained",
        """\
sum_over_time((
  max by (node, gpu, uuid, reason)
  (increase(lockstep_gpu_clock_event_seconds_total{reason=~"hw_thermal|hw_power_brake"}[1m]))
  > bool 0
)[10m:1m]) >= 6""",
        Severity.CRITICAL, "quarantine",
        summary=GPU + ": the hardware slowed it down in {{ $value }} of the last 10 minutes",
        description=(
            "The board itself cuts the clock ({{ $labels.reason }}), often by half or more: cooling"
            " or power supply has failed."
        ),
        source="gpud: 0.6 events a minute over 10 minutes.",
    ),
    Alert(
        "GpuPowerBrake",
        """\
max by (node, gpu, uuid)
(increase(lockstep_gpu_clock_event_seconds_total{reason="hw_power_brake"}[5m])) > 0""",
        Severity.WARNING, "rack_check",
        summary=GPU + ": its power brake is active",
        description=(
            "An outside signal (power supply or rack) makes the GPU slow down at once. If its"
            " neighbours in the rack report the same, the rack is the cause."
        ),
        source="DCGM XID 61 (EDPP power brake, WARN), gpud's power-brake event.",
        wait="1m",
    ),
    Alert(
        "GpuTempMarginLow",
        "min by (node, gpu, uuid) (lockstep_gpu_temperature_margin_celsius) <= 0",
        Severity.CRITICAL, "quarantine",
        summary=GPU + ': {{ printf "%.0f" $value }} °C from its slowdown temperature',
        description="The GPU is at the temperature at which it slows down, or above it.",
        source=(
            "NVSentinel GpuThermalMarginWatch and gpud's margin: better than 80 or 85 °C for every"
            " model (HyperPod)."
        ),
        wait="1m",
    ),
    Alert(
        "GpuClockBelowPeers",
        """\
min by (node, gpu, uuid) (avg_over_time(lockstep_gpu_sm_clock_peer_ratio[10m])) < 0.90
and on (node, gpu, uuid)
max by (node, gpu, uuid) (avg_over_time(lockstep_gpu_utilization_ratio[10m])) > 0.8""",
        Severity.WARNING, "diag",
        summary=GPU + ': its clock is {{ printf "%.2f" $value }} of its peers\'',
        description=(
            "The GPU is busy and clocks lower than the others of its run do: it is slower at the"
            " same work."
        ),
        source=(
            "A tenth below the peers of the same run, at over 80 % utilisation: a choice of ours."
        ),
        wait="10m",
    ),
)  # fmt: skip


_ECC = 'lockstep_gpu_ecc_errors_total{type="uncorrected", counter="volatile"}'

MEMORY = (
    # Volatile: the aggregate count would raise errors of years ago on first contact with a node.
    # The second part is for a count that rose while nobody scraped, or began anew at more than 0.
    Alert(
        "GpuEccUncorrectable",
        f"""\
max by (node, gpu, uuid) (increase({_ECC}[10m])) > 0
or
(
  max by (node, gpu, uuid) ({_ECC}) > 0
  unless
  max by (node, gpu, uuid) ({_ECC})
  == on (node, gpu, uuid)
  max by (node, gpu, uuid) (last_over_time({_ECC}[1h] offset 10m))
)""",
        Severity.CRITICAL, "quarantine",
        summary=GPU + ": uncorrectable memory error",
        description=(
            "A memory read returned wrong data. The program on it was ended or computes"
            " with wrong numbers; the GPU needs a reset, which remaps the row."
        ),
        source="HyperPod acts on any double-bit error; NVSentinel COMPONENT_RESET.",
    ),
    Alert(
        "GpuRowRemapFailed",
        "max by (node, gpu, uuid) (lockstep_gpu_row_remap_failed) == 1",
        Severity.CRITICAL, "rma",
        summary=GPU + ": a bad memory row could not be replaced",
        description=(
            "The spare rows are used up. The next error there stops the job; no reset mends it."
        ),
        source="DCGM fails ROW_REMAP_FAILURE; gpud HARDWARE_INSPECTION.",
    ),
    Alert(
        "GpuRowRemapPending",
        "max by (node, gpu, uuid) (lockstep_gpu_row_remap_pending) == 1",
        Severity.WARNING, "reset_when_idle",
        summary=GPU + ": a bad memory row waits for a reset",
        description=(
            "A row was marked bad and is replaced at the next reset of the GPU; until then it is in"
            " use."
        ),
        source="NVSentinel COMPONENT_RESET, gpud REBOOT.",
        wait="5m",
    ),
    Alert(
        "GpuRowRemapUncorrectableHigh",
        'max by (node, gpu, uuid) (lockstep_gpu_remapped_rows{cause="uncorrectable"}) >= 512',
        Severity.CRITICAL, "rma",
        summary=GPU + ": {{ $value }} memory rows replaced after uncorrectable errors",
        description=(
            "So many rows were replaced that the memory as a whole is failing."
        ),
        source=(
            "DCGM_LIMIT_MAX_ROW_REMAP_UNCORRECTABLE is 512; DCGM warns, critical is a choice of"
            " ours."
        ),
    ),
    Alert(
        "GpuSramThresholdExceeded",
        "max by (node, gpu, uuid) (lockstep_gpu_sram_threshold_exceeded) == 1",
        Severity.CRITICAL, "rma",
        summary=GPU + ": more uncorrectable SRAM errors than its threshold allows",
        description=(
            "The driver's threshold of uncorrectable SRAM errors is exceeded. SRAM has no spare"
            " rows: the errors come back after a reset."
        ),
        source="The driver's own flag (NVML's SRAM threshold, DCGM 346), which calls for an RMA.",
    ),
)  # fmt: skip
