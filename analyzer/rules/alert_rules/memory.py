"""Alerts about the memory of GPUs."""

from lockstep.analyzer.rules.alert_rules.shape import GPU, Alert, Severity

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
            "Memory gave back what was not written to it. The program on it was ended or computes"
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
