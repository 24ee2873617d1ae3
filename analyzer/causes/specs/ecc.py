"""The GPU's memory makes errors: corrected ones cost time, uncorrectable ones cost rows."""

from lockstep.analyzer.causes.cause_spec import AGAINST, MAY, MUST, QUERY, Action, CauseSpec
from lockstep.collector.contract.words import Cause

SPEC = CauseSpec(
    cause=Cause.ECC,
    expects={
        MUST: ("memory errors",),
        MAY: ("XID of memory", "excess in compute"),
        AGAINST: ("excess in data", "excess in gradients", "excess in checkpoints"),
    },
    must_see=(
        "Memory errors or replaced rows (NVML F3 to F6, F142 to F145) that began with it. XIDs"
        " about memory (docs/reference/xids.md) with it say the same."
    ),
    must_not_see="The excess outside the compute phases.",
    words="its GPU's memory makes errors",
    node_words="the memory of its GPUs makes errors",
    advice=(
        Action("verify", "Count corrected and uncorrected errors and remapped rows.",
               QUERY + "ECC,ROW_REMAPPER"),
        Action("mitigate", "Reset the GPU if a remap is pending; drain the node if it fails.",
               "ssh {node} nvidia-smi --gpu-reset -i {gpu}"),
        Action("prevent", "Have the GPU replaced when rows can no longer be remapped."),
    ),
    runbook="LockstepGpuEccUncorrectable",
    of_gpu=True,
)  # fmt: skip
