"""The GPU is held at a power cap, or braked from outside, and lowers its clock."""

from lockstep.analyzer.causes.cause_spec import AGAINST, MAY, MUST, QUERY, Action, CauseSpec
from lockstep.collector.contract.words import Cause

SPEC = CauseSpec(
    cause=Cause.POWER,
    expects={
        MUST: ("power throttling",),
        MAY: ("lower clock", "power at its cap", "excess in compute"),
        AGAINST: (
            "thermal throttling", "contradiction", "excess in data", "excess in gradients",
            "excess in checkpoints",
        ),
    },
    must_see=(
        "Power-cap or brake seconds (NVML F74 to F78) beyond the peers', a lower SM clock. A"
        " healthy H100 touches its cap too, so only what is more than before and than at the"
        " peers counts."
    ),
    must_not_see="Thermal throttle seconds, the clock at its maximum.",
    words="its GPU is held at a power cap",
    node_words="its GPUs are held at a power cap",
    advice=(
        Action("verify", "Compare the power limit with its default.", QUERY + "POWER,PERFORMANCE"),
        Action("mitigate", "Restore the limit unless it was lowered on purpose.",
               "ssh {node} 'nvidia-smi -i {gpu} -pl $(nvidia-smi -i {gpu}"
               " --query-gpu=power.default_limit --format=csv,noheader,nounits)'"),
        Action("prevent", "Check the rack's power cap and the supply."),
    ),
    runbook="LockstepGpuPowerBrake",
    of_gpu=True,
)  # fmt: skip
